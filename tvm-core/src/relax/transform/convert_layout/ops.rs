//! Operators that take values in blocks of channels as they are.

use super::{Blocks, Converter, SMALLEST};
use crate::ir::{Attrs, Op, Span, Var};
use crate::relax::{Arg, Call};
use crate::tir::PrimExpr;

impl Converter<'_> {
    pub(super) fn pool(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let given = |attr: &str| call.attrs.str(attr).is_some_and(|it| !it.is_empty() && it != super::PLAIN);
        if given("layout") || given("out_layout") {
            return None;
        }
        let data = self.blocked(&call.args[0])?.clone();
        let layout = data.blocks.layout();
        let attrs = call.attrs.clone().with("layout", layout.as_str()).with("out_layout", layout);
        Some((self.emit(name, op.name, &[data.var.into()], attrs, &call.span)?, data.blocks))
    }

    /// Padding of the image.
    pub(super) fn pad_image(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let data = self.blocked(&call.args[0])?.clone();
        let mut widths = call.attrs.int_list("pad_width")?.to_vec();
        if widths.len() != 8 || widths[2..4] != [0, 0] {
            return None;
        }
        widths.extend([0, 0]);
        let attrs = call.attrs.clone().with("pad_width", widths);
        Some((self.emit(name, op.name, &[data.var.into()], attrs, &call.span)?, data.blocks))
    }

    pub(super) fn resize(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let [data, size] = &*call.args else { return None };
        if call.attrs.str("layout").is_some_and(|it| !it.is_empty() && it != super::PLAIN) {
            return None;
        }
        let data = self.blocked(data)?.clone();
        let attrs = call.attrs.clone().with("layout", data.blocks.layout());
        Some((self.emit(name, op.name, &[data.var.into(), size.clone()], attrs, &call.span)?, data.blocks))
    }

    pub(super) fn concat(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let [Arg::Tuple(fields)] = &*call.args else { return None };
        if call.attrs.int("axis").is_none_or(|axis| axis != 1 && axis != -3) {
            return None;
        }
        let largest = fields.iter().filter_map(|it| Some(self.blocked(it)?.blocks.block)).min()?;
        let channels_of = |field: &Arg| self.shape(field)?.0.get(1)?.as_int();
        let channels: Vec<i64> = fields.iter().map(channels_of).collect::<Option<_>>()?;
        // Parts of blocks, where channels do not fill whole ones.
        let mut sizes = [largest, largest / 2, largest / 4].into_iter();
        let whole = |block: &i64| *block >= SMALLEST && channels.iter().all(|it| it % block == 0);
        let block = sizes.find(whole)?;
        let channels = channels.iter().sum();
        let mut converted = Vec::new();
        for field in fields.iter() {
            converted.push(self.in_blocks_of(field, block, &call.span)?);
        }
        let attrs = call.attrs.clone().with("axis", 1i64);
        let res = self.emit(name, op.name, &[Arg::Tuple(converted.into())], attrs, &call.span)?;
        Some((res, Blocks { block, channels }))
    }

    /// A reduction over the image that keeps its axes.
    pub(super) fn reduce(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let data = self.blocked(&call.args[0])?.clone();
        let axes = call.attrs.int_list("axis")?;
        let of_image: Option<Vec<i64>> = axes
            .iter()
            .map(|&axis| if axis < 0 { axis + 4 } else { axis })
            .map(|axis| (axis == 2 || axis == 3).then_some(axis))
            .collect();
        if call.attrs.bool("keepdims") != Some(true) {
            return None;
        }
        let attrs = call.attrs.clone().with("axis", of_image?);
        Some((self.emit(name, op.name, &[data.var.into()], attrs, &call.span)?, data.blocks))
    }

    pub(super) fn elementwise(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let blocks = call.args.iter().find_map(|it| Some(self.blocked(it)?.blocks))?;
        let mut args = Vec::new();
        for arg in call.args.iter() {
            args.push(self.operand(arg, blocks, &call.span)?);
        }
        Some((self.emit(name, op.name, &args, call.attrs.clone(), &call.span)?, blocks))
    }

    /// An operand of an element-wise operator, such that it broadcasts against values in blocks.
    fn operand(&mut self, arg: &Arg, blocks: Blocks, span: &Span) -> Option<Arg> {
        match self.blocked(arg) {
            Some(it) if it.blocks == blocks => return Some((&it.var).into()),
            Some(it) if !blocks.is_exact() || it.blocks.channels != blocks.channels => return None,
            Some(_) => return self.in_blocks_of(arg, blocks.block, span),
            None => {}
        }
        if matches!(arg, Arg::Prim(_)) {
            return Some(arg.clone());
        }
        let (dims, _) = self.shape(arg)?;
        if dims.len() > 4 {
            return None;
        }
        let axes: Vec<PrimExpr> =
            std::iter::repeat_n(PrimExpr::index(1), 4 - dims.len()).chain(dims.iter().cloned()).collect();
        let is_one = |axis: usize| axes[axis].is_const(1);
        match (is_one(1), is_one(0) && is_one(2) && is_one(3)) {
            (true, true) => Some(arg.clone()),
            (false, true) => self.channels(arg, blocks, span),
            (true, false) => {
                let shape = axes.iter().cloned().chain([PrimExpr::index(1)]).collect();
                let shape = Arg::Shape(shape);
                self.emit("operand", "reshape", &[arg.clone(), shape], Attrs::new(), span).map(Arg::from)
            }
            (false, false) if dims.len() == 4 && blocks.is_exact() => {
                self.in_blocks_of(arg, blocks.block, span)
            }
            (false, false) => None,
        }
    }

    /// One value per channel, in blocks.
    fn channels(&mut self, arg: &Arg, blocks: Blocks, span: &Span) -> Option<Arg> {
        let (dims, _) = self.shape(arg)?;
        let axis = dims.iter().position(|dim| !dim.is_const(1))?;
        dims[axis].as_int().filter(|&it| it == blocks.channels)?;
        let padded = self.pad(arg, axis, blocks.padded(), span)?;
        let shape = [1, blocks.padded() / blocks.block, 1, 1, blocks.block].map(PrimExpr::index);
        self.emit("channels", "reshape", &[padded, Arg::Shape(shape.into())], Attrs::new(), span)
            .map(Arg::from)
    }
}
