//! Finds the regions that a block reads and writes from its init and body.
//!
//! TVM counterpart: `GetBlockReadWriteRegion`, `BlockReadWriteDetector`.

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashSet};
use tvm_runtime::DataType;

use super::reads_memory;
use crate::arith::{Analyzer, DomMap, IntervalSet};
use crate::ir::{BufferId, VarId};
use crate::tir::{
    BinaryOp, Block, Buffer, BufferRegion, MatchBufferRegion, PrimExpr, Range, Stmt, Visitor, any_expr,
    walk_expr, walk_stmt,
};

/// `block` with `reads` and `writes` derived from its init and body. In a block with an init, an update does not count
/// as a read of what it updates. Buffers of the block itself do not count.
#[must_use]
pub fn with_access_regions(block: Block) -> Block {
    let (mut reads, writes) = access_regions(&block);
    if block.init.is_some() {
        reads.retain(|read| {
            !writes.iter().any(|write| write.buffer == read.buffer && same_region(read, write))
        });
    }
    let own = |region: &BufferRegion| block.alloc_buffers.contains(&region.buffer);
    let outside = |regions: Vec<BufferRegion>| regions.into_iter().filter(|region| !own(region)).collect();
    Block { reads: outside(reads), writes: outside(writes), ..block }
}

/// The regions that the init and body of `block` read and write, over all iterations of the loops inside them, in order of
/// first access. An access to a matched buffer is one to the whole region that it matches.
fn access_regions(block: &Block) -> (Vec<BufferRegion>, Vec<BufferRegion>) {
    let stmts: Vec<&Stmt> = block.init.iter().chain([&block.body]).collect();
    let mut detect = Detect { analyzer: index_variables(&stmts), ..Detect::default() };
    stmts.iter().for_each(|stmt| detect.visit_stmt(stmt));
    detect.sources(&block.match_buffers);
    let Detect { analyzer, reads, writes, .. } = detect;
    let finish = |accesses: IndexMap<BufferId, Access, FxBuildHasher>| {
        accesses.into_values().map(|access| access.region(&analyzer)).collect()
    };
    (finish(reads), finish(writes))
}

/// Treats the `i64` variables of `stmts` as indices, except those that a `let` or a `Bind` gives a value: an accessed
/// element is inside its buffer, so its index does not overflow.
fn index_variables(stmts: &[&Stmt]) -> Analyzer {
    #[derive(Default)]
    struct Indices {
        analyzer: Analyzer,
        values: FxHashSet<VarId>,
    }
    impl Visitor for Indices {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            match expr {
                PrimExpr::Var(var) if var.dtype() == DataType::I64 && !self.values.contains(&var.id()) => {
                    self.analyzer.bind_index(var);
                }
                PrimExpr::Let(it) => drop(self.values.insert(it.var.id())),
                _ => {}
            }
            walk_expr(self, expr);
        }
        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::Bind(it) = stmt {
                self.values.insert(it.var.id());
            }
            walk_stmt(self, stmt);
        }
    }
    let mut indices = Indices::default();
    stmts.iter().for_each(|stmt| indices.visit_stmt(stmt));
    indices.analyzer
}

fn same_region(a: &BufferRegion, b: &BufferRegion) -> bool {
    let mut ranges = a.region.iter().zip(b.region.iter());
    ranges.all(|(a, b)| crate::arith::same(&a.min, &b.min) && crate::arith::same(&a.extent, &b.extent))
}

struct Access {
    buffer: Buffer,
    dims: Vec<IntervalSet>,
}

impl Access {
    fn region(self, analyzer: &Analyzer) -> BufferRegion {
        let plain_range = |set: &IntervalSet| {
            set.min.as_ref().filter(|min| is_plain(min))?;
            set.to_range(analyzer).filter(|range| is_plain(&range.min) && is_plain(&range.extent))
        };
        let range = |(set, extent): (IntervalSet, &PrimExpr)| {
            plain_range(&set).unwrap_or_else(|| Range::from_extent(extent.clone()))
        };
        let region = self.dims.into_iter().zip(self.buffer.shape.iter()).map(range).collect();
        BufferRegion { buffer: self.buffer, region }
    }
}

/// True when `end` does not choose between accesses: it contains no minimum, maximum, select or load.
fn is_plain(end: &PrimExpr) -> bool {
    let choice = |it: &PrimExpr| match it {
        PrimExpr::Binary(it) => matches!(it.op, BinaryOp::Min | BinaryOp::Max),
        _ => matches!(it, PrimExpr::BufferLoad(_) | PrimExpr::Select(_)),
    };
    !any_expr(end, &mut |it| choice(it))
}

#[derive(Default)]
struct Detect {
    analyzer: Analyzer,
    /// Value sets of the loop variables, axes and names inside.
    dom: DomMap,
    reads: IndexMap<BufferId, Access, FxBuildHasher>,
    writes: IndexMap<BufferId, Access, FxBuildHasher>,
    /// Buffers that are allocated inside; accesses to them do not count.
    local: FxHashSet<BufferId>,
}

impl Detect {
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], write: bool) {
        if self.local.contains(&buffer.id) {
            return;
        }
        // An index that reads memory may have any value.
        let set = |index: &PrimExpr| match index.dtype().is_scalar() && !reads_memory(index) {
            true => self.analyzer.int_set(index, &self.dom),
            false => IntervalSet::everything(),
        };
        let dims: Vec<IntervalSet> = indices.iter().map(set).collect();
        self.record(buffer, dims, write);
    }

    fn record(&mut self, buffer: &Buffer, dims: Vec<IntervalSet>, write: bool) {
        let accesses = if write { &mut self.writes } else { &mut self.reads };
        match accesses.get_mut(&buffer.id) {
            Some(access) => {
                access.dims =
                    access.dims.iter().zip(&dims).map(|(a, b)| a.union(b, &self.analyzer)).collect();
            }
            None => drop(accesses.insert(buffer.id, Access { buffer: buffer.clone(), dims })),
        }
    }

    /// Makes the accesses to matched buffers accesses to what they match, innermost first.
    fn sources(&mut self, matched: &[MatchBufferRegion]) {
        for MatchBufferRegion { buffer, source } in matched.iter().rev() {
            for write in [false, true] {
                let accesses = if write { &mut self.writes } else { &mut self.reads };
                if accesses.shift_remove(&buffer.id).is_some() && !self.local.contains(&source.buffer.id) {
                    let set = |range: &Range| self.analyzer.range_set(range, &self.dom);
                    let dims = source.region.iter().map(set).collect();
                    self.record(&source.buffer, dims, write);
                }
            }
        }
    }
}

impl Visitor for Detect {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) => self.access(&load.buffer, &load.indices, false),
            PrimExpr::Let(it) => {
                let set = self.analyzer.int_set(&it.value, &self.dom);
                self.dom.insert(it.var.id(), set);
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BufferStore(store) => self.access(&store.buffer, &store.indices, true),
            Stmt::For(it) => {
                let set = self.analyzer.range_set(&it.range(), &self.dom);
                self.dom.insert(it.loop_var.id(), set);
            }
            Stmt::BlockRealize(it) => {
                for (iter, value) in it.block.iter_vars.iter().zip(it.iter_values.iter()) {
                    let set = self.analyzer.int_set(value, &self.dom);
                    self.dom.insert(iter.var.id(), set);
                }
            }
            Stmt::Bind(it) => {
                self.dom.insert(it.var.id(), IntervalSet::everything());
            }
            Stmt::AllocBuffer(it) => drop(self.local.insert(it.buffer.id)),
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        self.local.extend(block.alloc_buffers.iter().map(|it| it.id));
        block.init.iter().for_each(|init| self.visit_stmt(init));
        self.visit_stmt(&block.body);
        self.sources(&block.match_buffers);
    }
}
