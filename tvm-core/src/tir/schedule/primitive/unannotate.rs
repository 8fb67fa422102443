//! `unannotate`: removes a hint for later passes from a loop or block.
//!
//! Requires that the loop or block has the hint; changes nothing else.
//!
//! TVM counterpart: `unannotate`.

use crate::ir::Attrs;
use crate::tir::Stmt;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};

/// Removes the annotation `key` of `sref`.
pub(in crate::tir::schedule) fn unannotate(
    state: &mut ScheduleState,
    sref: StmtSRef,
    key: &str,
) -> Result<(), ScheduleError> {
    let known = match state.get(sref)? {
        Stmt::For(it) => it.annotations.get(key),
        Stmt::BlockRealize(it) => it.block.annotations.get(key),
        _ => None,
    };
    if known.is_none() {
        let message = format!("there is no annotation `{key}`");
        return Err(ScheduleError::illegal("unannotate", message).show(state, &[sref]));
    }
    state.change_annotations(sref, |annotations: &mut Attrs| drop(annotations.remove(key)))
}
