//! Computes vectors of indices in 32 bits where they fit.
//!
//! Vectors of `i64` occur in the indices of gathers, in conditions on lanes, and in conversions of indices to other types. Half as
//! many registers hold them as `i32`, whose product, quotient and comparison are also single instructions where those of
//! `i64` are several or none. A vector is computed in `i32` if constant bounds prove that it and everything from which it is
//! computed fit `i32`; a gather widens the result, which costs nothing.
//!
//! A comparison of a ramp with the same number in all lanes becomes one of constants with the distance between the two:
//! `ramp(b, 1, 16) < broadcast(n, 16)` is `ramp(0, 1, 16) < broadcast(n - b, 16)`. Where the distance may be out of range, it is
//! clamped to the lanes, so this needs no bounds: the distance between two indices does not overflow `i64`.
//!
//! Scalars stay `i64`: addresses have 64 bits, so that narrower variables have to be extended in the loops that use them.
//!
//! TVM counterpart: `NarrowDataType`, `ForceNarrowIndexToInt32`, which rewrite scalars.
//! Requires: flat buffers, vectors in place of vectorized loops. Ensures: indices of accesses are still `i64`.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::context::{analyzer_for, conjuncts, enter_loop, is_lasting};
use super::util::{body_pass, with_cases};
use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::{Var, VarId};
use crate::pass::Pass;
use crate::support::with_stack;
use crate::tir::{
    Binary, BinaryOp, Bind, BufferStore, Intrinsic, Mutator, PrimCallee, PrimExpr, Ramp, Stmt, binary,
};

/// Computes vectors of indices in 32 bits where they fit.
pub fn narrow_indices() -> Pass {
    body_pass("NarrowIndices", |func| {
        let mut narrow = NarrowIndices { analyzer: analyzer_for(func), vars: FxHashMap::default() };
        narrow.mutate_stmt(&func.body)
    })
}

/// Distances of numbers up to this do not overflow `i64`.
const FAR: i128 = 1 << 61;

struct NarrowIndices {
    analyzer: Analyzer,
    /// Vectors that are bound to a variable, and the variables of the same in 32 bits.
    vars: FxHashMap<VarId, Var>,
}

/// True for vectors of `i64`.
fn is_wide(dtype: DataType) -> bool {
    dtype.scalar() == DataType::I64 && !dtype.is_scalar()
}

impl NarrowIndices {
    fn fits(&self, expr: &PrimExpr) -> bool {
        let bound = self.analyzer.const_int_bound(expr);
        bound.is_finite() && bound.fits(DataType::I32)
    }

    fn mutated(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }

    /// True if the vector `expr`, of `i64`, and all parts of it fit 32 bits.
    fn narrows(&self, expr: &PrimExpr) -> bool {
        is_wide(expr.dtype()) && self.fits(expr) && with_stack(|| self.parts_narrow(expr))
    }

    fn parts_narrow(&self, expr: &PrimExpr) -> bool {
        match expr {
            PrimExpr::Ramp(it) => self.fits(&it.base) && self.fits(&it.stride),
            PrimExpr::Broadcast(it) => self.fits(&it.value),
            PrimExpr::Binary(it) => {
                let computes = match it.op {
                    BinaryOp::Add
                    | BinaryOp::Sub
                    | BinaryOp::Mul
                    | BinaryOp::Div
                    | BinaryOp::Mod
                    | BinaryOp::FloorDiv
                    | BinaryOp::FloorMod
                    | BinaryOp::Min
                    | BinaryOp::Max
                    | BinaryOp::BitAnd
                    | BinaryOp::BitOr
                    | BinaryOp::BitXor => true,
                    BinaryOp::Shl | BinaryOp::Shr => {
                        let amount = self.analyzer.const_int_bound(&it.b);
                        amount.min >= 0 && amount.max < 32
                    }
                    BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::And
                    | BinaryOp::Or => false,
                };
                computes && self.narrows(&it.a) && self.narrows(&it.b)
            }
            PrimExpr::Cast(it) => {
                let from = it.value.dtype();
                from.is_bool() || from.is_integer() && from.bits() <= 32
            }
            PrimExpr::Select(it) => self.narrows(&it.true_value) && self.narrows(&it.false_value),
            PrimExpr::Var(var) => self.vars.contains_key(&var.id()),
            PrimExpr::Call(it) => match (&it.callee, &*it.args) {
                (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [_, a, b]) => {
                    self.narrows(a) && self.narrows(b)
                }
                _ => false,
            },
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Not(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_) => false,
        }
    }

    /// The vector `expr`, for which [`narrows`](Self::narrows) holds, in 32 bits.
    fn narrowed(&mut self, expr: &PrimExpr) -> PrimExpr {
        with_stack(|| self.parts_narrowed(expr))
    }

    fn parts_narrowed(&mut self, expr: &PrimExpr) -> PrimExpr {
        let narrow = DataType::I32.with_lanes(expr.dtype().lanes());
        match expr {
            PrimExpr::Ramp(it) => {
                let [base, stride] = [&it.base, &it.stride].map(|it| it.clone().cast(DataType::I32));
                base.ramp(stride, it.lanes)
            }
            PrimExpr::Broadcast(it) => it.value.clone().cast(DataType::I32).broadcast(it.lanes),
            PrimExpr::Binary(it) => binary(it.op, self.narrowed(&it.a), self.narrowed(&it.b)),
            PrimExpr::Cast(it) => self.mutated(&it.value).cast(narrow),
            PrimExpr::Select(it) => {
                let (a, b) = (self.narrowed(&it.true_value), self.narrowed(&it.false_value));
                self.mutated(&it.condition).select(a, b)
            }
            PrimExpr::Var(var) => self.vars.get(&var.id()).map_or_else(|| expr.clone(), PrimExpr::from),
            PrimExpr::Call(it) => match &*it.args {
                [condition, a, b] => {
                    let args = [self.mutated(condition), self.narrowed(a), self.narrowed(b)];
                    PrimExpr::call(Intrinsic::IfThenElse, args, narrow)
                }
                _ => expr.clone().cast(narrow),
            },
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Not(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_) => expr.clone().cast(narrow),
        }
    }

    /// A comparison of vectors of `i64`, in 32 bits.
    fn comparison(&mut self, it: &Binary) -> Option<PrimExpr> {
        let op = it.op;
        let compared = match (&it.a, &it.b) {
            (PrimExpr::Ramp(ramp), PrimExpr::Broadcast(other)) => self.distance(ramp, &other.value, op),
            (PrimExpr::Broadcast(other), PrimExpr::Ramp(ramp)) => {
                self.distance(ramp, &other.value, mirrored(op))
            }
            _ => None,
        };
        match compared {
            None if self.narrows(&it.a) && self.narrows(&it.b) => {
                Some(binary(op, self.narrowed(&it.a), self.narrowed(&it.b)))
            }
            other => other,
        }
    }

    /// `ramp op broadcast(other)` as the comparison of constants with the distance from the first lane to `other`.
    fn distance(&self, ramp: &Ramp, other: &PrimExpr, op: BinaryOp) -> Option<PrimExpr> {
        let stride = ramp.stride.as_int().filter(|it| (-(1 << 15)..1 << 15).contains(it))?;
        if ramp.base.as_int().is_some() && other.as_int().is_some() {
            return None;
        }
        let near = |expr: &PrimExpr| {
            let ConstIntBound { min, max } = self.analyzer.const_int_bound(expr);
            (min == ConstIntBound::NEG_INF || min >= -FAR) && (max == ConstIntBound::POS_INF || max <= FAR)
        };
        if !near(&ramp.base) || !near(other) {
            return None;
        }
        let last = stride * (i64::from(ramp.lanes) - 1);
        let (low, high) = (last.min(0) - 1, last.max(0) + 1);
        let mut distance = self.analyzer.simplify(&(other - &ramp.base));
        if !self.fits(&distance) {
            let (least, most) = (PrimExpr::index(low), PrimExpr::index(high));
            let small = self.analyzer.can_prove_less_equal(&distance, &most);
            let large = self.analyzer.can_prove_less_equal(&least, &distance);
            distance = if small { distance } else { distance.min(most) };
            distance = if large { distance } else { distance.max(least) };
        }
        let [zero, stride] = [0, stride].map(|it| PrimExpr::int(it, DataType::I32));
        let lanes = zero.ramp(stride, ramp.lanes);
        Some(binary(op, lanes, distance.cast(DataType::I32).broadcast(ramp.lanes)))
    }

    /// The index of a gather or scatter, computed in 32 bits; `None` for other indices.
    fn gathered(&mut self, indices: &[PrimExpr]) -> Option<PrimExpr> {
        let [index] = indices else { return None };
        match index {
            // The places of the lanes of a ramp are constants beside the place of the first.
            PrimExpr::Ramp(_) | PrimExpr::Broadcast(_) => None,
            PrimExpr::Cast(it) if it.value.dtype().scalar() == DataType::I32 => None,
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Select(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_)
            | PrimExpr::Call(_) => self.narrows(index).then(|| self.narrowed(index).cast(index.dtype())),
        }
    }

    /// Rewrites `stmt`, which runs only where `condition` holds.
    fn under(&mut self, condition: &PrimExpr, stmt: &Stmt) -> Option<Stmt> {
        let outer = self.analyzer.clone();
        let parts = conjuncts(condition).into_iter().filter(|part| is_lasting(part, stmt));
        parts.for_each(|part| self.analyzer.enter_constraint(&part));
        let new = self.mutate_stmt(stmt);
        self.analyzer = outer;
        new
    }
}

/// `b op a` for `a op b`.
fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

impl Mutator for NarrowIndices {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Binary(it) if it.op.is_comparison() && is_wide(it.a.dtype()) => {
                self.comparison(it).or_else(|| self.walk_expr(expr))
            }
            PrimExpr::Cast(it) if is_wide(it.value.dtype()) => {
                if !self.narrows(&it.value) {
                    return self.walk_expr(expr);
                }
                Some(self.narrowed(&it.value).cast(it.dtype))
            }
            PrimExpr::BufferLoad(it) => match self.gathered(&it.indices) {
                // A gather has no predicate.
                Some(index) => Some(PrimExpr::BufferLoad(it.with_indices([index]).into())),
                None => self.walk_expr(expr),
            },
            PrimExpr::Var(var) => self.vars.get(&var.id()).map(|new| PrimExpr::from(new).cast(var.dtype())),
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Select(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_)
            | PrimExpr::Call(_) => self.walk_expr(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                enter_loop(&mut self.analyzer, node);
                self.walk_stmt(stmt)
            }
            Stmt::IfThenElse(node) => {
                let condition = self.mutate_expr(&node.condition);
                let then_case = self.under(&node.condition, &node.then_case);
                let other = !node.condition.clone();
                let else_case = node.else_case.as_ref().and_then(|stmt| self.under(&other, stmt));
                with_cases(node, condition, then_case, else_case).map(Stmt::from)
            }
            Stmt::Bind(node) if node.var.dtype().is_integer() => {
                self.analyzer.bind_bound(&node.var, self.analyzer.const_int_bound(&node.value));
                if !self.narrows(&node.value) {
                    return self.walk_stmt(stmt);
                }
                let value = self.narrowed(&node.value);
                let var = Var::prim(node.var.name(), value.dtype());
                self.vars.insert(node.var.id(), var.clone());
                Some(Bind { var, value }.into())
            }
            Stmt::BufferStore(node) => {
                let index = self.gathered(&node.indices);
                let predicate = node.predicate.as_ref().and_then(|it| self.mutate_expr(it));
                let value = self.mutate_expr(&node.value);
                let indices = match index {
                    Some(index) => Some([index].into()),
                    None => self.mutate_exprs(&node.indices),
                };
                if indices.is_none() && predicate.is_none() && value.is_none() {
                    return None;
                }
                let store = BufferStore {
                    value: value.unwrap_or_else(|| node.value.clone()),
                    indices: indices.unwrap_or_else(|| node.indices.clone()),
                    predicate: predicate.or_else(|| node.predicate.clone()),
                    ..(**node).clone()
                };
                Some(store.into())
            }
            Stmt::Bind(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::While(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.walk_stmt(stmt),
        }
    }
}

#[cfg(test)]
mod tests;
