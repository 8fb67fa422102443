//! Stores what a strided reduction reads by phase: the elements `0, 2, 4, …` of a row, then `1, 3, 5, …`.
//!
//! A convolution of stride 2 reads every second column of its padded operand, and so loads two vectors and picks from
//! them, for each term. Of a buffer with one row for each remainder by the stride, `pad[c % 2, c / 2]`, it loads
//! one vector. The block that fills the buffer picks instead, once for each element.

use std::sync::Arc;

use super::analysis::{BlockInfo, Stride, coefficient, stride};
use crate::ir::Var;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::{IndexMap, PrimExpr};

/// Divides the rows of every buffer that an element-wise block fills and that one reduction reads with a small stride.
pub(super) fn by_phase(s: &mut Schedule) {
    let names: Vec<Arc<str>> = s.state().leaf_blocks().iter().map(|it| it.block.name.clone()).collect();
    for name in names {
        let Some(info) = BlockInfo::of(s, &name) else { continue };
        let Some(step) = step(s, &info) else { continue };
        let mut fork = s.clone();
        if divide(&mut fork, &info, step).is_ok() {
            *s = fork;
        }
    }
}

/// The stride with which the only reader of the block's result, a reduction, moves along its contiguous axis.
fn step(s: &Schedule, info: &BlockInfo) -> Option<i64> {
    let store = info.store.as_ref()?;
    let reader = info.only_reader(s).filter(|reader| !info.reduces && reader.reduces)?;
    let column = &reader.axes[reader.contiguous_axis()?].var;
    let mut loads = reader.loads.iter().filter(|load| load.buffer == store.buffer);
    let (load, None) = (loads.next()?, loads.next()) else { return None };
    let step =
        coefficient(load.indices.last()?, column).filter(|_| stride(&load.indices, column) == Stride::Few)?;
    let whole = info.contiguous_axis()? + 1 == info.axes.len();
    (whole && store.buffer.shape.last()?.as_int()? % step == 0).then_some(step)
}

/// Gives the result of the block, and the block itself, one row for each phase.
fn divide(s: &mut Schedule, info: &BlockInfo, step: i64) -> Result<(), ScheduleError> {
    let block = s.block(&info.name)?;
    let (Some(store), Some(realize)) = (&info.store, info.realize(s)) else { return Ok(()) };
    let vars: Vec<Var> = realize.block.iter_vars.iter().map(|axis| axis.var.clone()).collect();
    let letters: String = ('A'..='Z').take(store.indices.len() + 1).collect();
    let (columns, phase) = letters.split_at(store.indices.len());
    let (rows, column) = columns.split_at(columns.len().saturating_sub(1));
    s.transform_layout(block, 0, columns, &format!("{columns}{step}{}", column.to_lowercase()))?;
    s.transform_layout(block, 0, &letters, &format!("{rows}{phase}{column}"))?;
    let Some((last, others)) = vars.split_last() else { return Ok(()) };
    let mut output: Vec<PrimExpr> = others.iter().map(PrimExpr::from).collect();
    output.extend([PrimExpr::from(last) % step, PrimExpr::from(last) / step]);
    s.transform_block_layout(block, IndexMap::new(vars, output)?)
}
