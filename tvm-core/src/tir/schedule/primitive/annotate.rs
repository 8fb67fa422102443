//! `annotate`: attaches a hint for later passes to a loop or block.

use crate::ir::AttrValue;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};

/// Sets the annotation `key` of `sref`.
pub(in crate::tir::schedule) fn annotate(
    state: &mut ScheduleState,
    sref: StmtSRef,
    key: &str,
    value: &AttrValue,
) -> Result<(), ScheduleError> {
    match sref {
        StmtSRef::Loop(var) => state.change_head(var, |node| {
            node.annotations = std::mem::take(&mut node.annotations).with(key, value.clone());
        }),
        StmtSRef::Block(id) => state.annotate_block(id, key, value.clone()),
    }
}
