//! `parallel`, `vectorize`, `unroll`, `bind`: how the iterations of a loop run.
//!
//! Running iterations side by side is legal where the loop drives only spatial axes, different iterations write different
//! elements (or a buffer that only they use), and what is read of what is written stays inside one iteration.

use crate::ir::VarId;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{BlockRealize, For, ForKind, IterKind};

/// Sets the kind of the loop `var`.
pub(in crate::tir::schedule) fn set_kind(
    state: &mut ScheduleState,
    var: VarId,
    kind: ForKind,
) -> Result<(), ScheduleError> {
    let name = match kind {
        ForKind::Serial | ForKind::Unrolled => "unroll",
        ForKind::Parallel => "parallel",
        ForKind::Vectorized => "vectorize",
        ForKind::ThreadBinding(_) => "bind",
    };
    let node = state.get_for(var)?.clone();
    let sref = StmtSRef::Loop(var);
    match kind {
        ForKind::Serial | ForKind::Unrolled => {}
        ForKind::Parallel | ForKind::Vectorized | ForKind::ThreadBinding(_) => {
            check_independent(name, state, &node).map_err(|err| err.show(state, &[sref]))?;
        }
    }
    if kind == ForKind::Vectorized && node.extent.as_int().is_none() {
        let message = format!("the extent of loop `{}` is not a constant", node.loop_var.name());
        return Err(ScheduleError::illegal(name, message)
            .help("split it first and vectorize the inner loop of a constant factor")
            .show(state, &[sref]));
    }
    state.replace(sref, For { kind, ..(*node).clone() }.into())
}

fn check_independent(name: &'static str, state: &ScheduleState, node: &For) -> Result<(), ScheduleError> {
    let blocks = analysis::child_blocks(&node.body);
    for realize in &blocks {
        for (iter, value) in realize.block.iter_vars.iter().zip(realize.iter_values.iter()) {
            if iter.kind != IterKind::Spatial && analysis::uses_var(value, &node.loop_var) {
                let message = format!(
                    "loop `{}` drives the {:?} axis `{}` of block `{}`, whose iterations depend on each other",
                    node.loop_var.name(),
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
    if name == "vectorize" && blocks.len() > 1 {
        let message = format!("loop `{}` holds {} blocks", node.loop_var.name(), blocks.len());
        return Err(ScheduleError::illegal(name, message).help("vectorize a loop that holds one block"));
    }
    analysis::check_no_carried_dependence(name, state, node, &blocks)
}

/// Different iterations of `node` write different elements, and `realize` reads none that another iteration writes.
fn check_apart(
    name: &'static str,
    state: &ScheduleState,
    node: &For,
    realize: &BlockRealize,
) -> Result<(), ScheduleError> {
    let (block, var) = (&realize.block, node.loop_var.name());
    for write in block.writes.iter() {
        let buffer = &write.buffer;
        let own = name != "vectorize" && analysis::is_private(state, node, buffer);
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
