//! Positions of extremes in two sweeps, the value first: `value[r] = max(value[r], x[r, k])`, then
//! `index[r] = min(index[r], if x[r, k] == value[r] { k } else { i64::MAX })`. Both are reductions of one element, which have vectors;
//! the pair of both has a chain of comparisons for each term.

use super::nest::{Nest, statements, with_statements};
use crate::arith::same;
use crate::tir::analysis::{PairOp, limit, pair_update, same_indices, with_access_regions};
use crate::tir::transform::renew_stmt;
use crate::tir::{Block, BlockRealize, Buffer, BufferStore, For, PrimExpr, PrimFunc, Stmt};

/// `func` with two sweeps for each position of an extreme whose value nothing else uses; `None` if it has no such block.
pub(super) fn in_two_sweeps(func: &PrimFunc) -> Option<PrimFunc> {
    let (root, stmts) = statements(func)?;
    let buffers = &root.block.alloc_buffers;
    let mut found = false;
    let mut made = Vec::new();
    for (at, stmt) in stmts.iter().enumerate() {
        let others = || stmts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, it)| it);
        let own = |value: &Buffer| buffers.contains(value) && !others().any(|it| uses(it, value));
        match Nest::of(stmt).and_then(|nest| nest.sweeps(own)) {
            Some(sweeps) => {
                found = true;
                made.extend(sweeps);
            }
            None => made.push(stmt.clone()),
        }
    }
    found.then(|| with_statements(func, root, made, buffers.iter().cloned()))
}

/// True if `stmt` reads or writes `buffer`.
fn uses(stmt: &Stmt, buffer: &Buffer) -> bool {
    let Some(nest) = Nest::of(stmt) else { return true };
    let block = &nest.realize.block;
    block.reads.iter().chain(block.writes.iter()).any(|region| region.buffer == *buffer)
}

impl Nest<'_> {
    /// The sweep for the value and that for its position, if this is the position of an extreme, and `own` holds for the buffer of the
    /// values.
    fn sweeps(&self, own: impl FnOnce(&Buffer) -> bool) -> Option<[Stmt; 2]> {
        let block = &self.realize.block;
        let pair = pair_update(&block.body)?;
        let PairOp::ArgExtreme { largest, last } = pair.op else { return None };
        let ([index, value], [position, element]) = (pair.stores, pair.terms);
        let (dtype, of_index) = (value.buffer.dtype, index.buffer.dtype);
        let start = limit(dtype, !largest);
        let nowhere = PrimExpr::int(if last { -1 } else { i64::MAX }, of_index);
        let starts = self.starts(index, &nowhere) && self.starts(value, &start);
        let numbers = dtype.is_float() || dtype.is_int();
        if !starts || !own(&value.buffer) || !numbers || !of_index.is_int() || of_index.bits() != 64 {
            return None;
        }
        let of = |store: &BufferStore| store.buffer.load(store.indices.clone());
        let best = if largest { of(value).max(element.clone()) } else { of(value).min(element.clone()) };
        let mut is_best = element.clone().equal(of(value));
        if dtype.is_float() {
            // The value is NaN if an element is.
            is_best = is_best.or(element.clone().not_equal(element));
        }
        let candidate = is_best.select(position.cast(of_index), nowhere.clone());
        let at = if last { of(index).max(candidate) } else { of(index).min(candidate) };
        let values = self.with_body(value, "_value", best, start);
        let positions = renew_stmt(&self.with_body(index, "", at, nowhere));
        Some([values, positions])
    }

    /// True if the block first stores `value` where `store` stores.
    fn starts(&self, store: &BufferStore, value: &PrimExpr) -> bool {
        let inits = match &self.realize.block.init {
            Some(Stmt::SeqStmt(steps)) => &**steps,
            _ => return false,
        };
        let is = |it: &BufferStore| {
            it.buffer == store.buffer && same_indices(&it.indices, &store.indices) && same(&it.value, value)
        };
        inits.iter().filter_map(Stmt::as_buffer_store).any(|it| is(it))
    }

    /// The nest with a block that stores one value.
    fn with_body(&self, store: &BufferStore, suffix: &str, value: PrimExpr, init: PrimExpr) -> Stmt {
        let block = &self.realize.block;
        let stores = |value: PrimExpr| Stmt::from(BufferStore { value, ..store.clone() });
        let block = with_access_regions(Block {
            name: format!("{}{suffix}", block.name).into(),
            init: Some(stores(init)),
            body: stores(value),
            ..(**block).clone()
        });
        let realize = BlockRealize { block: block.into(), ..self.realize.clone() };
        let loops = self.loops.iter().rev();
        loops.fold(realize.into(), |body, node| For { body, ..(*node).clone() }.into())
    }
}
