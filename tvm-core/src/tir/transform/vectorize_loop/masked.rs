//! Vectors of which some lanes are computed: conditions on the lane become predicates of loads and stores.
//!
//! Conditions are conjunctions of comparisons that are linear in the lane, and of conditions that are the same for all
//! lanes. Memory is accessed in the lanes that are computed only; all else is computed in all lanes, so it must not fail.
//! Buffers on the stack have no such form: they would not stay in registers.

use rustc_hash::FxHashMap;

use super::super::context::{conjuncts, reads};
use super::body::{Lanes, NoVector, Vectorizer};
use crate::tir::analysis::{conjunction, is_total};
use crate::tir::{
    Binary, BinaryOp, Buffer, IfThenElse, Intrinsic, PrimCallee, PrimExpr, Scope, Stmt, substitute_expr,
};

/// Lanes of a vector.
#[derive(Clone)]
pub(super) struct Mask {
    /// A vector of bools.
    lanes: PrimExpr,
    /// True if lane 0 is known to be among them.
    has_first: bool,
}

impl Mask {
    /// The first `count` of so many lanes, at least one.
    pub(super) fn first(count: i64, lanes: u16) -> Mask {
        let number = PrimExpr::index(0).ramp(PrimExpr::index(1), lanes);
        Mask { lanes: number.less(PrimExpr::index(count).broadcast(lanes)), has_first: true }
    }
}

/// Lanes of a predicate at most: the bits of a word.
const MAX_LANES: u16 = 64;

impl Vectorizer<'_> {
    /// The lanes `mask` of `stmt`, or all; where conditions in `stmt` depend on the lane, they become predicates.
    pub(super) fn masked(&mut self, stmt: &Stmt, mask: Option<Mask>) -> Result<Stmt, NoVector> {
        if !self.masks || self.lanes > MAX_LANES {
            return Err(NoVector);
        }
        let outer = (std::mem::replace(&mut self.masking, true), std::mem::replace(&mut self.mask, mask));
        let made = self.body(stmt);
        (self.masking, self.mask) = outer;
        made
    }

    /// A branch whose condition depends on the lane.
    pub(super) fn masked_branch(&mut self, it: &IfThenElse) -> Result<Stmt, NoVector> {
        if it.else_case.is_some() {
            return Err(NoVector);
        }
        let mask = self.narrowed(&it.condition)?;
        let outer = self.mask.replace(mask);
        let made = self.body(&it.then_case);
        self.mask = outer;
        made
    }

    /// `if_then_else(condition, a, b)` whose condition depends on the lane.
    pub(super) fn masked_choice(&mut self, condition: &PrimExpr, a: &PrimExpr, b: &PrimExpr) -> Lanes {
        if !is_total(b) {
            return Err(NoVector);
        }
        let mask = self.narrowed(condition)?;
        let chosen = mask.lanes.clone();
        let outer = self.mask.replace(mask);
        let value = self.expr(a);
        self.mask = outer;
        let value = value?;
        let other = self.expr(b)?;
        // Lanes outside of the predicate of a load are zero.
        let zero = match b {
            PrimExpr::IntImm(it) => it.value == 0,
            PrimExpr::FloatImm(it) => it.value.to_bits() == 0,
            _ => false,
        };
        if let (true, Some(PrimExpr::BufferLoad(load))) = (zero, &value)
            && load.predicate.is_some()
        {
            return Ok(value);
        }
        let (value, other) = (self.all_lanes(value, a), self.all_lanes(other, b));
        Ok(Some(chosen.select(value, other)))
    }

    /// The lanes that are computed and in which `condition` holds.
    fn narrowed(&mut self, condition: &PrimExpr) -> Result<Mask, NoVector> {
        let (mut uniform, mut lanes) = (Vec::new(), Vec::new());
        let mut has_first = self.mask.as_ref().is_none_or(|mask| mask.has_first);
        for part in conjuncts(condition) {
            let part = match &part {
                PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                    it.args[0].clone()
                }
                _ => part,
            };
            if reads(&part) || !is_total(&part) {
                return Err(NoVector);
            }
            let first = substitute_expr(&part, &FxHashMap::from_iter([(self.var.id(), self.base.clone())]));
            has_first &= !self.depends_on_vector(&part) && self.analyzer.can_prove(&first);
            if self.depends(&part) {
                lanes.push(self.comparison(&part)?);
            } else {
                uniform.push(part);
            }
        }
        lanes.extend(self.mask.as_ref().map(|mask| mask.lanes.clone()));
        let Some(lanes) = lanes.into_iter().reduce(PrimExpr::and) else { return Err(NoVector) };
        let lanes = if uniform.is_empty() {
            lanes
        } else {
            let none = PrimExpr::bool(false).broadcast(self.lanes);
            self.analyzer.simplify(&conjunction(uniform)).select(lanes, none)
        };
        Ok(Mask { lanes, has_first })
    }

    /// True if `expr` uses a variable that has a vector here.
    fn depends_on_vector(&self, expr: &PrimExpr) -> bool {
        crate::tir::any_expr(expr, &mut |expr| {
            expr.as_var().is_some_and(|var| self.vectors.contains_key(&var.id()))
        })
    }

    /// The vector form of a comparison whose sides are linear in the lane.
    fn comparison(&mut self, condition: &PrimExpr) -> Result<PrimExpr, NoVector> {
        let PrimExpr::Binary(it) = condition else { return Err(NoVector) };
        if !it.op.is_comparison() {
            return Err(NoVector);
        }
        let (a, b) = (self.expr(&it.a)?, self.expr(&it.b)?);
        let linear = |it: &Option<PrimExpr>| matches!(it, None | Some(PrimExpr::Ramp(_)));
        if !linear(&a) || !linear(&b) {
            return Err(NoVector);
        }
        let (a, b) = (self.all_lanes(a, &it.a), self.all_lanes(b, &it.b));
        Ok(crate::tir::binary(it.op, a, b))
    }

    /// The predicate of an access to `buffer[index]`; `None` where all lanes are computed.
    pub(super) fn predicate(&self, buffer: &Buffer, index: &PrimExpr) -> Result<Option<PrimExpr>, NoVector> {
        let Some(mask) = &self.mask else { return Ok(None) };
        let contiguous = matches!(index, PrimExpr::Ramp(it) if it.stride.is_const(1));
        if !contiguous || buffer.scope == Scope::Local || buffer.dtype.lanes() != 1 {
            return Err(NoVector);
        }
        Ok(Some(mask.lanes.clone()))
    }

    /// True if some lane is known to be computed: what is the same for all lanes is evaluated then.
    pub(super) fn computes_some_lane(&self) -> bool {
        self.mask.as_ref().is_none_or(|mask| mask.has_first)
    }
}

/// True if the operation may fail in lanes that are not computed.
pub(super) fn may_fail(it: &Binary) -> bool {
    let divides = matches!(it.op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
    divides && it.a.dtype().is_integer() && it.b.as_int().is_none_or(|it| it == 0)
}
