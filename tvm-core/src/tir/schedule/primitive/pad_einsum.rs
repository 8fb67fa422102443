//! `pad_einsum`: the axes of a sum of products get extents that are multiples, over copies of its operands padded with 0.
//!
//! `c[i, j] += a[i, k] * b[k, j]` over 7 × 5 × 9 with the padding 4, 1, 8 becomes
//!
//! ```text
//! for i in 0..8 { for k in 0..16 { a_pad[i, k] = if_then_else(i < 7 && k < 9, a[i, k], 0) } }
//! for k in 0..16 { for j in 0..5 { b_pad[k, j] = if_then_else(k < 9, b[k, j], 0) } }
//! for i in 0..8 { for j in 0..5 { for k in 0..16 { c_pad[i, j] += a_pad[i, k] * b_pad[k, j] } } }
//! for i in 0..7 { for j in 0..5 { c[i, j] = c_pad[i, j] } }
//! ```
//!
//! Legal for a sum from 0 of products of loads, alone in serial loops, each padded axis being one of them. Padded axes are
//! whole indices. A padded reduction axis occurs in an operand, and for floats in all of them: the other operands may be
//! infinite. What is written must be as for `cache_write`.
//!
//! TVM counterpart: `pad_einsum`.

use std::sync::Arc;

use super::cache_read::{is_written_whole, nest_over, read_all};
use super::cache_write::check_copy_back;
use crate::arith::Analyzer;
use crate::ir::{BlockId, Var};
use crate::tir::analysis::{conjunction, same_indices, update};
use crate::tir::schedule::rewrite::{self, insert_in_scope, redirect, top_level_index, unique_block_name};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, Intrinsic, IterKind, IterVar,
    PrimExpr, Range, Stmt, uses_var,
};

const NAME: &str = "pad_einsum";

/// The largest multiple. Copies grow with it, also those of small operands.
const MAX_PADDING: i64 = 1 << 16;

/// Pads the extents of the axes of block `id` to multiples of `padding`, one for each axis.
pub(in crate::tir::schedule) fn pad_einsum(
    state: &mut ScheduleState,
    id: BlockId,
    padding: &[i64],
) -> Result<(), ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let axes = block.iter_vars.len();
    if padding.len() != axes {
        let got = padding.len();
        return Err(ScheduleError::argument(
            NAME,
            format!("expected {axes} multiples, one per axis, got {got}"),
        ));
    }
    if let Some(bad) = padding.iter().find(|by| !(1..=MAX_PADDING).contains(by)) {
        return Err(ScheduleError::argument(
            NAME,
            format!("expected multiples from 1 to {MAX_PADDING}, got {bad}"),
        ));
    }
    let at = StmtSRef::Block(id);
    let show = |err: ScheduleError| err.show(state, &[at]);
    let Some(sum) = Sum::of(block) else {
        let why = format!("block `{}` is not a sum from 0 of products of loads", block.name);
        return Err(show(ScheduleError::illegal(NAME, why)));
    };
    let nest = analysis::own_nest(NAME, state, &realize).map_err(show)?;
    let (scope, place) = check_copy_back(NAME, state, &realize, &sum.store.buffer)?;
    let padded = Padded::of(state, &realize, &nest, padding).map_err(show)?;
    if padded.axes.iter().all(|(_, new)| new.is_none()) {
        return Ok(());
    }
    padded.check_terms(block, &sum).map_err(show)?;
    let reads = padded.operands(state, block, &sum, (scope, place)).map_err(show)?;
    let write = padded.access(block, (&sum.store.buffer, &sum.store.indices)).map_err(show)?;
    let mut new = state.clone();
    new.replace(
        nest.first().map_or(at, |node| StmtSRef::Loop(node.loop_var.id())),
        padded.nest(&realize, &nest),
    )?;
    for (i, access) in reads.iter().enumerate() {
        let name = unique_block_name(&new, &access.copy.name);
        let (_, copying) = nest_over(&name, &access.ranges(true), |at| access.pad(at));
        let body = insert_in_scope(&new.func().body, scope, place + i, copying, &access.copy);
        let whole = scope == new.root();
        let body = if whole { body } else { read_all(&new, &body, scope, &access.buffer) };
        new.replace_body(redirect(&body, id, &access.buffer, &access.copy))?;
    }
    if let Some(access) = write {
        let name = unique_block_name(&new, &access.copy.name);
        let (_, copying) = nest_over(&name, &access.ranges(false), |at| {
            Stmt::store(&access.buffer, at.to_vec(), access.copy.load(at.to_vec()))
        });
        let body = insert_in_scope(&new.func().body, scope, place + reads.len() + 1, copying, &access.copy);
        new.replace_body(redirect(&body, id, &access.buffer, &access.copy))?;
    }
    *state = new;
    Ok(())
}

/// `store` adds the product of `loads`, and of constants, to what starts at 0.
struct Sum<'a> {
    store: &'a BufferStore,
    loads: Vec<&'a BufferLoad>,
    /// True if 0 times any operand is 0.
    exact: bool,
}

impl Sum<'_> {
    fn of(block: &Block) -> Option<Sum<'_>> {
        let store = analysis::single_store(block)?;
        let init = block.init.as_ref()?.as_buffer_store()?;
        let starts_at_0 = match &init.value {
            PrimExpr::IntImm(it) => it.value == 0,
            PrimExpr::FloatImm(it) => it.value.to_bits() == 0,
            _ => false,
        };
        let same_place = init.buffer == store.buffer && same_indices(&init.indices, &store.indices);
        let (op, term) = update(store)?;
        let plain = block.alloc_buffers.is_empty() && block.match_buffers.is_empty();
        let mut sum = Sum { store, loads: Vec::new(), exact: true };
        let fits = op == BinaryOp::Add && starts_at_0 && same_place && plain;
        (fits && sum.add_factors(term)).then_some(sum)
    }
}

impl<'a> Sum<'a> {
    /// Adds the loads of `term`; false if it is no product.
    fn add_factors(&mut self, term: &'a PrimExpr) -> bool {
        self.exact &= !term.dtype().is_float();
        let dtype = term.dtype();
        if !dtype.is_scalar() || dtype.is_bool() {
            return false;
        }
        match term {
            PrimExpr::Binary(it) if it.op == BinaryOp::Mul => {
                self.add_factors(&it.a) && self.add_factors(&it.b)
            }
            PrimExpr::Cast(it) => self.add_factors(&it.value),
            PrimExpr::BufferLoad(it) => {
                self.loads.push(it);
                true
            }
            PrimExpr::IntImm(_) => true,
            PrimExpr::FloatImm(it) => it.value.is_finite(),
            _ => false,
        }
    }
}

/// The axes of a block, each with its new extent if that is another one.
struct Padded {
    axes: Vec<(IterVar, Option<PrimExpr>)>,
    /// The loops of the padded axes, with their new extents.
    loops: Vec<(Var, PrimExpr)>,
    analyzer: Analyzer,
}

impl Padded {
    fn of(
        state: &ScheduleState,
        realize: &BlockRealize,
        nest: &[Arc<For>],
        padding: &[i64],
    ) -> Result<Padded, ScheduleError> {
        let block = &realize.block;
        let analyzer = rewrite::dims_analyzer(state);
        let mut padded = Padded { axes: Vec::new(), loops: Vec::new(), analyzer };
        for (i, (iter, by)) in block.iter_vars.iter().zip(padding).enumerate() {
            let refuse = |why: &str| {
                let why = format!("the axis `{}` of block `{}` {why}", iter.var.name(), block.name);
                Err(ScheduleError::illegal(NAME, why))
            };
            let extent = &iter.dom.extent;
            if !analysis::counts_to_dimension(state, iter) {
                return refuse("does not count from 0 to a dimension");
            }
            let new = match extent.as_int().map(|it| it.checked_add(by - 1)) {
                Some(Some(sum)) => PrimExpr::index(sum / by * by),
                Some(None) => return refuse("has an extent that cannot be padded"),
                None => padded.analyzer.simplify(&((extent + (by - 1)).floordiv(*by) * *by)),
            };
            if padded.analyzer.can_prove_equal(&new, extent) {
                padded.axes.push((iter.clone(), None));
                continue;
            }
            let var = realize.iter_values[i].as_var();
            let Some(node) = var.and_then(|var| nest.iter().find(|node| node.loop_var == *var)) else {
                return refuse("is not one loop: pad before loops are split or fused");
            };
            let mut others = realize.iter_values.iter().enumerate().filter(|(j, _)| *j != i);
            if others.any(|(_, value)| uses_var(value, &node.loop_var))
                || uses_var(&realize.predicate, &node.loop_var)
                || !node.min.is_const(0)
                || !padded.analyzer.can_prove_equal(&node.extent, extent)
            {
                return refuse("is a loop that is restricted, or drives other axes too");
            }
            padded.loops.push((node.loop_var.clone(), new.clone()));
            padded.axes.push((iter.clone(), Some(new)));
        }
        Ok(padded)
    }

    /// Checks that all terms of padded reduction axes are 0, and that results of padded spatial axes are others.
    fn check_terms(&self, block: &Block, sum: &Sum<'_>) -> Result<(), ScheduleError> {
        for (iter, _) in self.axes.iter().filter(|(_, new)| new.is_some()) {
            let used = |indices: &[PrimExpr]| indices.iter().any(|index| uses_var(index, &iter.var));
            let mut loads = sum.loads.iter();
            let fits = match (iter.kind, sum.exact) {
                (IterKind::Spatial, _) => used(&sum.store.indices),
                (_, true) => loads.any(|load| used(&load.indices)),
                (_, false) => !sum.loads.is_empty() && loads.all(|load| used(&load.indices)),
            };
            if !fits {
                let name = iter.var.name();
                let why = match iter.kind {
                    IterKind::Spatial => {
                        format!("the axis `{name}` is in no index of what block `{}` writes", block.name)
                    }
                    _ => format!("the terms of the padded axis `{name}` are not known to be 0"),
                };
                return Err(ScheduleError::illegal(NAME, why));
            }
        }
        Ok(())
    }

    /// The operands that padded axes index.
    fn operands(
        &self,
        state: &ScheduleState,
        block: &Block,
        sum: &Sum<'_>,
        (scope, place): (BlockId, usize),
    ) -> Result<Vec<Access>, ScheduleError> {
        let mut found: Vec<Access> = Vec::new();
        for (i, load) in sum.loads.iter().enumerate() {
            let of = &load.buffer.name;
            let refuse = |why: String| Err(ScheduleError::illegal(NAME, why));
            let earlier = sum.loads[..i].iter().find(|it| it.buffer == load.buffer);
            if let Some(earlier) = earlier {
                match same_indices(&earlier.indices, &load.indices) {
                    true => continue,
                    false => return refuse(format!("block `{}` reads `{of}` at two places", block.name)),
                }
            }
            let Some(access) = self.access(block, (&load.buffer, &load.indices))? else { continue };
            let position = |it: &BlockRealize| top_level_index(state, scope, StmtSRef::Block(it.block.id));
            let late = |it: &&&Arc<BlockRealize>| position(it).is_none_or(|at| at >= place);
            if let Some(writer) = rewrite::writers(state, &load.buffer).iter().find(late) {
                let [writer, name] = [&writer.block.name, &block.name];
                return refuse(format!("block `{writer}` writes `{of}` beside or after block `{name}`"));
            }
            if rewrite::is_intermediate(state, &load.buffer) && !is_written_whole(state, &load.buffer)? {
                return refuse(format!("no block is known to write all of `{of}`"));
            }
            let inside = |(axis, extent): (&Option<(PrimExpr, PrimExpr)>, &PrimExpr)| {
                axis.as_ref().is_none_or(|(old, _)| self.analyzer.can_prove_less_equal(old, extent))
            };
            if !access.dims.iter().zip(load.buffer.shape.iter()).all(inside) {
                return refuse(format!("the axes of block `{}` are not known to lie in `{of}`", block.name));
            }
            found.push(access);
        }
        Ok(found)
    }

    /// An access that padded axes index; `None` if there are none in `indices`.
    fn access(
        &self,
        block: &Block,
        (buffer, indices): (&Buffer, &[PrimExpr]),
    ) -> Result<Option<Access>, ScheduleError> {
        let mut padded = self.axes.iter().filter(|(_, new)| new.is_some());
        if !padded.any(|(iter, _)| indices.iter().any(|index| uses_var(index, &iter.var))) {
            return Ok(None);
        }
        let (name, of) = (&block.name, &buffer.name);
        let Some(axes) = analysis::distinct_axes(block, indices, &buffer.shape) else {
            let why = format!("the indices of `{of}` are not one axis of block `{name}` in each dimension");
            return Err(ScheduleError::illegal(NAME, why));
        };
        let extents = |axis: Option<Var>| {
            let (iter, new) = self.axes.iter().find(|(iter, _)| axis.as_ref() == Some(&iter.var))?;
            let old = &iter.dom.extent;
            Some((old.clone(), new.clone().unwrap_or_else(|| old.clone())))
        };
        let dims: Vec<Option<(PrimExpr, PrimExpr)>> = axes.into_iter().map(extents).collect();
        let shape: Vec<PrimExpr> = dims.iter().map(|it| extent_of(it, true)).collect();
        if let Some(elements) = rewrite::too_many_elements(&shape) {
            let why = format!("the padded copy of `{of}` would have {elements} elements");
            return Err(ScheduleError::illegal(NAME, why).help("pad to smaller multiples"));
        }
        let copy = buffer.renew(|node| {
            node.name = format!("{of}_pad").into();
            node.shape = shape.into();
            node.strides = [].into();
            node.elem_offset = None;
        });
        Ok(Some(Access { buffer: buffer.clone(), copy, dims }))
    }

    /// The nest of the block over the padded axes.
    fn nest(&self, realize: &BlockRealize, nest: &[Arc<For>]) -> Stmt {
        let axis = |(iter, new): &(IterVar, Option<PrimExpr>)| match new {
            Some(extent) => IterVar { dom: Range::from_extent(extent.clone()), ..iter.clone() },
            None => iter.clone(),
        };
        let block = Block { iter_vars: self.axes.iter().map(axis).collect(), ..(*realize.block).clone() };
        let inside = BlockRealize { block: block.into(), ..realize.clone() };
        nest.iter().rev().fold(inside.into(), |body, node| {
            let padded = self.loops.iter().find(|(var, _)| *var == node.loop_var);
            let extent = padded.map_or(&node.extent, |(_, extent)| extent).clone();
            For { body, extent, ..(**node).clone() }.into()
        })
    }
}

/// An access of a buffer through a padded copy.
struct Access {
    buffer: Buffer,
    copy: Buffer,
    /// Extent and padded extent of the axis that is the index; `None` for the index 0 of one element.
    dims: Vec<Option<(PrimExpr, PrimExpr)>>,
}

fn extent_of(dim: &Option<(PrimExpr, PrimExpr)>, padded: bool) -> PrimExpr {
    let extent = |(old, new): &(PrimExpr, PrimExpr)| if padded { new.clone() } else { old.clone() };
    dim.as_ref().map_or_else(|| PrimExpr::index(1), extent)
}

impl Access {
    fn ranges(&self, padded: bool) -> Vec<Range> {
        self.dims.iter().map(|dim| Range::from_extent(extent_of(dim, padded))).collect()
    }

    /// Copies the element `at`, or 0 where the buffer has none.
    fn pad(&self, at: &[PrimExpr]) -> Stmt {
        let inside = |(index, dim): (&PrimExpr, &Option<(PrimExpr, PrimExpr)>)| {
            let (old, new) = dim.as_ref()?;
            (!crate::arith::same(old, new)).then(|| index.clone().less(old))
        };
        let condition = conjunction(at.iter().zip(&self.dims).filter_map(inside));
        let dtype = self.buffer.dtype;
        let (value, zero) = (self.buffer.load(at.to_vec()), PrimExpr::constant(0.0, dtype));
        let value = PrimExpr::call(Intrinsic::IfThenElse, [condition, value, zero], dtype);
        Stmt::store(&self.copy, at.to_vec(), value)
    }
}
