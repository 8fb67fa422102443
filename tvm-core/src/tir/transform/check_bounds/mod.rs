//! Keeps every access inside its buffer: an access that is not proven to be is checked when the kernel runs.
//!
//! TVM counterpart: `OOBChecker` (an analysis), `InstrumentBoundCheckers`; neither is part of TVM's pipelines.
//! Requires: block axes that stay in their domains, extents whose products fit in `i64`: as everywhere in `arith`, index
//! arithmetic is taken not to overflow. Ensures: no load or store outside a buffer's shape, unless
//! `PassConfig::check_bounds` is off (it is on by default). A check runs as early as it can: where the index is
//! linear in the axes around it, once in front of them for their worst values, so that the kernel fails before it has
//! written anything. An access that is outside whenever the kernel runs is an error of this pass.

mod check;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use self::check::{Axes, Check, Side, mentions, reads};
use super::PACKED_API;
use super::context::analyzer_for;
use crate::arith::Analyzer;
use crate::ir::{IrError, Span, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, Call, Callee, For, IfThenElse, Intrinsic, Let, Mutator,
    PrimExpr, PrimFunc, Range, Stmt, While, any_expr,
};

/// Values of more nodes than this are not looked through.
const VALUE_LIMIT: usize = 64;

/// Checks accesses that are not proven to be inside their buffers.
pub fn check_bounds() -> Pass {
    prim_func_pass("CheckBounds", |func, _, ctx| {
        if !ctx.config.check_bounds || func.attrs.bool(PACKED_API) == Some(true) {
            return Ok(None);
        }
        let mut pass = CheckBounds::new(func);
        let body = pass.mutate_stmt(&func.body);
        match pass.error {
            Some(error) => Err(error),
            None => Ok(body.map(|body| PrimFunc { body, ..func.clone() })),
        }
    })
}

struct CheckBounds<'a> {
    func: &'a PrimFunc,
    analyzer: Analyzer,
    /// What encloses the statement at hand, outermost first.
    scopes: Vec<Scope>,
    /// Values of names, where they are short and read no memory.
    values: FxHashMap<VarId, PrimExpr>,
    /// Names of other values.
    opaque: FxHashSet<VarId>,
    /// Conditions inside the expression at hand under which the access happens.
    path: Vec<PrimExpr>,
    /// Checks directly in front of the statement at hand.
    pending: Vec<Check>,
    error: Option<IrError>,
}

/// A loop, a block or a branch, and the checks in front of it.
struct Scope {
    /// Empty for a root block; `None` for a branch, whose checks may not run earlier.
    axes: Option<Axes>,
    checks: Vec<Check>,
}

impl<'a> CheckBounds<'a> {
    fn new(func: &'a PrimFunc) -> CheckBounds<'a> {
        CheckBounds {
            func,
            analyzer: analyzer_for(func),
            scopes: Vec::new(),
            values: FxHashMap::default(),
            opaque: FxHashSet::default(),
            path: Vec::new(),
            pending: Vec::new(),
            error: None,
        }
    }

    /// `f` inside of a scope, and the checks that go in front of it.
    fn scope<R>(&mut self, axes: Option<Axes>, f: impl FnOnce(&mut Self) -> R) -> (R, Vec<Check>) {
        self.scopes.push(Scope { axes, checks: Vec::new() });
        let res = f(self);
        let checks = self.scopes.pop().map(|scope| scope.checks).unwrap_or_default();
        (res, checks)
    }

    /// `f` where `condition` holds.
    fn under<R>(&mut self, condition: &PrimExpr, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.analyzer.clone();
        self.analyzer.enter_constraint(&self.resolve(condition));
        let res = f(self);
        self.analyzer = outer;
        res
    }

    /// `expr` with names replaced by their values.
    fn resolve(&self, expr: &PrimExpr) -> PrimExpr {
        struct Resolve<'a>(&'a FxHashMap<VarId, PrimExpr>);
        impl Mutator for Resolve<'_> {
            fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
                match expr.as_var() {
                    Some(var) => self.0.get(&var.id()).cloned(),
                    None => self.walk_expr(expr),
                }
            }
        }
        Resolve(&self.values).mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }

    fn name(&mut self, var: &Var, value: &PrimExpr) {
        let value = self.resolve(value);
        let mut nodes = 0;
        let long = any_expr(&value, &mut |_| {
            nodes += 1;
            nodes > VALUE_LIMIT
        });
        if long || reads(&value) || mentions(&value, &self.opaque) {
            if value.dtype().is_integer() && value.dtype().is_scalar() {
                self.analyzer.bind_bound(var, self.analyzer.const_int_bound(&value));
            }
            self.opaque.insert(var.id());
        } else {
            self.values.insert(var.id(), value);
        }
    }

    /// An access to the element of `buffer` at `indices`.
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], span: &Span) {
        for (axis, index) in indices.iter().enumerate() {
            let index = self.resolve(index);
            match &index {
                PrimExpr::Ramp(it) => {
                    self.axis(buffer, axis, &it.base, span);
                    let last = &it.base + &(&it.stride * (i64::from(it.lanes) - 1));
                    self.axis(buffer, axis, &last, span);
                }
                PrimExpr::Broadcast(it) => self.axis(buffer, axis, &it.value, span),
                _ if index.dtype().is_scalar() => self.axis(buffer, axis, &index, span),
                _ => self.fail(
                    IrError::new(format!("an access to `{}` at any vector of indices", buffer.name), span)
                        .help("index with a ramp or a broadcast, or switch `check_bounds` off"),
                ),
            }
        }
    }

    fn axis(&mut self, buffer: &Buffer, axis: usize, index: &PrimExpr, span: &Span) {
        let extent = self.resolve(&buffer.shape[axis]);
        for side in [Side::Low, Side::High] {
            let check = Check {
                buffer: buffer.clone(),
                axis,
                side,
                index: index.clone(),
                extent: extent.clone(),
                guards: self.path.clone(),
                span: span.clone(),
            };
            if !self.analyzer.can_prove(&check.condition()) {
                self.place(check);
            }
        }
    }

    /// Puts `check` as early as it may run.
    fn place(&mut self, mut check: Check) {
        let mut level = self.scopes.len();
        while let Some(axes) = level.checked_sub(1).and_then(|at| self.scopes[at].axes.as_ref())
            && let Some(outside) = check.in_front_of(axes, &self.opaque, &self.analyzer)
        {
            check = outside;
            level -= 1;
        }
        if level == 0 && check.guards.is_empty() && self.analyzer.can_prove(&!check.condition()) {
            return self.fail(check.error(&self.analyzer));
        }
        let checks = self.scopes.get_mut(level).map_or(&mut self.pending, |scope| &mut scope.checks);
        if !checks.iter().any(|known| known.same(&check)) {
            checks.push(check);
        }
    }

    fn fail(&mut self, error: IrError) {
        self.error.get_or_insert(error);
    }

    /// `checks`, then `stmt`; `None` when there is nothing to check and it is unchanged.
    fn checked(&self, checks: Vec<Check>, stmt: &Stmt, new: Option<Stmt>) -> Option<Stmt> {
        if checks.is_empty() {
            return new;
        }
        let asserts = checks.iter().map(|check| check.to_stmt(self.func));
        Some(Stmt::seq(asserts.chain([new.unwrap_or_else(|| stmt.clone())])))
    }

    /// A statement without statements inside.
    fn leaf(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let new = self.walk_stmt(stmt);
        match stmt {
            Stmt::BufferStore(it) => self.access(&it.buffer, &it.indices, &it.span),
            Stmt::Bind(it) => self.name(&it.var, &it.value),
            _ => {}
        }
        let checks = std::mem::take(&mut self.pending);
        self.checked(checks, stmt, new)
    }

    fn for_loop(&mut self, it: &For) -> Option<Stmt> {
        let (min, extent) = (self.mutate_expr(&it.min), self.mutate_expr(&it.extent));
        let head = std::mem::take(&mut self.pending);
        let range = Range { min: self.resolve(&it.min), extent: self.resolve(&it.extent) };
        self.analyzer.bind_range(&it.loop_var, &range);
        let axes = vec![(it.loop_var.clone(), range)];
        let (body, checks) = self.scope(Some(axes), |pass| pass.mutate_stmt(&it.body));
        let changed = min.is_some() || extent.is_some() || body.is_some();
        let new = For {
            min: min.unwrap_or_else(|| it.min.clone()),
            extent: extent.unwrap_or_else(|| it.extent.clone()),
            body: body.unwrap_or_else(|| it.body.clone()),
            ..it.clone()
        };
        let checks = [head, checks].concat();
        self.checked(checks, &Stmt::from(it.clone()), changed.then(|| new.into()))
    }

    fn branch(&mut self, it: &IfThenElse) -> Option<Stmt> {
        let condition = self.mutate_expr(&it.condition);
        let head = std::mem::take(&mut self.pending);
        let then_case = self.arm(&it.condition, &it.then_case);
        let else_case = it.else_case.as_ref().and_then(|stmt| self.arm(&!it.condition.clone(), stmt));
        let changed = condition.is_some() || then_case.is_some() || else_case.is_some();
        let new = IfThenElse {
            condition: condition.unwrap_or_else(|| it.condition.clone()),
            then_case: then_case.unwrap_or_else(|| it.then_case.clone()),
            else_case: else_case.or_else(|| it.else_case.clone()),
            span: it.span.clone(),
        };
        self.checked(head, &Stmt::from(it.clone()), changed.then(|| new.into()))
    }

    /// A statement that runs where `condition` holds.
    fn arm(&mut self, condition: &PrimExpr, stmt: &Stmt) -> Option<Stmt> {
        self.scope(None, |pass| pass.under(condition, |pass| pass.mutate_stmt(stmt))).0
    }

    fn while_loop(&mut self, it: &While) -> Option<Stmt> {
        let condition = self.mutate_expr(&it.condition);
        let checks = std::mem::take(&mut self.pending);
        let body = self.arm(&it.condition, &it.body);
        // The condition is evaluated again after each iteration.
        let body = if checks.is_empty() {
            body
        } else {
            let asserts: Vec<Stmt> = checks.iter().map(|check| check.to_stmt(self.func)).collect();
            Some(Stmt::seq([body.unwrap_or_else(|| it.body.clone())].into_iter().chain(asserts)))
        };
        let changed = condition.is_some() || body.is_some();
        let new = While {
            condition: condition.unwrap_or_else(|| it.condition.clone()),
            body: body.unwrap_or_else(|| it.body.clone()),
            span: it.span.clone(),
        };
        self.checked(checks, &Stmt::from(it.clone()), changed.then(|| new.into()))
    }

    fn realize(&mut self, it: &BlockRealize) -> Option<Stmt> {
        let values = self.mutate_exprs(&it.iter_values);
        let predicate = self.mutate_expr(&it.predicate);
        let head = std::mem::take(&mut self.pending);
        let mut axes = Axes::new();
        for iter in it.block.iter_vars.iter() {
            let range = Range { min: self.resolve(&iter.dom.min), extent: self.resolve(&iter.dom.extent) };
            self.analyzer.bind_range(&iter.var, &range);
            axes.push((iter.var.clone(), range));
        }
        let (block, checks) = self.scope(Some(axes), |pass| pass.block(&it.block));
        let changed = values.is_some() || predicate.is_some() || block.is_some();
        let new = BlockRealize {
            iter_values: values.unwrap_or_else(|| it.iter_values.clone()),
            predicate: predicate.unwrap_or_else(|| it.predicate.clone()),
            block: block.map_or_else(|| it.block.clone(), Arc::new),
        };
        let checks = [head, checks].concat();
        self.checked(checks, &Stmt::from(it.clone()), changed.then(|| new.into()))
    }

    fn block(&mut self, block: &Block) -> Option<Block> {
        for BufferRegion { buffer, region } in block.match_buffers.iter().map(|it| &it.source) {
            let first: Vec<PrimExpr> = region.iter().map(|range| range.min.clone()).collect();
            let last: Vec<PrimExpr> = region.iter().map(|range| &range.min + &range.extent - 1).collect();
            self.access(buffer, &first, &block.span);
            self.access(buffer, &last, &block.span);
        }
        let head = std::mem::take(&mut self.pending);
        let mut part = |stmt: &Stmt| {
            let new = self.mutate_stmt(stmt);
            self.checked(head.clone(), stmt, new)
        };
        let init = block.init.as_ref().and_then(&mut part);
        let body = part(&block.body);
        (init.is_some() || body.is_some()).then(|| Block {
            init: init.or_else(|| block.init.clone()),
            body: body.unwrap_or_else(|| block.body.clone()),
            ..block.clone()
        })
    }

    /// `expr`, evaluated only where `condition` holds; `checked` is the condition after this pass.
    fn lazily(&mut self, condition: &PrimExpr, checked: &PrimExpr, expr: &PrimExpr) -> PrimExpr {
        self.path.push(self.resolve(checked));
        let new = self.under(condition, |pass| pass.mutate_expr(expr));
        self.path.pop();
        new.unwrap_or_else(|| expr.clone())
    }
}

impl Mutator for CheckBounds<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::BufferLoad(it) => {
                let new = self.walk_expr(expr);
                self.access(&it.buffer, &it.indices, &it.span);
                new
            }
            PrimExpr::Let(it) => {
                let value = self.mutate_expr(&it.value);
                self.name(&it.var, &it.value);
                let body = self.mutate_expr(&it.body);
                (value.is_some() || body.is_some()).then(|| {
                    let value = value.unwrap_or_else(|| it.value.clone());
                    let body = body.unwrap_or_else(|| it.body.clone());
                    PrimExpr::Let(Arc::new(Let { var: it.var.clone(), value, body }))
                })
            }
            PrimExpr::Call(it) => match (&it.callee, &*it.args) {
                (Callee::Intrinsic(Intrinsic::IfThenElse), [condition, a, b]) => {
                    let new = self.mutate_expr(condition).unwrap_or_else(|| condition.clone());
                    let a = self.lazily(condition, &new, a);
                    let b = self.lazily(&!condition.clone(), &!new.clone(), b);
                    let args = [new, a, b];
                    let same = args.iter().zip(it.args.iter()).all(|(new, old)| new.ptr_eq(old));
                    (!same).then(|| PrimExpr::Call(Arc::new(Call { args: args.into(), ..(**it).clone() })))
                }
                (Callee::Intrinsic(Intrinsic::AddressOf), [PrimExpr::BufferLoad(_)]) => None,
                _ => self.walk_expr(expr),
            },
            _ => self.walk_expr(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(it) => self.for_loop(it),
            Stmt::BlockRealize(it) => self.realize(it),
            Stmt::IfThenElse(it) => self.branch(it),
            Stmt::While(it) => self.while_loop(it),
            Stmt::SeqStmt(_) => self.walk_stmt(stmt),
            Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.leaf(stmt),
        }
    }
}
