//! Parts of the channels of a value in blocks: whole blocks of it.

use std::sync::Arc;

use super::{Blocks, Converter, SMALLEST};
use crate::ir::{Attrs, Span, Type, Var};
use crate::relax::{Arg, Call};
use crate::tir::PrimExpr;

impl Converter<'_> {
    /// Notes that `var` is bound to parts of the channels of a value in blocks. The call stays: what uses the parts one by one
    /// does not need it.
    pub(super) fn note_split(&mut self, var: &Var, call: &Call) {
        let [data] = &*call.args else { return };
        if self.blocked(data).is_some() && matches!(call.attrs.int("axis"), Some(1 | -3)) {
            self.splits.insert(var.id(), data.clone());
        }
    }

    /// Part `index` of the channels in `split`.
    pub(super) fn part(&mut self, split: &Var, index: usize, var: &Var) -> Option<(Var, Blocks)> {
        let data = self.splits.get(&split.id())?.clone();
        let Type::Tuple(parts) = split.ty() else { return None };
        let channels = |part: &Type| part.as_tensor()?.known_shape()?.get(1)?.as_int();
        let sizes: Vec<i64> = parts.iter().map(channels).collect::<Option<_>>()?;
        let start = sizes.get(..index)?.iter().sum();
        self.channels_of(&data, [start, start + sizes.get(index)?], var.name(), var.span())
    }

    /// A slice of the channels alone, in steps of one.
    pub(super) fn slice(&mut self, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let [data, Arg::Shape(begin), Arg::Shape(end), steps @ ..] = &*call.args else { return None };
        let one = |values: &[PrimExpr]| if let [value] = values { value.as_int() } else { None };
        let of_channels = matches!(call.attrs.int_list("axes")?[..], [1 | -3]);
        let in_order = steps.iter().all(|it| matches!(it, Arg::Shape(steps) if one(steps) == Some(1)));
        let channels = self.blocked(data)?.blocks.channels;
        let bound = |value: i64| if value < 0 { value + channels } else { value.min(channels) };
        let range = [bound(one(begin)?), bound(one(end)?)];
        if !of_channels || !in_order {
            return None;
        }
        self.channels_of(data, range, name, &call.span)
    }

    /// The channels from `start` to `end` of a value in blocks, if they are whole blocks, or whole halves of blocks.
    fn channels_of(
        &mut self,
        data: &Arg,
        [start, end]: [i64; 2],
        name: &str,
        span: &Span,
    ) -> Option<(Var, Blocks)> {
        let of_data = self.blocked(data)?.blocks;
        let whole = |block: i64| start % block == 0 && (end % block == 0 || end == of_data.channels);
        let sizes = [of_data.block, of_data.block / 2];
        let block = sizes.into_iter().find(|&block| block >= SMALLEST && whole(block))?;
        if start >= end || start < 0 || block != of_data.block && of_data.channels % block != 0 {
            return None;
        }
        let data = match self.blocked(data)? {
            it if it.blocks.block == block => (&it.var).into(),
            _ => self.in_blocks_of(data, block, span)?,
        };
        let blocks = Blocks { block, channels: end - start };
        let first = start / block;
        Some((self.blocks_of(data, [first, first + blocks.padded() / block], name, span)?, blocks))
    }

    /// Some of the blocks of `data`.
    pub(super) fn blocks_of(
        &mut self,
        data: Arg,
        [first, end]: [i64; 2],
        name: &str,
        span: &Span,
    ) -> Option<Var> {
        let [begin, end, step] = [first, end, 1].map(|it| Arg::Shape(Arc::new([PrimExpr::index(it)])));
        let attrs = Attrs::new().with("axes", vec![1i64]);
        self.emit(name, "strided_slice", &[data, begin, end, step], attrs, span)
    }
}
