//! Vectorises one piece of a loop: every expression that depends on the loop variable becomes a vector.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::remove_no_op::is_pure;
use super::super::util::DeepSubstitute;
use super::super::vector;
use super::REMAINDER;
use super::masked::{Mask, may_fail};
use crate::arith::Analyzer;
use crate::ir::{Attrs, Var, VarId};
use crate::support::with_stack;
use crate::tir::{
    Binary, BinaryOp, Bind, BufferLoad, BufferStore, Effect, For, ForKind, IfThenElse, Intrinsic, Let,
    PrimCall, PrimCallee, PrimExpr, Stmt, any_expr, binary, substitute_expr,
};

/// The body has no vector form.
pub(super) struct NoVector;

/// The vector form of an expression; `None` if it is the same for all lanes and stays unchanged.
pub(super) type Lanes = Result<Option<PrimExpr>, NoVector>;

pub(super) struct Vectorizer<'a> {
    pub(super) analyzer: &'a Analyzer,
    pub(super) var: Var,
    pub(super) base: PrimExpr,
    pub(super) lanes: u16,
    /// Vectors of variables that differ between lanes.
    pub(super) vectors: FxHashMap<VarId, Var>,
    /// True if conditions on lanes may become predicates of accesses.
    pub(super) masks: bool,
    /// True where they do.
    pub(super) masking: bool,
    /// The lanes that what is being built computes, unless that is all.
    pub(super) mask: Option<Mask>,
    /// Conditions under which the vector statement being built is valid.
    guards: Vec<PrimExpr>,
}

impl<'a> Vectorizer<'a> {
    pub(super) fn new(
        analyzer: &'a Analyzer,
        var: Var,
        base: PrimExpr,
        lanes: u16,
        masks: bool,
    ) -> Vectorizer<'a> {
        let (vectors, guards) = (FxHashMap::default(), Vec::new());
        Vectorizer { analyzer, var, base, lanes, vectors, masks, masking: false, mask: None, guards }
    }

    /// The vector form of `stmt`, for all lanes.
    pub(super) fn body(&mut self, stmt: &Stmt) -> Result<Stmt, NoVector> {
        with_stack(|| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<Stmt, NoVector> {
        match stmt {
            Stmt::SeqStmt(stmts) => {
                Ok(Stmt::seq(stmts.iter().map(|stmt| self.body(stmt)).collect::<Result<Vec<_>, _>>()?))
            }
            Stmt::BufferStore(it) if self.masking => self.store(it),
            Stmt::BufferStore(it) => self.guarded(stmt, |this| this.store(it)),
            Stmt::For(it) => {
                if !matches!(it.kind, ForKind::Serial | ForKind::Unrolled) {
                    return Err(NoVector);
                }
                if self.expr(&it.min)?.is_some() || self.expr(&it.extent)?.is_some() {
                    return Err(NoVector);
                }
                Ok(For { body: self.body(&it.body)?, ..(**it).clone() }.into())
            }
            Stmt::IfThenElse(it) => {
                if self.depends(&it.condition) {
                    if self.masking {
                        return self.masked_branch(it);
                    }
                    if it.else_case.is_some() {
                        return self.lane_by_lane(stmt);
                    }
                    return self.guarded(stmt, |this| {
                        this.guard(&it.condition)?;
                        this.body(&it.then_case)
                    });
                }
                let then_case = self.body(&it.then_case)?;
                let else_case = it.else_case.as_ref().map(|stmt| self.body(stmt)).transpose()?;
                Ok(IfThenElse { then_case, else_case, ..(**it).clone() }.folded())
            }
            Stmt::Bind(it) => match self.expr(&it.value)? {
                None => Ok(stmt.clone()),
                Some(value) => {
                    let var = Var::prim(it.var.name(), value.dtype());
                    self.vectors.insert(it.var.id(), var.clone());
                    Ok(Bind { var, value }.into())
                }
            },
            Stmt::Evaluate(it) if is_pure(&it.value) => Ok(Stmt::nop()),
            Stmt::BlockRealize(_)
            | Stmt::While(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => Err(NoVector),
        }
    }

    /// The vector form of `stmt` that `vectorize` builds, under a test of the guards that it adds; else lane by lane.
    fn guarded(
        &mut self,
        stmt: &Stmt,
        vectorize: impl FnOnce(&mut Self) -> Result<Stmt, NoVector>,
    ) -> Result<Stmt, NoVector> {
        let outer = std::mem::take(&mut self.guards);
        let made = vectorize(self);
        let guards = std::mem::replace(&mut self.guards, outer);
        let made = match made {
            Ok(made) => made,
            Err(NoVector) => return self.lane_by_lane(stmt),
        };
        let Some(all) = guards.into_iter().reduce(|a, b| a.and(b)) else { return Ok(made) };
        let all = self.analyzer.simplify(&all);
        match all.as_int() {
            Some(0) => self.some_lanes(stmt),
            Some(_) => Ok(made),
            None => Ok(Stmt::if_then_else(all, made, Some(self.some_lanes(stmt)?))),
        }
    }

    /// `stmt` where a condition excludes lanes: with predicates if the target has them and `stmt` has that form, else lane by lane.
    fn some_lanes(&mut self, stmt: &Stmt) -> Result<Stmt, NoVector> {
        if let Ok(masked) = self.masked(stmt, None) { Ok(masked) } else { self.lane_by_lane(stmt) }
    }

    /// `stmt` in a serial loop over the lanes; valid only when it writes different elements in different lanes.
    fn lane_by_lane(&mut self, stmt: &Stmt) -> Result<Stmt, NoVector> {
        if !self.is_lane_wise(stmt) {
            return Err(NoVector);
        }
        let lane = self.var.renew();
        let value = &self.base + &lane;
        let body = DeepSubstitute::stmt(FxHashMap::from_iter([(self.var.id(), value)]), stmt);
        let node = For::serial(lane, PrimExpr::int(i64::from(self.lanes), self.var.dtype()), body);
        Ok(For { annotations: Attrs::new().with(REMAINDER, true), ..node }.into())
    }

    /// True when `stmt` consists of stores to elements that depend on the lane and uses no variable that is a vector here.
    fn is_lane_wise(&self, stmt: &Stmt) -> bool {
        let plain = |expr: &PrimExpr| {
            !any_expr(expr, &mut |expr| expr.as_var().is_some_and(|var| self.vectors.contains_key(&var.id())))
        };
        match stmt {
            Stmt::SeqStmt(stmts) => stmts.iter().all(|stmt| self.is_lane_wise(stmt)),
            Stmt::BufferStore(it) => {
                it.indices.iter().any(|index| self.depends(index))
                    && it.indices.iter().all(plain)
                    && plain(&it.value)
            }
            Stmt::IfThenElse(it) => {
                plain(&it.condition)
                    && self.is_lane_wise(&it.then_case)
                    && it.else_case.as_ref().is_none_or(|stmt| self.is_lane_wise(stmt))
            }
            Stmt::For(it) => plain(&it.min) && plain(&it.extent) && self.is_lane_wise(&it.body),
            Stmt::BlockRealize(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => false,
        }
    }

    pub(super) fn depends(&self, expr: &PrimExpr) -> bool {
        any_expr(expr, &mut |expr| {
            expr.as_var().is_some_and(|var| *var == self.var || self.vectors.contains_key(&var.id()))
        })
    }

    fn store(&mut self, it: &BufferStore) -> Result<Stmt, NoVector> {
        let [index] = &*it.indices else { return Err(NoVector) };
        let value = self.expr(&it.value)?;
        match self.expr(index)? {
            Some(index) => {
                let value = self.all_lanes(value, &it.value);
                let predicate = self.predicate(&it.buffer, &index)?;
                Ok(BufferStore { indices: Arc::new([index]), value, predicate, ..it.clone() }.into())
            }
            // One element for all lanes: the same value in each, or a reduction.
            None if self.mask.is_some() => Err(NoVector),
            None => {
                let reads_itself = any_expr(
                    &it.value,
                    &mut |expr| matches!(expr, PrimExpr::BufferLoad(load) if load.buffer == it.buffer),
                );
                if value.is_some() || reads_itself { Err(NoVector) } else { Ok(it.clone().into()) }
            }
        }
    }

    /// Adds guards that make `condition` hold in all lanes: a comparison of expressions that are linear in the lane holds
    /// in all lanes if it holds in the first and the last.
    fn guard(&mut self, condition: &PrimExpr) -> Result<(), NoVector> {
        match condition {
            PrimExpr::Binary(it) if it.op == BinaryOp::And => {
                self.guard(&it.a)?;
                self.guard(&it.b)
            }
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                self.guard(&it.args[0])
            }
            _ if !self.depends(condition) => {
                self.guards.push(condition.clone());
                Ok(())
            }
            PrimExpr::Binary(it) if it.op.is_comparison() && it.op != BinaryOp::Ne => {
                let linear = |lanes: Option<PrimExpr>| matches!(lanes, None | Some(PrimExpr::Ramp(_)));
                if !linear(self.expr(&it.a)?) || !linear(self.expr(&it.b)?) {
                    return Err(NoVector);
                }
                let last = &self.base + PrimExpr::int(i64::from(self.lanes) - 1, self.var.dtype());
                for lane in [self.base.clone(), last] {
                    let at = substitute_expr(condition, &FxHashMap::from_iter([(self.var.id(), lane)]));
                    self.guards.push(at);
                }
                Ok(())
            }
            _ => Err(NoVector),
        }
    }

    /// The value as a vector: `lanes`, or `scalar` if there are none, broadcast if it is a scalar.
    pub(super) fn all_lanes(&self, lanes: Option<PrimExpr>, scalar: &PrimExpr) -> PrimExpr {
        let value = lanes.unwrap_or_else(|| scalar.clone());
        if value.dtype().is_scalar() { value.broadcast(self.lanes) } else { value }
    }

    pub(super) fn expr(&mut self, expr: &PrimExpr) -> Lanes {
        if !expr.dtype().is_scalar() {
            return Err(NoVector);
        }
        with_stack(|| self.lanes_of(expr))
    }

    fn lanes_of(&mut self, expr: &PrimExpr) -> Lanes {
        Ok(match expr {
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) => None,
            PrimExpr::Var(var) if *var == self.var => {
                Some(self.base.clone().ramp(PrimExpr::int(1, self.var.dtype()), self.lanes))
            }
            PrimExpr::Var(var) => self.vectors.get(&var.id()).map(PrimExpr::from),
            PrimExpr::Cast(it) => self.expr(&it.value)?.map(|value| value.cast(it.dtype)),
            PrimExpr::Not(it) => self.expr(&it.value)?.map(|value| !value),
            PrimExpr::Binary(it) => {
                let (a, b) = (self.expr(&it.a)?, self.expr(&it.b)?);
                if a.is_none() && b.is_none() {
                    return Ok(None);
                }
                if self.mask.is_some() && may_fail(it) {
                    return Err(NoVector);
                }
                Some(self.binary(it, a.unwrap_or_else(|| it.a.clone()), b.unwrap_or_else(|| it.b.clone())))
            }
            PrimExpr::Select(it) => {
                let condition = self.expr(&it.condition)?;
                let (a, b) = (self.expr(&it.true_value)?, self.expr(&it.false_value)?);
                if condition.is_none() && a.is_none() && b.is_none() {
                    return Ok(None);
                }
                let (a, b) = (self.all_lanes(a, &it.true_value), self.all_lanes(b, &it.false_value));
                Some(condition.unwrap_or_else(|| it.condition.clone()).select(a, b))
            }
            PrimExpr::BufferLoad(it) => self.load(it)?,
            PrimExpr::Let(it) => self.let_in(it)?,
            PrimExpr::Call(it) => self.call(it)?,
            PrimExpr::Ramp(_) | PrimExpr::Broadcast(_) | PrimExpr::Shuffle(_) => return Err(NoVector),
        })
    }

    fn binary(&self, it: &Binary, a: PrimExpr, b: PrimExpr) -> PrimExpr {
        match (it.op, &a) {
            (BinaryOp::Add, _) => vector::add(a, b),
            (BinaryOp::Sub, _) => vector::sub(a, b),
            (BinaryOp::Mul, _) => vector::mul(a, b),
            (BinaryOp::FloorDiv | BinaryOp::FloorMod, PrimExpr::Ramp(ramp)) => {
                // When no lane crosses a multiple of the divisor, the quotient is the same for all lanes.
                let Some(divisor @ 1..) = b.as_int() else { return binary(it.op, a, b) };
                let (base, stride) = (&ramp.base, &ramp.stride);
                let span = stride.clone() * i64::from(ramp.lanes - 1);
                let remainder = self.analyzer.simplify(&base.clone().floormod(divisor));
                let last = &remainder + span;
                let stays = last.clone().less(divisor).and(last.greater_equal(0));
                if !self.analyzer.can_prove(&stays) {
                    return binary(it.op, a, b);
                }
                if it.op == BinaryOp::FloorDiv {
                    self.analyzer.simplify(&base.clone().floordiv(divisor)).broadcast(ramp.lanes)
                } else {
                    remainder.ramp(stride.clone(), ramp.lanes)
                }
            }
            _ => binary(it.op, a, b),
        }
    }

    fn load(&mut self, it: &BufferLoad) -> Lanes {
        let [index] = &*it.indices else { return Err(NoVector) };
        let Some(index) = self.expr(index)? else {
            return if self.computes_some_lane() { Ok(None) } else { Err(NoVector) };
        };
        if let PrimExpr::Broadcast(same) = &index {
            if !self.computes_some_lane() {
                return Err(NoVector);
            }
            let indices: Arc<[PrimExpr]> = Arc::new([same.value.clone()]);
            let load = PrimExpr::BufferLoad(Arc::new(it.with_indices(indices)));
            return Ok(Some(load.broadcast(self.lanes)));
        }
        let (buffer, predicate) = (it.buffer.clone(), self.predicate(&it.buffer, &index)?);
        let (indices, span) = (Arc::new([index]), it.span.clone());
        Ok(Some(PrimExpr::BufferLoad(Arc::new(BufferLoad { buffer, indices, predicate, span }))))
    }

    fn let_in(&mut self, it: &Let) -> Lanes {
        let value = self.expr(&it.value)?;
        let var = match &value {
            Some(value) => {
                let var = Var::prim(it.var.name(), value.dtype());
                self.vectors.insert(it.var.id(), var.clone());
                var
            }
            None => it.var.clone(),
        };
        let Some(body) = self.expr(&it.body)? else { return Ok(None) };
        let value = value.unwrap_or_else(|| it.value.clone());
        Ok(Some(PrimExpr::Let(Arc::new(Let { var, value, body }))))
    }

    fn call(&mut self, it: &PrimCall) -> Lanes {
        let intrinsic = match &it.callee {
            PrimCallee::Intrinsic(intrinsic) => *intrinsic,
            PrimCallee::PureExtern(_) => {
                let differs = it.args.iter().any(|arg| self.depends(arg));
                return if differs { Err(NoVector) } else { Ok(None) };
            }
        };
        if let (Intrinsic::IfThenElse, [condition, a, b]) = (intrinsic, &*it.args) {
            return self.if_then_else(it, condition, a, b);
        }
        if intrinsic.effect() == Effect::UpdateState {
            return Err(NoVector);
        }
        let args = it.args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
        if args.iter().all(Option::is_none) {
            return Ok(None);
        }
        if intrinsic == Intrinsic::AddressOf {
            return Err(NoVector);
        }
        let args =
            args.into_iter().zip(it.args.iter()).map(|(lanes, arg)| self.all_lanes(lanes, arg)).collect();
        Ok(Some(PrimExpr::Call(Arc::new(PrimCall {
            args,
            dtype: it.dtype.with_lanes(self.lanes),
            callee: it.callee.clone(),
            span: it.span.clone(),
        }))))
    }

    fn if_then_else(&mut self, it: &PrimCall, condition: &PrimExpr, a: &PrimExpr, b: &PrimExpr) -> Lanes {
        if self.depends(condition) {
            if self.masking {
                return self.masked_choice(condition, a, b);
            }
            self.guard(condition)?;
            let value = self.expr(a)?;
            return Ok(Some(self.all_lanes(value, a)));
        }
        let (then_value, else_value) = (self.expr(a)?, self.expr(b)?);
        if then_value.is_none() && else_value.is_none() {
            return Ok(None);
        }
        let args = [condition.clone(), self.all_lanes(then_value, a), self.all_lanes(else_value, b)];
        Ok(Some(PrimExpr::Call(Arc::new(PrimCall {
            args: args.into(),
            dtype: it.dtype.with_lanes(self.lanes),
            callee: it.callee.clone(),
            span: it.span.clone(),
        }))))
    }
}
