//! Transposed convolutions on channels in blocks. Results with the same remainder by the stride, of one phase, are a convolution of the
//! data with a part of the window, as `topi::conv_transpose` says. Where these parts have the same size, all phases are the channels of
//! one convolution; otherwise each is a convolution. Then each phase goes to its places: whole blocks are moved.

use tvm_runtime::Tensor;

use super::{Blocks, Converter, constant};
use crate::arith::Analyzer;
use crate::ir::{Attrs, Op, Span, Var};
use crate::relax::analysis::simplify_dim;
use crate::relax::{Arg, Call, Callee};
use crate::tir::PrimExpr;

/// Phases at most that are a convolution each: more would be as many kernels with little work.
const MOST_PHASES: i64 = 9;

/// What one spatial axis of the phases reads, and where their results go.
struct Axis {
    window: i64,
    stride: i64,
    /// The position in the data of the first result of a phase.
    start: i64,
    /// Zeros after the data.
    after: i64,
    /// The results of one phase.
    extent: PrimExpr,
    /// The first result that is kept, and their number.
    kept: [PrimExpr; 2],
}

impl Axis {
    /// `None` if data are cut off, or their number and that of the results are not known relative to each other.
    fn of(data: &PrimExpr, result: &PrimExpr, window: i64, stride: i64, pad: i64) -> Option<Axis> {
        let start = pad / stride;
        let extent = (result + (pad - 1)).floordiv(stride) + (1 - start);
        let more = &extent + start - data;
        let after = simplify_dim(&more)
            .as_int()
            .or_else(|| Analyzer::of_indices([&extent, &more]).simplify(&more).as_int())?;
        let kept = [PrimExpr::index(pad - start * stride), result.clone()];
        let axis = Axis { window, stride, start, after, extent: simplify_dim(&extent), kept };
        // The last phase has the fewest taps.
        (after >= 0 && window >= stride && axis.before(axis.stride - 1) >= 0).then_some(axis)
    }

    /// Elements of the window that results of a phase read.
    fn taps(&self, phase: i64) -> i64 {
        (self.window - phase + self.stride - 1) / self.stride
    }

    /// Zeros before the data for a phase.
    fn before(&self, phase: i64) -> i64 {
        self.taps(phase) - 1 - self.start
    }

    /// True if all phases read as many elements.
    fn is_even(&self) -> bool {
        self.window % self.stride == 0
    }

    /// True if all results of all phases are kept.
    fn is_whole(&self) -> bool {
        let all = simplify_dim(&(&self.extent * self.stride - &self.kept[1]));
        self.kept[0].is_const(0) && all.is_const(0)
    }
}

impl Converter<'_> {
    /// The transposed convolution that is bound to `var`; `None` if the channels of a phase are no whole blocks, if data are cut off, or
    /// if phases that differ are more than [`MOST_PHASES`].
    pub(super) fn conv_transpose(&mut self, call: &Call, var: &Var) -> Option<(Var, Blocks)> {
        let [data, Arg::Const(weight)] = &*call.args else { return None };
        let [_, channels, height, width] = *weight.shape() else { return None };
        let ints = |attr: &str| call.attrs.int_list(attr).unwrap_or_default();
        let plain = |attr: &str| call.attrs.str(attr).is_none_or(str::is_empty);
        let ones = ["groups", "dilation"].iter().all(|attr| ints(attr).iter().all(|it| *it == 1));
        let ((dims, dtype), result) = (self.shape(data)?, var.ty().as_tensor()?.known_shape()?.to_vec());
        let fits = dtype.is_float() && dtype == weight.dtype() && var.ty().as_tensor()?.dtype == Some(dtype);
        if !ones || !fits || !["data_layout", "kernel_layout", "out_layout"].into_iter().all(plain) {
            return None;
        }
        let of_axis = |attr: &str, axis: usize, default: i64| {
            let given = ints(attr);
            given.get(axis.min(given.len().saturating_sub(1))).copied().unwrap_or(default)
        };
        let axes: Vec<Axis> = [height, width]
            .into_iter()
            .enumerate()
            .map(|(axis, window)| {
                let [stride, pad] = [of_axis("strides", axis, 1), of_axis("padding", axis, 0)];
                Axis::of(&dims[2 + axis], &result[2 + axis], window, stride, pad)
            })
            .collect::<Option<_>>()?;
        let [rows, columns] = &axes[..] else { return None };
        let strides = [rows.stride, columns.stride];
        let is_one = axes.iter().all(Axis::is_even);
        let (phases, blocks) = if is_one {
            let weight = constant::phases(weight, [[0, rows.stride], [0, columns.stride]], strides)?;
            self.phase(call, var.name(), weight, &axes, [0, 0], strides[0] * strides[1])?
        } else {
            self.phases_apart(call, var.name(), weight, &axes)?
        };
        let blocks = Blocks { channels, ..blocks };
        let value = self.in_places(&phases, blocks, &axes, &call.span)?;
        self.choices.note(super::NAME, || {
            let convolutions = if is_one { "one convolution" } else { "a convolution each" };
            let choice =
                format!("layout {}, {} phases as {convolutions}", blocks.layout(), strides[0] * strides[1]);
            [format!("transposed {}", self.described(call)), choice, "whole blocks go to their places".into()]
        });
        Some((value, blocks))
    }

    /// The convolution of `phase`, or of all `parts` phases in the channels of `weight`, in blocks.
    fn phase(
        &mut self,
        call: &Call,
        name: &str,
        weight: Tensor,
        axes: &[Axis],
        phase: [i64; 2],
        parts: i64,
    ) -> Option<(Var, Blocks)> {
        let op = Op::get("nn.conv2d").ok()?;
        let before = axes.iter().zip(phase).map(|(axis, phase)| axis.before(phase));
        let padding: Vec<i64> = before.chain(axes.iter().map(|axis| axis.after)).collect();
        let conv = Call {
            callee: Callee::Op(op),
            args: vec![call.args[0].clone(), Arg::Const(weight)].into(),
            attrs: Attrs::new().with("padding", padding),
            ..call.clone()
        };
        self.conv(op, &conv, name, parts)
    }

    /// The convolutions of all phases, one after the other along the channels.
    fn phases_apart(
        &mut self,
        call: &Call,
        name: &str,
        weight: &Tensor,
        axes: &[Axis],
    ) -> Option<(Var, Blocks)> {
        let [rows, columns] = axes else { return None };
        let strides = [rows.stride, columns.stride];
        if strides[0] * strides[1] > MOST_PHASES {
            return None;
        }
        let (mut phases, mut found) = (Vec::new(), None);
        for row in 0..rows.stride {
            for column in 0..columns.stride {
                let weight = constant::phases(weight, [[row, 1], [column, 1]], strides)?;
                let (value, blocks) = self.phase(call, name, weight, axes, [row, column], 1)?;
                if !blocks.is_exact() || found.replace(blocks).is_some_and(|other| other != blocks) {
                    return None;
                }
                phases.push(Arg::from(value));
            }
        }
        let attrs = Attrs::new().with("axis", 1i64);
        let all = self.emit(name, "concat", &[Arg::Tuple(phases.into())], attrs, &call.span)?;
        Some((all, found?))
    }

    /// The results of the phases, which are the outermost part of the channels, next to each other.
    fn in_places(&mut self, phases: &Var, blocks: Blocks, axes: &[Axis], span: &Span) -> Option<Var> {
        let (dims, _) = self.shape(&phases.into())?;
        let ([images, _, height, width, block], [rows, columns]) = (&dims[..], axes) else { return None };
        let index = PrimExpr::index;
        let of_channels = index(blocks.channels / blocks.block);
        let mut value = phases.clone();
        if [rows.stride, columns.stride] != [1, 1] {
            let strides = [rows, columns].map(|it| index(it.stride));
            let apart = [images, &strides[0], &strides[1], &of_channels, height, width, block];
            let order = Attrs::new().with("axes", vec![0i64, 3, 4, 1, 5, 2, 6]);
            let apart = self.reshaped(&value, apart.map(Clone::clone).to_vec(), span)?;
            value = self.emit(phases.name(), "permute_dims", &[apart], order, span)?;
            let [height, width] =
                [(height, rows), (width, columns)].map(|(it, axis)| simplify_dim(&(it * axis.stride)));
            let joined = vec![images.clone(), of_channels, height, width, block.clone()];
            value = self.reshaped(&value, joined, span)?.as_var()?.clone();
        }
        if axes.iter().all(Axis::is_whole) {
            return Some(value);
        }
        let begin = axes.iter().map(|it| it.kept[0].clone()).collect::<Vec<_>>();
        let end = axes.iter().map(|it| simplify_dim(&(&it.kept[0] + &it.kept[1]))).collect();
        let [begin, end, step] = [begin, end, vec![index(1); 2]].map(|it| Arg::Shape(it.into()));
        let attrs = Attrs::new().with("axes", vec![2i64, 3]);
        self.emit(phases.name(), "strided_slice", &[value.into(), begin, end, step], attrs, span)
    }
}
