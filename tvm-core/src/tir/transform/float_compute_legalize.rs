//! Computes `f16` and `bf16` in `f32`.
//!
//! TVM counterpart: `BF16ComputeLegalize`, `FP8ComputeLegalize`.
//! Ensures: values of these types are only loaded, stored, converted to and from `f32` and passed around. Each operation
//! rounds its result to its type, as Rust's half-precision types do: `f32` is wide enough that rounding twice equals
//! rounding once, except for results from `f64`, wide integers or a fused multiply-add (`round_once`).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::util::body_pass;
use crate::ir::{Var, VarId};
use crate::pass::Pass;
use crate::tir::{
    Binary, BinaryOp, Bind, BufferStore, IntoOperand, Intrinsic, Let, Mutator, PrimCall, PrimCallee,
    PrimExpr, Shuffle, Stmt, binary,
};

/// Computes `f16` and `bf16` values in `f32` between load and store.
pub fn float_compute_legalize() -> Pass {
    body_pass("FloatComputeLegalize", |func| Legalize::default().mutate_stmt(&func.body))
}

fn is_short(dtype: DataType) -> bool {
    matches!(dtype.scalar(), DataType::F16 | DataType::BF16)
}

fn promoted(dtype: DataType) -> DataType {
    if is_short(dtype) { DataType::F32.with_lanes(dtype.lanes()) } else { dtype }
}

/// Converts `expr`, which may have been promoted, back to `dtype`.
fn back(expr: PrimExpr, dtype: DataType) -> PrimExpr {
    match &expr {
        PrimExpr::Cast(it) if it.value.dtype() == dtype => it.value.clone(),
        _ => expr.cast(dtype),
    }
}

/// `value`, an `f32`, rounded to `dtype`.
fn rounded(value: PrimExpr, dtype: DataType) -> PrimExpr {
    value.cast(dtype).cast(promoted(dtype))
}

/// True when a conversion through `f32` may differ from one through `f64`.
fn rounds_twice(from: DataType, to: DataType) -> bool {
    let wide_integer = from.is_integer() && from.bits() > 16 && to.scalar() == DataType::BF16;
    wide_integer || from.scalar() == DataType::F64
}

/// True when the result of `it`, computed in `f32`, needs no rounding to its type.
fn is_exact(it: &Binary) -> bool {
    let unit = |expr: &PrimExpr| match expr {
        PrimExpr::Broadcast(it) => matches!(&it.value, PrimExpr::FloatImm(it) if it.value.abs() == 1.0),
        _ => matches!(expr, PrimExpr::FloatImm(it) if it.value.abs() == 1.0),
    };
    match it.op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Div => false,
        BinaryOp::Mul => unit(&it.a) || unit(&it.b),
        BinaryOp::Mod
        | BinaryOp::FloorDiv
        | BinaryOp::FloorMod
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr => true,
    }
}

/// False when the result of `intrinsic`, computed in `f32`, needs no rounding to its type.
fn rounds(intrinsic: Intrinsic) -> bool {
    !matches!(
        intrinsic,
        Intrinsic::Abs
            | Intrinsic::Floor
            | Intrinsic::Ceil
            | Intrinsic::Trunc
            | Intrinsic::Round
            | Intrinsic::Copysign
            | Intrinsic::Likely
            | Intrinsic::AsyncCopy
            | Intrinsic::IfThenElse
            | Intrinsic::Reinterpret
            | Intrinsic::ArgScalar
    )
}

/// The `f64` value `x` as `dtype`, a short type, rounded once: through the neighbouring `f32` with an odd last bit.
fn round_once(x: PrimExpr, dtype: DataType) -> PrimExpr {
    let lanes = x.dtype().lanes();
    let (f32, bits) = (DataType::F32.with_lanes(lanes), DataType::U32.with_lanes(lanes));
    let (wide, near) = (Var::prim("wide", x.dtype()), Var::prim("near", f32));
    let (w, n) = (PrimExpr::from(&wide), PrimExpr::from(&near));
    let nearest = w.clone().cast(DataType::F32);
    let back = n.clone().cast(DataType::F64);
    let word = PrimExpr::call(Intrinsic::Reinterpret, [n.clone()], bits);
    let infinity = PrimExpr::float(f64::INFINITY, DataType::F32).broadcast(lanes);
    let odd = binary(BinaryOp::BitAnd, word.clone(), PrimExpr::int(1, DataType::U32)).equal(1);
    let stays = back.clone().equal(&w).or(w.clone().not_equal(&w));
    let stays = stays.or(n.clone().unary(Intrinsic::Abs).equal(infinity)).or(odd);
    let away = back.unary(Intrinsic::Abs).greater(w.unary(Intrinsic::Abs));
    let neighbour = away.select(word.clone() - 1, word.clone() + 1);
    let rounded = PrimExpr::call(Intrinsic::Reinterpret, [stays.select(word, neighbour)], f32).cast(dtype);
    let body = PrimExpr::Let(Arc::new(Let { var: near, value: nearest, body: rounded }));
    PrimExpr::Let(Arc::new(Let { var: wide, value: x, body }))
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

    fn call(&mut self, expr: &PrimExpr, it: &PrimCall) -> Option<PrimExpr> {
        let keeps_types = match &it.callee {
            PrimCallee::Intrinsic(intrinsic) => {
                matches!(intrinsic, Intrinsic::Reinterpret | Intrinsic::AddressOf | Intrinsic::ArgScalar)
            }
            PrimCallee::PureExtern(_) => true,
        };
        let short = is_short(it.dtype) || it.args.iter().any(|arg| is_short(arg.dtype()));
        if !short {
            return self.walk_expr(expr);
        }
        if let PrimCallee::Intrinsic(Intrinsic::AddressOf) = &it.callee {
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
        if it.callee == PrimCallee::Intrinsic(Intrinsic::Fma) {
            let dtype = DataType::F64.with_lanes(dtype.lanes());
            let args: Arc<[PrimExpr]> = args.into_iter().map(|arg| arg.cast(DataType::F64)).collect();
            let call = PrimExpr::Call(Arc::new(PrimCall {
                dtype,
                callee: it.callee.clone(),
                args,
                span: it.span.clone(),
            }));
            return Some(round_once(call, it.dtype).cast(promoted(it.dtype)));
        }
        if it.callee == PrimCallee::Intrinsic(Intrinsic::Rsqrt) {
            let root = rounded(args[0].clone().unary(Intrinsic::Sqrt), it.dtype);
            return Some(rounded(1.into_operand(dtype) / root, it.dtype));
        }
        let call = PrimExpr::Call(Arc::new(PrimCall {
            dtype,
            callee: it.callee.clone(),
            args: args.into(),
            span: it.span.clone(),
        }));
        let rounds = matches!(&it.callee, PrimCallee::Intrinsic(intrinsic) if is_short(it.dtype) && rounds(*intrinsic));
        Some(if rounds { rounded(call, it.dtype) } else { call.cast(promoted(it.dtype)) })
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
            PrimExpr::Binary(it) if is_short(it.a.dtype()) && !is_exact(it) => {
                let value = binary(it.op, self.promote(&it.a), self.promote(&it.b));
                Some(rounded(value, expr.dtype()))
            }
            PrimExpr::Cast(it) if is_short(it.dtype) && rounds_twice(it.value.dtype(), it.dtype) => {
                let value = self.promote(&it.value).cast(DataType::F64);
                Some(round_once(value, it.dtype).cast(promoted(it.dtype)))
            }
            PrimExpr::Cast(it) if is_short(it.dtype) || is_short(it.value.dtype()) => {
                let value = self.promote(&it.value);
                // Converting to a short type and back rounds the value.
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
