//! `loop_partition`: a loop becomes several consecutive ones, which divide its range at given points.
//!
//! `for i in 0..n { b }` with the points `[p, q]` becomes
//!
//! ```text
//! for i_0 in 0..min(p, n) { b with i_0 for i }
//! for i_1 in 0..min(q, n) - p { b with i_1 + p for i }
//! for i_2 in 0..n - q { b with i_2 + q for i }
//! ```
//!
//! Together the loops have the iterations of the old one, in the same order; a loop whose extent is negative has none. The
//! blocks of the first loop keep their identities; those of the others have new identities and names.
//!
//! Legal if no init of a reduction in the loop has to run before it: each of the loops would initialize the result. Nor may
//! a condition of such a reduction be on the loop too.
//!
//! TVM counterpart: `loop_partition`, which takes lengths.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::split::{MAX_SYMBOLIC, check_divisible};
use crate::ir::{Var, VarId};
use crate::tir::analysis::{conjuncts, reads_memory};
use crate::tir::schedule::rewrite;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::transform::{BlockNames, DeepSubstitute, renew_stmt};
use crate::tir::{Block, BlockRealize, For, IterKind, Mutator, PrimExpr, Stmt, Visitor, any_expr, walk_stmt};

const NAME: &str = "loop_partition";

/// Divides the range of the loop `var` at `points`. Returns the new loops, in order.
pub(in crate::tir::schedule) fn loop_partition(
    state: &mut ScheduleState,
    var: VarId,
    points: &[i64],
) -> Result<Vec<VarId>, ScheduleError> {
    let node = state.get_for(var)?.clone();
    let sref = StmtSRef::Loop(var);
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &[sref]));
    check_divisible(NAME, state, &node)?;
    if reads_memory(&node.extent) {
        return refuse("the extent of the loop reads memory".into());
    }
    check_points(state, &node, points)?;
    let inits = Inits::of(&node);
    let why = match (&inits.before, inits.mixed()) {
        (Some(it), _) => Some((it, "runs before the loop, which drives its reduction")),
        (None, Some(it)) => Some((it, "is under a condition on the loop and on the reduction together")),
        (None, None) => None,
    };
    if let Some((realize, why)) = why {
        let message = format!("the init of block `{}` {why}", realize.block.name);
        return Err(ScheduleError::illegal(NAME, message)
            .help("separate the init first (`decompose_reduction`)")
            .show(state, &[sref, StmtSRef::Block(realize.block.id)]));
    }
    let mut names = BlockNames::of(&state.func().body);
    let (mut parts, mut vars) = (Vec::new(), Vec::new());
    for at in 0..=points.len() {
        let loop_var = Var::index(format!("{}_{at}", node.loop_var.name()));
        let begin = at.checked_sub(1).map_or(0, |before| points[before]);
        let end = points.get(at).map_or(node.extent.clone(), |&point| node.extent.clone().min(point));
        let value = PrimExpr::from(&loop_var) + begin;
        let body = DeepSubstitute::stmt(FxHashMap::from_iter([(var, value)]), &node.body);
        let body = if at == 0 { body } else { with_names(&renew_stmt(&body), &mut names) };
        vars.push(loop_var.id());
        parts.push(For { loop_var, extent: end - begin, body, ..(*node).clone() });
    }
    let analyzer = rewrite::analyzer_around(state, sref)?;
    let simple = |part: For| Stmt::from(For { extent: analyzer.simplify(&part.extent), ..part });
    let new =
        rewrite::simplify_bindings(state, sref, &Stmt::SeqStmt(parts.into_iter().map(simple).collect()));
    let mut forked = state.clone();
    forked.replace(sref, new)?;
    forked.flatten()?;
    *state = forked;
    Ok(vars)
}

/// Refuses points that are not known to be in order, or known not to be inside the range of `node`.
fn check_points(state: &ScheduleState, node: &For, points: &[i64]) -> Result<(), ScheduleError> {
    let refuse = |why: String| Err(ScheduleError::argument(NAME, why));
    let Some(&last) = points.last() else {
        return refuse("expected at least one point, got none".into());
    };
    if points[0] <= 0 || points.windows(2).any(|pair| pair[0] >= pair[1]) {
        return refuse(format!("the points must be positive and ascending, got {points:?}"));
    }
    let extent = &node.extent;
    if rewrite::analyzer_around(state, StmtSRef::Loop(node.loop_var.id()))?
        .can_prove_less_equal(extent, &PrimExpr::index(last))
    {
        return refuse(format!("point {last} is not inside the loop, which has {extent} iterations"));
    }
    if extent.as_int().is_none() && last > MAX_SYMBOLIC {
        return refuse(format!("indices of a loop from {last} to {extent} may not fit an i64"));
    }
    Ok(())
}

/// The inits in a loop: what their place and their conditions depend on.
#[derive(Default)]
struct Inits {
    /// The loop variable, and the loops and axes that depend on it.
    touched: FxHashSet<VarId>,
    /// Those that drive the reductions of blocks inside theirs.
    driving: FxHashSet<VarId>,
    /// By axis: the variables that its value depends on.
    sources: FxHashMap<VarId, FxHashSet<VarId>>,
    /// What the reductions with an init depend on.
    reduced: FxHashSet<VarId>,
    conditions: Vec<(Arc<BlockRealize>, FxHashSet<VarId>)>,
    /// A block whose init lowering places before the loop, or further out because of the loop.
    before: Option<Arc<BlockRealize>>,
}

impl Inits {
    fn of(node: &For) -> Inits {
        let var = FxHashSet::from_iter([node.loop_var.id()]);
        let mut inits = Inits { touched: var.clone(), driving: var, ..Inits::default() };
        inits.visit_stmt(&node.body);
        inits
    }

    /// The variables of `expr`, and those that the axes among them depend on.
    fn vars(&self, expr: &PrimExpr) -> FxHashSet<VarId> {
        let mut vars = FxHashSet::default();
        rewrite::add_vars(expr, &mut vars);
        let sources = vars.iter().filter_map(|var| self.sources.get(var)).flatten().copied();
        let sources: Vec<VarId> = sources.collect();
        vars.extend(sources);
        vars
    }

    /// A block with a condition on the loop and on a reduction together. The init does not depend on such a condition; in
    /// a part of the range, the condition may become one that it depends on.
    fn mixed(&self) -> Option<&Arc<BlockRealize>> {
        let mixes = |vars: &FxHashSet<VarId>| {
            [&self.touched, &self.reduced].into_iter().all(|set| !vars.is_disjoint(set))
        };
        self.conditions.iter().find(|(_, vars)| mixes(vars)).map(|(realize, _)| realize)
    }

    fn block(&mut self, it: &Arc<BlockRealize>) {
        let mut reduces = false;
        for (iter, value) in it.block.iter_vars.iter().zip(it.iter_values.iter()) {
            let driven =
                any_expr(value, &mut |it| it.as_var().is_some_and(|it| self.driving.contains(&it.id())));
            let vars = self.vars(value);
            if iter.kind == IterKind::Reduce && it.block.init.is_some() {
                reduces |= driven;
                self.reduced.extend(vars.iter().copied().chain([iter.var.id()]));
            }
            if driven && iter.kind != IterKind::Spatial {
                self.driving.insert(iter.var.id());
            }
            if !vars.is_disjoint(&self.touched) {
                self.touched.insert(iter.var.id());
            }
            self.sources.insert(iter.var.id(), vars);
        }
        for condition in conjuncts(&it.predicate) {
            self.conditions.push((it.clone(), self.vars(&condition)));
        }
        if reduces {
            self.before.get_or_insert_with(|| it.clone());
        }
    }
}

impl Visitor for Inits {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(it) => {
                let vars = [&it.min, &it.extent].map(|bound| self.vars(bound));
                if vars.iter().any(|vars| !vars.is_disjoint(&self.touched)) {
                    self.touched.insert(it.loop_var.id());
                }
            }
            Stmt::BlockRealize(it) => self.block(it),
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}

/// `stmt` with new names for its blocks.
fn with_names(stmt: &Stmt, names: &mut BlockNames) -> Stmt {
    struct Rename<'a>(&'a mut BlockNames);
    impl Mutator for Rename<'_> {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }
        fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
            let name = self.0.fresh(&block.name).into();
            Some(Block { name, ..self.walk_block(block).unwrap_or_else(|| (**block).clone()) })
        }
    }
    Rename(names).mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())
}
