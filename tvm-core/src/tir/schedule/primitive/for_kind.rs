//! `parallel`, `vectorize`, `unroll`, `bind`: how the iterations of a loop run.
//!
//! Running iterations side by side is legal where every block inside is complete or a reduction, the loop drives only
//! spatial axes, and what one block hands to another stays inside one iteration.

use crate::ir::VarId;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{For, ForKind, IterKind};

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
        analysis::check_reorderable(name, state, realize)?;
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
    }
    if name == "vectorize" && blocks.len() > 1 {
        let message = format!("loop `{}` holds {} blocks", node.loop_var.name(), blocks.len());
        return Err(ScheduleError::illegal(name, message).help("vectorize a loop that holds one block"));
    }
    analysis::check_no_carried_dependence(name, state, node, &blocks)
}
