//! What a block reads and writes, computed from its body.
//!
//! TVM counterpart: `GetBlockReadWriteRegion`.

use super::linear::{Linear, Ranges, interval, same_exprs};
use crate::ir::Var;
use crate::tir::{Block, Buffer, BufferRegion, PrimExpr, Range, Stmt, Visitor, walk_expr, walk_stmt};

/// The regions that `stmts` read and write, over all iterations of the loops inside them.
pub fn access_regions(stmts: &[&Stmt]) -> (Vec<BufferRegion>, Vec<BufferRegion>) {
    let mut collect = Collect::default();
    stmts.iter().for_each(|stmt| collect.visit_stmt(stmt));
    let finish = |boxes: Vec<Access>| boxes.into_iter().map(Access::into_region).collect();
    (finish(collect.reads), finish(collect.writes))
}

/// `block` with `reads` and `writes` computed from its body. An update in a block with an init does not count as
/// reading what it updates.
pub fn fill_regions(mut block: Block) -> Block {
    let stmts: Vec<&Stmt> = block.init.iter().chain([&block.body]).collect();
    let (mut reads, writes) = access_regions(&stmts);
    if block.init.is_some() {
        reads.retain(|read| !writes.iter().any(|write| same_region(read, write)));
    }
    let outside = |region: &BufferRegion| !block.alloc_buffers.contains(&region.buffer);
    (block.reads, block.writes) =
        (reads.into_iter().filter(outside).collect(), writes.into_iter().filter(outside).collect());
    block
}

fn same_region(a: &BufferRegion, b: &BufferRegion) -> bool {
    let list = |region: &BufferRegion| -> Vec<PrimExpr> {
        region.region.iter().flat_map(|range| [range.min.clone(), range.extent.clone()]).collect()
    };
    a.buffer == b.buffer && same_exprs(&list(a), &list(b))
}

/// All accesses to one buffer so far; `None` for a dimension that is accessed as a whole.
struct Access {
    buffer: Buffer,
    dims: Vec<Option<(Linear, Linear)>>,
}

impl Access {
    fn into_region(self) -> BufferRegion {
        let range = |(dim, whole): (Option<(Linear, Linear)>, &PrimExpr)| match dim {
            Some((min, max)) => {
                let extent = max.plus_const(1).plus(&min, -1).to_expr();
                Range { min: min.to_expr(), extent }
            }
            None => Range::from_extent(whole.clone()),
        };
        let region = self.dims.into_iter().zip(self.buffer.shape.iter()).map(range).collect();
        BufferRegion { buffer: self.buffer, region }
    }
}

#[derive(Default)]
struct Collect {
    reads: Vec<Access>,
    writes: Vec<Access>,
    /// Loops and axes inside.
    inner: Ranges,
    /// Variables bound to values inside: their accesses are not bounded.
    bound: Vec<Var>,
    /// Buffers that live inside.
    local: Vec<Buffer>,
}

impl Collect {
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], write: bool) {
        if self.local.contains(buffer) {
            return;
        }
        let unbounded = |index: &PrimExpr| {
            crate::tir::any_expr(index, &mut |it| it.as_var().is_some_and(|var| self.bound.contains(var)))
        };
        let dims: Vec<_> = indices
            .iter()
            .map(|index| if unbounded(index) { None } else { interval(index, &self.inner) })
            .collect();
        let list = if write { &mut self.writes } else { &mut self.reads };
        match list.iter_mut().find(|access| access.buffer == *buffer) {
            Some(access) => {
                for (old, new) in access.dims.iter_mut().zip(dims) {
                    *old = hull(old.take(), new);
                }
            }
            None => list.push(Access { buffer: buffer.clone(), dims }),
        }
    }
}

/// The smallest interval around both, when the distances are constants.
fn hull(a: Option<(Linear, Linear)>, b: Option<(Linear, Linear)>) -> Option<(Linear, Linear)> {
    let ((a_min, a_max), (b_min, b_max)) = (a?, b?);
    let min = if a_min.minus(&b_min)? <= 0 { a_min } else { b_min };
    let max = if a_max.minus(&b_max)? >= 0 { a_max } else { b_max };
    Some((min, max))
}

impl Visitor for Collect {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(it) => self.access(&it.buffer, &it.indices, false),
            PrimExpr::Let(it) => self.bound.push(it.var.clone()),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BufferStore(it) => self.access(&it.buffer, &it.indices, true),
            Stmt::For(it) => self
                .inner
                .push((it.loop_var.clone(), Range { min: it.min.clone(), extent: it.extent.clone() })),
            Stmt::Bind(it) => self.bound.push(it.var.clone()),
            Stmt::AllocBuffer(it) => self.local.push(it.buffer.clone()),
            Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        self.local.extend(block.alloc_buffers.iter().cloned());
        let axes = block.iter_vars.iter().map(|iter| (iter.var.clone(), iter.dom.clone()));
        self.inner.extend(axes);
        // The body is what counts; the block's own regions are computed from it.
        block.init.iter().for_each(|stmt| self.visit_stmt(stmt));
        self.visit_stmt(&block.body);
    }
}
