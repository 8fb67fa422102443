//! `fuse`: nested loops become one.
//!
//! `for i in 0..m { for j in 0..n }` becomes `for i_j_fused in 0..m * n` with `i = i_j_fused / n`, `j = i_j_fused % n`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::{Var, VarId};
use crate::tir::analysis::drives;
use crate::tir::schedule::rewrite;
use crate::tir::schedule::state::LoopChange;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{BlockRealize, For, PrimExpr, Stmt, uses_var};

const NAME: &str = "fuse";

/// The largest product of extents next to a dimension, or next to another extent that is not known.
const MAX_BESIDE_SYMBOLIC: i64 = 1 << 32;

/// Fuses perfectly nested loops, outermost first.
pub(in crate::tir::schedule) fn fuse(
    state: &mut ScheduleState,
    loops: &[VarId],
) -> Result<VarId, ScheduleError> {
    let [_, _, ..] = loops else {
        return loops
            .first()
            .copied()
            .ok_or_else(|| ScheduleError::argument(NAME, "expected at least one loop, got none"));
    };
    let nodes = loops.iter().map(|&var| state.get_for(var).cloned()).collect::<Result<Vec<_>, _>>()?;
    let marked: Vec<StmtSRef> = loops.iter().map(|&var| StmtSRef::Loop(var)).collect();
    let illegal = |message: String| ScheduleError::illegal(NAME, message).show(state, &marked);
    analysis::check_perfectly_nested(NAME, state, &nodes)
        .map_err(|err| err.help("fuse takes perfectly nested loops, outermost first").show(state, &marked))?;
    for node in &nodes {
        let name = || state.loop_name(node.loop_var.id());
        if !node.min.is_const(0) {
            return Err(illegal(format!("loop `{}` does not start at 0", name())));
        }
        if node.kind != nodes[0].kind || !node.annotations.is_empty() {
            return Err(illegal(format!(
                "loop `{}` is annotated or does not run as the first one does",
                name()
            )));
        }
        if nodes.iter().any(|other| uses_var(&node.extent, &other.loop_var)) {
            return Err(illegal(format!("the extent of loop `{}` depends on another of the loops", name())));
        }
    }
    check_extents(state, &nodes).map_err(|err| err.show(state, &marked))?;
    for realize in analysis::child_blocks(&nodes[nodes.len() - 1].body) {
        check_not_lost(state, &realize, &nodes).map_err(|err| err.show(state, &marked))?;
    }
    analysis::check_inits(NAME, state, &nodes, &[loops.to_vec()]).map_err(|err| err.show(state, &marked))?;
    let names: Vec<&str> = nodes.iter().map(|node| node.loop_var.name()).collect();
    let fused = Var::index(format!("{}_fused", names.join("_")));
    let extent = nodes.iter().fold(PrimExpr::index(1), |product, node| product * &node.extent);
    let mut map = FxHashMap::default();
    let mut rest = PrimExpr::from(&fused);
    for (i, node) in nodes.iter().enumerate().rev() {
        let value = if i == 0 { rest.clone() } else { rest.clone().floormod(&node.extent) };
        rest = rest.floordiv(&node.extent);
        map.insert(node.loop_var.id(), value);
    }
    let (kind, span) = (nodes[0].kind, nodes[0].span.clone());
    let new = vec![For { kind, span, ..For::serial(fused.clone(), extent, Stmt::nop()) }];
    drop(nodes);
    state.change_loops(LoopChange { old: loops.to_vec(), new, vars: map, condition: None })?;
    Ok(fused.id())
}

/// Checks that the product of the extents is the number of iterations: at most one extent can be negative, and the
/// product fits an `i64`. Products of dimensions are checked when the kernel is called.
fn check_extents(state: &ScheduleState, nodes: &[Arc<For>]) -> Result<(), ScheduleError> {
    let mut analyzer = rewrite::analyzer_outside(state, StmtSRef::Loop(nodes[0].loop_var.id()))?;
    let around = state.enclosing_loops(StmtSRef::Loop(nodes[0].loop_var.id()))?;
    around.iter().for_each(|node| rewrite::bind_loop(&mut analyzer, node));
    let bounds: Vec<ConstIntBound> =
        nodes.iter().map(|node| analyzer.const_int_bound(&node.extent)).collect();
    let mut negative = nodes.iter().zip(&bounds).filter(|(_, bound)| bound.min < 0).map(|(node, _)| node);
    if let (Some(a), Some(b)) = (negative.next(), negative.next()) {
        let [a, b] = [a, b].map(|it| state.loop_name(it.loop_var.id()));
        let message =
            format!("the extents of loops `{a}` and `{b}` may both be negative: their product would not be");
        return Err(ScheduleError::illegal(NAME, message)
            .help("say which dimensions the kernel is for, as in `#[prim_func(dims(n = 4..))]`"));
    }
    let is_dim = |bound: &&ConstIntBound| bound.max == ConstIntBound::POS_INF;
    let of_dims = bounds.iter().any(|it| is_dim(&it));
    let limit = if of_dims { MAX_BESIDE_SYMBOLIC } else { i64::MAX };
    let mut others: Vec<i128> = bounds.iter().filter(|it| !is_dim(it)).map(|it| it.max.max(0)).collect();
    others.sort_unstable();
    let fits = |sizes: &[i128], limit: i64| {
        sizes
            .iter()
            .try_fold(1i128, |product, size| product.checked_mul(*size))
            .is_some_and(|it| it <= limit.into())
    };
    // Next to constants, one extent may have any value: a program of 2^63 iterations would not end anyway.
    let one_unknown = !of_dims && nodes.iter().filter(|node| node.extent.as_int().is_none()).count() == 1;
    if fits(&others, limit) || one_unknown && fits(&others[..others.len() - 1], MAX_BESIDE_SYMBOLIC) {
        return Ok(());
    }
    let message = "the product of the extents may not fit an i64";
    Err(ScheduleError::illegal(NAME, message)
        .help("fuse fewer loops, or loops of extents that are dimensions"))
}

/// Checks that fusion does not lose the init of a reduction. The init runs even if the loops of the reduction have no
/// iteration. A fused loop keeps that only if all of its loops drive reduction axes only, or those that drive reduction
/// axes are not empty.
fn check_not_lost(
    state: &ScheduleState,
    realize: &BlockRealize,
    nodes: &[Arc<For>],
) -> Result<(), ScheduleError> {
    let reduces = |node: &&Arc<For>| drives(realize, node, true);
    if realize.block.init.is_none()
        || nodes.iter().all(|node| reduces(&node) && !drives(realize, node, false))
    {
        return Ok(());
    }
    let analyzer = Analyzer::new();
    match nodes.iter().filter(reduces).find(|node| analyzer.const_int_bound(&node.extent).min < 1) {
        None => Ok(()),
        Some(node) => {
            let message = format!(
                "loop `{}` drives the reduction of block `{}` and may be empty: the init would be lost",
                state.loop_name(node.loop_var.id()),
                realize.block.name
            );
            Err(ScheduleError::illegal(NAME, message).help("decompose the reduction first"))
        }
    }
}
