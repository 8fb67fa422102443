//! `ZeroOutputs`: makes tensor programs that are called with new memory for their results define all of that memory.
//!
//! The memory of a result may hold anything, because the memory planner reuses it. A program that is not proved to write
//! every element of its outputs, and to read none before that, zeroes them first. So a result's element that nothing
//! computes is 0 in every executor.
//!
//! TVM counterpart: none; there such elements are undefined.

use std::sync::Arc;

use indexmap::IndexSet;

use crate::ir::{BaseFunc, GlobalVar};
use crate::pass::{Pass, module_pass};
use crate::relax::visitor::walk_call;
use crate::relax::{Call, Callee, Visitor};
use crate::tir::transform::zero_outputs as zero_outputs_of;

/// The pass.
pub fn zero_outputs() -> Pass {
    module_pass("ZeroOutputs", |mut module, _| {
        let mut called = Called::default();
        for func in module.functions().filter_map(|(gv, _)| module.relax_func(gv)) {
            called.visit_function(func);
        }
        for gv in called.0 {
            if let Some(new) = module.prim_func(&gv).and_then(|func| zero_outputs_of(func)) {
                module.update(gv, BaseFunc::Prim(Arc::new(new)));
            }
        }
        Ok(module)
    })
}

/// Collects the tensor programs that are called.
#[derive(Default)]
struct Called(IndexSet<GlobalVar>);

impl Visitor for Called {
    fn visit_call(&mut self, call: &Call) {
        if let Callee::Tir(gv) = &call.callee {
            self.0.insert(gv.clone());
        }
        walk_call(self, call);
    }
}
