//! Steps about memory and devices: tensors that are updated in place, and tensors that visit another device. Random places of
//! operators.

use std::sync::Arc;

use tvm::DataType;
use tvm::ir::{Attrs, BaseFunc, IRModule};
use tvm::prelude::prim_func;
use tvm::relax::op::device::{PLACE, TO_VDEVICE};
use tvm::relax::{Call, Callee, Expr, ExprMutator};
use tvm::tir::PrimFunc;
use tvm_testing::Rng;

use super::graph::{Graph, Item, Made, Mode, refused};

macro_rules! updates {
    ($($dtype:ident $ty:ident $one:ident $two:ident $three:ident;)*) => {
        $(
            #[prim_func]
            fn $one(x: &Tensor<$ty, a>, z: &mut Tensor<$ty, a>) {
                for i in 0..a {
                    z[[i]] = x[[i]] - z[[i]];
                }
            }

            #[prim_func]
            fn $two(x: &Tensor<$ty, a, b>, z: &mut Tensor<$ty, a, b>) {
                for [i, j] in grid([a, b]) {
                    z[[i, j]] = x[[i, j]] - z[[i, j]];
                }
            }

            #[prim_func]
            fn $three(x: &Tensor<$ty, a, b, c>, z: &mut Tensor<$ty, a, b, c>) {
                for [i, j, k] in grid([a, b, c]) {
                    z[[i, j, k]] = x[[i, j, k]] - z[[i, j, k]];
                }
            }
        )*

        /// `z = x - z`, in the memory of `z`.
        fn update_of(dtype: DataType, ndim: usize) -> Option<PrimFunc> {
            let func = match (dtype, ndim) {
                $(
                    (it, 1) if it == DataType::$dtype => $one::prim_func(),
                    (it, 2) if it == DataType::$dtype => $two::prim_func(),
                    (it, 3) if it == DataType::$dtype => $three::prim_func(),
                )*
                _ => return None,
            };
            Some(func.expect("the kernel is right"))
        }
    };
}

updates! {
    F32 f32 update_f32_1 update_f32_2 update_f32_3;
    I64 i64 update_i64_1 update_i64_2 update_i64_3;
}

impl Graph<'_> {
    /// Updates a tensor in place; often it is used again, or is the input, too.
    pub(super) fn update(&mut self) -> Made<Item> {
        let z = self.pick(|it| update_of(it.dtype(), it.ndim()).is_some())?;
        let x = self.alike(&z)?;
        let func = update_of(z.dtype(), z.ndim()).ok_or_else(|| refused("no update"))?;
        let known = self.builder.module().functions().find_map(|(gv, it)| match it {
            BaseFunc::Prim(it) if it.name == func.name => Some(gv.clone()),
            _ => None,
        });
        let gv = match known {
            Some(gv) => gv,
            None => self.builder.module_mut().add(func.name.clone(), BaseFunc::Prim(Arc::new(func))),
        };
        self.names.push("call_tir_inplace");
        let ret = Some(z.var.ty().clone());
        let var = self.call(Callee::TirInplace(gv), vec![x.arg(), z.arg()], ret)?;
        self.item(var, x.most + z.most, x.exact && z.exact)
    }

    /// Computes with a tensor on another device.
    pub(super) fn visit(&mut self) -> Made<Item> {
        let x = self.pick(|it| !it.dtype().is_bool() && !it.dtype().is_uint())?;
        let to = |device: &str| Attrs::new().with("device", device);
        let Mode { home, other, .. } = self.mode;
        let there = self.op("to_vdevice", vec![x.arg()], to(other))?;
        let y = if self.rng.one_in(2) { self.alike(&x)? } else { x.clone() };
        let also = self.op("to_vdevice", vec![y.arg()], to(other))?;
        let larger = self.op("maximum", vec![there.into(), also.into()], Attrs::new())?;
        let negative = self.op("negative", vec![larger.into()], Attrs::new())?;
        let back = self.op("to_vdevice", vec![negative.into()], to(home))?;
        self.item(back, x.most.max(y.most), x.exact && y.exact)
    }
}

/// `module`, in which some calls of operators have a place on one of two other devices.
pub(super) fn placed(module: &IRModule, rng: &mut Rng) -> IRModule {
    struct Place<'a>(&'a mut Rng);
    impl ExprMutator for Place<'_> {
        fn mutate_expr(&mut self, expr: &Expr) -> Option<Expr> {
            let walked = tvm::relax::mutator::walk_expr(self, expr);
            let Expr::Call(call) = walked.as_ref().unwrap_or(expr) else { return walked };
            let moves = matches!(&call.callee, Callee::Op(op) if op.name == TO_VDEVICE);
            if moves || !matches!(call.callee, Callee::Op(_)) || !self.0.one_in(3) {
                return walked;
            }
            let device = if self.0.one_in(3) { "cpu:2" } else { "cpu:1" };
            let attrs = call.attrs.clone().with(PLACE, device);
            Some(Call { attrs, ..Call::clone(call) }.into())
        }
    }
    let mut new = module.clone();
    for (gv, func) in module.functions() {
        if let BaseFunc::Relax(func) = func
            && let Some(func) = Place(rng).mutate_function(func)
        {
            new.update(gv.clone(), BaseFunc::Relax(Arc::new(func)));
        }
    }
    new
}
