//! Loops that are bound to one thread index inside of another loop over threads are run by the same threads, which do not
//! wait for each other between them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::child_blocks;
use super::injective::bindings;
use crate::arith::{Analyzer, detect_linear_equation};
use crate::ir::{Var, VarId};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{
    BlockRealize, Buffer, BufferRegion, For, ForKind, PrimExpr, Range, ThreadTag, any_expr, substitute_expr,
};

/// What one such loop writes, no other thread touches in another one: there is an index that is the thread's alone.
pub(in crate::tir::schedule) fn check_same_threads(
    name: &'static str,
    state: &ScheduleState,
) -> Result<(), ScheduleError> {
    let mut loops: Vec<(VarId, ThreadTag)> = Vec::new();
    for &var in state.side_by_side() {
        if let ForKind::ThreadBinding(tag) = state.get_for(var)?.kind {
            loops.push((var, tag));
        }
    }
    loops.sort_unstable_by_key(|(var, _)| *var);
    for (i, &(a, tag)) in loops.iter().enumerate() {
        for &(b, _) in loops[i + 1..].iter().filter(|(_, other)| *other == tag) {
            if in_one_kernel(state, a, b, &loops) {
                check_pair(name, state, state.get_for(a)?, state.get_for(b)?)?;
            }
        }
    }
    Ok(())
}

/// The loops `a` and `b` stand beside each other in a loop over threads.
fn in_one_kernel(state: &ScheduleState, a: VarId, b: VarId, threads: &[(VarId, ThreadTag)]) -> bool {
    let around = |var: VarId| -> Vec<StmtSRef> { state.ancestors(StmtSRef::Loop(var)).collect() };
    let (over_a, over_b) = (around(a), around(b));
    let beside = !over_a.contains(&StmtSRef::Loop(b)) && !over_b.contains(&StmtSRef::Loop(a));
    beside
        && threads
            .iter()
            .map(|(var, _)| StmtSRef::Loop(*var))
            .any(|it| over_a.contains(&it) && over_b.contains(&it))
}

fn check_pair(name: &'static str, state: &ScheduleState, a: &For, b: &For) -> Result<(), ScheduleError> {
    let blocks = [a, b].map(|node| (node, child_blocks(&node.body)));
    for (node, written) in &blocks {
        for buffer in written.iter().flat_map(|it| it.block.writes.iter()).map(|it| &it.buffer) {
            let both = blocks
                .iter()
                .all(|(_, blocks)| blocks.iter().any(|it| accesses(it, buffer).next().is_some()));
            if both && !is_apart(state, &blocks, buffer) {
                let [a, b] = [a, b].map(|it| state.loop_name(it.loop_var.id()));
                let message = format!(
                    "loops `{a}` and `{b}` are run by the same threads, which do not wait for each other: one may \
                     touch elements of `{}` that another one writes",
                    buffer.name
                );
                return Err(ScheduleError::illegal(name, message)
                    .help("compute what is shared in the loop that uses it (`compute_at`), or in a kernel of its own")
                    .show(state, &[StmtSRef::Loop(node.loop_var.id())]));
            }
        }
    }
    Ok(())
}

fn accesses<'a>(realize: &'a BlockRealize, buffer: &'a Buffer) -> impl Iterator<Item = &'a BufferRegion> {
    realize.block.reads.iter().chain(realize.block.writes.iter()).filter(move |it| it.buffer == *buffer)
}

/// One index of all accesses is the same line over the number of the thread, which no loop inside moves.
fn is_apart(state: &ScheduleState, sides: &[(&For, Vec<Arc<BlockRealize>>); 2], buffer: &Buffer) -> bool {
    let (thread, analyzer) = (Var::index("thread"), Analyzer::new());
    (0..buffer.ndim()).any(|axis| {
        let mut indices = Vec::new();
        for (node, blocks) in sides {
            for realize in blocks {
                for region in accesses(realize, buffer) {
                    let range = region.region.get(axis);
                    let index = range.and_then(|range| thread_index(state, node, realize, range, &thread));
                    let Some(index) = index else { return false };
                    indices.push(analyzer.simplify(&index));
                }
            }
        }
        let moves = |index: &PrimExpr| {
            detect_linear_equation(index, std::slice::from_ref(&thread), &analyzer)
                .is_some_and(|line| line.coefficients[0].as_int().is_some_and(|slope| slope != 0))
        };
        indices.first().is_some_and(moves)
            && indices.windows(2).all(|pair| analyzer.can_prove_equal(&pair[0], &pair[1]))
    })
}

/// The one index in `range` over `thread` in place of the loop `node`; `None` where there are more, or loops in `node` move it.
fn thread_index(
    state: &ScheduleState,
    node: &For,
    realize: &BlockRealize,
    range: &Range,
    thread: &Var,
) -> Option<PrimExpr> {
    let at_loops = substitute_expr(range.extent.is_const(1).then_some(&range.min)?, &bindings(realize));
    let loops = state.loops_above(StmtSRef::Block(realize.block.id));
    let mut inner = loops.iter().skip_while(|var| **var != node.loop_var.id()).skip(1);
    let moved = inner.any(|var| any_expr(&at_loops, &mut |it| it.as_var().is_some_and(|it| it.id() == *var)));
    let threads = FxHashMap::from_iter([(node.loop_var.id(), thread.into())]);
    (!moved).then(|| substitute_expr(&at_loops, &threads))
}
