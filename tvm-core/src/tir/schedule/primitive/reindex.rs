//! `reindex`: a block accesses a copy of a buffer, which has one dimension for each axis in the indices.
//!
//! `y[i] += x[2 * i + k] * w[k]` with `x` becomes
//!
//! ```text
//! for i { for k { x_reindex[i, k] = x[2 * i + k] } }
//! for i { for k { y[i] += x_reindex[i, k] * w[k] } }
//! ```
//!
//! A buffer that the block reads is copied before the nest that holds the block; one that it writes is copied back after
//! this nest. Legal if all accesses of the block have the same indices, over axes and dimensions. A copy of what is read
//! needs indices that are known to lie in the buffer, for all values of the axes. What is written must be as for
//! `cache_write`.
//!
//! TVM counterpart: `reindex`.

use std::sync::Arc;

use super::cache_read::{is_written_whole, nest_over, read_all};
use super::cache_write::check_copy_back;
use crate::ir::BlockId;
use crate::tir::analysis::same_indices;
use crate::tir::schedule::rewrite::{self, Relocate, insert_in_scope, top_level_index, unique_block_name};
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, IterVar, Mutator, PrimExpr, Range, Stmt, Visitor,
    substitute_expr, walk_expr, walk_stmt,
};

const NAME: &str = "reindex";

/// Makes block `id` access the buffer `which`, one of those that it writes or reads, through a copy that its axes index.
/// Returns the copying block.
pub(in crate::tir::schedule) fn reindex(
    state: &mut ScheduleState,
    id: BlockId,
    which: &BufferArg,
) -> Result<BlockId, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let regions: Vec<BufferRegion> = block.writes.iter().chain(block.reads.iter()).cloned().collect();
    let buffer = which.find(NAME, (&block.name, "accesses"), &regions)?.buffer.clone();
    let show = |err: ScheduleError| err.show(state, &[StmtSRef::Block(id)]);
    let Some(scope) = state.scope_block(StmtSRef::Block(id)) else {
        return Err(ScheduleError::argument(NAME, "the root block has no buffers to copy"));
    };
    let writes = block.writes.iter().any(|write| write.buffer == buffer);
    let access = Access::of(state, block, &buffer).map_err(show)?;
    let at = match writes {
        true => check_copy_back(NAME, state, &realize, &buffer)?.1 + 1,
        false => access.check_copy(state, &realize, &buffer, scope).map_err(show)?,
    };
    if writes && analysis::single_store(block).is_none() {
        let why = format!("block `{}` is more than one store", block.name);
        return Err(show(ScheduleError::illegal(NAME, why)));
    }
    let copy = access.copy_of(&buffer).map_err(show)?;
    let (name, domain) = (unique_block_name(state, &copy.name), access.domain());
    let (copying, nest) = nest_over(&name, &domain, |axes| {
        let values = access.axes.iter().map(|iter| iter.var.id()).zip(axes.iter().cloned()).collect();
        let place: Vec<PrimExpr> =
            access.indices.iter().map(|index| substitute_expr(index, &values)).collect();
        match writes {
            true => Stmt::store(&buffer, place, copy.load(axes.to_vec())),
            false => Stmt::store(&copy, axes.to_vec(), buffer.load(place)),
        }
    });
    let body = insert_in_scope(&state.func().body, scope, at, nest, &copy);
    let body = if writes || scope == state.root() { body } else { read_all(state, &body, scope, &buffer) };
    let vars: Vec<PrimExpr> = access.axes.iter().map(|iter| PrimExpr::from(&iter.var)).collect();
    let place = |_: &[PrimExpr]| vars.clone().into();
    let region = |_: &[Range]| vars.iter().cloned().map(Range::point).collect();
    let mut relocate = Relocate { from: &buffer, to: &copy, place: &place, region: &region };
    state.replace_body(rewrite::with_block(&body, id, |block| {
        let block = Arc::new(block.clone());
        relocate.mutate_block(&block).unwrap_or_else(|| (*block).clone())
    }))?;
    Ok(copying)
}

/// How a block accesses a buffer.
struct Access {
    /// The indices of all loads and stores.
    indices: Arc<[PrimExpr]>,
    /// The axes that occur in them.
    axes: Vec<IterVar>,
}

impl Access {
    fn of(state: &ScheduleState, block: &Block, buffer: &Buffer) -> Result<Access, ScheduleError> {
        let refuse = |why: String| Err(ScheduleError::illegal(NAME, why));
        let (name, of) = (&block.name, &buffer.name);
        let second_name = block.match_buffers.iter().any(|it| it.source.buffer == *buffer);
        if second_name || !analysis::child_blocks(&block.body).is_empty() {
            return refuse(format!("block `{name}` holds other blocks, or a second name of `{of}`"));
        }
        let mut places = Places { buffer, found: Vec::new() };
        block.init.iter().chain([&block.body]).for_each(|stmt| places.visit_stmt(stmt));
        let Some((indices, others)) = places.found.split_first() else {
            return refuse(format!("block `{name}` only declares that it accesses `{of}`"));
        };
        if others.iter().any(|it| !same_indices(it, indices)) {
            return refuse(format!("block `{name}` accesses `{of}` at several places"));
        }
        let axes = analysis::counted_axes(state, block, indices)
            .map_err(|why| ScheduleError::illegal(NAME, format!("the indices of `{of}` {why}")))?;
        Ok(Access { indices: indices.clone(), axes })
    }

    fn domain(&self) -> Vec<Range> {
        self.axes.iter().map(|iter| iter.dom.clone()).collect()
    }

    /// Checks that all elements can be read before the nest of the block. Returns the position of this nest in `scope`.
    fn check_copy(
        &self,
        state: &ScheduleState,
        realize: &BlockRealize,
        buffer: &Buffer,
        scope: BlockId,
    ) -> Result<usize, ScheduleError> {
        let refuse = |why: String| Err(ScheduleError::illegal(NAME, why));
        let (name, of) = (&realize.block.name, &buffer.name);
        let position = |id: BlockId| top_level_index(state, scope, StmtSRef::Block(id));
        let Some(at) = position(realize.block.id) else {
            return refuse(format!("block `{name}` is not in a plain sequence"));
        };
        let writers = rewrite::writers(state, buffer);
        if let Some(writer) = writers.iter().find(|it| position(it.block.id).is_none_or(|place| place >= at))
        {
            return refuse(format!(
                "block `{}` writes `{of}` beside or after block `{name}`",
                writer.block.name
            ));
        }
        if rewrite::is_intermediate(state, buffer) && !is_written_whole(state, buffer)? {
            let why = format!(
                "no block is known to write all of `{of}`: the copy would read elements that were never written"
            );
            return refuse(why);
        }
        let mut analyzer = rewrite::dims_analyzer(state);
        self.axes.iter().for_each(|iter| analyzer.bind_range(&iter.var, &iter.dom));
        let inside = |(index, extent): (&PrimExpr, &PrimExpr)| {
            let bounds = [index.clone().greater_equal(0), index.clone().less(extent)];
            bounds.iter().all(|bound| analyzer.can_prove(bound))
        };
        if !self.indices.iter().zip(buffer.shape.iter()).all(inside) {
            let why = format!("the indices of `{of}` are not known to lie in it for all values of the axes");
            return refuse(why);
        }
        Ok(at)
    }

    /// A buffer with a dimension for each axis.
    fn copy_of(&self, buffer: &Buffer) -> Result<Buffer, ScheduleError> {
        let shape: Vec<PrimExpr> = self.axes.iter().map(|iter| iter.dom.extent.clone()).collect();
        if let Some(elements) = rewrite::too_many_elements(&shape) {
            let why = format!("the copy of `{}` would have {elements} elements", buffer.name);
            return Err(ScheduleError::illegal(NAME, why));
        }
        Ok(buffer.renew(|node| {
            node.name = format!("{}_reindex", buffer.name).into();
            node.shape = shape.into();
            node.strides = [].into();
            node.elem_offset = None;
        }))
    }
}

/// Collects the indices of loads and stores of a buffer.
struct Places<'a> {
    buffer: &'a Buffer,
    found: Vec<Arc<[PrimExpr]>>,
}

impl Visitor for Places<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr
            && load.buffer == *self.buffer
        {
            self.found.push(load.indices.clone());
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt
            && store.buffer == *self.buffer
        {
            self.found.push(store.indices.clone());
        }
        walk_stmt(self, stmt);
    }
}
