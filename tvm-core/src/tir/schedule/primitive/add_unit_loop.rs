//! `add_unit_loop`: a loop of one iteration around a loop or block.
//!
//! Legal around everything but the root block. No binding uses the new loop.
//!
//! TVM counterpart: `add_unit_loop`.

use crate::ir::{Var, VarId};
use crate::tir::For;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};

const NAME: &str = "add_unit_loop";

/// Puts a loop of one iteration around `sref`. Returns this loop.
pub(in crate::tir::schedule) fn add_unit_loop(
    state: &mut ScheduleState,
    sref: StmtSRef,
) -> Result<VarId, ScheduleError> {
    let body = state.get(sref)?.clone();
    if sref == StmtSRef::Block(state.root()) {
        return Err(ScheduleError::illegal(NAME, "the root block is the whole program").show(state, &[sref]));
    }
    let unit = For::serial(Var::index("u"), 1, body);
    let var = unit.loop_var.id();
    state.replace(sref, unit.into())?;
    Ok(var)
}
