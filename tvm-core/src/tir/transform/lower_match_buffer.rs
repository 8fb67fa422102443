//! Replaces matched buffers by the regions that they match.
//!
//! TVM counterpart: `LowerMatchBuffer`.
//! Ensures: no block matches buffers; variables in the shape, strides and offset of a matched buffer are replaced by
//! their values.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::align_storage::without_alignments;
use super::util::{DeepSubstitute, body_pass};
use crate::ir::BufferId;
use crate::pass::Pass;
use crate::tir::{Block, Buffer, BufferLoad, BufferRegion, BufferStore, Mutator, PrimExpr, Stmt, Traverse};

/// Accesses of matched buffers become accesses of their sources.
pub fn lower_match_buffer() -> Pass {
    body_pass("LowerMatchBuffer", |func| without_matched_buffers(&func.body))
}

/// `stmt` with accesses of matched buffers as accesses of their sources; `None` if there are no matched buffers.
pub(in crate::tir) fn without_matched_buffers(stmt: &Stmt) -> Option<Stmt> {
    let mut lower = LowerMatchBuffer::default();
    let new = lower.mutate_stmt(stmt)?;
    // Strides that the program names do not change any more.
    let fixed = if lower.names_layout { without_alignments(&new) } else { None };
    Some(fixed.unwrap_or(new))
}

/// Source of a matched buffer: a buffer, and the index in it of the first element.
type Source = (Buffer, Vec<PrimExpr>);

#[derive(Default)]
struct LowerMatchBuffer {
    sources: FxHashMap<BufferId, Source>,
    vars: DeepSubstitute,
    /// True when the strides or the offset of a matched buffer have names.
    names_layout: bool,
}

impl LowerMatchBuffer {
    fn bind(&mut self, formal: Option<&PrimExpr>, actual: PrimExpr) {
        // A symbolic extent that both have is no formal of its own.
        let same = |id| actual.as_var().is_some_and(|actual| actual.id() == id);
        if let Some(var) = formal.and_then(PrimExpr::as_var).filter(|var| !same(var.id())) {
            self.vars.vars.insert(var.id(), actual);
        }
    }

    /// Records the source of `buffer`, which matches `region`.
    fn enter(&mut self, buffer: &Buffer, region: &BufferRegion) {
        let region = Traverse::mutate(region, self).unwrap_or_else(|| region.clone());
        let mins: Vec<PrimExpr> = region.region.iter().map(|range| range.min.clone()).collect();
        let source = self.translate(&region.buffer, &mins).unwrap_or((region.buffer.clone(), mins));
        let hidden = region.region.len().saturating_sub(buffer.ndim());
        for (formal, range) in buffer.shape.iter().zip(&region.region[hidden..]) {
            self.bind(Some(formal), range.extent.clone());
        }
        self.names_layout |= !buffer.strides.is_empty() || buffer.elem_offset.is_some();
        let strides = row_major_strides(&source.0);
        let offset = strides.iter().zip(&source.1).map(|(stride, min)| min.clone() * stride);
        let offset = offset.fold(source.0.elem_offset.clone().unwrap_or(PrimExpr::index(0)), |a, b| a + b);
        let hidden = strides.len().saturating_sub(buffer.ndim());
        for (formal, stride) in buffer.strides.iter().zip(&strides[hidden..]) {
            self.bind(Some(formal), stride.clone());
        }
        self.bind(buffer.elem_offset.as_ref(), offset);
        self.sources.insert(buffer.id, source);
    }

    /// `buffer[indices]` in terms of the source of `buffer`, if it has one.
    fn translate(&self, buffer: &Buffer, indices: &[PrimExpr]) -> Option<Source> {
        let (source, mins) = self.sources.get(&buffer.id)?;
        let hidden = mins.len().saturating_sub(indices.len());
        let indices = mins.iter().enumerate().map(|(i, min)| match i.checked_sub(hidden) {
            Some(k) => min.clone() + &indices[k],
            None => min.clone(),
        });
        Some((source.clone(), indices.collect()))
    }
}

/// Strides of `buffer` in elements.
pub(super) fn row_major_strides(buffer: &Buffer) -> Vec<PrimExpr> {
    if !buffer.strides.is_empty() {
        return buffer.strides.to_vec();
    }
    let mut strides = vec![PrimExpr::index(1); buffer.ndim()];
    for axis in (1..buffer.ndim()).rev() {
        strides[axis - 1] = strides[axis].clone() * &buffer.shape[axis];
    }
    strides
}

impl Mutator for LowerMatchBuffer {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let Some(var) = expr.as_var() {
            return self.vars.vars.get(&var.id()).cloned();
        }
        let walked = self.walk_expr(expr);
        if let PrimExpr::BufferLoad(load) = walked.as_ref().unwrap_or(expr)
            && let Some((buffer, indices)) = self.translate(&load.buffer, &load.indices)
        {
            let (indices, span) = (indices.into(), load.span.clone());
            let predicate = load.predicate.clone();
            return Some(PrimExpr::BufferLoad(Arc::new(BufferLoad { buffer, indices, predicate, span })));
        }
        walked
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        if let Stmt::BufferStore(store) = walked.as_ref().unwrap_or(stmt)
            && let Some((buffer, indices)) = self.translate(&store.buffer, &store.indices)
        {
            return Some(BufferStore { buffer, indices: indices.into(), ..(**store).clone() }.into());
        }
        walked
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        if self.sources.contains_key(&buffer.id) { None } else { self.vars.mutate_buffer(buffer) }
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        for matched in block.match_buffers.iter() {
            self.enter(&matched.buffer, &matched.source);
        }
        if block.match_buffers.is_empty() {
            return self.walk_block(block);
        }
        // The access regions may refer to matched buffers; no later pass reads them.
        let block = Block {
            match_buffers: Arc::new([]),
            reads: Arc::new([]),
            writes: Arc::new([]),
            ..(**block).clone()
        };
        let block = Arc::new(block);
        Some(self.walk_block(&block).unwrap_or_else(|| (*block).clone()))
    }
}
