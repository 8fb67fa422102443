//! Loops that are bound to one thread index inside of another loop over threads are run by the same threads, which do not
//! wait for each other between them.

use rustc_hash::FxHashMap;

use super::{child_blocks, uses_var};
use crate::arith::{Analyzer, detect_linear_equation};
use crate::ir::{Var, VarId};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{BlockRealize, Buffer, BufferRegion, For, ForKind, PrimExpr, ThreadTag, substitute_expr};

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
            if both && !is_apart(&blocks.each_ref().map(|(node, blocks)| (*node, &blocks[..])), buffer) {
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

/// One index of all accesses is the same line of the thread's number.
fn is_apart<'a>(sides: &[(&'a For, &'a [std::sync::Arc<BlockRealize>]); 2], buffer: &Buffer) -> bool {
    let thread = Var::index("thread");
    let analyzer = Analyzer::new();
    (0..buffer.ndim()).any(|axis| {
        let mut line: Option<PrimExpr> = None;
        sides.iter().all(|(node, blocks)| {
            blocks.iter().all(|realize| {
                accesses(realize, buffer).all(|region| {
                    let Some(index) = index_of(realize, region, axis, node, &thread) else { return false };
                    let index = analyzer.simplify(&index);
                    let inner = inner_loops(&node.body);
                    if inner.iter().any(|var| uses_var(&index, var))
                        || !is_injective(&index, &thread, &analyzer)
                    {
                        return false;
                    }
                    analyzer.can_prove_equal(line.get_or_insert_with(|| index.clone()), &index)
                })
            })
        })
    })
}

/// The index of `region` at `axis`, over the number of the thread in place of the loop `node`.
fn index_of(
    realize: &BlockRealize,
    region: &BufferRegion,
    axis: usize,
    node: &For,
    thread: &Var,
) -> Option<PrimExpr> {
    let range = region.region.get(axis).filter(|range| range.extent.is_const(1))?;
    let axes = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    let values: FxHashMap<VarId, PrimExpr> =
        axes.map(|(iter, value)| (iter.var.id(), value.clone())).collect();
    let at_loops = substitute_expr(&range.min, &values);
    Some(substitute_expr(&at_loops, &FxHashMap::from_iter([(node.loop_var.id(), thread.into())])))
}

/// A line over the thread's number that is not flat.
fn is_injective(index: &PrimExpr, thread: &Var, analyzer: &Analyzer) -> bool {
    detect_linear_equation(index, std::slice::from_ref(thread), analyzer)
        .is_some_and(|line| line.coefficients[0].as_int().is_some_and(|it| it != 0))
}

/// The variables of the loops in `stmt` outside of blocks.
fn inner_loops(stmt: &crate::tir::Stmt) -> Vec<Var> {
    use crate::tir::Stmt;
    let mut vars = Vec::new();
    let mut todo = vec![stmt.clone()];
    while let Some(stmt) = todo.pop() {
        match &stmt {
            Stmt::BlockRealize(_) => continue,
            Stmt::For(it) => vars.push(it.loop_var.clone()),
            _ => {}
        }
        todo.extend(stmt.children().into_iter().cloned());
    }
    vars
}
