//! Keeps every access inside its buffer: the kernel checks each access that is not proven to be in bounds.
//!
//! TVM counterpart: `OOBChecker` (an analysis), `InstrumentBoundCheckers`; neither is part of TVM's pipelines.
//! Requires: no inits ([`lower_init_block`](super::lower_init_block)), which are relocated statements. Ensures: no load
//! or store outside a buffer's shape, no axis of a block outside its domain, no buffer whose size does not fit, unless
//! the caller promises this (`Trust::unchecked_bounds`). Proofs rely only on argument checks and on checks of this pass:
//! values of axes are checked against their domains, and index arithmetic against `i64` ([`extents`]). A check runs as
//! early as possible ([`hoist`]): the kernel usually fails before it writes anything, and fails only for iterations that
//! run. An access that is out of bounds in every run is an error of this pass.

mod block;
mod check;
mod extents;
mod hoist;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use self::check::{Check, Side, Subject};
use self::extents::Extents;
use self::hoist::{Frame, Known};
use super::context::{analyzer_for, conjuncts, is_lasting, reads};
use crate::arith::{Analyzer, same};
use crate::ir::{IrError, Span, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::{
    Block, Buffer, For, IfThenElse, Intrinsic, Let, Mutator, PrimCallee, PrimExpr, PrimFunc, Range, Stmt,
    Visitor, While, any_expr, walk_block,
};

/// Maximum number of nodes of a bound value that is substituted in checks.
const VALUE_LIMIT: usize = 64;
/// Maximum number of nodes of the value of a `Let` that is substituted in checks.
const LET_LIMIT: usize = 4096;
/// Maximum magnitude of a vector stride for which an index is known not to wrap within one vector.
const STRIDE_LIMIT: i64 = 1 << 32;

/// Checks accesses that are not proven to be inside their buffers.
pub fn check_bounds() -> Pass {
    prim_func_pass("CheckBounds", |func, _, ctx| {
        if !ctx.config.trust.checks_bounds() {
            return Ok(None);
        }
        let mut pass = CheckBounds::new(func);
        let entry = pass.extents.check(func)?;
        let body = pass.mutate_stmt(&func.body);
        if let Some(error) = pass.error {
            return Err(error);
        }
        let body = match entry {
            Some(check) => Some(Stmt::seq([check, body.unwrap_or_else(|| func.body.clone())])),
            None => body,
        };
        Ok(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct CheckBounds<'a> {
    func: &'a PrimFunc,
    analyzer: Analyzer,
    extents: Extents,
    /// The scopes around the current statement, outermost first.
    scopes: Vec<Scope>,
    /// Values of variables that are substituted in checks: of `Bind`s only short ones that read no memory.
    values: FxHashMap<VarId, PrimExpr>,
    /// Variables of `Let`s whose values are too long for a check.
    long: FxHashSet<VarId>,
    /// Variables bound to other values, with the number of scopes around their bindings.
    opaque: FxHashMap<VarId, usize>,
    /// Values of the axes of the enclosing blocks.
    axes: FxHashMap<VarId, PrimExpr>,
    /// Conditions that hold here and whose integers may wrap, so that the analyzer cannot use them.
    truths: Vec<PrimExpr>,
    /// Conditions inside the current expression under which the access happens.
    path: Vec<PrimExpr>,
    /// Checks to insert directly before the current statement.
    pending: Vec<Check>,
    /// True when a block matches buffers: a store may then change other buffers than the one that it names.
    has_views: bool,
    error: Option<IrError>,
}

/// A loop, a block or a branch, and the checks to insert before it.
struct Scope {
    frame: Frame,
    checks: Vec<Check>,
}

impl<'a> CheckBounds<'a> {
    fn new(func: &'a PrimFunc) -> CheckBounds<'a> {
        CheckBounds {
            func,
            analyzer: analyzer_for(func),
            extents: Extents::new(func),
            scopes: Vec::new(),
            values: FxHashMap::default(),
            long: FxHashSet::default(),
            opaque: FxHashMap::default(),
            axes: FxHashMap::default(),
            truths: Vec::new(),
            path: Vec::new(),
            pending: Vec::new(),
            has_views: has_views(&func.body),
            error: None,
        }
    }

    /// Calls `f` inside a scope; returns its result and the checks to insert before the scope.
    fn scope<R>(&mut self, frame: Frame, f: impl FnOnce(&mut Self) -> R) -> (R, Vec<Check>) {
        self.scopes.push(Scope { frame, checks: Vec::new() });
        let res = f(self);
        let checks = self.scopes.pop().map(|scope| scope.checks).unwrap_or_default();
        (res, checks)
    }

    /// Calls `f` under those conjuncts of `condition` that, by `lasting`, stay true.
    fn under<R>(
        &mut self,
        condition: &PrimExpr,
        lasting: impl Fn(&Self, &PrimExpr) -> bool,
        f: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let (outer, truths) = (self.analyzer.clone(), self.truths.len());
        let parts: Vec<PrimExpr> =
            conjuncts(condition).into_iter().filter(|part| lasting(self, part)).collect();
        parts.iter().for_each(|part| self.assume(part));
        let res = f(self);
        self.analyzer = outer;
        self.truths.truncate(truths);
        res
    }

    /// True when `stmt` does not change whether `condition` holds.
    fn lasts(&self, condition: &PrimExpr, stmt: &Stmt) -> bool {
        is_lasting(condition, stmt) && !(self.has_views && reads(condition))
    }

    /// Records that `condition` holds from here on.
    fn assume(&mut self, condition: &PrimExpr) {
        let condition = self.resolve(condition);
        let of_loops = crate::tir::substitute_expr(&condition, &self.axes);
        if !of_loops.ptr_eq(&condition) {
            self.assume_resolved(of_loops);
        }
        self.assume_resolved(condition);
    }

    fn assume_resolved(&mut self, condition: PrimExpr) {
        if self.extents.is_exact(&condition, &self.analyzer) {
            self.analyzer.enter_constraint(&condition);
        } else {
            self.truths.push(condition);
        }
    }

    /// True when `expr` is a variable of a `Let` whose value is too long for a check.
    fn is_long(&self, expr: &PrimExpr) -> bool {
        expr.as_var().is_some_and(|var| self.long.contains(&var.id()))
    }

    /// `expr` with bound variables replaced by their values.
    fn resolve(&self, expr: &PrimExpr) -> PrimExpr {
        crate::tir::substitute_expr(expr, &self.values)
    }

    fn name(&mut self, var: &Var, value: &PrimExpr) {
        let value = self.resolve(value);
        if reads(&value) || is_longer(&value, VALUE_LIMIT) {
            if value.dtype().is_integer() && value.dtype().is_scalar() {
                self.analyzer.bind_bound(var, self.analyzer.const_int_bound(&value));
            }
            self.opaque.insert(var.id(), self.scopes.len());
        } else {
            self.values.insert(var.id(), value);
        }
    }

    /// Checks an access to the element of `buffer` at `indices`.
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], span: &Span) {
        for (axis, index) in indices.iter().enumerate() {
            let index = self.resolve(index);
            match &index {
                PrimExpr::Ramp(it) => {
                    let lanes = i64::from(it.lanes);
                    // If both end lanes are in bounds, every lane is, unless the stride is so large that the index wraps.
                    let plain = it
                        .stride
                        .as_int()
                        .is_some_and(|stride| (-STRIDE_LIMIT..=STRIDE_LIMIT).contains(&stride));
                    let lanes: Vec<i64> = if plain { vec![0, lanes - 1] } else { (0..lanes).collect() };
                    for lane in lanes {
                        self.axis(buffer, axis, &(&it.base + &(&it.stride * lane)), span);
                    }
                }
                PrimExpr::Broadcast(it) => self.axis(buffer, axis, &it.value, span),
                _ if index.dtype().is_scalar() => self.axis(buffer, axis, &index, span),
                _ => self.fail(
                    IrError::new(format!("an access to `{}` at any vector of indices", buffer.name), span)
                        .help("index with a ramp or a broadcast"),
                ),
            }
        }
    }

    fn axis(&mut self, buffer: &Buffer, axis: usize, index: &PrimExpr, span: &Span) {
        let extent = self.resolve(&buffer.shape[axis]);
        self.check(Subject::Access(buffer.clone(), axis), index, &extent, span);
    }

    /// Checks that `index` is in `0..extent`.
    fn check(&mut self, subject: Subject, index: &PrimExpr, extent: &PrimExpr, span: &Span) {
        self.check_as(subject, index, index, extent, span);
    }

    /// As `check`; proofs use `value`, which is equal to `index`.
    fn check_as(
        &mut self,
        subject: Subject,
        index: &PrimExpr,
        value: &PrimExpr,
        extent: &PrimExpr,
        span: &Span,
    ) {
        for side in [Side::Low, Side::High] {
            let check = Check {
                subject: subject.clone(),
                side,
                index: index.clone(),
                extent: extent.clone(),
                guards: self.path.clone(),
                span: span.clone(),
            };
            if !self.proves(&Check { index: value.clone(), ..check.clone() }) {
                self.place(check);
            }
        }
    }

    /// Checks that `extent` is not negative.
    fn not_negative(&mut self, subject: Subject, extent: &PrimExpr, span: &Span) {
        let (index, guards) = (extent.clone(), self.path.clone());
        let extent = PrimExpr::index(i64::MAX);
        let check = Check { subject, side: Side::Low, index, extent, guards, span: span.clone() };
        if !self.proves(&check) {
            self.place(check);
        }
    }

    fn proves(&self, check: &Check) -> bool {
        let condition = check.condition();
        if self.truths.iter().any(|truth| same(truth, &condition)) {
            return true;
        }
        let proves = |condition: &PrimExpr| {
            self.extents.is_exact(condition, &self.analyzer) && self.analyzer.can_prove(condition)
        };
        if proves(&condition) {
            return true;
        }
        let of_loops = crate::tir::substitute_expr(&condition, &self.axes);
        !of_loops.ptr_eq(&condition)
            && (self.truths.iter().any(|truth| same(truth, &of_loops)) || proves(&of_loops))
    }

    /// Hoists `check` as far as possible and inserts it there.
    fn place(&mut self, check: Check) {
        let mut todo = vec![(check, self.scopes.len())];
        while let Some((check, level)) = todo.pop() {
            let frames: Vec<&Frame> = self.scopes[..level].iter().map(|scope| &scope.frame).collect();
            let known = Known { analyzer: &self.analyzer, extents: &self.extents, opaque: &self.opaque };
            match known.outside(&check, &frames) {
                Some((checks, outer)) => {
                    todo.extend(checks.into_iter().rev().map(|check| (check, outer)));
                }
                None => self.put(check, level),
            }
        }
    }

    /// Inserts `check` before scope number `level`, unless it is proven there; an error if it always fails.
    fn put(&mut self, check: Check, level: usize) {
        if level < self.scopes.len() && self.proves(&check) {
            return;
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

    /// `checks`, then `new` or the unchanged `stmt`; `None` when there is nothing to check and `stmt` is unchanged.
    fn checked(&self, checks: Vec<Check>, stmt: &Stmt, new: Option<Stmt>) -> Option<Stmt> {
        if checks.is_empty() {
            return new;
        }
        let asserts = checks.iter().map(|check| check.to_stmt(self.func));
        Some(Stmt::seq(asserts.chain([new.unwrap_or_else(|| stmt.clone())])))
    }

    /// Rewrites a statement without nested statements.
    fn leaf(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let new = self.walk_stmt(stmt);
        match stmt {
            Stmt::BufferStore(it) => self.access(&it.buffer, &it.indices, &it.span),
            Stmt::Bind(it) => self.name(&it.var, &it.value),
            Stmt::AllocBuffer(it) => self.allocation(&it.buffer),
            Stmt::DeclBuffer(it) => self.fail(
                IrError::new(
                    format!("`{}` is declared over memory of unknown size", it.buffer.name),
                    &it.buffer.span,
                )
                .help("match a region of a buffer instead"),
            ),
            _ => {}
        }
        let checks = std::mem::take(&mut self.pending);
        self.checked(checks, stmt, new)
    }

    /// Records the range of `var`; only its constant bounds if the range may wrap or reads memory, which may change.
    fn enter_range(&mut self, var: &Var, range: &Range) {
        let last = &range.min + &range.extent - 1;
        let ends = [&range.min, &last];
        let exact = |end: &&PrimExpr| !reads(end) && self.extents.size(end, &self.analyzer).is_some();
        if ends.iter().all(exact) {
            self.analyzer.bind_range(var, range);
        } else {
            let (first, last) =
                (self.analyzer.const_int_bound(&range.min), self.analyzer.const_int_bound(&last));
            self.analyzer.bind_bound(var, crate::arith::ConstIntBound::new(first.min, last.max));
        }
    }

    fn for_loop(&mut self, it: &For) -> Option<Stmt> {
        let (min, extent) = (self.mutate_expr(&it.min), self.mutate_expr(&it.extent));
        let head = std::mem::take(&mut self.pending);
        let range = Range { min: self.resolve(&it.min), extent: self.resolve(&it.extent) };
        let runs = range.extent.clone().greater(0);
        let runs = self.extents.is_exact(&runs, &self.analyzer) && self.analyzer.can_prove(&runs);
        // If the end may wrap, clamp the extent: a negative one means no iteration.
        let last = &range.min + &range.extent;
        let wraps = !runs && self.extents.size(&last, &self.analyzer).is_none();
        let extent = match &extent {
            _ if !wraps => extent,
            extent => Some(extent.as_ref().unwrap_or(&it.extent).clone().max(0)),
        };
        self.enter_range(&it.loop_var, &range);
        let frame = Frame::Loop { var: it.loop_var.clone(), range, runs };
        let (body, checks) = self.scope(frame, |pass| pass.mutate_stmt(&it.body));
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

    /// Rewrites a statement that runs only where `condition` holds.
    fn arm(&mut self, condition: &PrimExpr, stmt: &Stmt) -> Option<Stmt> {
        self.scope(Frame::Branch, |pass| {
            pass.under(condition, |pass, part| pass.lasts(part, stmt), |pass| pass.mutate_stmt(stmt))
        })
        .0
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

    /// Rewrites `expr`, evaluated only where `condition` holds; `checked` is the condition after this pass.
    fn lazily(&mut self, condition: &PrimExpr, checked: &PrimExpr, expr: &PrimExpr) -> PrimExpr {
        self.path.push(self.resolve(checked));
        let new = self.under(condition, |_, _| true, |pass| pass.mutate_expr(expr));
        self.path.pop();
        new.unwrap_or_else(|| expr.clone())
    }
}

fn has_views(stmt: &Stmt) -> bool {
    struct Find(bool);
    impl Visitor for Find {
        fn visit_block(&mut self, block: &Block) {
            self.0 |= !block.match_buffers.is_empty();
            walk_block(self, block);
        }

        fn visit_expr(&mut self, _: &PrimExpr) {}
    }
    let mut find = Find(false);
    find.visit_stmt(stmt);
    find.0
}

/// True when an index in `expr`, or a condition around an access, depends on `var`.
fn decides_access(expr: &PrimExpr, var: &Var) -> bool {
    let mentions = |expr: &PrimExpr, vars: &[Var]| {
        any_expr(expr, &mut |it| it.as_var().is_some_and(|var| vars.contains(var)))
    };
    let accesses = |expr: &PrimExpr| {
        any_expr(expr, &mut |it| matches!(it, PrimExpr::BufferLoad(load) if !load.indices.is_empty()))
    };
    // Variables that depend on `var` are bound before their uses.
    let mut vars = vec![var.clone()];
    any_expr(expr, &mut |it| match it {
        PrimExpr::Let(it) => {
            if mentions(&it.value, &vars) {
                vars.push(it.var.clone());
            }
            false
        }
        PrimExpr::BufferLoad(load) => load.indices.iter().any(|index| mentions(index, &vars)),
        PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
            call.args.first().is_some_and(|condition| mentions(condition, &vars))
                && call.args.iter().any(accesses)
        }
        _ => false,
    })
}

/// True when `expr` has more than `limit` nodes.
fn is_longer(expr: &PrimExpr, limit: usize) -> bool {
    let mut nodes = 0;
    any_expr(expr, &mut |_| {
        nodes += 1;
        nodes > limit
    })
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
                // Checks are inserted before the statement, where the variable is not bound.
                let resolved = self.resolve(&it.value);
                let long = is_longer(&resolved, LET_LIMIT) || any_expr(&resolved, &mut |it| self.is_long(it));
                if long && decides_access(&it.body, &it.var) {
                    let message = format!("the value of `{}` is too long to be checked", it.var.name());
                    self.fail(IrError::new(message, &self.func.span).help("give it a name in a statement"));
                }
                match long {
                    true => drop(self.long.insert(it.var.id())),
                    false => drop(self.values.insert(it.var.id(), resolved)),
                }
                let body = self.mutate_expr(&it.body);
                (value.is_some() || body.is_some()).then(|| {
                    let value = value.unwrap_or_else(|| it.value.clone());
                    let body = body.unwrap_or_else(|| it.body.clone());
                    PrimExpr::Let(Arc::new(Let { var: it.var.clone(), value, body }))
                })
            }
            PrimExpr::Call(it) => match (&it.callee, &*it.args) {
                (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, a, b]) => {
                    let new = self.mutate_expr(condition).unwrap_or_else(|| condition.clone());
                    let a = self.lazily(condition, &new, a);
                    let b = self.lazily(&!condition.clone(), &!new.clone(), b);
                    let args = [new, a, b];
                    let same = args.iter().zip(it.args.iter()).all(|(new, old)| new.ptr_eq(old));
                    (!same).then(|| PrimExpr::Call(Arc::new(it.with_args(args))))
                }
                // `address_of` does not read the element.
                (PrimCallee::Intrinsic(Intrinsic::AddressOf), [load @ PrimExpr::BufferLoad(_)]) => {
                    self.walk_expr(load);
                    None
                }
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

/// The number of elements that `buffer` occupies: every access to it is nearer to its start.
pub(in crate::tir::transform) fn elements(buffer: &Buffer) -> PrimExpr {
    let one = PrimExpr::index(1);
    let elements = if buffer.strides.is_empty() {
        buffer.shape.iter().cloned().reduce(|a, b| a * b).unwrap_or(one)
    } else {
        // A buffer with zero elements counts as one with one element: a size is not negative.
        let steps = |extent: &PrimExpr| extent.clone().max(1) - 1;
        let last =
            buffer.strides.iter().zip(buffer.shape.iter()).map(|(stride, extent)| stride * steps(extent));
        last.fold(one, |a, b| a + b)
    };
    match &buffer.elem_offset {
        Some(offset) => elements + offset,
        None => elements,
    }
}

/// The number of bytes of `buffer`, saturating: `i64::MAX` when it does not fit.
fn bytes(buffer: &Buffer) -> PrimExpr {
    let float = |value: &PrimExpr| value.clone().cast(DataType::F64);
    let extents = buffer.shape.iter().map(float);
    let bytes = PrimExpr::float(buffer.dtype.bytes() as f64, DataType::F64);
    extents.fold(bytes, |a, b| a * b).cast(DataType::I64)
}
