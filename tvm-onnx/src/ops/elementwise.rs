//! Element-wise operators: arithmetic, comparisons, logic, elementary functions.

use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;

use super::{Binary, Row, Unary, Variadic, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;

pub(super) static ROWS: &[Row] = &[
    row("Abs", 1, Unary("abs")),
    row("Acos", 7, Unary("acos")),
    row("Acosh", 9, Unary("acosh")),
    row("Add", 1, Binary("add")),
    row("And", 1, Binary("logical_and")),
    row("Asin", 7, Unary("asin")),
    row("Asinh", 9, Unary("asinh")),
    row("Atan", 7, Unary("atan")),
    row("Atanh", 9, Unary("atanh")),
    row("BitwiseAnd", 18, Binary("bitwise_and")),
    row("BitwiseNot", 18, Unary("bitwise_not")),
    row("BitwiseOr", 18, Binary("bitwise_or")),
    row("BitwiseXor", 18, Binary("bitwise_xor")),
    row("Ceil", 1, Unary("ceil")),
    row("Cos", 7, Unary("cos")),
    row("Cosh", 9, Unary("cosh")),
    row("Div", 1, Binary("divide")),
    row("Equal", 1, Binary("equal")),
    row("Erf", 9, Unary("erf")),
    row("Exp", 1, Unary("exp")),
    row("Floor", 1, Unary("floor")),
    row("Greater", 1, Binary("greater")),
    row("GreaterOrEqual", 12, Binary("greater_equal")),
    row("IsNaN", 9, Unary("isnan")),
    row("Less", 1, Binary("less")),
    row("LessOrEqual", 12, Binary("less_equal")),
    row("Log", 1, Unary("log")),
    row("Max", 1, Variadic("maximum")),
    row("Min", 1, Variadic("minimum")),
    row("Mul", 1, Binary("multiply")),
    row("Neg", 1, Unary("negative")),
    row("Not", 1, Unary("logical_not")),
    row("Or", 1, Binary("logical_or")),
    row("Reciprocal", 1, With(reciprocal)),
    row("Relu", 1, Unary("nn.relu")),
    row("Round", 11, Unary("round")),
    row("Sigmoid", 1, Unary("sigmoid")),
    row("Sign", 9, Unary("sign")),
    row("Sin", 7, Unary("sin")),
    row("Sinh", 9, Unary("sinh")),
    row("Sqrt", 1, Unary("sqrt")),
    row("Sub", 1, Binary("subtract")),
    row("Sum", 1, Variadic("add")),
    row("Tan", 7, Unary("tan")),
    row("Tanh", 1, Unary("tanh")),
    row("Xor", 1, Binary("logical_xor")),
];

/// The two operands. Before opset 7, `axis` may give the axis of the first at which the axes of the second start.
pub(super) fn operands(node: &mut Node<'_, '_>) -> Result<(Arg, Arg), OnnxError> {
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    if node.opset >= 7 {
        return Ok((a, b));
    }
    let Some(axis) = node.attr_int("axis")? else { return Ok((a, b)) };
    let (rank, mut shape) = (node.rank(&a)?, node.shape(&b)?);
    let axis = node.axis(axis, rank)?;
    let trailing = rank.checked_sub(axis + shape.len());
    let trailing = trailing.ok_or_else(|| node.malformed("the second input has too many axes"))?;
    shape.extend((0..trailing).map(|_| PrimExpr::index(1)));
    let b = node.reshape(&b, &shape)?;
    Ok((a, b))
}

fn reciprocal(node: &mut Node<'_, '_>) -> Result<Vec<crate::value::Value>, OnnxError> {
    let x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    let unit = node.scalar(1.0, dtype)?;
    one(node.call("divide", &[unit, x]))
}
