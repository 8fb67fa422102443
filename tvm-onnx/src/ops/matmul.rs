//! Matrix products: `Gemm`, `MatMul`, `MatMulInteger`.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Gemm", 1, With(gemm)),
    row("MatMul", 1, With(matmul)),
    row("MatMulInteger", 10, With(matmul_integer)),
];

fn matmul(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    if let Some(product) = super::integer::product(node, false)? {
        return Ok(vec![product.into()]);
    }
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    one(node.call("matmul", &[a, b]))
}

/// Computes `alpha * a * b + beta * c`; `a` and `b` may be transposed.
pub(super) fn gemm(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    let dtype = node.dtype(&a)?;
    for x in [&a, &b] {
        if node.rank(x)? != 2 {
            return Err(node.malformed("both factors have two axes"));
        }
    }
    let [swaps_a, swaps_b] = [node.flag("transA", false)?, node.flag("transB", false)?];
    let in_integers = if swaps_a { None } else { super::integer::product(node, swaps_b)? };
    let mut res = match in_integers {
        Some(product) => product,
        None => {
            let a = if swaps_a { swapped(node, a)? } else { a };
            let b = if swaps_b { swapped(node, b)? } else { b };
            node.call("matmul", &[a, b])?
        }
    };
    let (alpha, beta) = (node.float_or("alpha", 1.0)?, node.float_or("beta", 1.0)?);
    if alpha != 1.0 {
        res = scaled(node, res, alpha, dtype)?;
    }
    if let Some(c) = node.opt_arg(2)?
        && beta != 0.0
    {
        let c = if beta != 1.0 { scaled(node, c, beta, dtype)? } else { c };
        res = node.call("add", &[res, c])?;
    }
    Ok(vec![res.into()])
}

fn swapped(node: &mut Node<'_, '_>, x: Arg) -> Result<Arg, OnnxError> {
    node.op("permute_dims", &[x], Attrs::new().with("axes", vec![1i64, 0]))
}

fn scaled(node: &mut Node<'_, '_>, x: Arg, factor: f64, dtype: DataType) -> Result<Arg, OnnxError> {
    if dtype.is_float() {
        let factor = node.scalar(factor, dtype)?;
        return node.call("multiply", &[x, factor]);
    }
    let (x, factor) = (node.cast(&x, DataType::F64)?, node.scalar(factor, DataType::F64)?);
    let product = node.call("multiply", &[x, factor])?;
    node.cast(&product, dtype)
}

/// Product of 8-bit matrices minus their zero points, in `i32`.
fn matmul_integer(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let (a, mut a_zero) = (node.arg(0)?, node.opt_arg(2)?);
    if let Some(zero) = &mut a_zero
        && node.rank(&a)? >= 2
        && let [rows] = &node.shape(zero)?[..]
    {
        // A vector of zero points has one per row of the first factor.
        *zero = node.reshape(zero, &[rows.clone(), PrimExpr::index(1)])?;
    }
    let b = (node.arg(1)?, node.opt_arg(3)?);
    one(integer_product(node, [(a, a_zero), b]))
}

/// The product of integers, each minus a zero point that is broadcast, in `i32`.
pub(super) fn integer_product(
    node: &mut Node<'_, '_>,
    [(a, x), (b, y)]: [(Arg, Option<Arg>); 2],
) -> Result<Arg, OnnxError> {
    let depth = node.shape(&a)?.last().and_then(PrimExpr::as_int).and_then(|depth| i32::try_from(depth).ok());
    if x.is_none() && y.is_none() {
        return node.op("matmul", &[a, b], Attrs::new().with("out_dtype", DataType::I32));
    }
    let mut zeros = [x, y];
    for zero in zeros.iter_mut().flatten() {
        *zero = node.cast(zero, DataType::I32)?;
    }
    if let (Some(depth), true, true) = (depth, node.rank(&a)? >= 2, node.rank(&b)? >= 2) {
        return shifted_product(node, [a, b], zeros, depth);
    }
    let mut factors = Vec::new();
    for (x, zero) in [a, b].into_iter().zip(zeros) {
        let x = node.cast(&x, DataType::I32)?;
        factors.push(match zero {
            Some(zero) => node.call("subtract", &[x, zero])?,
            None => x,
        });
    }
    node.call("matmul", &factors)
}

/// The product of `a - x` and `b - y` with the zero points `x` and `y`: `a b - (sums of the rows of a) y - x (sums of the
/// columns of b) + depth x y`. All wraps as the product itself does.
fn shifted_product(
    node: &mut Node<'_, '_>,
    [a, b]: [Arg; 2],
    zeros: [Option<Arg>; 2],
    depth: i32,
) -> Result<Arg, OnnxError> {
    let mut res =
        node.op("matmul", &[a.clone(), b.clone()], Attrs::new().with("out_dtype", DataType::I32))?;
    for (x, axis, zero) in [(a, -1i64, &zeros[1]), (b, -2, &zeros[0])] {
        let Some(zero) = zero else { continue };
        let x = node.cast(&x, DataType::I32)?;
        let sums = node.op("sum", &[x], Attrs::new().with("axis", vec![axis]).with("keepdims", true))?;
        let excess = node.call("multiply", &[sums, zero.clone()])?;
        res = node.call("subtract", &[res, excess])?;
    }
    let [Some(x), Some(y)] = zeros else { return Ok(res) };
    let depth = node.scalar(f64::from(depth), DataType::I32)?;
    let both = node.call("multiply", &[x, y])?;
    let both = node.call("multiply", &[both, depth])?;
    node.call("add", &[res, both])
}
