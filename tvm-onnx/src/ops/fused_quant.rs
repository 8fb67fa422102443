//! Operators of the domain `com.microsoft` on quantised numbers: element-wise operators between quantised tensors, and
//! products with weights of 4 and 8 bits.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::fused::leaky;
use super::matmul::integer_product;
use super::quant::{by_range, saturated};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("DynamicQuantizeMatMul", 1, With(dynamic_matmul)),
    row("MatMulIntegerToFloat", 1, With(matmul_to_float)),
    row("MatMulNBits", 1, With(matmul_n_bits)),
    row("QLinearAdd", 1, With(|node| binary(node, "add"))),
    row("QLinearAveragePool", 1, With(average_pool)),
    row("QLinearConcat", 1, With(concat)),
    row("QLinearGlobalAveragePool", 1, With(global_average_pool)),
    row("QLinearLeakyRelu", 1, With(leaky_relu)),
    row("QLinearMul", 1, With(|node| binary(node, "multiply"))),
    row("QLinearSigmoid", 1, With(sigmoid)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// Input `i`, one number, if it is given.
fn single(node: &mut Node<'_, '_>, i: usize) -> Result<Option<Arg>, OnnxError> {
    let Some(x) = node.opt_arg(i)? else { return Ok(None) };
    if node.shape(&x)?.iter().any(|it| !it.is_const(1)) {
        return Err(node.unsupported(format!("input {i} with more than one number")));
    }
    node.reshape(&x, &[]).map(Some)
}

fn scale(node: &mut Node<'_, '_>, i: usize) -> Result<Arg, OnnxError> {
    let scale = single(node, i)?;
    scale.ok_or_else(|| node.malformed(format!("input {i} is missing")))
}

/// Input `i` as real numbers; the next two inputs are its scale and its zero point.
fn real(node: &mut Node<'_, '_>, i: usize) -> Result<Arg, OnnxError> {
    let x = node.arg(i)?;
    let mut x = node.cast(&x, DataType::I32)?;
    if let Some(zero) = single(node, i + 2)? {
        let zero = node.cast(&zero, DataType::I32)?;
        x = node.apply("subtract", &x, &zero)?;
    }
    let x = node.cast(&x, DataType::F32)?;
    let scale = scale(node, i + 1)?;
    node.apply("multiply", &x, &scale)
}

/// Real numbers as integers of the type of input 0 or of the zero point, with the scale of input `i` and the zero point of
/// the next.
fn quantised(node: &mut Node<'_, '_>, x: &Arg, i: usize) -> Results {
    let scale = scale(node, i)?;
    let ratio = node.apply("divide", x, &scale)?;
    let zero = single(node, i + 1)?;
    let like = match &zero {
        Some(zero) => zero.clone(),
        None => node.arg(0)?,
    };
    let dtype = node.dtype(&like)?;
    one(saturated(node, ratio, zero, dtype))
}

fn binary(node: &mut Node<'_, '_>, op: &str) -> Results {
    let (a, b) = (real(node, 0)?, real(node, 3)?);
    let res = node.apply(op, &a, &b)?;
    quantised(node, &res, 6)
}

fn sigmoid(node: &mut Node<'_, '_>) -> Results {
    let x = real(node, 0)?;
    let res = node.map("sigmoid", &x)?;
    quantised(node, &res, 3)
}

fn leaky_relu(node: &mut Node<'_, '_>) -> Results {
    let x = real(node, 0)?;
    let alpha = node.float_or("alpha", 0.01)?;
    let res = leaky(node, &x, alpha)?;
    quantised(node, &res, 3)
}

/// Scale and zero point of the result come first, then three inputs for each part.
fn concat(node: &mut Node<'_, '_>) -> Results {
    let axis = node.attr_int("axis")?;
    let axis = node.required("axis", axis)?;
    if node.num_inputs() < 5 || node.num_inputs() % 3 != 2 {
        return Err(node.malformed(format!("there are {} inputs", node.num_inputs())));
    }
    let mut parts = Vec::new();
    for i in (2..node.num_inputs()).step_by(3) {
        parts.push(real(node, i)?);
    }
    let axis = node.axis(axis, node.rank(&parts[0])?)?;
    let res = node.joined(parts, axis)?;
    if !node.has(1) {
        return Err(node.malformed("input 1 is missing"));
    }
    quantised(node, &res, 0)
}

fn average_pool(node: &mut Node<'_, '_>) -> Results {
    if node.flag("channels_last", false)? {
        return Err(node.unsupported("channels in the last axis"));
    }
    let x = real(node, 0)?;
    let include = node.flag("count_include_pad", false)?;
    let res = super::pool::average_of(node, &x, include)?;
    quantised(node, &res, 3)
}

fn global_average_pool(node: &mut Node<'_, '_>) -> Results {
    let x = real(node, 0)?;
    let rank = node.rank(&x)? as i64;
    let last = node.flag("channels_last", false)?;
    let axes: Vec<i64> = if last { (1..rank - 1).collect() } else { (2..rank).collect() };
    let res = node.op("mean", &[x], Attrs::new().with("axis", axes).with("keepdims", true))?;
    quantised(node, &res, 3)
}

/// The product of integers minus their zero points, times both scales, plus the bias. The zero point and the scale of `b`
/// are one number or one per column.
fn scaled_product(
    node: &mut Node<'_, '_>,
    (a, a_scale, a_zero): (&Arg, &Arg, Option<Arg>),
    (b, b_scale, b_zero): (&Arg, &Arg, Option<Arg>),
    bias: Option<Arg>,
) -> Result<Arg, OnnxError> {
    let product = integer_product(node, [(a.clone(), a_zero), (b.clone(), b_zero)])?;
    let dtype = node.dtype(a_scale)?;
    let product = node.cast(&product, dtype)?;
    let ratio = node.apply("multiply", a_scale, b_scale)?;
    let res = node.apply("multiply", &product, &ratio)?;
    match bias {
        Some(bias) => node.apply("add", &res, &bias),
        None => Ok(res),
    }
}

/// The product of real numbers, quantised by their range, with the matrix `b` of quantised numbers.
pub(super) fn dynamic_product(
    node: &mut Node<'_, '_>,
    a: Arg,
    b: (&Arg, &Arg, Option<Arg>),
    bias: Option<Arg>,
) -> Result<Arg, OnnxError> {
    let [a, a_scale, a_zero] = by_range(node, a)?;
    scaled_product(node, (&a, &a_scale, Some(a_zero)), b, bias)
}

/// Rejects scales and zero points (input `i`) with more than one axis.
fn check_vector(node: &mut Node<'_, '_>, i: usize) -> Result<(), OnnxError> {
    let Some(x) = node.opt_arg(i)? else { return Ok(()) };
    if node.rank(&x)? > 1 {
        return Err(node.unsupported(format!("input {i} with more than one axis")));
    }
    Ok(())
}

fn matmul_to_float(node: &mut Node<'_, '_>) -> Results {
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    check_vector(node, 3)?;
    check_vector(node, 5)?;
    let (a_scale, b_scale) = (scale(node, 2)?, node.arg(3)?);
    let (a_zero, b_zero, bias) = (single(node, 4)?, node.opt_arg(5)?, node.opt_arg(6)?);
    one(scaled_product(node, (&a, &a_scale, a_zero), (&b, &b_scale, b_zero), bias))
}

fn dynamic_matmul(node: &mut Node<'_, '_>) -> Results {
    check_vector(node, 2)?;
    check_vector(node, 3)?;
    let (a, b, b_scale) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    let (b_zero, bias) = (node.opt_arg(3)?, node.opt_arg(4)?);
    one(dynamic_product(node, a, (&b, &b_scale, b_zero), bias))
}

/// Bytes as `i32`; for 4 bits, the low half and the high half of each byte, one after the other along the last axis.
fn unpacked(node: &mut Node<'_, '_>, x: &Arg, bits: i64) -> Result<Arg, OnnxError> {
    let x = node.cast(x, DataType::I32)?;
    if bits == 8 {
        return Ok(x);
    }
    let shape = node.shape(&x)?;
    let (low, high) = (node.with("bitwise_and", &x, 15.0)?, node.with("right_shift", &x, 4.0)?);
    let mut split = shape.clone();
    split.push(PrimExpr::index(1));
    let halves = vec![node.reshape(&low, &split)?, node.reshape(&high, &split)?];
    let both = node.joined(halves, shape.len())?;
    let mut flat = shape;
    if let Some(last) = flat.last_mut() {
        *last = tvm_core::relax::analysis::simplify_dim(&(last.clone() * 2));
    }
    node.reshape(&both, &flat)
}

/// The product with constant weights of 4 bits as they are; `None` where they have zero points of their own, parts of blocks, or
/// data other than `f32`.
fn int4_product(
    node: &mut Node<'_, '_>,
    x: &Arg,
    [depth, rows, block]: [i64; 3],
) -> Result<Option<Arg>, OnnxError> {
    let (Some(weight), Some(scales)) = (node.value(1)?.tensor(), node.value(2)?.tensor()) else {
        return Ok(None);
    };
    let [bytes_of_row, blocks] = [depth / 2, depth / block];
    let plain = !node.has(3) && depth % block == 0 && node.dtype(x)? == DataType::F32;
    let whole = weight.len() as i64 == rows * bytes_of_row && scales.len() as i64 == rows * blocks;
    if !plain || !whole || scales.dtype() != DataType::F32 || weight.dtype() != DataType::U8 {
        return Ok(None);
    }
    let panels = (rows + PANEL - 1) / PANEL;
    // The zero point is 8: flipping the highest bit of a half subtracts it.
    let flipped: Vec<u8> = weight.as_slice::<u8>()?.iter().map(|it| it ^ 0x88).collect();
    let weight = in_panels(&flipped, bytes_of_row as usize);
    let scales = in_panels(scales.as_slice::<f32>()?, blocks as usize);
    let weight = Tensor::from_vec(weight, &[panels, bytes_of_row, PANEL])?;
    let scales = Tensor::from_vec(scales, &[panels, blocks, PANEL])?;
    let args = [x.clone(), Arg::Const(weight), Arg::Const(scales)];
    node.op("nn.dense_int4", &args, Attrs::new().with("units", rows)).map(Some)
}

/// Columns of a panel: two of the widest vectors.
const PANEL: i64 = 32;

/// Rows of `width` elements as panels (panel, element, row of the panel), with zeros for the rows that are missing in the last one.
fn in_panels<T: Copy + Default>(rows: &[T], width: usize) -> Vec<T> {
    let panel = PANEL as usize;
    let count = rows.len().checked_div(width).unwrap_or(0);
    let mut res = vec![T::default(); count.div_ceil(panel) * width * panel];
    for (row, elements) in rows.chunks_exact(width.max(1)).enumerate() {
        for (at, element) in elements.iter().enumerate() {
            res[((row / panel) * width + at) * panel + row % panel] = *element;
        }
    }
    res
}

/// The product with a matrix of `N` rows, of which each block of `block_size` elements has a scale and a zero point.
fn matmul_n_bits(node: &mut Node<'_, '_>) -> Results {
    let mut sizes = [0; 3];
    for (size, name) in sizes.iter_mut().zip(["K", "N", "block_size"]) {
        let value = node.attr_int(name)?;
        *size = node.required(name, value)?;
        if !(1..1 << 31).contains(size) {
            return Err(node.malformed(format!("attribute `{name}` is {size}")));
        }
    }
    let [depth, rows, block] = sizes;
    let bits = node.int_or("bits", 4)?;
    if !matches!(bits, 4 | 8) {
        return Err(node.unsupported(format!("{bits} bits")));
    }
    if node.has(4) {
        return Err(node.unsupported("groups of columns (g_idx)"));
    }
    if block % 2 != 0 {
        return Err(node.malformed(format!("attribute `block_size` is {block}")));
    }
    let blocks = (depth + block - 1) / block;
    let (x, weight, scales) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    if node.dtype(&weight)? != DataType::U8 {
        return Err(node.unsupported("weights that are not bytes"));
    }
    let dtype = node.dtype(&x)?;
    if bits == 4
        && let Some(product) = int4_product(node, &x, [depth, rows, block])?
    {
        return one(match node.opt_arg(5)? {
            Some(bias) => node.apply("add", &product, &bias),
            None => Ok(product),
        });
    }
    let extents = |dims: &[i64]| dims.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>();
    let weight = node.reshape(&weight, &extents(&[rows, blocks, block * bits / 8]))?;
    let weight = unpacked(node, &weight, bits)?;
    let mut weight = node.cast(&weight, dtype)?;
    let each = extents(&[rows, blocks, 1]);
    weight = match node.opt_arg(3)? {
        None => node.with("subtract", &weight, (1 << (bits - 1)) as f64)?,
        Some(zeros) => {
            let mut zeros = zeros;
            if node.dtype(&zeros)? == DataType::U8 {
                zeros = node.reshape(&zeros, &extents(&[rows, (blocks * bits + 7) / 8]))?;
                zeros = unpacked(node, &zeros, bits)?;
                zeros = node.part(&zeros, 1, 0, blocks)?;
            }
            let zeros = node.cast(&zeros, dtype)?;
            let zeros = node.reshape(&zeros, &each)?;
            node.apply("subtract", &weight, &zeros)?
        }
    };
    let scales = node.cast(&scales, dtype)?;
    let scales = node.reshape(&scales, &each)?;
    weight = node.apply("multiply", &weight, &scales)?;
    weight = node.reshape(&weight, &extents(&[rows, blocks * block]))?;
    weight = node.part(&weight, 1, 0, depth)?;
    weight = node.permuted(&weight, &[1, 0])?;
    let mut res = node.apply("matmul", &x, &weight)?;
    if let Some(bias) = node.opt_arg(5)? {
        res = node.apply("add", &res, &bias)?;
    }
    Ok(vec![res.into()])
}
