//! Images in blocks of channels, `[n, channels / b, height, width, b]`: which axis the parts of a kernel are ranges of.
//!
//! A thread runs the same part of each kernel. If all kernels of a network divide images by their rows, a thread finds what it
//! reads in the cache of its own core, but for the rows at the edge of its part. If they divide them by channels, it reads all
//! channels before each product of channels, half of them or more from caches of other cores. Then again, each thread reads all
//! weights: where these are larger than the image, as in the last layers of a network, products divide them by channels.

use std::sync::Arc;

use crate::dlight::analysis::{BlockInfo, Stride, indexed_by, iterations, stride};
use crate::target::Machine;
use crate::tir::{BufferLoad, IterKind, PrimExpr};

/// Rows from which on images are divided by rows: those of fewer rows belong to the last layers.
const MIN_ROWS: i64 = 9;

/// Numbers of parts that are tried.
const MOST_TRIED: usize = 4096;

/// The index of the axis of rows, if the block stores an image in blocks of channels.
pub(super) fn rows(info: &BlockInfo) -> Option<usize> {
    let store = info.store.as_ref()?;
    let spatial = info.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial).count();
    let extent = info.axes.get(2)?.extent.as_int()?;
    let is_image = spatial == 5
        && store.indices.len() == 5
        && info.contiguous_axis() == Some(4)
        && info.axes[..5]
            .iter()
            .zip(store.indices.iter())
            .all(|(axis, index)| index.as_var() == Some(&axis.var));
    (is_image && extent >= MIN_ROWS).then_some(2)
}

/// How a product of channels is divided by rows of its result.
pub(super) struct Parts {
    /// The axis of which parts are ranges.
    pub(super) axis: usize,
    /// Their number; without it, each value along the axis is a part.
    pub(super) count: Option<i64>,
    /// The axes along which the weights are other ones.
    of_weights: Vec<usize>,
}

impl Parts {
    /// True if the loop over this axis runs inside of a part, around those over the pixels of the part.
    pub(super) fn inside(&self, axis: usize) -> bool {
        self.of_weights.contains(&axis)
    }
}

/// How to divide the block, a sum over blocks of channels of products with vectors along the axis `column`, by an axis along
/// which these vectors, the weights, stay the same. `tile` is the axis of which a tile takes several values, and how many.
/// `None` if weights are larger than the image or a cache, or if there are as many images as threads. Of images of unknown size, each row
/// is a part: it is read once for all weights, which stay in the second-level cache.
pub(super) fn parts(
    info: &BlockInfo,
    column: usize,
    tile: Option<(usize, i64)>,
    machine: &Machine,
) -> Option<Parts> {
    if info.axes.iter().filter(|axis| axis.kind == IterKind::Reduce).count() < 2 {
        return None;
    }
    let is_vector = |load: &&Arc<BufferLoad>| stride(&load.indices, &info.axes[column].var) != Stride::Zero;
    let (weights, images): (Vec<_>, Vec<_>) = info.loads.iter().partition(is_vector);
    // Vectors of weights follow each other along the terms, those of images along pixels.
    let is_term = |index: &PrimExpr| {
        let mut terms = info.axes.iter().filter(|axis| axis.kind == IterKind::Reduce);
        terms.any(|axis| index.as_var() == Some(&axis.var))
    };
    if !weights.iter().all(|load| load.indices.iter().rev().nth(1).is_some_and(is_term)) {
        return None;
    }
    let uses = |loads: &[&Arc<BufferLoad>], axis: usize| {
        loads.iter().any(|load| indexed_by(load, &info.axes[axis].var))
    };
    let spatial = |&i: &usize| {
        let axis = &info.axes[i];
        i != column && axis.kind == IterKind::Spatial && !axis.extent.is_const(1)
    };
    let (of_weights, others): (Vec<usize>, Vec<usize>) =
        (0..info.axes.len()).filter(spatial).partition(|&axis| uses(&weights, axis));
    let count_of = |axis: usize| {
        let extent = info.axes[axis].extent.as_int()?;
        match tile {
            Some((row, size)) if row == axis => (extent % size == 0).then_some(extent / size),
            _ => Some(extent),
        }
    };
    let cores = i64::from(machine.cores);
    let many = |&axis: &usize| count_of(axis).is_some_and(|count| count >= cores);
    // Without a number, parts are single rows, with the pixels of a row inside.
    let is_symbolic = |axis: &usize| info.axes[*axis].extent.as_int().is_none();
    let row = || {
        others
            .iter()
            .copied()
            .rfind(|axis| tile.is_some_and(|(pixels, _)| *axis < pixels))
            .filter(is_symbolic)
    };
    let axis = others.iter().copied().find(many).or_else(row)?;
    if others.first() == Some(&axis) && axis < *of_weights.first()? {
        // Parts are images as they are.
        return None;
    }
    // Products that share nothing, as those of the places in a tile of Winograd's algorithm.
    let apart = of_weights.iter().filter(|&&axis| uses(&images, axis)).map(|&axis| &info.axes[axis]);
    let (apart, cache) = (iterations(apart)?.max(1), (machine.l2_bytes as i64 / 2).max(1));
    let (of_weight, of_image) = (bytes(&weights)?, bytes(&images)?);
    let is_known = !is_symbolic(&axis);
    if is_known && of_weight > of_image || of_weight / apart > cache {
        return None;
    }
    if !is_known {
        return Some(Parts { axis, count: None, of_weights });
    }
    // A part stays in the second-level cache while it is multiplied by all weights.
    let least = cores.max(of_image / apart / cache + 1);
    let all = count_of(axis)?;
    let divisor = |multiple: i64| {
        (least..=all).take(MOST_TRIED).find(|count| all % count == 0 && count % multiple == 0)
    };
    let count = divisor(cores).or_else(|| divisor(1)).unwrap_or(all);
    (count > 1).then_some(Parts { axis, count: Some(count), of_weights })
}

/// The bytes of the largest buffer that is read, without axes of unknown extent.
fn bytes(loads: &[&Arc<BufferLoad>]) -> Option<i64> {
    let size = |load: &BufferLoad| {
        let mut extents = load.buffer.shape.iter().filter_map(|extent| extent.as_int());
        extents.try_fold(load.buffer.dtype.bytes() as i64, |size, extent| size.checked_mul(extent))
    };
    loads.iter().map(|load| size(load)).max()?
}
