//! `annotate`: attaches a hint for later passes to a loop or block.

use crate::ir::AttrValue;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{For, Stmt};

/// Sets the annotation `key` of `sref`.
pub(in crate::tir::schedule) fn annotate(
    state: &mut ScheduleState,
    sref: StmtSRef,
    key: &str,
    value: &AttrValue,
) -> Result<(), ScheduleError> {
    match state.get(sref)?.clone() {
        Stmt::For(node) => {
            let annotations = node.annotations.clone().with(key, value.clone());
            state.replace(sref, For { annotations, ..(*node).clone() }.into())
        }
        Stmt::BlockRealize(realize) => {
            let annotations = realize.block.annotations.clone().with(key, value.clone());
            state.change_block(realize.block.id, |block| block.annotations = annotations)
        }
        _ => Err(ScheduleError::UnknownSRef(sref)),
    }
}
