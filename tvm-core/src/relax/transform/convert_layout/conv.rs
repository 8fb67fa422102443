//! Convolutions on channels in blocks.

use tvm_runtime::DataType;

use super::{Blocks, Converter, PLAIN, SMALLEST, constant};
use crate::ir::{Attrs, Op, Span, Var};
use crate::relax::{Arg, Call, Expr};
use crate::tir::{Layout, PrimExpr, words};

/// The plain layout of weights.
pub(super) const WEIGHTS: &str = "OIHW";
/// The layout of weights that are not constant changes at every call, which pays from this number of pixels of the result on.
const FEW_PIXELS: i64 = 256;

impl Converter<'_> {
    pub(super) fn conv_in_blocks(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let done = self.conv(op, call, name, 1);
        self.choices.note(super::NAME, || {
            let (choice, reason) = match &done {
                Some((var, blocks)) => self.choice(var, *blocks),
                None => (format!("layout {PLAIN}"), "its channels or its groups are no blocks"),
            };
            [self.described(call), choice, reason.into()]
        });
        done
    }

    /// The form of a convolution that is bound to `var`, and why it has that form.
    fn choice(&self, var: &Var, blocks: Blocks) -> (String, &'static str) {
        let layout = blocks.layout();
        let tile = self.bindings.iter().rfind(|it| it.var == *var).and_then(|it| match &it.value {
            Expr::Call(call) => call.attrs.int("tile"),
            _ => None,
        });
        match tile {
            Some(tile) => (
                format!("layout {layout}, Winograd's algorithm for tiles of {tile}×{tile}"),
                "fewer multiplications save more than the transforms cost",
            ),
            None => {
                (format!("layout {layout}"), "vectors are along channels, whatever the size of the image")
            }
        }
    }

    /// The convolution in blocks, of which `parts` of the channels of the result have whole ones.
    pub(super) fn conv(&mut self, op: Op, call: &Call, name: &str, parts: i64) -> Option<(Var, Blocks)> {
        let [data, weight] = &*call.args else { return None };
        let plain =
            |attr: &str, layout: &str| call.attrs.str(attr).is_none_or(|it| it == layout || it.is_empty());
        if !plain("data_layout", PLAIN) || !plain("out_layout", PLAIN) || !plain("kernel_layout", WEIGHTS) {
            return None;
        }
        let ((dims, dtype), (weights, of_weights)) = (self.shape(data)?, self.shape(weight)?);
        let of_call = call.attrs.dtype("out_dtype").unwrap_or(dtype);
        if (dtype, of_call) == (DataType::U8, DataType::I32)
            || (dtype, of_call) == (DataType::BF16, DataType::F32) && self.sums_pairs
        {
            return if parts == 1 { self.conv_of_words(op, call, name) } else { None };
        }
        let groups = call.attrs.int("groups").unwrap_or(1);
        let (channels, out) = (dims[1].as_int()?, weights[0].as_int()?);
        let depthwise = groups == channels && groups == out;
        let of_bytes = depthwise && [DataType::U8, DataType::I8].contains(&dtype);
        let is_float = of_call.is_float() && (of_call.bits() == 32 || of_call.bits() == 64);
        if !is_float || of_weights != of_call || !(of_bytes || dtype == of_call) {
            return None;
        }
        let is_const = matches!(weight, Arg::Const(_));
        if !is_const && self.has_few_pixels(call) {
            return None;
        }
        let grouped = groups > 1 && !depthwise;
        let given = self.blocked(data).map(|it| it.blocks);
        let blocks = match given {
            Some(given) if depthwise => given,
            None if depthwise => return None,
            _ => self.blocks_of_parts(out, groups * parts, of_call.bits())?,
        };
        if let Some(var) = self.winograd(call, name, blocks) {
            return Some((var, blocks));
        }
        let (data, given) = if grouped {
            let block = self.block_in_groups(data, &weights, of_call.bits())?;
            (self.in_blocks_of(data, block, &call.span)?, Some(Blocks { block, channels }))
        } else if let Some(in_blocks) = self.blocked(data) {
            (in_blocks.var.clone().into(), given)
        } else {
            data.as_var().map(|it| self.bind_plain_value(it.id()));
            (data.clone(), None)
        };
        let kernel = match given {
            Some(given) if !depthwise && given.is_exact() => {
                format!("{WEIGHTS}{}i{}o", given.block, blocks.block)
            }
            // Channels that only fill a block are not read: they have no weights.
            Some(_) if !depthwise => format!("OHWI{}o", blocks.block),
            _ => format!("{WEIGHTS}{}o", blocks.block),
        };
        let weight = self.pad(weight, 0, blocks.padded(), &call.span)?;
        let weight = self.weight(&weight, &kernel, &call.span)?;
        let data_layout = given.map_or(PLAIN.to_string(), Blocks::layout);
        let mut attrs = call.attrs.clone().with("data_layout", data_layout);
        if depthwise {
            attrs.set("groups", blocks.padded());
        }
        attrs.set("kernel_layout", kernel);
        attrs.set("out_layout", blocks.layout());
        Some((self.emit(name, op.name, &[data, weight], attrs, &call.span)?, blocks))
    }

    /// The convolution of `u8` with constant weights of `i8`, four channels of which become a word, or that of `bf16`, two
    /// channels of which do.
    fn conv_of_words(&mut self, op: Op, call: &Call, name: &str) -> Option<(Var, Blocks)> {
        let [data, Arg::Const(weight)] = &*call.args else { return None };
        let &[out, of_group, height, width] = weight.shape() else { return None };
        let groups = call.attrs.int("groups").unwrap_or(1);
        let channels = of_group * groups;
        let of_words = [(DataType::U8, DataType::I8), (DataType::BF16, DataType::BF16)];
        let (_, dtype) = self.shape(data)?;
        if !of_words.contains(&(dtype, weight.dtype())) {
            return None;
        }
        let bits = DataType::I32.bits();
        let blocks = self.blocks_of_parts(out, groups, bits)?;
        let parts = words::parts(dtype);
        let [_, lanes] = self.sizes(bits);
        let (data, of_data) = match self.blocked(data).cloned() {
            _ if groups > 1 => {
                let weights = [out, of_group, height, width].map(PrimExpr::index);
                let block = self.block_in_groups(data, &weights, bits)?;
                (self.in_blocks_of(data, block, &call.span)?, Blocks { block, channels })
            }
            Some(it) => (it.var.into(), it.blocks),
            // The first channels of a network fill less than a vector.
            None if channels <= lanes / 2 || lanes % parts != 0 => {
                data.as_var().map(|it| self.bind_plain_value(it.id()));
                (data.clone(), Blocks { block: 1, channels })
            }
            None => {
                let sizes = self.sizes(bits).map(|block| Blocks { block, channels });
                let of_data = sizes.into_iter().min_by_key(|it| it.padded())?;
                let padded = self.pad(data, 1, of_data.padded(), &call.span)?;
                (self.in_blocks_of(&padded, of_data.block, &call.span)?, of_data)
            }
        };
        // Weights of 0 for channels that only fill a block or a word.
        let (data_layout, inner) = match of_data.block {
            1 => (PLAIN.to_string(), String::new()),
            block if block % parts == 0 => (of_data.layout(), format!("{}i", block / parts)),
            _ => return None,
        };
        let padded = constant::pad(weight, 0, blocks.padded())?;
        let terms = (of_data.padded() / groups + parts - 1) / parts * parts;
        let padded = constant::pad(&padded, 1, terms)?;
        let kernel = format!("{WEIGHTS}{inner}{}o", blocks.block);
        let layout: Layout = format!("{kernel}{parts}i").parse().ok()?;
        let weight = constant::words(&constant::to_layout(&padded, WEIGHTS, &layout)?)?;
        let attrs = call.attrs.clone().with("data_layout", data_layout);
        let attrs = attrs.with("kernel_layout", kernel).with("out_layout", blocks.layout());
        Some((self.emit(name, op.name, &[data, Arg::Const(weight)], attrs, &call.span)?, blocks))
    }

    /// The weights in another layout.
    fn weight(&mut self, weight: &Arg, layout: &str, span: &Span) -> Option<Arg> {
        if let Arg::Const(tensor) = weight {
            let layout: Layout = layout.parse().ok()?;
            return constant::to_layout(tensor, WEIGHTS, &layout).map(Arg::Const);
        }
        let attrs = Attrs::new().with("src_layout", WEIGHTS).with("dst_layout", layout);
        self.emit("weight", "layout_transform", std::slice::from_ref(weight), attrs, span).map(Arg::from)
    }

    /// Blocks of two vectors or one, whichever computes the channels sooner; `None` if half of the channels computed would
    /// be of no use.
    pub(super) fn blocks(&self, channels: i64, bits: u8) -> Option<Blocks> {
        let blocks = self.sizes(bits).map(|block| Blocks { block, channels });
        // A row of one vector loads as many scalars for half of the products.
        let [_, lanes] = self.sizes(bits);
        let cost = |it: &Blocks| if it.block == lanes { it.padded() * 8 } else { it.padded() * 7 };
        blocks.into_iter().filter(|it| it.block >= SMALLEST && it.padded() <= 2 * channels).min_by_key(cost)
    }

    /// [`blocks`](Self::blocks) for the channels of the result; of several equal parts of them, each has whole blocks.
    fn blocks_of_parts(&self, channels: i64, parts: i64, bits: u8) -> Option<Blocks> {
        if parts == 1 {
            return self.blocks(channels, bits);
        }
        let block = part(channels / parts, self.sizes(bits))?;
        Some(Blocks { block, channels })
    }

    /// Channels in a block of the data of a convolution with several groups, as no block reaches from one group into the next: those
    /// that it has, or two vectors or one. `None` if no such block is a part of a group, or if plain data are better read as they
    /// are, in windows of one pixel.
    fn block_in_groups(&self, data: &Arg, weights: &[PrimExpr], bits: u8) -> Option<i64> {
        let given = self.blocked(data).map(|it| it.blocks.block);
        if given.is_none() && weights[2..].iter().all(|it| it.is_const(1)) {
            return None;
        }
        part(weights[1].as_int()?, given.into_iter().chain(self.sizes(bits)))
    }

    /// Channels in blocks of two vectors and of one.
    fn sizes(&self, bits: u8) -> [i64; 2] {
        let lanes = i64::from(self.machine.vector_bits) / i64::from(bits);
        [2 * lanes, lanes]
    }

    fn has_few_pixels(&self, call: &Call) -> bool {
        let Some((dims, _)) = self.shape(&call.args[0]) else { return true };
        let strides = call.attrs.int_list("strides").unwrap_or_default();
        let area: i64 = if strides.len() == 1 { strides[0] * strides[0] } else { strides.iter().product() };
        let pixels: Option<i64> = dims[2..].iter().map(PrimExpr::as_int).product();
        pixels.is_some_and(|pixels| pixels / area.max(1) < FEW_PIXELS)
    }
}

/// The first block of `sizes` that is worth it and divides `channels`.
fn part(channels: i64, sizes: impl IntoIterator<Item = i64>) -> Option<i64> {
    sizes.into_iter().find(|block| *block >= SMALLEST && channels % block == 0)
}
