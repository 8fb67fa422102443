//! Reductions that are no contractions: threads along the axes that are not reduced.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::BlockInfo;
use crate::target::Machine;
use crate::tir::IterKind;
use crate::tir::schedule::{Schedule, ScheduleError};

pub(super) const RULE: Rule = Rule { name: "reduction", apply };

fn apply(s: &mut Schedule, info: &BlockInfo, _: &Machine) -> Result<Option<String>, ScheduleError> {
    let outer = info.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial).count();
    if !info.reduces || outer == 0 {
        return Ok(None);
    }
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    parallel(s, info, &loops[..outer])?;
    Ok(Some(format!("{outer} axes parallel")))
}
