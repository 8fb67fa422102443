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
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    one(node.call("matmul", &[a, b]))
}

/// Computes `alpha * a * b + beta * c`; `a` and `b` may be transposed.
fn gemm(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    let dtype = node.dtype(&a)?;
    for x in [&a, &b] {
        if node.rank(x)? != 2 {
            return Err(node.malformed("both factors have two axes"));
        }
    }
    let a = if node.flag("transA", false)? { swapped(node, a)? } else { a };
    let b = if node.flag("transB", false)? { swapped(node, b)? } else { b };
    let mut res = node.call("matmul", &[a, b])?;
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
    let mut factors = Vec::new();
    for i in 0..2 {
        let x = node.arg(i)?;
        let rank = node.rank(&x)?;
        let mut x = node.cast(&x, DataType::I32)?;
        if let Some(zero) = node.opt_arg(2 + i)? {
            let mut zero = node.cast(&zero, DataType::I32)?;
            if let (0, [rows], true) = (i, &node.shape(&zero)?[..], rank >= 2) {
                // A vector of zero points has one per row of the first factor.
                zero = node.reshape(&zero, &[rows.clone(), PrimExpr::index(1)])?;
            }
            x = node.call("subtract", &[x, zero])?;
        }
        factors.push(x);
    }
    one(node.call("matmul", &factors))
}
