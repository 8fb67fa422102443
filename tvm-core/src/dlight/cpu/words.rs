//! Copies of narrow operands whose words are contiguous in the operand: threads along the outer axes. The inner loop stays as
//! it is, and compilers turn the loads of the parts of a word into one.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::schedule::{Schedule, ScheduleError};

pub(super) const RULE: Rule = Rule { name: "words", why: "a copy puts narrow elements into words", apply };

fn apply(s: &mut Schedule, info: &BlockInfo, _: &Machine) -> Result<Option<String>, ScheduleError> {
    let Some(inner) = info.contiguous_axis().filter(|&axis| axis + 1 == info.axes.len()) else {
        return Ok(None);
    };
    let var = &info.axes[inner].var;
    let bytes = |bits: u8| info.loads.iter().all(|load| load.buffer.dtype.bits() == bits);
    let strided = info.loads.iter().all(|load| stride(&load.indices, var) == Stride::Few);
    let whole = bytes(8) && info.loads.len() >= 4 || bytes(16) && info.loads.len() >= 2;
    if info.reduces || !whole || !strided {
        return Ok(None);
    }
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    parallel(s, info, &loops[..inner])?;
    Ok(Some("neighbours to a word".into()))
}
