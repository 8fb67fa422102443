//! `ZeroOutputs`: makes tensor programs that are called with new memory for their results define all of that memory.
//!
//! The memory of a result may hold anything, because the memory planner reuses it. A program that is not proved to write
//! every element of its outputs, and to read none before that, zeroes them first. So a result's element that nothing
//! computes is 0 in every executor. Programs that are called in place keep the values that their outputs start with; if
//! one must zero its outputs for other calls, these get a copy of it.
//!
//! Requires that memory is not explicit yet (`CallTIRRewrite`), because then new memory looks like any other.
//!
//! TVM counterpart: none; there such elements are undefined.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{BaseFunc, GlobalVar, IrError, Span};
use crate::pass::{Pass, module_pass};
use crate::relax::mutator::walk_expr;
use crate::relax::op::memory;
use crate::relax::visitor::walk_call;
use crate::relax::{Call, Callee, Expr, ExprMutator, ExprVisitor};
use crate::tir::PrimFunc;
use crate::tir::transform::{renew_defs, with_own_dims, zero_outputs as zero_outputs_of};

/// The pass.
pub fn zero_outputs() -> Pass {
    module_pass("ZeroOutputs", |mut module, _| {
        let mut called = Called::default();
        for func in module.functions().filter_map(|(gv, _)| module.relax_func(gv)) {
            called.visit_function(func);
        }
        if let Some(span) = called.lowered {
            let message = "a tensor program is called with memory that is explicit already";
            return Err(IrError::new(message, &span).help("run `ZeroOutputs` before `CallTIRRewrite`"));
        }
        let mut copies = Copies::default();
        for gv in called.with_new_memory {
            // Loops over dimensions are proved to write all of an extent where those over expressions are not.
            let zeroed = |func: &Arc<PrimFunc>| zero_outputs_of(with_own_dims(func).as_ref().unwrap_or(func));
            let Some(new) = module.prim_func(&gv).and_then(zeroed) else { continue };
            if called.in_place.contains(&gv) {
                let copy = module.add(new.name.clone(), BaseFunc::Prim(Arc::new(renew_defs(&new))));
                copies.0.insert(gv, copy);
            } else {
                module.update(gv, BaseFunc::Prim(Arc::new(new)));
            }
        }
        if !copies.0.is_empty() {
            for (gv, func) in module.clone().functions() {
                let BaseFunc::Relax(func) = func else { continue };
                if let Some(new) = copies.mutate_function(func) {
                    module.update(gv.clone(), BaseFunc::Relax(Arc::new(new)));
                }
            }
        }
        Ok(module)
    })
}

/// Collects the tensor programs that are called.
#[derive(Default)]
struct Called {
    with_new_memory: IndexSet<GlobalVar>,
    in_place: FxHashSet<GlobalVar>,
    /// A call that `CallTIRRewrite` has lowered.
    lowered: Option<Span>,
}

impl ExprVisitor for Called {
    fn visit_call(&mut self, call: &Call) {
        match &call.callee {
            Callee::Tir(gv) => _ = self.with_new_memory.insert(gv.clone()),
            Callee::TirInplace(gv) => _ = self.in_place.insert(gv.clone()),
            Callee::Op(op) if op.name == memory::INVOKE_TVM_OP => self.lowered = Some(call.span.clone()),
            _ => {}
        }
        walk_call(self, call);
    }
}

/// Replaces the tensor programs that are called with new memory.
#[derive(Default)]
struct Copies(FxHashMap<GlobalVar, GlobalVar>);

impl ExprMutator for Copies {
    fn mutate_expr(&mut self, expr: &Expr) -> Option<Expr> {
        if let Expr::Call(call) = expr
            && let Callee::Tir(gv) = &call.callee
        {
            let callee = Callee::Tir(self.0.get(gv)?.clone());
            return Some(Call { callee, ..Call::clone(call) }.into());
        }
        walk_expr(self, expr)
    }
}
