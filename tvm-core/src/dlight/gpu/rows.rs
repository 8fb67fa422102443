//! Chains of reductions of rows, and of element-wise blocks over the same rows: softmax, layer norm, log-sum-exp, a mean.
//!
//! All blocks are one kernel, in which a block of threads has a row, or several short ones ([`row_threads`](super::row_threads)
//! says how many). Memory is read once where a row fits shared memory, and otherwise from the caches after the first time.
//!
//! TVM counterpart: `dlight.gpu.GeneralReduction`.

use super::GpuRule;
use super::row_threads::one_kernel;
use crate::dlight::analysis::BlockInfo;
use crate::dlight::row_chain::members;
use crate::target::GpuLimits;
use crate::tir::schedule::{Schedule, ScheduleError};

pub(super) const RULE: GpuRule = GpuRule {
    name: "rows",
    why: "reductions and element-wise blocks of a row are one kernel, in which threads of a block share the row",
    apply,
};

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name).filter(|info| !info.shifted) else { return Ok(None) };
    let Some((members, lead)) = members(s, &info) else { return Ok(None) };
    // What follows a part of the chain may use all rows of a result: then only this part is one kernel.
    for len in (2..=members.len()).rev() {
        let mut fork = s.clone();
        if let Ok(Some(text)) = one_kernel(&mut fork, &members[..len], lead, limits) {
            *s = fork;
            return Ok(Some(format!("{len} blocks up to `{}`, {text}", members[len - 1].name)));
        }
    }
    Ok(None)
}
