//! Where the results of a product in tiles go, and how all tiles become whole ones.
//!
//! Extents that are no multiples of a tile are padded: the copies of the operands to shared memory write 0 where there is no
//! operand, so that the inner loops have no conditions, and a thread writes those of its results that exist. An element-wise
//! block that reads the product is computed where a thread writes its results.
//!
//! TVM counterpart: `pad_einsum` in `dlight.gpu.Matmul`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::dlight::analysis::BlockInfo;
use crate::dlight::inline::inline_epilogue;
use crate::ir::{Var, VarId};
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::{
    Block, BlockRealize, Buffer, IndexMap, IterVar, PrimExpr, Scope, for_each_load, substitute_expr, uses_var,
};

/// The results of a product, which are in registers.
pub(super) struct Results {
    /// The block that copies them to the result of the product.
    out: BlockRV,
    /// True if this is a block that read the product.
    fused: bool,
    /// The buffer in registers, if only a part of it is copied.
    padded: Option<Buffer>,
    /// The blocks that pad operands.
    operands: Vec<Arc<str>>,
}

impl Results {
    /// Makes the extents of the axes of the block multiples of those in `tile`, one for each, and its results ones in registers.
    pub(super) fn of(s: &mut Schedule, info: &BlockInfo, tile: &[i64]) -> Result<Results, ScheduleError> {
        let mut fork = s.clone();
        match Results::padded(&mut fork, info, tile) {
            Ok(results) => {
                *s = fork;
                Ok(results)
            }
            Err(_) => Results::plain(s, info, Vec::new()),
        }
    }

    fn plain(s: &mut Schedule, info: &BlockInfo, operands: Vec<Arc<str>>) -> Result<Results, ScheduleError> {
        let block = s.block(&info.name)?;
        let out = s.cache_write(block, 0, Scope::Local)?;
        let fused = inline_epilogue(s, info)?;
        Ok(Results { out, fused, padded: None, operands })
    }

    fn padded(s: &mut Schedule, info: &BlockInfo, tile: &[i64]) -> Result<Results, ScheduleError> {
        let before = names(s);
        let block = s.block(&info.name)?;
        s.pad_einsum(block, tile)?;
        let mut new = names(s);
        new.retain(|it| !before.contains(it));
        let own = leaf(s, &info.name).and_then(|it| it.block.writes.first()).map(|it| it.buffer.clone());
        let reads = |name: &str, buffer: &Buffer| leaf(s, name).is_some_and(|it| is_read(&it.block, buffer));
        let copy = own.and_then(|own| Some((new.iter().position(|it| reads(it, &own))?, own)));
        let Some((at, own)) = copy else { return Results::plain(s, info, new) };
        let name = new.remove(at);
        let out = s.block(&name)?;
        s.set_scope(block, 0, Scope::Local)?;
        let own =
            leaf(s, &info.name).and_then(|it| it.block.writes.first()).map_or(own, |it| it.buffer.clone());
        Ok(Results { out, fused: false, padded: Some(own), operands: new })
    }

    /// Moves what writes the results under `target`. Returns that block, and whether it is one that read the product.
    pub(super) fn write_at(
        &self,
        s: &mut Schedule,
        name: &str,
        target: LoopRV,
    ) -> Result<(BlockRV, bool), ScheduleError> {
        if let Some(own) = &self.padded {
            let mut fork = s.clone();
            if let Ok(Some(reader)) = self.move_reader(&mut fork, (name, own), target) {
                *s = fork;
                return Ok((reader, true));
            }
        }
        s.reverse_compute_at(self.out, target)?;
        Ok((self.out, self.fused))
    }

    /// Moves the only block that reads the product, if it is element-wise.
    fn move_reader(
        &self,
        s: &mut Schedule,
        (name, own): (&str, &Buffer),
        target: LoopRV,
    ) -> Result<Option<BlockRV>, ScheduleError> {
        s.compute_inline(self.out)?;
        let Some(reader) = read_along(s, name, own)? else { return Ok(None) };
        s.reverse_compute_at(reader, target)?;
        Ok(Some(reader))
    }

    /// Lets the copies to shared memory pad the operands.
    pub(super) fn inline_operands(&self, s: &mut Schedule) -> Result<(), ScheduleError> {
        for name in &self.operands {
            let block = s.block(name)?;
            s.compute_inline(block)?;
        }
        Ok(())
    }
}

/// Gives the only block that reads `matrix`, which block `name` writes, the axes by which it reads it; `None` if there is no such
/// block, or it is a reduction.
pub(super) fn read_along(
    s: &mut Schedule,
    name: &str,
    matrix: &Buffer,
) -> Result<Option<BlockRV>, ScheduleError> {
    let Some(reader) = only_reader(s, name, matrix).filter(|it| !it.block.is_reduction()) else {
        return Ok(None);
    };
    let mut place = None;
    for_each_load(&reader.block.body, &mut |load| {
        if load.buffer == *matrix {
            place = Some(load.indices.clone());
        }
    });
    let Some(map) = place.and_then(|it| map_of(&reader.block, &it)) else { return Ok(None) };
    let block = s.block(&reader.block.name)?;
    s.transform_block_layout(block, map)?;
    Ok(Some(block))
}

/// The map from the axes of `block` to the expressions in `output`, but those of one value. Axes of one value that do not occur in
/// them are added to the last index.
pub(super) fn map_of(block: &Block, output: &[PrimExpr]) -> Option<IndexMap> {
    let mut output: Vec<PrimExpr> = output.iter().filter(|it| it.as_int().is_none()).cloned().collect();
    let used = |axis: &IterVar| output.iter().any(|it| uses_var(it, &axis.var));
    let unused: Vec<&IterVar> = block.iter_vars.iter().filter(|it| is_unit(it) && !used(it)).collect();
    let last = output.last_mut()?;
    *last = unused.into_iter().fold(last.clone(), |sum, axis| sum + &axis.var);
    // Names of axes may be the same.
    let vars: Vec<Var> = (0..block.iter_vars.len()).map(|i| Var::index(format!("i{i}"))).collect();
    let renamed = block.iter_vars.iter().zip(&vars).map(|(axis, var)| (axis.var.id(), PrimExpr::from(var)));
    let renamed: FxHashMap<VarId, PrimExpr> = renamed.collect();
    IndexMap::new(vars, output.iter().map(|it| substitute_expr(it, &renamed)).collect()).ok()
}

/// True if the axis has one value, 0.
pub(super) fn is_unit(axis: &IterVar) -> bool {
    axis.dom.min.is_const(0) && axis.dom.extent.is_const(1)
}

/// The block that reads `buffer`, if it is the only one but `name`.
pub(super) fn only_reader(s: &Schedule, name: &str, buffer: &Buffer) -> Option<Arc<BlockRealize>> {
    let blocks = s.state().leaf_blocks().iter();
    let mut readers = blocks.filter(|it| *it.block.name != *name && is_read(&it.block, buffer));
    let (reader, None) = (readers.next()?, readers.next()) else { return None };
    Some(reader.clone())
}

/// The names of the leaf blocks.
pub(super) fn names(s: &Schedule) -> Vec<Arc<str>> {
    s.state().leaf_blocks().iter().map(|it| it.block.name.clone()).collect()
}

/// The leaf block of this name.
pub(super) fn leaf<'a>(s: &'a Schedule, name: &str) -> Option<&'a Arc<BlockRealize>> {
    s.state().leaf_blocks().iter().find(|it| &*it.block.name == name)
}

fn is_read(block: &Block, buffer: &Buffer) -> bool {
    block.reads.iter().any(|read| read.buffer == *buffer)
}
