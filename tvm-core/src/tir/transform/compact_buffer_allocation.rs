//! Shrinks allocated buffers to the region that is accessed during their lifetime.
//!
//! TVM counterpart: `CompactBufferAllocation`.
//! Requires: no blocks, allocations where they belong
//! ([`plan_and_update_buffer_allocation_location`](super::plan_and_update_buffer_allocation_location)). Ensures: if at
//! most a constant number of elements is accessed along an axis of an allocated buffer, the axis has that extent.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::context::{analyzer_for, enter_loop};
use super::util::body_pass;
use crate::arith::{Analyzer, DomMap, IntervalSet};
use crate::ir::{BufferId, VarId};
use crate::pass::Pass;
use crate::tir::{
    AllocBuffer, Buffer, BufferLoad, BufferStore, Intrinsic, Mutator, PrimCallee, PrimExpr, Stmt, Visitor,
    any_expr, walk_expr, walk_stmt,
};

/// A symbolic extent is replaced only by a constant below this limit: a larger bound comes from the width of an index
/// type, not from the memory that is needed.
const LARGEST: i64 = 1 << 16;

/// Shrinks allocated buffers.
pub fn compact_buffer_allocation() -> Pass {
    body_pass("CompactBufferAllocation", |func| {
        Compact { analyzer: analyzer_for(func), new: FxHashMap::default() }.mutate_stmt(&func.body)
    })
}

struct Compact {
    analyzer: Analyzer,
    /// By old buffer, the shrunk buffer and the index of its first element in the old one.
    new: FxHashMap<BufferId, (Buffer, Vec<PrimExpr>)>,
}

impl Compact {
    /// Shrinks `buffer`, which `stmts` use, if there is something to gain.
    fn shrink(&mut self, buffer: &Buffer, stmts: &[Stmt]) -> Option<Buffer> {
        if !buffer.strides.is_empty() || buffer.elem_offset.is_some() {
            return None;
        }
        let mut touched = Touched {
            buffer,
            analyzer: self.analyzer.clone(),
            dom: DomMap::default(),
            bound: FxHashSet::default(),
            region: vec![None; buffer.ndim()],
            opaque: false,
        };
        stmts.iter().for_each(|stmt| touched.visit_stmt(stmt));
        if touched.opaque {
            return None;
        }
        let mut shape = buffer.shape.to_vec();
        let mut mins = vec![PrimExpr::index(0); buffer.ndim()];
        for (axis, set) in touched.region.iter().enumerate() {
            let Some(range) = set.as_ref().and_then(|set| set.to_range(&self.analyzer)) else { continue };
            let bound = self.analyzer.const_int_bound(&range.extent);
            let Ok(most) = i64::try_from(bound.max) else { continue };
            let smaller = most < buffer.shape[axis].as_int().unwrap_or(LARGEST);
            let fixed = !any_expr(&range.min, &mut |expr| match expr {
                PrimExpr::Var(var) => touched.bound.contains(&var.id()),
                PrimExpr::BufferLoad(_) | PrimExpr::Call(_) => true,
                _ => false,
            });
            if smaller && fixed && (1..1 << 62).contains(&most) {
                shape[axis] = PrimExpr::index(most);
                mins[axis] = range.min;
            }
        }
        if mins.iter().all(|min| min.is_const(0))
            && shape.iter().zip(buffer.shape.iter()).all(|(a, b)| a.ptr_eq(b))
        {
            return None;
        }
        let new = buffer.renew(|node| node.shape = shape.into());
        self.new.insert(buffer.id, (new.clone(), mins));
        Some(new)
    }

    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr]) -> Option<(Buffer, Arc<[PrimExpr]>)> {
        let indices: Vec<PrimExpr> =
            indices.iter().map(|index| self.mutate_expr(index).unwrap_or_else(|| index.clone())).collect();
        let (new, mins) = self.new.get(&buffer.id)?;
        let shifted =
            indices.into_iter().zip(mins).map(|(index, min)| self.analyzer.simplify(&(index - min)));
        Some((new.clone(), shifted.collect()))
    }
}

impl Mutator for Compact {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::BufferLoad(load) = expr
            && self.new.contains_key(&load.buffer.id)
        {
            let (buffer, indices) = self.access(&load.buffer, &load.indices)?;
            return Some(PrimExpr::BufferLoad(Arc::new(BufferLoad {
                buffer,
                indices,
                predicate: load.predicate.clone(),
                span: load.span.clone(),
            })));
        }
        self.walk_expr(expr)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::SeqStmt(stmts) => {
                let mut out = Vec::with_capacity(stmts.len());
                let mut changed = false;
                for (at, stmt) in stmts.iter().enumerate() {
                    let new = match stmt {
                        Stmt::AllocBuffer(alloc) => self
                            .shrink(&alloc.buffer, &stmts[at + 1..])
                            .map(|buffer| AllocBuffer { buffer, ..(**alloc).clone() }.into()),
                        other => self.mutate_stmt(other),
                    };
                    changed |= new.is_some();
                    out.push(new.unwrap_or_else(|| stmt.clone()));
                }
                changed.then(|| Stmt::seq(out))
            }
            Stmt::BufferStore(store) if self.new.contains_key(&store.buffer.id) => {
                let value = self.mutate_expr(&store.value).unwrap_or_else(|| store.value.clone());
                let (buffer, indices) = self.access(&store.buffer, &store.indices)?;
                Some(BufferStore { buffer, value, indices, ..(**store).clone() }.into())
            }
            Stmt::For(node) => {
                enter_loop(&mut self.analyzer, node);
                self.walk_stmt(stmt)
            }
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.walk_stmt(stmt),
        }
    }
}

/// The bounding box of the accesses of statements to a buffer.
struct Touched<'a> {
    buffer: &'a Buffer,
    analyzer: Analyzer,
    /// Ranges of the loops inside.
    dom: DomMap,
    /// Variables bound inside.
    bound: FxHashSet<VarId>,
    /// Per axis; `None` before the first access.
    region: Vec<Option<IntervalSet>>,
    /// True when the address of the buffer escapes.
    opaque: bool,
}

impl Touched<'_> {
    fn touch(&mut self, indices: &[PrimExpr]) {
        for (axis, index) in indices.iter().enumerate() {
            let set = self.analyzer.int_set(index, &self.dom);
            let known = self.region[axis].take();
            self.region[axis] = Some(match known {
                Some(known) => known.union(&set, &self.analyzer),
                None => set,
            });
        }
    }
}

impl Visitor for Touched<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) if load.buffer == *self.buffer => self.touch(&load.indices),
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => {
                self.opaque |=
                    matches!(&call.args[0], PrimExpr::BufferLoad(load) if load.buffer == *self.buffer);
            }
            PrimExpr::Let(it) => drop(self.bound.insert(it.var.id())),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::For(node) = stmt {
            self.dom.insert(node.loop_var.id(), self.analyzer.range_set(&node.range(), &self.dom));
            self.bound.insert(node.loop_var.id());
            enter_loop(&mut self.analyzer, node);
        }
        if let Stmt::Bind(node) = stmt {
            self.bound.insert(node.var.id());
        }
        if let Stmt::BufferStore(store) = stmt
            && store.buffer == *self.buffer
        {
            self.touch(&store.indices);
        }
        walk_stmt(self, stmt);
    }
}
