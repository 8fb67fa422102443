//! Convolutions on channels in blocks.

use super::{Converter, PLAIN, constant, in_blocks};
use crate::ir::{Attrs, Op, Span, Var};
use crate::relax::{Arg, Call};
use crate::tir::{Layout, PrimExpr};

/// The plain layout of weights.
const WEIGHTS: &str = "OIHW";
/// The layout of weights that are not constant changes at every call, which pays from this number of pixels of the result on.
const FEW_PIXELS: i64 = 256;
/// Smaller blocks are not worth it.
const SMALLEST: i64 = 4;

impl Converter<'_> {
    pub(super) fn conv(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, i64)> {
        let [data, weight] = &*call.args else { return None };
        let plain =
            |attr: &str, layout: &str| call.attrs.str(attr).is_none_or(|it| it == layout || it.is_empty());
        if !plain("data_layout", PLAIN) || !plain("out_layout", PLAIN) || !plain("kernel_layout", WEIGHTS) {
            return None;
        }
        let ((dims, dtype), (weights, _)) = (self.shape(data)?, self.shape(weight)?);
        let of_call = call.attrs.dtype("out_dtype").unwrap_or(dtype);
        if dtype != of_call || !(dtype.bits() == 32 || dtype.bits() == 64) || !dtype.is_float() {
            return None;
        }
        let is_const = matches!(weight, Arg::Const(_));
        if !is_const && self.has_few_pixels(call) {
            return None;
        }
        let groups = call.attrs.int("groups").unwrap_or(1);
        let (channels, out, per_group) = (dims[1].as_int()?, weights[0].as_int()?, weights[1].as_int()?);
        let depthwise = groups == channels && groups == out;
        let given = self.blocked(data).map(|it| it.block);
        let (data_block, block) = match given {
            Some(given) if depthwise => (Some(given), given),
            // Blocks do not reach from one group into the next.
            Some(given) if groups == 1 || per_group % given == 0 => {
                (Some(given), self.block(out / groups, dtype.bits())?)
            }
            None if groups == 1 => (None, self.block(out, dtype.bits())?),
            _ => return None,
        };
        let inner = data_block.filter(|_| !depthwise).map(|it| format!("{it}i")).unwrap_or_default();
        let kernel = format!("{WEIGHTS}{inner}{block}o");
        let weight = self.weight(weight, &kernel, &call.span)?;
        let data = match data_block {
            Some(given) => self.in_blocks_of(data, given, &call.span)?,
            None => data.clone(),
        };
        let mut attrs = call.attrs.clone();
        attrs.set("data_layout", data_block.map_or(PLAIN.into(), in_blocks));
        attrs.set("kernel_layout", kernel);
        attrs.set("out_layout", in_blocks(block));
        Some((self.emit(name, op.name, &[data, weight], attrs, &call.span)?, block))
    }

    /// The weights in another layout.
    fn weight(&mut self, weight: &Arg, layout: &str, span: &Span) -> Option<Arg> {
        if let Arg::Const(tensor) = weight {
            let layout: Layout = layout.parse().ok()?;
            return constant::to_layout(tensor, WEIGHTS, &layout).map(Arg::Const);
        }
        let attrs = Attrs::new().with("src_layout", WEIGHTS).with("dst_layout", layout);
        self.emit("weight", "layout_transform", &[weight.clone()], attrs, span).map(Arg::from)
    }

    /// The number of channels in a block: two vectors, one, or half of one.
    fn block(&self, channels: i64, bits: u8) -> Option<i64> {
        let lanes = i64::from(self.machine.vector_bits) / i64::from(bits);
        [2 * lanes, lanes, lanes / 2].into_iter().find(|&block| block >= SMALLEST && channels % block == 0)
    }

    fn has_few_pixels(&self, call: &Call) -> bool {
        let Some((dims, _)) = self.shape(&call.args[0]) else { return true };
        let strides = call.attrs.int_list("strides").unwrap_or_default();
        let area: i64 = if strides.len() == 1 { strides[0] * strides[0] } else { strides.iter().product() };
        let pixels: Option<i64> = dims[2..].iter().map(PrimExpr::as_int).product();
        pixels.is_some_and(|pixels| pixels / area.max(1) < FEW_PIXELS)
    }
}
