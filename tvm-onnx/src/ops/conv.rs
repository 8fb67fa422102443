//! Convolution operators.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::window::{Window, padded, window};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Conv", 1, With(conv)),
    row("ConvInteger", 10, With(conv_integer)),
    row("ConvTranspose", 1, With(conv_transpose)),
];

fn name(node: &Node<'_, '_>, table: &[&'static str; 3], spatial: usize) -> Result<&'static str, OnnxError> {
    let unsupported = || node.unsupported(format!("{spatial} spatial axes"));
    spatial.checked_sub(1).and_then(|i| table.get(i)).copied().ok_or_else(unsupported)
}

fn groups(node: &Node<'_, '_>) -> Result<i64, OnnxError> {
    let groups = node.int_or("group", 1)?;
    if groups < 1 {
        return Err(node.malformed(format!("attribute `group` is {groups}")));
    }
    Ok(groups)
}

fn attrs(window: &Window, groups: i64) -> Attrs {
    Attrs::new()
        .with("strides", window.strides.clone())
        .with("padding", window.pads.clone())
        .with("dilation", window.dilations.clone())
        .with("groups", groups)
}

pub(super) fn conv(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    if let Some(res) = super::integer::convolved(node)? {
        return biased(node, res);
    }
    let (x, weight) = (node.arg(0)?, node.arg(1)?);
    one(convolved(node, x, weight, &Convolution { biased: true, ..Convolution::default() }))
}

/// Convolution of 8-bit numbers minus their zero points, in `i32`.
fn conv_integer(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    if let Some(sums) = super::integer::convolved_numbers(node, [0, 2], [1, 3])? {
        return Ok(vec![sums.into()]);
    }
    let (x, weight) = (super::quant::shifted(node, 0, 2)?, super::quant::shifted(node, 1, 3)?);
    one(convolved(node, x, weight, &Convolution::default()))
}

/// What a convolution may be told beside its operands.
#[derive(Default)]
pub(super) struct Convolution {
    /// The elements around the data.
    pub(super) fill: f64,
    /// The element type of the result, if it is another one.
    pub(super) out_dtype: Option<DataType>,
    /// The bias, input 2, is added.
    pub(super) biased: bool,
}

pub(super) fn convolved(
    node: &mut Node<'_, '_>,
    x: Arg,
    weight: Arg,
    how: &Convolution,
) -> Result<Arg, OnnxError> {
    let (kernel, shape) = (node.shape(&weight)?, node.shape(&x)?);
    if kernel.len() != shape.len() || shape.len() < 3 {
        let message = format!("input and weight have ranks {} and {}", shape.len(), kernel.len());
        return Err(node.malformed(message));
    }
    let mut padded = padded(node, &x, Some(&kernel[2..]), how.fill)?;
    if how.fill != 0.0 && padded.window.pads.iter().any(|&it| it != 0) {
        padded.x = filled(node, &padded.x, &padded.window.pads, how.fill)?;
        padded.window.pads.fill(0);
    }
    let (spatial, mut data, mut weight) = (shape.len() - 2, padded.x.clone(), weight);
    let op = name(node, &["nn.conv2d", "nn.conv2d", "nn.conv3d"], spatial)?;
    if spatial == 1 {
        // A line is an image of one row: layouts and schedules are for images.
        (data, weight) = (row_of_pixels(node, &data)?, row_of_pixels(node, &weight)?);
        let Window { kernel, strides, dilations, pads } = &mut padded.window;
        [kernel, strides, dilations].into_iter().for_each(|it| it.insert(0, 1));
        *pads = vec![0, pads[0], 0, pads[1]];
    }
    let mut attrs = attrs(&padded.window, groups(node)?);
    if let Some(dtype) = how.out_dtype {
        attrs.set("out_dtype", dtype);
    }
    let mut res = node.op(op, &[data, weight], attrs)?;
    if how.biased {
        res = with_bias(node, res)?;
    }
    if spatial == 1 {
        let mut extents = node.shape(&res)?;
        extents.remove(2);
        res = node.reshape(&res, &extents)?;
    }
    padded.counted(node, res)
}

/// A tensor of three axes with an axis of one row in front of the last one.
fn row_of_pixels(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    let mut extents = node.shape(x)?;
    extents.insert(2, PrimExpr::index(1));
    node.reshape(x, &extents)
}

/// `x` with elements `fill` around its spatial axes.
fn filled(node: &mut Node<'_, '_>, x: &Arg, pads: &[i64], fill: f64) -> Result<Arg, OnnxError> {
    let (before, after) = pads.split_at(pads.len() / 2);
    let spatial = before.iter().zip(after).flat_map(|(before, after)| [*before, *after]);
    let widths: Vec<i64> = [0; 4].into_iter().chain(spatial).collect();
    let attrs = Attrs::new().with("pad_width", widths).with("pad_value", fill);
    node.op("nn.pad", std::slice::from_ref(x), attrs)
}

fn biased(node: &mut Node<'_, '_>, x: Arg) -> Result<Vec<Value>, OnnxError> {
    one(with_bias(node, x))
}

/// Adds the bias (input 2) along axis 1, if there is one.
fn with_bias(node: &mut Node<'_, '_>, x: Arg) -> Result<Arg, OnnxError> {
    let rank = node.rank(&x)?;
    let Some(bias) = node.opt_arg(2)? else { return Ok(x) };
    let [channels] = &node.shape(&bias)?[..] else { return Err(node.malformed("the bias has one axis")) };
    let mut extents = vec![PrimExpr::index(1); rank];
    extents[1] = channels.clone();
    let bias = node.reshape(&bias, &extents)?;
    node.call("add", &[x, bias])
}

fn conv_transpose(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let (x, weight) = (node.arg(0)?, node.arg(1)?);
    let (kernel, shape) = (node.shape(&weight)?, node.shape(&x)?);
    if kernel.len() != shape.len() || shape.len() < 3 {
        let message = format!("input and weight have ranks {} and {}", shape.len(), kernel.len());
        return Err(node.malformed(message));
    }
    let n = shape.len() - 2;
    let mut window = window(node, &shape[2..], Some(&kernel[2..]))?;
    let mut extra = match node.attr_ints("output_padding")? {
        Some(extra) if extra.len() == n && extra.iter().all(|it| (0..1 << 20).contains(it)) => extra.to_vec(),
        Some(_) => return Err(node.malformed(format!("attribute `output_padding` is {n} numbers"))),
        None => vec![0; n],
    };
    let same = matches!(node.str_or("auto_pad", "NOTSET")?, "SAME_UPPER" | "SAME_LOWER");
    let wanted = node.attr_ints("output_shape")?.map(<[i64]>::to_vec);
    if wanted.is_some() || same {
        let wanted = match wanted {
            Some(wanted) if wanted.len() >= n => {
                wanted[wanted.len() - n..].iter().map(|&it| Some(it)).collect()
            }
            Some(_) => return Err(node.malformed(format!("attribute `output_shape` is {n} numbers"))),
            None => (0..n)
                .map(|d| shape[2 + d].as_int().and_then(|it| it.checked_mul(window.strides[d])))
                .collect::<Vec<_>>(),
        };
        for d in 0..n {
            let (Some(input), Some(wanted)) = (shape[2 + d].as_int(), wanted[d]) else {
                return Err(node.unsupported("an output shape for inputs of symbolic extent"));
            };
            let full = window.strides[d].checked_mul(input - 1).map(|it| it + extra[d] + window.reach(d));
            let total = full.and_then(|it| it.checked_sub(wanted));
            let Some(total) = total.filter(|it| it.abs() < 1 << 40) else {
                return Err(node.malformed("attribute `output_shape` is out of range"));
            };
            if total < 0 {
                extra[d] -= total;
            }
            let (total, upper) = (total.max(0), node.str_or("auto_pad", "NOTSET")? == "SAME_UPPER");
            let small = total / 2;
            (window.pads[d], window.pads[n + d]) =
                if upper { (small, total - small) } else { (total - small, small) };
        }
    }
    let table = ["nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"];
    let op = name(node, &table, n)?;
    let attrs = attrs(&window, groups(node)?).with("output_padding", extra);
    let res = node.op(op, &[x, weight], attrs)?;
    biased(node, res)
}
