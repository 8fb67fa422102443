//! Products of matrices whose rows, columns or terms are several axes, convolutions above all: they become plain products, which
//! are computed in tiles as those of the rule `matmul`.
//!
//! The axes of a result that only the weights use are the rows, those that only the data uses are the columns, and the summed
//! ones are the terms; or the other way round, so that neighbours in the memory of the result are neighbouring columns. Each
//! of the three becomes one axis:
//!
//! ```text
//! y[n, o, h, w] += x[n, c, h + kh, w + kw] * k[o, c, kh, kw]
//!
//! y[o, (n, h, w)] += x[(c, kh, kw), (n, h, w)] * k[o, (c, kh, kw)]
//! ```
//!
//! No such matrix is in memory of the GPU (implicit GEMM): the copies of the operands to shared memory find each element by the
//! parts of its row and its column, and padding is a condition of these copies. The result, and what an element-wise block
//! makes of it, is written where the layout of the original result has it. Axes that both operands use, as groups of channels,
//! are several products. So are the axes outside of one of unknown extent, whose parts could not be found by constant divisors: of
//! an image whose width is not known, each row is a product.
//!
//! Requires: operands without padding of their own that is not an element-wise block. What is not large enough for tiles, as the
//! channels of depthwise convolutions, stays with other rules.
//!
//! TVM counterpart: `dlight.gpu.Matmul`, whose `normalize_to_matmul` has the same form; im2col of the strategies for `conv2d`.

use super::GpuRule;
use super::matmul::{Operands, Product, tile};
use super::parts::Parts;
use super::results::{is_unit, leaf, map_of, only_reader, read_along};
use crate::dlight::analysis::{BlockInfo, indexed_by};
use crate::dlight::inline::{operations, readers_in_bounds};
use crate::target::GpuLimits;
use crate::tir::schedule::{BlockRV, Schedule, ScheduleError};
use crate::tir::{Block, Buffer, IndexMap, IterKind, IterVar, PrimExpr, uses_var};

pub(super) const RULE: GpuRule = GpuRule {
    name: "conv",
    why: "a product of matrices, each side of which is several axes: tiles of them are gathered in shared memory",
    apply,
};

/// Operations of an element of padded data up to which the copies compute it, once for each place in a window.
const CHEAP: usize = 48;

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    if Product::of(&info, limits, false).is_some() {
        return Ok(None);
    }
    let mut fork = s.clone();
    if let Some(parts) = Parts::of(&info)
        && let Ok(Some(text)) = parts.schedule(&mut fork, &info, limits)
    {
        *s = fork;
        return Ok(Some(text));
    }
    product(s, name, limits)
}

/// Computes the block `name` as a product of matrices.
pub(super) fn product(
    s: &mut Schedule,
    name: &str,
    limits: &GpuLimits,
) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(realize) = info.realize(s) else { return Ok(None) };
    let Some(sides) = Sides::of(&info, &realize.block) else { return Ok(None) };
    let Some(map) = sides.map(&realize.block) else { return Ok(None) };
    let windows = info.loads.iter().flat_map(|load| load.indices.iter()).any(|it| sides.is_in_window(it));
    let kind = if windows { Operands::Windows } else { Operands::Tensors };
    let block = s.block(name)?;
    s.transform_block_layout(block, map)?;
    // What the block writes comes first, then what it reads.
    let result = s.reindex(block, 0)?;
    let operands = [s.reindex(block, 1)?, s.reindex(block, 2)?];
    inline_padding(s, name)?;
    read_matrix(s, name, result)?;
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(product) = Product::of(&info, limits, true) else { return Ok(None) };
    let Some(text) = tile(s, &info, &product, limits, kind)? else { return Ok(None) };
    for operand in operands {
        s.compute_inline(operand)?;
    }
    Ok(Some(text))
}

/// The axes of a product, those of a side in the order in which they become one.
struct Sides {
    batch: Vec<IterVar>,
    rows: Vec<IterVar>,
    terms: Vec<IterVar>,
    columns: Vec<IterVar>,
}

impl Sides {
    fn of(info: &BlockInfo, block: &Block) -> Option<Sides> {
        let [a, b] = &info.loads[..] else { return None };
        let store = info.store.as_ref().filter(|_| info.reduces && !info.shifted)?;
        let (mut batch, mut of_a, mut of_b, mut terms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for axis in block.iter_vars.iter() {
            let side = match (axis.kind, indexed_by(a, &axis.var), indexed_by(b, &axis.var)) {
                // An axis of one value may occur anywhere.
                (IterKind::Reduce, used, also) if used && also || is_unit(axis) => &mut terms,
                (IterKind::Spatial, true, true) => &mut batch,
                (IterKind::Spatial, true, false) => &mut of_a,
                (IterKind::Spatial, false, true) => &mut of_b,
                (IterKind::Spatial, false, false) if is_unit(axis) => &mut of_b,
                _ => return None,
            };
            side.push(axis.clone());
        }
        // Where an axis is in the layout of the result.
        let place = |axis: &IterVar| store.indices.iter().rposition(|it| uses_var(it, &axis.var));
        let last = |axes: &[IterVar]| axes.iter().filter(|it| !is_unit(it)).filter_map(place).max();
        let (mut rows, mut columns) = if last(&of_a) > last(&of_b) { (of_b, of_a) } else { (of_a, of_b) };
        if last(&rows).is_none() || last(&columns) < last(&batch) {
            return None;
        }
        // Axes of one value are inside, so that one of unknown extent is the outermost one.
        for axes in [&mut rows, &mut columns] {
            axes.sort_by_key(|axis| (is_unit(axis), place(axis)));
            // The extents of inner axes are factors in the index of the fused one, which begins with the last unknown one.
            let unknown = axes.iter().rposition(|axis| axis.dom.extent.as_int().is_none());
            batch.extend(axes.drain(..unknown.unwrap_or(0)));
        }
        terms.sort_by_key(is_unit);
        Some(Sides { batch, rows, terms, columns })
    }

    /// True for the index of an operand that depends on the place in the result and on the place in its window.
    fn is_in_window(&self, index: &PrimExpr) -> bool {
        let occurs = |axes: &[IterVar]| axes.iter().any(|axis| !is_unit(axis) && uses_var(index, &axis.var));
        occurs(&self.terms) && (occurs(&self.rows) || occurs(&self.columns))
    }

    /// The map to the axes of the products: those of the batch, and one each for rows, terms and columns. In this order, what
    /// follows each other in the memory of an operand does so in most layouts of its matrix.
    fn map(&self, block: &Block) -> Option<IndexMap> {
        let fused = |axes: &[IterVar]| {
            let (first, others) = axes.split_first()?;
            others.iter().try_fold(PrimExpr::from(&first.var), |fused, axis| {
                Some(fused * axis.dom.extent.as_int()? + &axis.var)
            })
        };
        let batch = self.batch.iter().map(|axis| Some(PrimExpr::from(&axis.var)));
        let sides = [&self.rows, &self.terms, &self.columns].map(|axes| fused(axes));
        map_of(block, &batch.chain(sides).collect::<Option<Vec<_>>>()?)
    }
}

/// Inlines what pads an operand of block `name`, and other cheap blocks that only the copy of an operand reads.
fn inline_padding(s: &mut Schedule, name: &str) -> Result<(), ScheduleError> {
    let mut refused = Vec::new();
    loop {
        let blocks = s.state().leaf_blocks();
        let feeds = |it: &Block, reader: &Block| reader.reads.iter().any(|read| writes(it, &read.buffer));
        let cheap = |it: &Block| it.body.as_buffer_store().is_some_and(|it| operations(&it.value) <= CHEAP);
        let Some(product) = leaf(s, name) else { return Ok(()) };
        let copies: Vec<_> = blocks.iter().filter(|it| feeds(&it.block, &product.block)).collect();
        let found = blocks.iter().map(|it| &it.block).find(|it| {
            !refused.contains(&it.name)
                && cheap(it)
                && copies.iter().any(|copy| feeds(it, &copy.block))
                && readers_in_bounds(s, &it.name) == Some(1)
        });
        let Some(found) = found.map(|it| it.name.clone()) else { return Ok(()) };
        let mut fork = s.clone();
        let block = fork.block(&found)?;
        match fork.compute_inline(block) {
            Ok(()) => *s = fork,
            Err(_) => refused.push(found),
        }
    }
}

/// Lets the element-wise block that reads the result of block `name` read it as a matrix, along the rows. `result` is the block
/// that copies this matrix to the result. Nothing changes if there is no such block.
fn read_matrix(s: &mut Schedule, name: &str, result: BlockRV) -> Result<(), ScheduleError> {
    let Some(matrix) = leaf(s, name).and_then(|it| it.block.writes.first()).map(|it| it.buffer.clone())
    else {
        return Ok(());
    };
    let copy = only_reader(s, name, &matrix);
    let Some(back) = copy.and_then(|it| map_of(&it.block, &it.block.body.as_buffer_store()?.indices)) else {
        return Ok(());
    };
    let mut fork = s.clone();
    if fork.transform_block_layout(result, back).and_then(|()| fork.compute_inline(result)).is_err() {
        return Ok(());
    }
    if let Ok(Some(_)) = read_along(&mut fork, name, &matrix) {
        *s = fork;
    }
    Ok(())
}

fn writes(block: &Block, buffer: &Buffer) -> bool {
    block.writes.iter().any(|write| write.buffer == *buffer)
}
