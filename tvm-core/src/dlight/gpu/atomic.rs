//! Updates of elements whose places come from data, as those of a scatter or a histogram: a thread for each update, which is
//! atomic.
//!
//! Without atomic updates, the iterations along such an axis run in order in one thread: two of them may update one element. The
//! rule takes blocks whose updates give the same bits in any order ([`Schedule::atomic`]): of integers of 32 and 64 bits, and of floats
//! where their order is free (`fast_math`).
//!
//! TVM counterpart: `atomic_add` in the kernels of `topi.cuda` (scatter, histograms).

use super::GpuRule;
use super::fallback::{Around, bind, loops_around};
use crate::target::GpuLimits;
use crate::tir::analysis::{reads_memory, update};
use crate::tir::schedule::{Schedule, ScheduleError};

pub(super) const RULE: GpuRule = GpuRule {
    name: "atomic",
    why: "updates of elements at places that come from data, whose order changes no bits: a thread for each of them",
    apply,
};

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let around = loops_around(s, name)?;
    if !meet(&around) {
        return Ok(None);
    }
    let block = s.block(name)?;
    s.atomic(block, limits.float_atomics)?;
    let loops = s.get_loops(block)?;
    let text = bind(s, &loops, around.iter(), limits, 1)?;
    Ok(Some(format!("atomic updates, {text}")))
}

/// True if several iterations of the loops may update one element.
fn meet(around: &[Around]) -> bool {
    around.iter().any(|it| it.in_order && it.extent != Some(1))
}

/// Why a block of updates that keep their order has no atomic ones; `None` for blocks that do something else.
pub(super) fn why_not(s: &Schedule, name: &str, limits: &GpuLimits) -> Option<String> {
    let realize = s.state().blocks().iter().find(|it| &*it.block.name == name)?;
    let store = realize.block.body.as_buffer_store()?;
    let is_update = update(store).is_some() || store.indices.iter().any(reads_memory);
    if !is_update || !meet(&loops_around(s, name).ok()?) {
        return None;
    }
    let mut fork = s.clone();
    let block = fork.block(name).ok()?;
    let Err(ScheduleError::Illegal { reason, .. }) = fork.atomic(block, limits.float_atomics) else {
        return None;
    };
    let on_request = fork.atomic(block, true).is_ok();
    Some(if on_request {
        format!("{}; `fast_math` allows any order", reason.message)
    } else {
        reason.message
    })
}
