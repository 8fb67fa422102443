//! Products of few results and many terms: blocks of threads divide the terms as well (split-K).
//!
//! Tiles of the results alone would be fewer blocks than a GPU has multiprocessors. The terms are divided into equal parts, whose
//! products are several matrices; a second kernel, with a thread for each result, adds them in order. That is the kernel of the
//! element-wise block that reads the results, if there is one.

use super::results::{names, only_reader};
use super::{MULTIPROCESSORS, conv, fallback};
use crate::dlight::analysis::{Axis, BlockInfo, indexed_by, iterations};
use crate::target::GpuLimits;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::{IterKind, Scope};

/// Results of a tile along each side.
const SIDE: i64 = 64;

/// Blocks up to which the terms are divided: two for each multiprocessor.
const ENOUGH: i64 = 2 * MULTIPROCESSORS;

/// Terms of a part at least: fewer take less time than the second kernel.
const LEAST: i64 = 64;

/// The parts of a product.
pub(super) struct Parts {
    /// The loop that is divided.
    axis: usize,
    count: i64,
}

impl Parts {
    /// The parts that make enough blocks; `None` if there are enough tiles, or too few terms.
    pub(super) fn of(info: &BlockInfo) -> Option<Parts> {
        let [a, b] = &info.loads[..] else { return None };
        let used = |axis: &Axis| [a, b].map(|load| indexed_by(load, &axis.var));
        let count = |kind: IterKind, by: [bool; 2]| {
            iterations(info.axes.iter().filter(|axis| axis.kind == kind && used(axis) == by))
        };
        let batch = count(IterKind::Spatial, [true, true])?;
        let tiles = [[true, false], [false, true]].into_iter().try_fold(batch, |tiles, by| {
            Some(tiles.saturating_mul((count(IterKind::Spatial, by)?.max(1) - 1) / SIDE + 1))
        })?;
        if !(1..MULTIPROCESSORS).contains(&tiles) {
            return None;
        }
        let most = (ENOUGH / tiles).min(count(IterKind::Reduce, [true, true])? / LEAST);
        let terms = info.axes.iter().enumerate().filter(|(_, axis)| axis.kind == IterKind::Reduce);
        let (axis, extent) =
            terms.filter_map(|(at, axis)| Some((at, axis.extent.as_int()?))).max_by_key(|it| it.1)?;
        let count = (2..=most).rev().find(|count| extent % count == 0)?;
        Some(Parts { axis, count })
    }

    /// Schedules the product, which is the block of `info`, in parts; `None` if it does not fit.
    pub(super) fn schedule(
        &self,
        s: &mut Schedule,
        info: &BlockInfo,
        limits: &GpuLimits,
    ) -> Result<Option<String>, ScheduleError> {
        let block = s.block(&info.name)?;
        let terms = s.get_loops(block)?[self.axis];
        let [part, _] = s.split(terms, [Some(self.count), None])?;
        let before = names(s);
        s.rfactor(part, 0)?;
        let Some(name) = names(s).into_iter().find(|it| !before.contains(it)) else { return Ok(None) };
        let Some(text) = conv::product(s, &name, limits)? else { return Ok(None) };
        let mut fork = s.clone();
        if let Ok(true) = sum_in_reader(&mut fork, info, limits) {
            *s = fork;
            return Ok(Some(format!(
                "{text}, {} parts of the terms, added in the block that reads them",
                self.count
            )));
        }
        let Some(_) = (fallback::RULE.apply)(s, &info.name, limits)? else { return Ok(None) };
        Ok(Some(format!("{text}, {} parts of the terms", self.count)))
    }
}

/// Adds the parts where an element-wise block reads the sum, each once; false if there is no such block.
fn sum_in_reader(s: &mut Schedule, info: &BlockInfo, limits: &GpuLimits) -> Result<bool, ScheduleError> {
    let Some(store) = &info.store else { return Ok(false) };
    let reader = only_reader(s, &info.name, &store.buffer).filter(|it| !it.block.is_reduction());
    let Some(name) = reader.map(|it| it.block.name.clone()) else { return Ok(false) };
    let results = iterations(info.axes.iter().filter(|it| it.kind == IterKind::Spatial));
    let elements = BlockInfo::of(s, &name).and_then(|it| it.iterations());
    if elements.is_none() || elements != results {
        return Ok(false);
    }
    let Some(_) = (fallback::RULE.apply)(s, &name, limits)? else { return Ok(false) };
    let (sum, reader) = (s.block(&info.name)?, s.block(&name)?);
    let Some(&element) = s.get_loops(reader)?.last() else { return Ok(false) };
    s.compute_at(sum, element)?;
    s.set_scope(sum, 0, Scope::Local)?;
    Ok(true)
}
