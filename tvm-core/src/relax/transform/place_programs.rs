//! `PlacePrograms`: tensor programs that are called with tensors on the host become programs for the host.
//!
//! Requires that operators are tensor programs, and that those which become one are merged (`FuseTIR`). Ensures for a GPU target:
//! a program that is called where tensors are on the host ([`Places`]) has the attribute [`ON_HOST`], under which it is lowered and
//! compiled for the host, and no other call calls it:
//!
//! ```text
//! y = call_tir(relu, (x,))          // x is on the host
//! // becomes
//! y = call_tir(relu_on_host, (x,))
//! ```
//!
//! TVM counterpart: `relax.transform.SpecializePrimFuncBasedOnCallSite`.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::DeviceKind;

use crate::ir::{BaseFunc, GlobalVar, IRModule};
use crate::pass::{Pass, module_pass};
use crate::relax::analysis::Places;
use crate::relax::mutator::walk_binding;
use crate::relax::{Binding, Call, Callee, Expr, ExprMutator};
use crate::tir::transform::renew_defs;
use crate::tir::{ON_HOST, PrimFunc};

/// The pass.
pub fn place_programs() -> Pass {
    module_pass("PlacePrograms", |module, context| {
        if !context.target.is_gpu() {
            return Ok(module);
        }
        let default = context.target.device();
        let mut host = OnHost { module, known: FxHashMap::default(), places: None };
        for (gv, func) in host.module.clone().functions() {
            let BaseFunc::Relax(func) = func else { continue };
            host.places = Some(Places::new(func, &host.module, default)?);
            if let Some(new) = host.mutate_function(func) {
                host.module.update(gv.clone(), BaseFunc::Relax(Arc::new(new)));
            }
        }
        Ok(host.module)
    })
}

/// Replaces the programs that are called with tensors on the host.
struct OnHost {
    module: IRModule,
    /// The programs for the host.
    known: FxHashMap<GlobalVar, GlobalVar>,
    /// Of the current function.
    places: Option<Places>,
}

impl OnHost {
    /// The program `gv` for the host.
    fn program(&mut self, gv: &GlobalVar) -> Option<GlobalVar> {
        if let Some(known) = self.known.get(gv) {
            return Some(known.clone());
        }
        let func = self.module.prim_func(gv)?;
        let name: Arc<str> = format!("{}_on_host", gv.name()).into();
        let attrs = func.attrs.clone().with("private", true).with(ON_HOST, true);
        let func = PrimFunc { name: name.clone(), attrs, ..renew_defs(func) };
        let new = self.module.add(name, BaseFunc::Prim(Arc::new(func)));
        self.known.insert(gv.clone(), new.clone());
        Some(new)
    }
}

impl ExprMutator for OnHost {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let Expr::Call(call) = &binding.value else {
            return walk_binding(self, binding).map(|it| vec![it]);
        };
        let device = self.places.as_ref()?.device(&binding.var)?;
        if device.kind != DeviceKind::Cpu {
            return None;
        }
        let callee = match &call.callee {
            Callee::Tir(gv) => Callee::Tir(self.program(gv)?),
            Callee::TirInplace(gv) => Callee::TirInplace(self.program(gv)?),
            Callee::Op(_)
            | Callee::Global(_)
            | Callee::Var(_)
            | Callee::DpsPacked(_)
            | Callee::Packed(_)
            | Callee::Constructor(_) => return None,
        };
        let value = Call { callee, ..Call::clone(call) }.into();
        Some(vec![Binding { value, ..binding.clone() }])
    }
}
