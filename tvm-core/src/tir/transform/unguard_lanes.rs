//! Computes whole vectors where a condition excludes lanes that nobody reads.
//!
//! Of a loop that was split with a remainder, the last vector is computed under a condition such as `j_0 * 32 + j_1 < n`. A
//! buffer of its own, such as a tile in registers, may have room for all lanes. If each of its accesses is under the same
//! condition on its last index, then what its other elements hold does not matter. So statements that compute such elements
//! from one another lose the condition: they have one form, without branches, for whole and for partial vectors. Where the
//! buffer is filled from elsewhere, all elements become zero first.
//!
//! Where the target has cheap masked accesses, statements may also read other memory under a constant condition, such as
//! `j_1 < 7` in a loop of 8 iterations: then only what they read there keeps the condition (`if_then_else`, with 0 for the
//! other lanes). What such a buffer holds is read before the branch that stores it elsewhere: the branch has no access to the
//! buffer, and becomes a masked store.
//!
//! TVM counterpart: none; `pad_einsum` in a schedule comes near.

use rustc_hash::FxHashMap;

use super::context::{conjuncts, enter_loop, reads};
use super::lower_match_buffer::row_major_strides;
use crate::arith::{Analyzer, detect_linear_equation, same};
use crate::ir::{BufferId, IrError, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::{conjunction, is_total, slack};
use crate::tir::{
    Bind, Buffer, BufferLoad, BufferStore, For, ForKind, IfThenElse, Intrinsic, Mutator, PrimCallee,
    PrimExpr, PrimFunc, Scope, Stmt, Substitute, Visitor, any_expr, uses_var, walk_expr, walk_stmt,
};

/// Removes conditions on lanes of vectorized loops that compute elements of buffers of their own.
/// Requires: no blocks.
pub fn unguard_lanes() -> Pass {
    prim_func_pass("UnguardLanes", |func, _, context| -> Result<_, IrError> {
        let masks = context.target.machine.masked_vectors;
        let wider = masks.then(|| with_room(&func.body)).flatten();
        let body = unguarded(wider.as_ref().unwrap_or(&func.body), masks);
        Ok(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

/// `body` with room for all lanes in the rows of buffers on the stack that vectors nearly fill; `None` if there are none.
fn with_room(body: &Stmt) -> Option<Stmt> {
    let mut rows = Rows::default();
    rows.visit_stmt(body);
    let wider = rows.wider.into_iter().filter(|(id, _)| !rows.fixed.contains(id));
    let mut widen = Substitute { buffers: wider.collect(), ..Substitute::default() };
    if widen.buffers.is_empty() { None } else { widen.mutate_stmt(body) }
}

/// Finds buffers on the stack whose rows are accessed by vectorized loops of the next power of two.
#[derive(Default)]
struct Rows {
    loops: Vec<For>,
    allocated: FxHashMap<BufferId, Buffer>,
    wider: FxHashMap<BufferId, Buffer>,
    /// Buffers whose address is taken.
    fixed: Vec<BufferId>,
}

impl Rows {
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr]) {
        let Some(own) = self.allocated.get(&buffer.id) else { return };
        let (Some(index), Some(extent)) = (indices.last(), own.shape.last().and_then(PrimExpr::as_int))
        else {
            return;
        };
        let Some(node) = self.loops.iter().rfind(|node| uses_var(index, &node.loop_var)) else { return };
        let lanes = u64::try_from(extent).ok().and_then(u64::checked_next_power_of_two);
        let fills = extent.count_ones() > 1
            && node.kind == ForKind::Vectorized
            && index.as_var() == Some(&node.loop_var)
            && node.extent.as_int().and_then(|it| u64::try_from(it).ok()) == lanes;
        if fills && !self.wider.contains_key(&buffer.id) {
            let others = own.shape[..own.shape.len() - 1].iter().cloned();
            let shape = others.chain([node.extent.clone()]).collect();
            self.wider.insert(buffer.id, own.renew(|it| it.shape = shape));
        }
    }
}

impl Visitor for Rows {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) => self.access(&load.buffer, &load.indices),
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => {
                if let Some(PrimExpr::BufferLoad(load)) = call.args.first() {
                    self.fixed.push(load.buffer.id);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.loops.push((**node).clone());
                walk_stmt(self, stmt);
                self.loops.pop();
            }
            Stmt::AllocBuffer(node) => {
                let it = &node.buffer;
                let plain = it.strides.is_empty() && it.elem_offset.is_none() && node.annotations.is_empty();
                if plain && it.scope == Scope::Local && it.dtype.is_float() && it.dtype.is_scalar() {
                    self.allocated.insert(it.id, it.clone());
                }
            }
            Stmt::BufferStore(store) => {
                self.access(&store.buffer, &store.indices);
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
    }
}

fn unguarded(body: &Stmt, masks: bool) -> Option<Stmt> {
    let mut collect = Collect::default();
    collect.visit_stmt(body);
    let limits = collect.buffers.into_iter().filter_map(|(id, it)| {
        let limit = it.limits?.into_iter().next()?;
        Some((id, limit))
    });
    let mut unguard = Unguard { limits: limits.collect(), masks, loops: Vec::new(), filled: Vec::new() };
    // The first walk finds which buffers are read without their condition.
    unguard.mutate_stmt(body)?;
    unguard.mutate_stmt(body)
}

/// What is known of an allocated buffer.
struct Private {
    /// Number of variables in scope where it is allocated.
    outside: usize,
    /// The numbers below which the last index is known to be at every access so far; `None` before the first access.
    limits: Option<Vec<PrimExpr>>,
}

/// Finds the limits of all allocated buffers.
#[derive(Default)]
struct Collect {
    /// The variables in scope.
    scope: Vec<Var>,
    loops: Vec<For>,
    conditions: Vec<PrimExpr>,
    buffers: FxHashMap<BufferId, Private>,
}

impl Collect {
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr]) {
        let Some(private) = self.buffers.get(&buffer.id) else { return };
        let inside = &self.scope[private.outside.min(self.scope.len())..];
        let mut found = Vec::new();
        if let Some((var, from)) = lane(buffer, indices, &self.loops) {
            let limits = self.conditions.iter().filter_map(|it| limit(it, &var, from));
            found.extend(limits.filter(|limit| !inside.iter().any(|var| uses_var(limit, var))));
        }
        if let Some(private) = self.buffers.get_mut(&buffer.id) {
            let known = private.limits.take();
            private.limits = Some(match known {
                Some(known) => known.into_iter().filter(|it| found.iter().any(|new| same(it, new))).collect(),
                None => found,
            });
        }
    }
}

/// The variable of the loop that drives the last index, and the number that is added to it, if the index is in bounds in all
/// iterations.
fn lane(buffer: &Buffer, indices: &[PrimExpr], loops: &[For]) -> Option<(Var, i64)> {
    let (index, extent) = (indices.last()?, buffer.shape.last()?.as_int()?);
    let node = loops.iter().rfind(|node| uses_var(index, &node.loop_var))?;
    let from = offset(index, &node.loop_var)?;
    let fits = (0..=extent).contains(&from) && node.extent.as_int()? <= extent - from;
    (fits && node.min.is_const(0)).then(|| (node.loop_var.clone(), from))
}

/// `c` of the index `var + c`.
fn offset(index: &PrimExpr, var: &Var) -> Option<i64> {
    let linear = detect_linear_equation(index, std::slice::from_ref(var), &Analyzer::new())?;
    linear.base.as_int().filter(|_| linear.coefficients[0].is_const(1))
}

/// The `l` for which `condition` states that `var + from < l`.
fn limit(condition: &PrimExpr, var: &Var, from: i64) -> Option<PrimExpr> {
    let slack = slack(condition).filter(|slack| !reads(slack))?;
    let linear = detect_linear_equation(&slack, std::slice::from_ref(var), &Analyzer::new())?;
    linear.coefficients[0].is_const(-1).then(|| Analyzer::new().simplify(&(linear.base + from)))
}

impl Visitor for Collect {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) => self.access(&load.buffer, &load.indices),
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => {
                if let Some(PrimExpr::BufferLoad(load)) = call.args.first() {
                    self.buffers.remove(&load.buffer.id);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.visit_expr(&node.min);
                self.visit_expr(&node.extent);
                self.scope.push(node.loop_var.clone());
                self.loops.push((**node).clone());
                let before = self.scope.len();
                self.visit_stmt(&node.body);
                self.scope.truncate(before - 1);
                self.loops.pop();
            }
            Stmt::IfThenElse(node) => {
                self.visit_expr(&node.condition);
                let before = self.conditions.len();
                self.conditions.extend(conjuncts(&node.condition));
                self.visit_stmt(&node.then_case);
                self.conditions.truncate(before);
                node.else_case.iter().for_each(|it| self.visit_stmt(it));
            }
            Stmt::Bind(node) => {
                self.visit_expr(&node.value);
                self.scope.push(node.var.clone());
            }
            Stmt::AllocBuffer(node) => {
                let private = Private { outside: self.scope.len(), limits: None };
                self.buffers.insert(node.buffer.id, private);
            }
            Stmt::BufferStore(store) => {
                self.access(&store.buffer, &store.indices);
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
    }
}

struct Unguard {
    limits: FxHashMap<BufferId, PrimExpr>,
    /// True if what is read elsewhere may keep the condition.
    masks: bool,
    loops: Vec<For>,
    /// Buffers that statements without condition read: all their elements must be written.
    filled: Vec<BufferId>,
}

impl Unguard {
    /// Where in the conditions the one is that excludes elements of the buffer that `store` writes.
    fn guard(&self, store: &BufferStore, conditions: &[PrimExpr]) -> Option<(Var, usize)> {
        let wanted = self.limits.get(&store.buffer.id)?;
        let (var, from) = lane(&store.buffer, &store.indices, &self.loops)?;
        let is_guard = |it: &PrimExpr| limit(it, &var, from).is_some_and(|it| same(&it, wanted));
        conditions.iter().position(is_guard).map(|at| (var, at))
    }

    /// The buffers with limits that `store` reads, if it may be computed for all values of `var`, and whether it reads other
    /// memory that depends on `var`.
    fn operands(&self, store: &BufferStore, var: &Var) -> Option<(Vec<BufferId>, bool)> {
        let vectorized = |node: &For| node.loop_var == *var && node.kind == ForKind::Vectorized;
        if !self.loops.iter().any(vectorized) || !store.buffer.dtype.is_float() {
            return None;
        }
        let others = store.indices.split_last()?.1;
        if others.iter().any(|index| uses_var(index, var)) {
            return None;
        }
        let limit = self.limits.get(&store.buffer.id)?;
        let mut operands =
            Operands { unguard: self, limit, var, found: Vec::new(), elsewhere: false, possible: true };
        operands.visit_expr(&store.value);
        operands.possible.then_some((operands.found, operands.elsewhere))
    }
}

/// Finds the buffers with limits that a value reads, and whether all of it may be computed for all values of a variable.
struct Operands<'a> {
    unguard: &'a Unguard,
    limit: &'a PrimExpr,
    var: &'a Var,
    found: Vec<BufferId>,
    /// True if the value reads other memory that depends on the variable.
    elsewhere: bool,
    possible: bool,
}

impl Visitor for Operands<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        let var = self.var;
        match expr {
            PrimExpr::BufferLoad(load) if self.unguard.masks_load(load, self.limit, var) => {
                self.elsewhere = true;
                return;
            }
            PrimExpr::BufferLoad(load) if load.indices.iter().any(|index| uses_var(index, var)) => {
                let place = lane(&load.buffer, &load.indices, &self.unguard.loops);
                self.possible &= self.unguard.limits.contains_key(&load.buffer.id)
                    && place.is_some_and(|(lane, _)| lane == *var)
                    && load
                        .indices
                        .split_last()
                        .is_some_and(|(_, it)| !it.iter().any(|it| uses_var(it, var)));
                self.found.push(load.buffer.id);
            }
            // Lane 0 is always computed.
            PrimExpr::BufferLoad(_) if self.unguard.masks && is_positive(self.limit) => return,
            PrimExpr::Call(call) => {
                self.possible &= matches!(call.callee, PrimCallee::Intrinsic(_));
                if let (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, a, b]) =
                    (&call.callee, &*call.args)
                    && self.unguard.masks
                    && is_total(condition)
                {
                    self.visit_expr(a);
                    self.visit_expr(b);
                    return;
                }
            }
            PrimExpr::Binary(it) => self.possible &= it.a.dtype().is_float(),
            _ => {}
        }
        walk_expr(self, expr);
    }
}

fn is_positive(limit: &PrimExpr) -> bool {
    limit.as_int().is_some_and(|it| it >= 1)
}

impl Unguard {
    /// True if `load` reads a vector along `var` from memory without limit, and may keep the constant condition `limit`.
    fn masks_load(&self, load: &BufferLoad, limit: &PrimExpr, var: &Var) -> bool {
        self.masks
            && is_positive(limit)
            && load.buffer.scope == Scope::Global
            && !self.limits.contains_key(&load.buffer.id)
            && load.indices.iter().any(|index| uses_var(index, var))
            && !load.indices.iter().any(|index| uses_var(index, var) && reads(index))
            && self.is_contiguous(load, var)
    }

    /// True if neighbouring elements are read for neighbouring values of `var`, which may be divided among several indices.
    fn is_contiguous(&self, load: &BufferLoad, var: &Var) -> bool {
        let Some(first) = load.indices.iter().position(|index| uses_var(index, var)) else { return false };
        let strides = row_major_strides(&load.buffer);
        let terms = load.indices[first..].iter().zip(&strides[first..]);
        let Some(place) = terms.map(|(index, stride)| index * stride).reduce(|a, b| a + b) else {
            return false;
        };
        let mut analyzer = Analyzer::new();
        for node in &self.loops {
            enter_loop(&mut analyzer, node);
        }
        let place = analyzer.simplify(&place);
        detect_linear_equation(&place, std::slice::from_ref(var), &analyzer)
            .is_some_and(|it| it.coefficients[0].is_const(1))
    }

    /// `store`, under `conditions`, as a branch that does not access the buffers with limits: they are read before it.
    fn read_before(
        &mut self,
        node: &IfThenElse,
        store: &BufferStore,
        mut conditions: Vec<PrimExpr>,
    ) -> Option<Stmt> {
        if !self.masks || self.limits.contains_key(&store.buffer.id) || store.buffer.scope != Scope::Global {
            return None;
        }
        let lanes = self.loops.last().filter(|it| it.kind == ForKind::Vectorized)?;
        let var = lanes.loop_var.clone();
        // The one condition on the lane, and the buffers that are known to be read under it.
        let mut on_lane = (0..conditions.len()).filter(|&at| uses_var(&conditions[at], &var));
        let (at, None) = (on_lane.next()?, on_lane.next()) else { return None };
        let guard = conditions.remove(at);
        let (mut bound, mut possible) = (Vec::<(PrimExpr, Var)>::new(), true);
        any_expr(&store.value, &mut |it| {
            if let PrimExpr::BufferLoad(load) = it
                && load.indices.iter().any(|index| uses_var(index, &var))
            {
                if let Some(limit_of) = self.limits.get(&load.buffer.id) {
                    let place = lane(&load.buffer, &load.indices, &self.loops);
                    let known = place.as_ref().and_then(|(_, from)| limit(&guard, &var, *from));
                    possible &= limit_of.as_int().is_some()
                        && place.is_some_and(|(lane, _)| lane == var)
                        && known.is_some_and(|it| same(&it, limit_of));
                    if !bound.iter().any(|(old, _)| same(old, it)) {
                        self.filled.push(load.buffer.id);
                        bound.push((it.clone(), Var::prim(&*load.buffer.name, load.buffer.dtype)));
                    }
                } else {
                    possible &= load.buffer.scope == Scope::Global;
                }
            }
            !possible
        });
        if !possible || bound.is_empty() {
            return None;
        }
        let value = ReplaceLoads(&bound).mutate_expr(&store.value)?;
        let store = BufferStore { value, ..store.clone() };
        let inner = IfThenElse { condition: guard, then_case: store.into(), ..node.clone() };
        let reads = bound.iter().map(|(value, var)| Bind { var: var.clone(), value: value.clone() }.into());
        let stmts = Stmt::seq(reads.chain([inner.into()]));
        Some(IfThenElse { condition: conjunction(conditions), then_case: stmts, ..node.clone() }.folded())
    }
}

/// Puts loads elsewhere under the condition on the lane.
struct MaskLoads<'a> {
    unguard: &'a Unguard,
    guard: PrimExpr,
    var: &'a Var,
}

impl MaskLoads<'_> {
    fn is_masked(&self, expr: &PrimExpr) -> bool {
        let limit = PrimExpr::index(1);
        matches!(expr, PrimExpr::BufferLoad(load) if self.unguard.masks_load(load, &limit, self.var))
    }
}

impl Mutator for MaskLoads<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let call = |condition: PrimExpr, a: &PrimExpr, b: PrimExpr| {
            PrimExpr::call(Intrinsic::IfThenElse, [condition, a.clone(), b], a.dtype())
        };
        if self.is_masked(expr) {
            return Some(call(self.guard.clone(), expr, PrimExpr::constant(0.0, expr.dtype())));
        }
        if let PrimExpr::Call(it) = expr
            && let (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, a, b]) = (&it.callee, &*it.args)
            && !any_expr(b, &mut |it| self.is_masked(it))
        {
            return Some(call(self.guard.clone().and(condition.clone()), a, b.clone()));
        }
        self.walk_expr(expr)
    }
}

/// Replaces loads by variables.
struct ReplaceLoads<'a>(&'a [(PrimExpr, Var)]);

impl Mutator for ReplaceLoads<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match self.0.iter().find(|(load, _)| same(load, expr)) {
            Some((_, var)) => Some(var.into()),
            None => self.walk_expr(expr),
        }
    }
}

impl Mutator for Unguard {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let node = match stmt {
            Stmt::For(node) => {
                self.loops.push((**node).clone());
                let walked = self.walk_stmt(stmt);
                self.loops.pop();
                return walked;
            }
            Stmt::IfThenElse(node) if node.else_case.is_none() => node,
            _ => return self.walk_stmt(stmt),
        };
        let Stmt::BufferStore(store) = &node.then_case else { return self.walk_stmt(stmt) };
        let mut conditions = conjuncts(&node.condition);
        let Some((var, at)) = self.guard(store, &conditions) else {
            return self.read_before(node, store, conditions);
        };
        let guard = conditions.remove(at);
        let outer = IfThenElse { condition: conjunction(conditions), ..(**node).clone() };
        if let Some((operands, elsewhere)) = self.operands(store, &var) {
            self.filled.extend(operands);
            if !elsewhere {
                return Some(outer.folded());
            }
            let mut mask = MaskLoads { unguard: self, guard, var: &var };
            let value = mask.mutate_expr(&store.value).unwrap_or_else(|| store.value.clone());
            return Some(
                IfThenElse { then_case: BufferStore { value, ..(**store).clone() }.into(), ..outer }.folded(),
            );
        }
        // An update stays under its condition: what the other elements hold was written before.
        let updates = any_expr(
            &store.value,
            &mut |it| matches!(it, PrimExpr::BufferLoad(load) if load.buffer == store.buffer),
        );
        if updates || !self.filled.contains(&store.buffer.id) {
            return None;
        }
        let zero = PrimExpr::constant(0.0, store.buffer.dtype);
        let zeros = BufferStore { value: zero, ..(**store).clone() };
        let filled = IfThenElse { condition: guard, ..(**node).clone() };
        Some(IfThenElse { then_case: Stmt::seq([zeros.into(), filled.into()]), ..outer }.folded())
    }
}
