//! Blocks without reduction: vectors along the contiguous axis of the result, threads along the others.

use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::{IterKind, PrimExpr};

pub(super) const RULE: Rule = Rule { name: "spatial", apply };

/// Elements that one thread computes at a time, where the iterations are not divided already.
const CHUNK: i64 = 4096;

fn apply(s: &mut Schedule, info: &BlockInfo, _: &Machine) -> Result<Option<String>, ScheduleError> {
    if info.axes.iter().any(|axis| axis.kind != IterKind::Spatial) {
        return Ok(None);
    }
    let block = s.block(&info.name)?;
    let mut loops = s.get_loops(block)?;
    let Some(inner) = info.contiguous_axis() else {
        parallel(s, &loops)?;
        return Ok(Some("no contiguous axis".into()));
    };
    if inner + 1 < loops.len() {
        let last = loops.remove(inner);
        loops.push(last);
        s.reorder_n(&loops)?;
    }
    let len = if inner + 1 == info.axes.len() { flat_axes(info) } else { 1 };
    let (outer, flat) = loops.split_at(loops.len() - len);
    let vector = s.fuse_n(flat)?;
    match outer {
        [] => {
            let [outer, vector] = s.split(vector, [None, Some(CHUNK)])?;
            s.parallel(outer)?;
            s.vectorize(vector)?;
        }
        outer => {
            parallel(s, outer)?;
            s.vectorize(vector)?;
        }
    }
    Ok(Some(format!("{len} axes as one vector loop")))
}

/// Runs the iterations of `loops` on the thread pool, if they are independent.
fn parallel(s: &mut Schedule, loops: &[LoopRV]) -> Result<(), ScheduleError> {
    let fused = s.fuse_n(loops)?;
    s.parallel(fused)
}

/// The number of innermost axes that are one contiguous axis of every access that uses one of them.
fn flat_axes(info: &BlockInfo) -> usize {
    let Some(store) = &info.store else { return 1 };
    let is_flat = |axes: &[Axis], indices: &[PrimExpr], shape: &[PrimExpr]| {
        let unused = axes.iter().all(|axis| stride(indices, &axis.var) == Stride::Zero);
        unused
            || indices.len() >= axes.len() && {
                let at = indices.len() - axes.len();
                let same_axes =
                    axes.iter().zip(&indices[at..]).all(|(axis, index)| index.as_var() == Some(&axis.var));
                let outside = indices[..at]
                    .iter()
                    .all(|index| axes.iter().all(|axis| !crate::dlight::analysis::uses(index, &axis.var)));
                // The extent of the first axis does not matter.
                let whole = axes.iter().zip(&shape[at..]).skip(1);
                same_axes
                    && outside
                    && whole.into_iter().all(|(axis, extent)| crate::arith::same(&axis.extent, extent))
            }
    };
    let all = |len: usize| {
        let axes = &info.axes[info.axes.len() - len..];
        is_flat(axes, &store.indices, &store.buffer.shape)
            && info.loads.iter().all(|load| is_flat(axes, &load.indices, &load.buffer.shape))
    };
    (1..=info.axes.len()).take_while(|&len| len == 1 || all(len)).last().unwrap_or(1)
}
