//! What a change of loops does to the init of a reduction.
//!
//! An init runs before the outermost loop that drives the reduction, in copies of those loops from there inwards that its
//! other axes need ([`init_nest`](crate::tir::analysis::init_nest)). Of the conditions under which the block runs it keeps
//! those that depend on no further loop. If a change of loops makes it leave out a condition, it may run where no
//! iteration of the reduction follows, and overwrite a result. If a change makes it keep one, it may not run before a
//! reduction of no iteration. If it moves into or out of a loop, that loop must not reduce an element again.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{reduces_with_outer, visits_once};
use crate::ir::VarId;
use crate::tir::analysis::{conjuncts, init_variables};
use crate::tir::schedule::rewrite::{add_vars, analyzer_outside, bind_loop};
use crate::tir::schedule::state::blocks_in;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{BlockRealize, For, IterKind, PrimExpr, substitute_expr};

type Vars = FxHashSet<VarId>;

/// The loops around a block, outermost first, each as the loops of the old program that it stands for.
type Loops = Vec<Vec<VarId>>;

/// Checks that the inits of the blocks in the loops `old`, perfectly nested ones, run as before when these become the
/// loops `new`, each of which stands for some of them.
pub(in crate::tir::schedule) fn check_inits(
    name: &'static str,
    state: &ScheduleState,
    old: &[Arc<For>],
    new: &[Vec<VarId>],
) -> Result<(), ScheduleError> {
    let Some(innermost) = old.last() else { return Ok(()) };
    for direct in super::child_blocks(&innermost.body) {
        let change = Change::new(state, &direct, old, new)?;
        change.check(name, state, &direct)?;
        for nested in blocks_in(&direct.block.body) {
            if nested.block.init.is_some() && reduces_with_outer(state, &nested) {
                change.check_nested(name, &direct, &nested)?;
            }
        }
    }
    Ok(())
}

/// Checks that the init of a block may run before the loop `nodes[at]`, one of the loops around the block, outermost first:
/// it must keep the conditions that it keeps where it runs now.
pub(in crate::tir::schedule) fn check_init_before(
    name: &'static str,
    state: &ScheduleState,
    realize: &BlockRealize,
    at: usize,
) -> Result<(), ScheduleError> {
    let Some(init) = &realize.block.init else { return Ok(()) };
    let (reduce, others) = init_variables(realize, init);
    let change = Change::new(state, realize, &[], &[])?;
    let before = change.place(&change.before, &reduce, &others, false);
    let after = change.place_at(at, &change.before, &others);
    let kept = |vars: &Vars| before.as_ref().is_none_or(|it| vars.is_disjoint(&it.left_out));
    let lost = conjuncts(&realize.predicate).into_iter().find(|condition| {
        let vars = vars_of([condition]);
        kept(&vars) && !vars.is_disjoint(&after.left_out)
    });
    lost.map_or(Ok(()), |condition| Err(runs_too_often(name, realize, &condition)))
}

fn runs_too_often(name: &'static str, realize: &BlockRealize, condition: &PrimExpr) -> ScheduleError {
    let message = format!(
        "the init of block `{}` would run also where `{condition}` does not hold, and overwrite results",
        realize.block.name
    );
    ScheduleError::illegal(name, message)
        .help("decompose the reduction first, at the outermost loop that drives it")
}

/// A change of the loops around a block.
struct Change {
    nodes: Vec<Arc<For>>,
    before: Loops,
    after: Loops,
    /// Variables that the bounds of a loop depend on.
    bounds: FxHashMap<VarId, Vars>,
}

/// Where an init runs.
struct Place {
    /// The loops around it.
    around: Vars,
    /// The loops from the outermost one of the reduction inwards that it is not repeated over.
    left_out: Vars,
}

impl Change {
    fn new(
        state: &ScheduleState,
        realize: &BlockRealize,
        old: &[Arc<For>],
        new: &[Vec<VarId>],
    ) -> Result<Change, ScheduleError> {
        let vars = state.loops_above(StmtSRef::Block(realize.block.id));
        let nodes = vars.iter().map(|&var| state.get_for(var).cloned()).collect::<Result<Vec<_>, _>>()?;
        let before: Loops = vars.iter().map(|&var| vec![var]).collect();
        let changed = |var: &VarId| old.iter().any(|node| node.loop_var.id() == *var);
        let at = vars.iter().position(changed).unwrap_or(vars.len());
        let outside = before[..at].iter().cloned();
        let inside = before.iter().skip(at + old.len()).cloned();
        let after = outside.chain(new.iter().cloned()).chain(inside).collect();
        let bounds = |node: &Arc<For>| (node.loop_var.id(), vars_of([&node.min, &node.extent]));
        let bounds = nodes.iter().map(bounds).collect();
        Ok(Change { nodes, before, after, bounds })
    }

    /// The place of an init whose reduction the variables `reduce` drive (and loops further out, if `outside`) and that is
    /// needed for each value of `others`; `None` if no loop drives the reduction.
    fn place(&self, loops: &Loops, reduce: &Vars, others: &Vars, outside: bool) -> Option<Place> {
        let start = if outside { 0 } else { loops.iter().position(|group| uses(group, reduce))? };
        Some(self.place_at(start, loops, others))
    }

    /// The place before the loop at position `start`.
    fn place_at(&self, start: usize, loops: &Loops, others: &Vars) -> Place {
        let (mut needed, mut left_out) = (others.clone(), Vars::default());
        for group in loops[start..].iter().rev() {
            if uses(group, &needed) {
                needed.extend(group.iter().filter_map(|var| self.bounds.get(var)).flatten().copied());
            } else {
                left_out.extend(group);
            }
        }
        Place { around: loops[..start].iter().flatten().copied().collect(), left_out }
    }

    fn check(
        &self,
        name: &'static str,
        state: &ScheduleState,
        realize: &BlockRealize,
    ) -> Result<(), ScheduleError> {
        let Some(init) = &realize.block.init else { return Ok(()) };
        let (reduce, others) = init_variables(realize, init);
        let outside = reduces_with_outer(state, realize);
        let place = |loops| self.place(loops, &reduce, &others, outside);
        let (Some(before), Some(after)) = (place(&self.before), place(&self.after)) else { return Ok(()) };
        let block = &realize.block.name;
        for condition in conjuncts(&realize.predicate) {
            let vars = vars_of([&condition]);
            match (vars.is_disjoint(&before.left_out), vars.is_disjoint(&after.left_out)) {
                (true, false) => return Err(runs_too_often(name, realize, &condition)),
                (false, true) if !self.holds_at_first(state, realize, &condition, &before)? => {
                    let message = format!(
                        "the init of block `{block}` would run only where `{condition}` holds: not for a reduction of no iteration"
                    );
                    return Err(ScheduleError::illegal(name, message).help("decompose the reduction first"));
                }
                _ => {}
            }
        }
        self.check_order(name, state, realize, &before)?;
        let around = |node: &&Arc<For>| {
            let var = node.loop_var.id();
            before.around.contains(&var) && after.around.contains(&var)
        };
        let inside: Vec<Arc<For>> = self.nodes.iter().filter(|node| !around(node)).cloned().collect();
        if before.around == after.around || visits_once(state, realize, &inside)? {
            return Ok(());
        }
        let message = format!(
            "block `{block}` computes elements more than once: they would be reduced twice after one init"
        );
        Err(ScheduleError::illegal(name, message)
            .help("do this before `compute_at`, or decompose the reduction first"))
    }

    /// Checks that the order of the loops around the init does not matter, if it changes: unless they compute each element
    /// once, no reduction may be left out of an iteration whose init runs.
    fn check_order(
        &self,
        name: &'static str,
        state: &ScheduleState,
        realize: &BlockRealize,
        place: &Place,
    ) -> Result<(), ScheduleError> {
        let order = |loops: &Loops| loops.iter().flatten().copied().collect::<Vec<_>>();
        let partial = |condition: &&PrimExpr| {
            let vars = vars_of([*condition]);
            !vars.is_disjoint(&place.left_out) && !vars.is_disjoint(&place.around)
        };
        let conditions = conjuncts(&realize.predicate);
        let Some(condition) =
            conditions.iter().find(partial).filter(|_| order(&self.before) != order(&self.after))
        else {
            return Ok(());
        };
        let around: Vec<Arc<For>> =
            self.nodes.iter().filter(|node| place.around.contains(&node.loop_var.id())).cloned().collect();
        if visits_once(state, realize, &around)? {
            return Ok(());
        }
        let message = format!(
            "the init of block `{}` runs also where `{condition}` does not hold, more than once for an element: the last run counts",
            realize.block.name
        );
        Err(ScheduleError::illegal(name, message)
            .help("decompose the reduction first, at the outermost loop that drives it"))
    }

    /// True when `condition` holds in the first iteration of the loops that the init is not repeated over.
    fn holds_at_first(
        &self,
        state: &ScheduleState,
        realize: &BlockRealize,
        condition: &PrimExpr,
        before: &Place,
    ) -> Result<bool, ScheduleError> {
        let mut analyzer = analyzer_outside(state, StmtSRef::Block(realize.block.id))?;
        let (left_out, others): (Vec<&Arc<For>>, Vec<&Arc<For>>) =
            self.nodes.iter().partition(|node| before.left_out.contains(&node.loop_var.id()));
        others.iter().for_each(|node| bind_loop(&mut analyzer, node));
        let firsts = left_out.iter().map(|node| (node.loop_var.id(), node.min.clone())).collect();
        Ok(analyzer.can_prove(&substitute_expr(condition, &firsts)))
    }

    /// Checks a change of the loops around `outer`, which goes on with the reduction of the block `nested` in it.
    fn check_nested(
        &self,
        name: &'static str,
        outer: &BlockRealize,
        nested: &BlockRealize,
    ) -> Result<(), ScheduleError> {
        let axes = outer.block.iter_vars.iter().zip(outer.iter_values.iter());
        let ordered = axes.filter(|(iter, _)| iter.kind != IterKind::Spatial).map(|(_, value)| value);
        let reduce = vars_of(ordered);
        let place = |loops| self.place(loops, &reduce, &Vars::default(), false);
        let (Some(before), Some(after)) = (place(&self.before), place(&self.after)) else { return Ok(()) };
        let conditional = vars_of([&outer.predicate]);
        let mixes = |group: &Vec<VarId>| {
            group.len() > 1
                && group.iter().any(|var| conditional.contains(var))
                && !group.iter().all(|var| reduce.contains(var))
        };
        if before.around == after.around && !self.after.iter().any(mixes) {
            return Ok(());
        }
        let message = format!(
            "block `{}` goes on with the reduction of block `{}`, whose init would move",
            outer.block.name, nested.block.name
        );
        Err(ScheduleError::illegal(name, message).help("decompose the reduction first"))
    }
}

fn uses(group: &[VarId], vars: &Vars) -> bool {
    group.iter().any(|var| vars.contains(var))
}

fn vars_of<'a>(exprs: impl IntoIterator<Item = &'a PrimExpr>) -> Vars {
    let mut vars = Vars::default();
    exprs.into_iter().for_each(|expr| add_vars(expr, &mut vars));
    vars
}
