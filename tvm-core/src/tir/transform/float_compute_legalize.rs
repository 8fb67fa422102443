//! Computes `f16` and `bf16` in `f32`.
//!
//! TVM counterpart: `BF16ComputeLegalize`, `FP8ComputeLegalize`.
//! Ensures: values of these types are only loaded, stored, converted to and from `f32` and passed around; results are
//! rounded when they are stored or converted, not in between.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::util::body_pass;
use crate::ir::{Var, VarId};
use crate::pass::Pass;
use crate::tir::{Bind, BufferStore, Call, Callee, Intrinsic, Let, Mutator, PrimExpr, Shuffle, Stmt};

/// Short floats become `f32` between load and store.
pub fn float_compute_legalize() -> Pass {
    body_pass("FloatComputeLegalize", |func| Legalize::default().mutate_stmt(&func.body))
}

fn is_short(dtype: DataType) -> bool {
    matches!(dtype.scalar(), DataType::F16 | DataType::BF16)
}

fn promoted(dtype: DataType) -> DataType {
    if is_short(dtype) { DataType::F32.with_lanes(dtype.lanes()) } else { dtype }
}

/// `expr`, which may have been promoted, as `dtype` again.
fn back(expr: PrimExpr, dtype: DataType) -> PrimExpr {
    match &expr {
        PrimExpr::Cast(it) if it.value.dtype() == dtype => it.value.clone(),
        _ => expr.cast(dtype),
    }
}

#[derive(Default)]
struct Legalize {
    /// Variables that hold promoted values.
    vars: FxHashMap<VarId, Var>,
}

impl Legalize {
    /// `expr` promoted.
    fn promote(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }

    fn define(&mut self, var: &Var) -> Var {
        if !is_short(var.dtype()) {
            return var.clone();
        }
        let new = Var::prim(var.name(), promoted(var.dtype()));
        self.vars.insert(var.id(), new.clone());
        new
    }

    fn call(&mut self, expr: &PrimExpr, it: &Call) -> Option<PrimExpr> {
        let keeps_types = match &it.callee {
            Callee::Intrinsic(intrinsic) => {
                matches!(intrinsic, Intrinsic::Reinterpret | Intrinsic::AddressOf | Intrinsic::ArgScalar)
            }
            Callee::PureExtern(_) | Callee::Extern(_) => true,
        };
        let short = is_short(it.dtype) || it.args.iter().any(|arg| is_short(arg.dtype()));
        if !short {
            return self.walk_expr(expr);
        }
        if let Callee::Intrinsic(Intrinsic::AddressOf) = &it.callee {
            return None;
        }
        let args: Vec<PrimExpr> = it
            .args
            .iter()
            .map(|arg| {
                let value = self.promote(arg);
                if keeps_types { back(value, arg.dtype()) } else { value }
            })
            .collect();
        let dtype = if keeps_types { it.dtype } else { promoted(it.dtype) };
        let call = PrimExpr::Call(Arc::new(Call { args: args.into(), dtype, ..it.clone() }));
        Some(call.cast(promoted(it.dtype)))
    }
}

impl Mutator for Legalize {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::FloatImm(it) if is_short(it.dtype) => Some(PrimExpr::float(it.value, DataType::F32)),
            PrimExpr::Var(var) if is_short(var.dtype()) => Some(
                self.vars
                    .get(&var.id())
                    .map_or_else(|| expr.clone().cast(promoted(var.dtype())), PrimExpr::from),
            ),
            PrimExpr::BufferLoad(it) => {
                let load = self.walk_expr(expr);
                if !is_short(it.buffer.dtype) {
                    return load;
                }
                Some(load.unwrap_or_else(|| expr.clone()).cast(promoted(expr.dtype())))
            }
            PrimExpr::Cast(it) if is_short(it.dtype) || is_short(it.value.dtype()) => {
                let value = self.promote(&it.value);
                // To a short type and back: that is where it is rounded.
                Some(back(value, it.dtype).cast(promoted(it.dtype)))
            }
            PrimExpr::Let(it) if is_short(it.var.dtype()) => {
                let value = self.promote(&it.value);
                let var = self.define(&it.var);
                Some(PrimExpr::Let(Arc::new(Let { var, value, body: self.promote(&it.body) })))
            }
            PrimExpr::Shuffle(it) if is_short(expr.dtype()) => {
                let vectors = it.vectors.iter().map(|vector| self.promote(vector)).collect();
                Some(PrimExpr::Shuffle(Arc::new(Shuffle { vectors, indices: it.indices.clone() })))
            }
            PrimExpr::Call(it) => self.call(expr, it),
            _ => self.walk_expr(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::BufferStore(it) = stmt
            && is_short(it.buffer.dtype)
        {
            let value = back(self.promote(&it.value), it.value.dtype());
            let indices = self.mutate_exprs(&it.indices).unwrap_or_else(|| it.indices.clone());
            return Some(BufferStore { value, indices, ..(**it).clone() }.into());
        }
        if let Stmt::Bind(it) = stmt
            && is_short(it.var.dtype())
        {
            let value = self.promote(&it.value);
            return Some(Bind { var: self.define(&it.var), value }.into());
        }
        self.walk_stmt(stmt)
    }
}
