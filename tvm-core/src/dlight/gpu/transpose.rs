//! Element-wise blocks whose result is contiguous along one axis and whose operand along another one: a transpose, with
//! arithmetic.
//!
//! A block of 32 × 8 threads copies a tile of 32 × 32 elements to shared memory, neighbours in memory by neighbours, and reads it
//! along the other side. Read directly, each element would come from a cache line of its own. Rows of the tile have one element
//! more than they need, so that the elements of a column are in different banks.
//!
//! TVM counterpart: `dlight.gpu.Transpose`.

use super::GpuRule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::target::GpuLimits;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::{IterKind, Scope, ThreadTag};

pub(super) const RULE: GpuRule = GpuRule {
    name: "transpose",
    why: "the operand is contiguous along another axis than the result: a tile goes through shared memory",
    apply,
};

/// Threads of a block along y: with 32 along x, eight warps, of which several blocks fit a multiprocessor.
const SIDE: i64 = 8;

/// An operand, and the axes along which it and the result are contiguous.
struct Turned {
    buffer: String,
    of_operand: usize,
    of_result: usize,
    /// The dimension of the operand along which the result is contiguous.
    dimension: usize,
}

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let tile = limits.warp_size;
    let Some(turned) = Turned::of(&info, tile).filter(|_| limits.threads_per_block >= tile * SIDE) else {
        return Ok(None);
    };
    let block = s.block(name)?;
    let loops = s.get_loops(block)?;
    let others: Vec<LoopRV> = (loops.iter().enumerate())
        .filter(|(at, _)| ![turned.of_operand, turned.of_result].contains(at))
        .map(|(_, it)| *it)
        .collect();
    let copy = s.cache_read(block, &*turned.buffer, Scope::Shared)?;
    let [rows, row] = s.split(loops[turned.of_operand], [None, Some(tile)])?;
    let [columns, column] = s.split(loops[turned.of_result], [None, Some(tile)])?;
    s.reorder_n(&[&others[..], &[rows, columns, row, column]].concat())?;
    s.compute_at(copy, columns)?;
    s.storage_align(copy, 0, turned.dimension as i64, tile, 1)?;
    let grid = s.fuse_n(&[&others[..], &[rows, columns]].concat())?;
    s.bind(grid, ThreadTag::BlockIdxX)?;
    let own = s.get_loops(copy)?.split_off(1);
    // The other dimensions are one element.
    let (Some(&from), Some(&to)) = (own.get(turned.dimension), own.last()) else { return Ok(None) };
    for [y, x] in [[from, to], [row, column]] {
        let [rest, own] = s.split(y, [None, Some(SIDE)])?;
        s.reorder([own, x, rest])?;
        s.bind(own, ThreadTag::ThreadIdxY)?;
        s.bind(x, ThreadTag::ThreadIdxX)?;
    }
    Ok(Some(format!("tiles of {tile}x{tile} of `{}`, {tile}x{SIDE} threads", turned.buffer)))
}

impl Turned {
    /// The only operand that the block reads along another axis.
    fn of(info: &BlockInfo, tile: i64) -> Option<Turned> {
        let of_result = info.contiguous_axis().filter(|_| !info.reduces && !info.shifted)?;
        let result = &info.axes[of_result].var;
        let spatial = info.axes.iter().all(|axis| axis.kind == IterKind::Spatial);
        let mut turned = info.loads.iter().filter(|load| stride(&load.indices, result) == Stride::Other);
        let (load, None) = (turned.next()?, turned.next()) else { return None };
        let axis = |var: &crate::ir::Var| info.axes.iter().position(|axis| axis.var == *var);
        let indices: Option<Vec<usize>> =
            load.indices.iter().map(|index| index.as_var().and_then(axis)).collect();
        let of_operand = *indices.as_ref()?.last()?;
        let dimension = indices?.iter().position(|at| *at == of_result)?;
        let large = [of_operand, of_result]
            .into_iter()
            .all(|at| info.axes[at].extent.as_int().is_none_or(|extent| extent >= tile));
        let once = info.loads.iter().filter(|it| it.buffer == load.buffer).count() == 1;
        let fits = spatial && large && once && of_operand != of_result;
        fits.then(|| Turned { buffer: load.buffer.name.to_string(), of_operand, of_result, dimension })
    }
}
