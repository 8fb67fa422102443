//! Checks of blocks: the values of their axes, and the views and buffers that they declare.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::context::reads;
use super::check::{Axes, Subject};
use super::hoist::{Frame, image};
use super::{CheckBounds, bytes};
use crate::ir::{IrError, Span, Var};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, MatchBufferRegion, Mutator, PrimExpr, Range, Stmt,
    substitute_expr,
};

impl CheckBounds<'_> {
    pub(super) fn realize(&mut self, it: &BlockRealize) -> Option<Stmt> {
        let values = self.mutate_exprs(&it.iter_values);
        let predicate = self.mutate_expr(&it.predicate);
        let head = std::mem::take(&mut self.pending);
        let frame = self.block_frame(it);
        let (block, checks) = self.scope(frame, |pass| {
            pass.under(
                &it.predicate,
                |pass, part| pass.lasts(part, &it.block.body),
                |pass| {
                    pass.axes(it);
                    pass.block(&it.block)
                },
            )
        });
        let changed = values.is_some() || predicate.is_some() || block.is_some();
        let new = BlockRealize {
            iter_values: values.unwrap_or_else(|| it.iter_values.clone()),
            predicate: predicate.unwrap_or_else(|| it.predicate.clone()),
            block: block.map_or_else(|| it.block.clone(), Arc::new),
        };
        let checks = [head, checks].concat();
        self.checked(checks, &Stmt::from(it.clone()), changed.then(|| new.into()))
    }

    /// The frame of a block: the values of its axes, and the ranges that they cover in the loops directly around it.
    fn block_frame(&self, it: &BlockRealize) -> Frame {
        let values: Vec<(Var, PrimExpr)> = it
            .block
            .iter_vars
            .iter()
            .zip(it.iter_values.iter())
            .map(|(iter, value)| (iter.var.clone(), self.resolve(value)))
            .collect();
        let predicate = self.resolve(&it.predicate);
        let loops = self.scopes.iter().rev().map_while(|scope| match &scope.frame {
            Frame::Loop { var, range, .. } => Some((var.clone(), range.clone())),
            Frame::Block { .. } | Frame::Branch => None,
        });
        let loops: Axes = loops.collect::<Vec<_>>().into_iter().rev().collect();
        let image = image(&values, &loops, &predicate, &self.analyzer);
        let values: FxHashMap<_, _> = values.into_iter().map(|(var, value)| (var.id(), value)).collect();
        Frame::Block { values, predicate, image }
    }

    /// Checks that the axes of the block are in their domains, and records these as known ranges.
    fn axes(&mut self, it: &BlockRealize) {
        let block = &it.block;
        for (number, (iter, value)) in block.iter_vars.iter().zip(it.iter_values.iter()).enumerate() {
            let (min, extent) = (self.resolve(&iter.dom.min), self.resolve(&iter.dom.extent));
            let value = self.resolve(value);
            let of_loops = substitute_expr(&value, &self.axes);
            self.axes.insert(iter.var.id(), of_loops);
            let subject = Subject::Axis {
                block: block.name.to_string(),
                axis: iter.var.name().to_string(),
                number,
                start: min.clone(),
            };
            let index = PrimExpr::from(&iter.var) - &min;
            self.check_as(subject, &index, &(value - &min), &extent, &block.span);
        }
        for iter in block.iter_vars.iter() {
            let range = Range { min: self.resolve(&iter.dom.min), extent: self.resolve(&iter.dom.extent) };
            self.enter_range(&iter.var, &range);
        }
    }

    fn block(&mut self, block: &Block) -> Option<Block> {
        block.alloc_buffers.iter().for_each(|buffer| self.allocation(buffer));
        block.match_buffers.iter().for_each(|matched| self.view(matched, &block.span));
        // Insert the checks before the init and before the body: either may run.
        let head = std::mem::take(&mut self.pending);
        let mut part = |stmt: &Stmt| {
            let new = self.mutate_stmt(stmt);
            self.checked(head.clone(), stmt, new)
        };
        let init = block.init.as_ref().and_then(&mut part);
        let body = part(&block.body);
        (init.is_some() || body.is_some()).then(|| Block {
            init: init.or_else(|| block.init.clone()),
            body: body.unwrap_or_else(|| block.body.clone()),
            ..block.clone()
        })
    }

    /// Checks that the region of `matched` is inside its source, and that its extents do not exceed those of the region.
    fn view(&mut self, matched: &MatchBufferRegion, span: &Span) {
        let MatchBufferRegion { buffer, source: BufferRegion { buffer: source, region } } = matched;
        let Some(hidden) = region.len().checked_sub(buffer.ndim()) else {
            let message = format!("`{}` has more dimensions than the region that it names", buffer.name);
            return self.fail(IrError::new(message, span).help("give it one dimension per range"));
        };
        let depth = self.path.len();
        for range in region.iter() {
            let runs = self.resolve(&range.extent).greater(0);
            if !self.analyzer.can_prove(&runs) {
                self.path.push(runs);
            }
        }
        for (axis, range) in region.iter().enumerate() {
            for index in [range.min.clone(), &range.min + &range.extent - 1] {
                self.axis(source, axis, &self.resolve(&index), span);
            }
        }
        self.path.truncate(depth);
        for (axis, (extent, range)) in buffer.shape.iter().zip(&region[hidden..]).enumerate() {
            let most = self.resolve(&range.extent);
            match extent.as_var().filter(|var| !self.is_bound(var)) {
                Some(var) => self.name(var, &range.extent),
                None => {
                    let subject = Subject::View(source.clone(), axis + hidden);
                    self.check(subject, &self.resolve(extent), &(most + 1), span);
                }
            }
        }
        for formal in buffer.strides.iter().chain(&buffer.elem_offset) {
            if let Some(var) = formal.as_var().filter(|var| !self.is_bound(var)) {
                self.opaque.insert(var.id(), self.scopes.len());
            }
        }
    }

    /// True when `var` is bound already.
    fn is_bound(&self, var: &Var) -> bool {
        let id = var.id();
        let loops = self.scopes.iter().any(|scope| match &scope.frame {
            Frame::Loop { var: loop_var, .. } => loop_var == var,
            Frame::Block { .. } | Frame::Branch => false,
        });
        let param = |param: &crate::tir::Param| match param.buffer() {
            Some(buffer) => buffer.shape.iter().any(|extent| extent.as_var() == Some(var)),
            None => matches!(param, crate::tir::Param::Scalar(scalar) if scalar == var),
        };
        self.values.contains_key(&id)
            || self.opaque.contains_key(&id)
            || self.axes.contains_key(&id)
            || loops
            || self.func.params.iter().any(param)
    }

    /// Checks that the size of `buffer` fits, and that no element lies before its start.
    pub(super) fn allocation(&mut self, buffer: &Buffer) {
        for part in buffer.strides.iter().chain(&buffer.elem_offset) {
            let part = self.resolve(part);
            let known = self.extents.is_index(&part) && self.analyzer.can_prove(&part.greater_equal(0));
            if !known {
                let message = format!("a stride or the offset of buffer `{}` may be negative", buffer.name);
                return self
                    .fail(IrError::new(message, &buffer.span).help("use strides that are dimensions"));
            }
        }
        if buffer.shape.iter().any(reads) {
            let message = format!("an extent of buffer `{}` reads memory", buffer.name);
            return self.fail(IrError::new(message, &buffer.span).help("give the extent a name first"));
        }
        let shape: Vec<PrimExpr> = buffer.shape.iter().map(|extent| self.resolve(extent)).collect();
        for (axis, extent) in shape.iter().enumerate() {
            self.not_negative(Subject::Extent(buffer.clone(), axis), extent, &buffer.span);
        }
        if shape.iter().any(|extent| !self.extents.is_index(extent)) {
            let limit = PrimExpr::index(super::extents::LIMIT);
            let sized = buffer.renew(|node| node.shape = shape.into());
            self.check(Subject::Size(buffer.clone()), &bytes(&sized), &limit, &buffer.span);
        }
    }
}
