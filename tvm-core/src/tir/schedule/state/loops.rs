//! In-place changes of loops: statements around and beside them are not copied, those inside are visited once, and the
//! index is updated only where it changes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Entry, PathStep, PersistentMap, ScheduleState, StmtSRef, child_mut, runs_side_by_side};
use crate::arith::Analyzer;
use crate::ir::{BlockId, Var, VarId};
use crate::support::with_stack;
use crate::tir::analysis::{conjunction, conjuncts};
use crate::tir::schedule::ScheduleError;
use crate::tir::schedule::rewrite::{add_vars, dims_analyzer};
use crate::tir::{BlockRealize, For, Mutator, PrimExpr, Range, Stmt, Substitute, Visitor};

/// The replacement of a chain of loops.
pub(in crate::tir::schedule) struct LoopChange {
    /// The old loops, outermost first; each but the first is the whole body of the loop before it.
    pub(in crate::tir::schedule) old: Vec<VarId>,
    /// The new loops, outermost first; at least one. Their bodies are ignored.
    pub(in crate::tir::schedule) new: Vec<For>,
    /// The expressions that replace the variables of the old loops inside.
    pub(in crate::tir::schedule) vars: FxHashMap<VarId, PrimExpr>,
    /// A further condition under which the blocks inside run.
    pub(in crate::tir::schedule) condition: Option<PrimExpr>,
}

/// Variable, start and extent of a loop.
type Bounds<'a> = (&'a Var, &'a PrimExpr, &'a PrimExpr);

impl ScheduleState {
    /// Replaces a chain of loops; simplifies the bindings and predicates inside that this affects.
    ///
    /// # Errors
    /// When the loops are not in the program, or not nested like this. Nothing is changed then.
    pub(in crate::tir::schedule) fn change_loops(&mut self, change: LoopChange) -> Result<(), ScheduleError> {
        let LoopChange { old, new, vars, condition } = change;
        let unknown = |var: &VarId| ScheduleError::UnknownSRef(StmtSRef::Loop(*var));
        let (Some(first), Some(last)) = (old.first(), new.last()) else { return Ok(()) };
        for (outer, inner) in old.iter().zip(&old[1..]) {
            let entry = self.index.get(&StmtSRef::Loop(*inner)).ok_or_else(|| unknown(inner))?;
            if entry.parent != Some(StmtSRef::Loop(*outer)) || !entry.steps.is_empty() {
                return Err(unknown(inner));
            }
        }
        let innermost = StmtSRef::Loop(last.loop_var.id());
        let (path, dims) = (self.path(StmtSRef::Loop(*first))?, dims_analyzer(self));
        let mut around: Vec<Bounds<'_>> = Vec::new();
        self.blocks.take();
        let mut slot = &mut self.func.body;
        for step in path {
            slot = match (step, slot) {
                (PathStep::Body, Stmt::For(it)) => {
                    let For { loop_var, min, extent, body, .. } = Arc::make_mut(it);
                    around.push((loop_var, min, extent));
                    body
                }
                (step, stmt) => child_mut(stmt, step).ok_or_else(|| unknown(first))?,
            };
        }
        let mut body = std::mem::replace(slot, Stmt::nop());
        for _ in &old {
            body = match body {
                Stmt::For(node) => Arc::unwrap_or_clone(node).body,
                other => other,
            };
        }
        around.extend(new.iter().map(|node| (&node.loop_var, &node.min, &node.extent)));
        if condition.is_some() || !vars.is_empty() {
            let substitute = Substitute { vars, ..Substitute::default() };
            let mentions = &mut self.mentions;
            Inside { substitute, condition, dims, mentions, loops: around }.stmt(&mut body);
        }
        children(&body, &mut |sref| {
            if let Some(entry) = self.index.get_mut(&sref) {
                entry.parent = Some(innermost);
            }
        });
        let entry = self.index.get(&StmtSRef::Loop(*first)).cloned();
        for var in &old {
            self.index.remove_mut(&StmtSRef::Loop(*var));
            self.side_by_side.remove_mut(var);
        }
        let mut entry = entry.ok_or_else(|| unknown(first))?;
        for node in &new {
            let var = node.loop_var.id();
            let inner = Entry { parent: Some(StmtSRef::Loop(var)), steps: SmallVec::new() };
            self.index.insert_mut(StmtSRef::Loop(var), std::mem::replace(&mut entry, inner));
            if runs_side_by_side(node.kind) {
                self.side_by_side.insert_mut(var);
            }
        }
        *slot = new.into_iter().rev().fold(body, |body, node| For { body, ..node }.into());
        Ok(())
    }

    /// Changes the kind of the loop of `var`.
    ///
    /// # Errors
    /// When the program has no such loop (any more).
    pub(in crate::tir::schedule) fn change_head(
        &mut self,
        var: VarId,
        change: impl FnOnce(&mut For),
    ) -> Result<(), ScheduleError> {
        let sref = StmtSRef::Loop(var);
        let Some(Stmt::For(node)) = self.slot(sref)? else { return Err(ScheduleError::UnknownSRef(sref)) };
        let node = Arc::<For>::make_mut(node);
        change(node);
        let side_by_side = runs_side_by_side(node.kind);
        match side_by_side {
            true => self.side_by_side.insert_mut(var),
            false => drop(self.side_by_side.remove_mut(&var)),
        }
        Ok(())
    }
}

/// The variables that occur in `it`.
fn mentions_of(it: &BlockRealize) -> FxHashSet<VarId> {
    struct Names(FxHashSet<VarId>);
    impl Visitor for Names {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            add_vars(expr, &mut self.0);
        }
    }
    let mut names = Names(FxHashSet::default());
    it.iter_values.iter().chain([&it.predicate]).for_each(|expr| names.visit_expr(expr));
    names.visit_block(&it.block);
    names.0
}

/// Calls `f` on the loops and blocks of `stmt` that are in no other loop or block of it.
fn children(stmt: &Stmt, f: &mut dyn FnMut(StmtSRef)) {
    match StmtSRef::of(stmt) {
        Some(sref) => f(sref),
        None => with_stack(|| stmt.children().into_iter().for_each(|stmt| children(stmt, f))),
    }
}

/// Applies a change to the statements inside the changed loops.
struct Inside<'a> {
    substitute: Substitute,
    condition: Option<PrimExpr>,
    /// An analyzer that knows the dimensions.
    dims: Analyzer,
    mentions: &'a mut PersistentMap<BlockId, Arc<FxHashSet<VarId>>>,
    /// The loops around, outermost first.
    loops: Vec<Bounds<'a>>,
}

impl<'a> Inside<'a> {
    fn stmt(&mut self, mut stmt: &'a mut Stmt) {
        let depth = self.loops.len();
        loop {
            match stmt {
                Stmt::For(it) => {
                    let For { loop_var, min, extent, body, .. } = Arc::make_mut(it);
                    self.expr(min);
                    self.expr(extent);
                    self.loops.push((loop_var, min, extent));
                    stmt = body;
                    continue;
                }
                Stmt::SeqStmt(stmts) => {
                    Arc::make_mut(stmts).iter_mut().for_each(|stmt| with_stack(|| self.stmt(stmt)));
                }
                Stmt::BlockRealize(it) => self.block(Arc::make_mut(it)),
                Stmt::IfThenElse(_)
                | Stmt::While(_)
                | Stmt::BufferStore(_)
                | Stmt::Bind(_)
                | Stmt::AllocBuffer(_)
                | Stmt::DeclBuffer(_)
                | Stmt::Evaluate(_)
                | Stmt::AssertStmt(_) => {
                    if let Some(new) = self.substitute.mutate_stmt(stmt) {
                        *stmt = new;
                    }
                }
            }
            break;
        }
        self.loops.truncate(depth);
    }

    fn expr(&mut self, expr: &mut PrimExpr) {
        if expr.as_int().is_none()
            && let Some(new) = self.substitute.mutate_expr(expr)
        {
            *expr = new;
        }
    }

    fn block(&mut self, it: &mut BlockRealize) {
        let known = self.mentions.get(&it.block.id).cloned();
        self.mentions.remove_mut(&it.block.id);
        let mut names = known.unwrap_or_else(|| Arc::new(mentions_of(it)));
        if self.substitute.vars.keys().any(|var| names.contains(var)) {
            self.replace_vars(it, Arc::make_mut(&mut names));
        } else if let Some(condition) = self.condition.clone() {
            add_vars(&condition, Arc::make_mut(&mut names));
            let simple = self.analyzer([&condition].into_iter()).simplify(&condition);
            it.predicate = conjuncts(&simple).into_iter().fold(it.predicate.clone(), PrimExpr::and);
        }
        self.mentions.insert_mut(it.block.id, names);
    }

    fn replace_vars(&mut self, it: &mut BlockRealize, names: &mut FxHashSet<VarId>) {
        if let Some(block) = self.substitute.mutate_block(&it.block) {
            it.block = Arc::new(block);
            // The blocks inside have other variables now.
            *self.mentions = PersistentMap::default();
        }
        self.substitute.vars.values().chain(&self.condition).for_each(|expr| add_vars(expr, names));
        let values: Vec<Option<PrimExpr>> =
            it.iter_values.iter().map(|value| self.substitute.mutate_expr(value)).collect();
        let (mut kept, mut conditions) = (PrimExpr::bool(true), Vec::new());
        for condition in conjuncts(&it.predicate) {
            match self.substitute.mutate_expr(&condition) {
                Some(new) => conditions.push(new),
                None => kept = kept.and(condition),
            }
        }
        conditions.extend(self.condition.clone());
        let analyzer = self.analyzer(values.iter().flatten().chain(&conditions));
        let simple = conditions.iter().map(|it| analyzer.simplify(it)).collect::<Vec<_>>();
        it.predicate = conjunction([kept].into_iter().chain(simple.iter().flat_map(conjuncts)));
        for (value, new) in Arc::make_mut(&mut it.iter_values).iter_mut().zip(values) {
            if let Some(new) = new {
                *value = analyzer.simplify(&new);
            }
        }
    }

    /// An analyzer that knows the dimensions, and those of the loops around that `exprs` depend on.
    fn analyzer<'b>(&self, exprs: impl Iterator<Item = &'b PrimExpr>) -> Analyzer {
        let mut used: FxHashSet<VarId> = FxHashSet::default();
        exprs.for_each(|expr| add_vars(expr, &mut used));
        let mut picked = Vec::new();
        for bounds @ (var, min, extent) in self.loops.iter().rev() {
            if used.contains(&var.id()) {
                add_vars(min, &mut used);
                add_vars(extent, &mut used);
                picked.push(bounds);
            }
        }
        let mut analyzer = self.dims.clone();
        for (var, min, extent) in picked.into_iter().rev() {
            let range = Range { min: (*min).clone(), extent: (*extent).clone() };
            analyzer.bind_range(var, &range);
        }
        analyzer
    }
}
