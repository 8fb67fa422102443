//! Convolutions over one, two and three spatial axes, and their transposes.
//!
//! TVM counterpart: `src/relax/op/nn/convolution.cc`.

use tvm_runtime::DataType;

use super::window::{Windows, check_blocks, check_layouts, data_letters, layout, padding, positive};
use crate::ir::{
    ArgDef, AttrDef, AttrKind, InferContext, IrError, LegalizeContext, OpDef, TensorShape, Type,
};
use crate::relax::Arg;
use crate::relax::analysis::{differ, show_dim, simplify_dim};
use crate::relax::op::context::{known, single, tensor_type};
use crate::relax::op::def::{attr, tensor};
use crate::tir::{Layout, PrimExpr, PrimFunc, words};
use crate::topi::{self, ConvLayouts, ConvParams};

const ARGS: &[ArgDef] = &[tensor("data"), tensor("weight")];
macro_rules! attrs {
    ($kernel:literal $(, $more:expr)?) => {
        &[
            attr("strides", AttrKind::Ints).default("1"),
            attr("padding", AttrKind::Ints).default("0"),
            $($more,)?
            attr("dilation", AttrKind::Ints).default("1"),
            attr("groups", AttrKind::Int).default("1"),
            attr("data_layout", AttrKind::Str).default("`NCHW` and the like"),
            attr("kernel_layout", AttrKind::Str).default($kernel),
            attr("out_layout", AttrKind::Str).default("`data_layout`"),
            attr("out_dtype", AttrKind::DType).default("that of the arguments"),
        ]
    };
}

const ATTRS: &[AttrDef] = attrs!("`OIHW` and the like");
const TRANSPOSE_ATTRS: &[AttrDef] =
    attrs!("`IOHW` and the like", attr("output_padding", AttrKind::Ints).default("0"));

macro_rules! convolutions {
    ($($name:literal $transpose:literal $spatial:literal;)*) => {
        &[$(
            OpDef::new($name, "convolution of data with weight; ONNX `Conv`; data in blocks may have channels that only fill the last block, after those that the weights are for; weights of i32 are words of neighbouring channels: four of i8 for data of u8, two of bf16 for data of bf16", |cx| infer(cx, $spatial, false))
                .args(ARGS)
                .attrs(ATTRS)
                .tensor_program(|cx| lower(cx, $spatial, false)),
            OpDef::new($transpose, "transposed convolution, weight is (in, out, spatial…); ONNX `ConvTranspose`", |cx| infer(cx, $spatial, true))
                .args(ARGS)
                .attrs(TRANSPOSE_ATTRS)
                .tensor_program(|cx| lower(cx, $spatial, true)),
        )*]
    };
}

pub(in crate::relax::op) static OPS: &[OpDef] = convolutions! {
    "nn.conv1d" "nn.conv1d_transpose" 1;
    "nn.conv2d" "nn.conv2d_transpose" 2;
    "nn.conv3d" "nn.conv3d_transpose" 3;
};

fn params(ctx: &InferContext<'_>, spatial: usize) -> Result<ConvParams, IrError> {
    let pads = padding(ctx, spatial)?;
    let groups = ctx.attrs.int("groups").unwrap_or(1);
    if groups < 1 {
        return Err(ctx.error(format!("attribute `groups` is positive, got {groups}")));
    }
    Ok(ConvParams {
        strides: positive(ctx, "strides", spatial)?,
        pad_before: pads.before,
        pad_after: pads.after,
        dilation: positive(ctx, "dilation", spatial)?,
        groups,
        skip_padding: false,
    })
}

/// True if rows in the padding are worth a condition: for channels alone, whose weights are finite, where at least one
/// in [`PADDED`] rows of a window is in the padding, or the number of rows is not known.
fn skips_padding(
    cx: &LegalizeContext<'_>,
    params: &ConvParams,
    layouts: &ConvLayouts,
) -> Result<bool, IrError> {
    let (data, Arg::Const(weight)) = (cx.infer().dims(0, layouts.data.ndim())?, &cx.args[1]) else {
        return Ok(false);
    };
    let Some(data) = data else { return Ok(false) };
    let of_weight: Vec<PrimExpr> = weight.shape().iter().map(|&it| PrimExpr::index(it)).collect();
    let of_weight = layouts.kernel.undivided_shape(&layouts.kernel_letters(), &of_weight);
    let [out, 1, window, ..] = of_weight.iter().filter_map(PrimExpr::as_int).collect::<Vec<_>>()[..] else {
        return Ok(false);
    };
    let (before, stride, dilation) = (params.pad_before[0], params.strides[0], params.dilation[0]);
    let padded = before.max(params.pad_after[0]) > 0;
    let float = weight.dtype().is_float() && cx.infer().tensor(0)?.dtype == Some(weight.dtype());
    if out != params.groups || !padded || !float {
        return Ok(false);
    }
    if !weight.to_f64s().is_ok_and(|values| values.iter().all(|it| it.is_finite())) {
        return Ok(false);
    }
    let Some(height) = layouts.data.undivided_shape(&layouts.letters, data)[2].as_int() else {
        return Ok(true);
    };
    let rows = (height + before + params.pad_after[0] - (window - 1) * dilation - 1) / stride + 1;
    let inside = (0..window).map(|at| {
        // The row `row * stride - above` of the data.
        let above = before - at * dilation;
        let (first, last) =
            ((above + stride - 1).div_euclid(stride), (height - 1 + above).div_euclid(stride));
        (last.min(rows - 1) - first.max(0) + 1).max(0)
    });
    Ok((rows * window - inside.sum::<i64>()) * PADDED >= rows * window)
}

/// See [`skips_padding`].
const PADDED: i64 = 16;

/// The layouts of the tensors. The weights of a transposed convolution are (in, out, spatial…): their first axis takes the
/// place of `O`.
fn layouts(ctx: &InferContext<'_>, spatial: usize, transpose: bool) -> Result<ConvLayouts, IrError> {
    let letters = data_letters(spatial);
    let kernel_letters = format!("OI{}", &letters[2..]);
    if transpose {
        check_layouts(ctx, spatial)?;
        let plain: Layout = letters.parse().map_err(|why: String| ctx.error(why))?;
        let kernel = kernel_letters.parse().map_err(|why: String| ctx.error(why))?;
        return Ok(ConvLayouts { letters, data: plain.clone(), kernel, out: plain });
    }
    let data = layout(ctx, "data_layout", &letters, "C", &letters)?;
    let kernel = layout(ctx, "kernel_layout", &kernel_letters, "OI", &kernel_letters)?;
    let out = layout(ctx, "out_layout", &letters, "C", &data.to_string())?;
    Ok(ConvLayouts { letters, data, kernel, out })
}

/// The type of the elements of the data if the weights are words of neighbouring channels, and that of their sums.
fn of_words(ctx: &InferContext<'_>, layouts: &ConvLayouts) -> Result<Option<(DataType, DataType)>, IrError> {
    let (Some(data), Some(weight)) = (ctx.tensor(0)?.dtype, ctx.tensor(1)?.dtype) else { return Ok(None) };
    let Some((_, summed)) = words::dot(data, weight) else { return Ok(None) };
    if layouts.data_of_words(data).is_some() {
        return Ok(Some((data, summed)));
    }
    let message = format!(
        "weights of words are for channels that are plain or in blocks of whole words, as in `NCHW32c`; got `{}`",
        layouts.data
    );
    Err(ctx.error(message))
}

/// True if integers of 8 bits of two types are multiplied; their sums are `i32`, or what the attribute `out_dtype` says.
fn is_of_bytes(ctx: &InferContext<'_>) -> Result<bool, IrError> {
    let [data, weight] = [ctx.tensor(0)?.dtype, ctx.tensor(1)?.dtype];
    let byte = |dtype: Option<DataType>| dtype.is_some_and(|it| [DataType::U8, DataType::I8].contains(&it));
    Ok(byte(data) && byte(weight) && data != weight)
}

fn infer(ctx: &InferContext<'_>, spatial: usize, transpose: bool) -> Result<Type, IrError> {
    let layouts = layouts(ctx, spatial, transpose)?;
    let params = params(ctx, spatial)?;
    let of_words = if transpose { None } else { of_words(ctx, &layouts)? };
    let dtype = match (ctx.attrs.dtype("out_dtype"), of_words) {
        (given, Some((_, summed))) => given.or(Some(summed)),
        (given, None) if !transpose && is_of_bytes(ctx)? => given.or(Some(DataType::I32)),
        // The elements are cast to the type of the result: they may have different types if it is given.
        (Some(given), None) => Some(given),
        (None, None) => ctx.same_dtype()?,
    };
    let (data, weight) = (ctx.dims(0, layouts.data.ndim())?, ctx.dims(1, layouts.kernel.ndim())?);
    let (Some(data), Some(weight)) = (data, weight) else {
        return Ok(tensor_type(TensorShape::Rank(layouts.out.ndim()), dtype));
    };
    check_blocks(ctx, "data", &layouts.data, data)?;
    check_blocks(ctx, "weight", &layouts.kernel, weight)?;
    let data = &layouts.data.undivided_shape(&layouts.letters, data);
    let weight = &layouts.kernel.undivided_shape(&layouts.kernel_letters(), weight);
    let groups = params.groups;
    let parts = of_words.map_or(1, |(data, _)| words::parts(data));
    // Channels that fill no word are followed by zeros; those of a group are whole words.
    let filled = if groups == 1 { parts } else { 1 };
    let of_data = simplify_dim(&((&data[1] + (filled - 1)).floordiv(filled) * filled));
    let channels = if transpose { &weight[0] } else { &simplify_dim(&(&weight[1] * (groups * parts))) };
    let block = if groups == 1 && of_words.is_none() { layouts.data.block('C') } else { 1 };
    if differ(&of_data, channels) && !fills_block(&of_data, channels, block) {
        let (got, channels) = (show_dim(&data[1]), show_dim(channels));
        let message =
            format!("the data has {got} channels, the weight is for {channels} (in {groups} groups)");
        return Err(ctx.error(message));
    }
    let grouped = [&data[1], &weight[0]];
    if let Some(bad) = grouped.iter().find(|dim| dim.as_int().is_some_and(|it| it % groups != 0)) {
        return Err(ctx.error(format!("{} channels do not split in {groups} groups", show_dim(bad))));
    }
    let out = if transpose { simplify_dim(&(&weight[1] * groups)) } else { weight[0].clone() };
    let mut dims = vec![data[0].clone(), out];
    let output_padding = ctx.ints("output_padding", spatial, 0)?;
    for d in 0..spatial {
        let (extent, window) = (&data[2 + d], &weight[2 + d]);
        let (stride, dilation) = (params.strides[d], params.dilation[d]);
        let pads = (params.pad_before[d], params.pad_after[d]);
        dims.push(if transpose {
            let reach = (window - 1i64) * dilation + 1i64;
            (extent - 1i64) * stride + reach + (output_padding[d] - pads.0 - pads.1)
        } else {
            Windows { extent, window, stride, pads, dilation, ceil: false }.count(ctx, 2 + d)?
        });
    }
    let Some(dims) = layouts.out.shape(&layouts.letters, &dims) else {
        let (channels, block) = (show_dim(&dims[1]), layouts.out.block('C'));
        return Err(ctx.error(format!("{channels} channels of the result are not whole blocks of {block}")));
    };
    let shape = known(dims);
    if let TensorShape::Known(dims) = &shape
        && let Some(axis) = dims.iter().position(|dim| dim.as_int().is_some_and(|it| it < 0))
    {
        return Err(ctx.error(format!("axis {axis} of the result has extent {}", show_dim(&dims[axis]))));
    }
    Ok(tensor_type(shape, dtype))
}

/// True if data of so many channels has channels after the `used` ones only because its last block is whole.
fn fills_block(of_data: &PrimExpr, used: &PrimExpr, block: i64) -> bool {
    let (Some(of_data), Some(used)) = (of_data.as_int(), used.as_int()) else { return false };
    (0..block).contains(&(of_data - used))
}

fn lower(cx: &LegalizeContext<'_>, spatial: usize, transpose: bool) -> Result<PrimFunc, IrError> {
    let (mut params, shape, dtype) = (params(&cx.infer(), spatial)?, cx.out_shape(0)?, cx.out_dtype(0)?);
    let name = cx.op.name.trim_start_matches("nn.");
    let layouts = layouts(&cx.infer(), spatial, transpose)?;
    params.skip_padding = !transpose && spatial > 1 && skips_padding(cx, &params, &layouts)?;
    single(cx, |x| {
        Ok(if transpose {
            topi::conv_transpose(name, &x[0], &x[1], &params, shape, dtype)
        } else {
            topi::conv(name, &x[0], &x[1], &params, &layouts, shape, dtype)
        })
    })
}
