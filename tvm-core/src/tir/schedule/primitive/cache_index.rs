//! `cache_index`: the indices of a block's loads are computed once, before its nest, and the block loads them.
//!
//! `y[i, j] = x[i * 7 % 5, j] + w[i * 7 % 5]` with expressions that occur twice becomes
//!
//! ```text
//! for i { index_var_0[i] = i * 7 % 5 }
//! for i { for j { y[i, j] = x[index_var_0[i], j] + w[index_var_0[i]] } }
//! ```
//!
//! Takes integer expressions over axes and dimensions whose evaluation cannot fail, the largest first. Indices of stores stay
//! as they are: they show that iterations write different elements.
//!
//! TVM counterpart: `cache_index`.

use tvm_runtime::DataType;

use super::cache_read::nest_over;
use crate::ir::BlockId;
use crate::tir::analysis::{is_total, with_access_regions};
use crate::tir::schedule::rewrite::{
    self, insert_in_scope, top_level_index, unique_block_name, walk_block_body,
};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    Block, Buffer, IterVar, Mutator, PrimExpr, Range, Scope, Stmt, Visitor, any_expr, substitute_expr,
    walk_expr,
};

const NAME: &str = "cache_index";

/// The most buffers of indices that are made at once.
const MAX_BUFFERS: usize = 16;

/// Caches in `scope` the expressions that occur at least `uses` times in the indices of the loads of block `id`. Returns the
/// blocks that compute them.
pub(in crate::tir::schedule) fn cache_index(
    state: &mut ScheduleState,
    id: BlockId,
    scope: Scope,
    uses: usize,
) -> Result<Vec<BlockId>, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let marked = [StmtSRef::Block(id)];
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    let Some(around) = state.scope_block(marked[0]) else {
        return Err(ScheduleError::argument(NAME, "the root block has no axes"));
    };
    if !analysis::child_blocks(&block.body).is_empty() || !block.match_buffers.is_empty() {
        return refuse(format!("block `{}` holds other blocks, or second names of buffers", block.name));
    }
    let Some(place) = top_level_index(state, around, marked[0]) else {
        return refuse(format!("block `{}` is not in a plain sequence", block.name));
    };
    let mut new = state.clone();
    let mut blocks = Vec::new();
    let mut replace = Replace { cached: Vec::new(), in_index: false };
    for (expr, axes) in common(state, block, uses) {
        let shape: Vec<PrimExpr> = axes.iter().map(|iter| iter.dom.extent.clone()).collect();
        if let Some(elements) = rewrite::too_many_elements(&shape) {
            return refuse(format!("a buffer of indices would have {elements} elements"));
        }
        let name = unique_block_name(&new, &format!("index_var_{}", blocks.len()));
        let buffer = Buffer::with_scope(name.clone(), shape, DataType::I64, scope);
        let domain: Vec<Range> = axes.iter().map(|iter| iter.dom.clone()).collect();
        let (block, nest) = nest_over(&name, &domain, |at| {
            let values = axes.iter().map(|iter| iter.var.id()).zip(at.iter().cloned()).collect();
            Stmt::store(&buffer, at.to_vec(), substitute_expr(&expr, &values))
        });
        new.replace_body(insert_in_scope(&new.func().body, around, place + blocks.len(), nest, &buffer))?;
        let at: Vec<PrimExpr> = axes.iter().map(|iter| PrimExpr::from(&iter.var)).collect();
        replace.cached.push((expr, buffer.load(at)));
        blocks.push(block);
    }
    new.replace_body(rewrite::with_block(&new.func().body, id, |block| {
        walk_block_body(&mut replace, block).map_or_else(|| block.clone(), with_access_regions)
    }))?;
    *state = new;
    Ok(blocks)
}

/// The expressions to cache, with the axes that occur in them.
fn common(state: &ScheduleState, block: &Block, uses: usize) -> Vec<(PrimExpr, Vec<IterVar>)> {
    let mut found: Vec<(PrimExpr, Vec<IterVar>)> = Vec::new();
    while found.len() < MAX_BUFFERS {
        let mut count = Count { cached: &found, in_index: false, counts: Vec::new() };
        block.init.iter().chain([&block.body]).for_each(|stmt| count.visit_stmt(stmt));
        let often = count.counts.into_iter().filter(|(_, count)| *count >= uses);
        let known = often.filter_map(|(expr, _)| {
            let axes = analysis::counted_axes(state, block, std::slice::from_ref(&expr)).ok()?;
            is_total(&expr).then_some((expr, axes))
        });
        // The first of the largest.
        let largest = known.rev().max_by_key(|(expr, _)| size(expr));
        match largest {
            Some(largest) => found.push(largest),
            None => break,
        }
    }
    found
}

/// Number of nodes.
fn size(expr: &PrimExpr) -> usize {
    let mut size = 0;
    any_expr(expr, &mut |_| {
        size += 1;
        false
    });
    size
}

fn is_compound(expr: &PrimExpr) -> bool {
    expr.dtype() == DataType::I64 && matches!(expr, PrimExpr::Binary(_))
}

/// Counts the compound expressions in indices of loads, without those that are cached.
struct Count<'a> {
    cached: &'a [(PrimExpr, Vec<IterVar>)],
    in_index: bool,
    counts: Vec<(PrimExpr, usize)>,
}

impl Visitor for Count<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        let outer = self.in_index;
        if outer && is_compound(expr) {
            if self.cached.iter().any(|(it, _)| crate::arith::same(it, expr)) {
                return;
            }
            match self.counts.iter_mut().find(|(it, _)| crate::arith::same(it, expr)) {
                Some((_, count)) => *count += 1,
                None => self.counts.push((expr.clone(), 1)),
            }
        }
        self.in_index |= matches!(expr, PrimExpr::BufferLoad(_));
        walk_expr(self, expr);
        self.in_index = outer;
    }
}

/// Replaces expressions in indices of loads.
struct Replace {
    cached: Vec<(PrimExpr, PrimExpr)>,
    in_index: bool,
}

impl Mutator for Replace {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let outer = self.in_index;
        if outer && let Some((_, load)) = self.cached.iter().find(|(it, _)| crate::arith::same(it, expr)) {
            return Some(load.clone());
        }
        self.in_index |= matches!(expr, PrimExpr::BufferLoad(_));
        let new = self.walk_expr(expr);
        self.in_index = outer;
        new
    }
}
