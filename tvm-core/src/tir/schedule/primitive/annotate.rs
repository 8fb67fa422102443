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
    state.change_annotations(sref, |annotations| annotations.set(key, value.clone()))
}
