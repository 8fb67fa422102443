//! `parallel`, `vectorize`, `unroll`, `bind`: how the iterations of a loop run.
//!
//! Running iterations side by side is legal if the loop drives only spatial axes, different iterations write different
//! elements (or a buffer that only they use), and no iteration reads an element that another one writes. Threads of a block may
//! also divide the terms of a reduction among them ([`CrossThread`](crate::tir::schedule::analysis::CrossThread)). Threads may update
//! the same elements atomically.

use std::sync::Arc;

use crate::ir::VarId;
use crate::tir::analysis::{conjuncts, drives};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{BinaryOp, BlockRealize, For, ForKind, IterKind, PrimExpr, uses_var};

/// Sets the kind of the loop `var`.
pub(in crate::tir::schedule) fn set_kind(
    state: &mut ScheduleState,
    var: VarId,
    kind: ForKind,
) -> Result<(), ScheduleError> {
    let name = primitive_of(kind);
    let node = For { kind, ..(**state.get_for(var)?).clone() };
    check_kind(name, state, &node).map_err(|err| err.show(state, &[StmtSRef::Loop(var)]))?;
    drop(node);
    state.change_head(var, |node| node.kind = kind)
}

/// The reason why some loop of `state` may not run with its kind, if there is one. Loops that are the same in `before`, in
/// loops of the same kinds, are not checked again: whether iterations depend on each other is decided by the loop's body and
/// by what they share, which are buffers that lowering cannot move into the loop. Nor is `checked`, the loop whose kind was
/// just set. Loops over the same threads are always checked.
pub(in crate::tir::schedule) fn misfit(
    name: &'static str,
    state: &ScheduleState,
    before: Option<&ScheduleState>,
    checked: Option<VarId>,
) -> Result<Option<ScheduleError>, ScheduleError> {
    let mut loops: Vec<VarId> = state.side_by_side().iter().copied().collect();
    loops.sort_unstable();
    for &var in &loops {
        let node = state.get_for(var)?;
        let is_same = |old: &ScheduleState| {
            old.get_for(var).is_ok_and(|it| Arc::ptr_eq(it, node))
                && kinds_above(old, var).eq(kinds_above(state, var))
        };
        // What threads reduce must be alone in the loops around as well.
        let same = (before.is_some_and(is_same) || checked == Some(var)) && !analysis::reduces_across(node);
        if !same && let Err(err) = check_kind(name, state, node) {
            return Ok(Some(err.show(state, &[StmtSRef::Loop(var)])));
        }
    }
    Ok(loops.into_iter().find_map(|var| analysis::check_same_threads(name, state, var, true).err()))
}

/// The kinds of the loops around the loop `var`, innermost first.
fn kinds_above(state: &ScheduleState, var: VarId) -> impl Iterator<Item = ForKind> {
    state.ancestors(StmtSRef::Loop(var)).filter_map(|it| match it {
        StmtSRef::Loop(outer) => state.get_for(outer).ok().map(|it| it.kind),
        StmtSRef::Block(_) => None,
    })
}

/// Checks that `node` may run as its kind says.
fn check_kind(name: &'static str, state: &ScheduleState, node: &For) -> Result<(), ScheduleError> {
    match node.kind {
        ForKind::Serial | ForKind::Unrolled => return Ok(()),
        ForKind::Parallel | ForKind::Vectorized | ForKind::ThreadBinding(_) => {
            check_independent(name, state, node)?;
        }
    }
    if node.kind == ForKind::Vectorized && node.extent.as_int().is_none() {
        let loop_name = state.loop_name(node.loop_var.id());
        let message = format!("the extent of loop `{loop_name}` is not a constant");
        return Err(ScheduleError::illegal(name, message)
            .help("split it first and vectorize the inner loop of a constant factor"));
    }
    Ok(())
}

/// The primitive that makes loops of this kind.
pub(in crate::tir::schedule) fn primitive_of(kind: ForKind) -> &'static str {
    match kind {
        ForKind::Serial | ForKind::Unrolled => "unroll",
        ForKind::Parallel => "parallel",
        ForKind::Vectorized => "vectorize",
        ForKind::ThreadBinding(_) => "bind",
    }
}

/// Checks that the iterations of `node` may run side by side.
pub(in crate::tir::schedule) fn check_independent(
    name: &'static str,
    state: &ScheduleState,
    node: &For,
) -> Result<(), ScheduleError> {
    let blocks = analysis::child_blocks(&node.body);
    if let ([realize], true) = (&blocks[..], analysis::reduces_across(node)) {
        return analysis::check_cross_thread(name, state, node, realize);
    }
    if blocks.iter().all(|realize| runs_once(node, realize)) && node.kind != ForKind::Vectorized {
        return Ok(());
    }
    let threads = matches!(node.kind, ForKind::ThreadBinding(_));
    for realize in &blocks {
        if threads && analysis::is_atomic_update(realize) {
            continue;
        }
        for (iter, value) in realize.block.iter_vars.iter().zip(realize.iter_values.iter()) {
            if iter.kind != IterKind::Spatial && uses_var(value, &node.loop_var) {
                let message = format!(
                    "loop `{}` drives the {:?} axis `{}` of block `{}`, whose iterations depend on each other",
                    state.loop_name(node.loop_var.id()),
                    iter.kind,
                    iter.var.name(),
                    realize.block.name
                );
                return Err(ScheduleError::illegal(name, message)
                    .help("only loops that drive spatial axes can run side by side"));
            }
        }
        check_apart(name, state, node, realize)?;
    }
    if node.kind == ForKind::Vectorized && blocks.len() > 1 {
        let message = format!("loop `{}` holds {} blocks", state.loop_name(node.loop_var.id()), blocks.len());
        return Err(ScheduleError::illegal(name, message).help("vectorize a loop that holds one block"));
    }
    analysis::check_no_carried_dependence(name, state, node, &blocks)
}

/// True if the block runs in one iteration of `node` alone, because its condition says so: the loop of one value that was split
/// for more threads.
fn runs_once(node: &For, realize: &BlockRealize) -> bool {
    let first = |condition: &PrimExpr| match condition {
        PrimExpr::Binary(it) => {
            let of_loop = it.a.as_var() == Some(&node.loop_var) && node.min.is_const(0);
            of_loop
                && (it.op == BinaryOp::Lt && it.b.is_const(1)
                    || it.op == BinaryOp::Eq && it.b.as_int().is_some())
        }
        _ => false,
    };
    realize.block.init.is_none() && conjuncts(&realize.predicate).iter().any(first)
}

/// Checks that different iterations of `node` write different elements, and that `realize` reads none that another
/// iteration writes.
fn check_apart(
    name: &'static str,
    state: &ScheduleState,
    node: &For,
    realize: &BlockRealize,
) -> Result<(), ScheduleError> {
    let (block, var) = (&realize.block, state.loop_name(node.loop_var.id()));
    for write in block.writes.iter() {
        let buffer = &write.buffer;
        let own = analysis::is_private(state, node, buffer) && !reduces_from(state, node, realize)?;
        if !own && !analysis::touches_apart(state, node, realize, write)? {
            let message = format!(
                "iterations of loop `{var}` are not known to write different elements of `{}` in block `{}`",
                buffer.name, block.name
            );
            return Err(ScheduleError::illegal(name, message).help(
                "choose a loop that gives one index of what is written other values in each iteration",
            ));
        }
        for read in block.reads.iter().filter(|read| read.buffer == *buffer) {
            if !analysis::same_iteration(state, node, (realize, write), (realize, read))? {
                let message = format!(
                    "block `{}` reads elements of `{}` that other iterations of loop `{var}` may write",
                    block.name, buffer.name
                );
                return Err(ScheduleError::illegal(name, message));
            }
        }
    }
    Ok(())
}

/// True when `node`, or a loop around it, drives a reduction of the block.
fn reduces_from(state: &ScheduleState, node: &For, realize: &BlockRealize) -> Result<bool, ScheduleError> {
    let loops = state.loops_above(StmtSRef::Block(realize.block.id));
    let at = loops.iter().position(|&var| var == node.loop_var.id()).unwrap_or(0);
    for &var in loops.iter().take(at + 1) {
        if drives(realize, state.get_for(var)?, true) {
            return Ok(true);
        }
    }
    Ok(false)
}
