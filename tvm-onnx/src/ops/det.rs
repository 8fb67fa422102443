//! Determinants, by elimination with pivots.

use tvm_core::ir::Attrs;
use tvm_core::relax::analysis::product;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("Det", 11, With(determinant))];

/// Largest matrix: each step of the elimination becomes a part of the graph.
const MAX: i64 = 64;

fn determinant(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let (shape, dtype) = (node.shape(&x)?, node.dtype(&x)?);
    let [outer @ .., rows, columns] = &shape[..] else {
        return Err(node.malformed("the input has at least two axes"));
    };
    let n = match (rows.as_int(), columns.as_int()) {
        (Some(rows), Some(columns)) if rows != columns => {
            return Err(node.malformed(format!("the matrix has {rows} rows and {columns} columns")));
        }
        (Some(n @ 0..=MAX), Some(_)) => n,
        _ => {
            return Err(node.unsupported(format!("matrices of symbolic extents, or of more than {MAX} rows")));
        }
    };
    let batch = product(outer);
    let mut rest = node.reshape(&x, &[batch.clone(), n.into(), n.into()])?;
    let mut res = node.full(std::slice::from_ref(&batch), 1.0, dtype)?;
    for k in 0..n {
        let left = PrimExpr::index(n - k);
        // The row with the largest first element goes to the top; the sign changes if that is another row.
        let first = node.part(&rest, 2, 0, 1)?;
        let first = node.reshape(&first, &[batch.clone(), left.clone()])?;
        let size = node.map("abs", &first)?;
        let best = node.op("argmax", &[size], Attrs::new().with("axis", 1i64).with("keepdims", true))?;
        let places = node.count(&left, DataType::I64)?;
        let places = node.along(&places, 1, 2)?;
        let is_best = node.apply("equal", &places, &best)?;
        let is_top = node.with_dim("equal", &places, 0)?;
        let zero = node.scalar(0.0, DataType::I64)?;
        let order = node.choice(&is_best, &zero, &places)?;
        let order = node.choice(&is_top, &best, &order)?;
        let order = node.reshape(&order, &[batch.clone(), left.clone(), 1.into()])?;
        let order = node.broadcast(&order, &[batch.clone(), left.clone(), left.clone()])?;
        rest = node.op("gather_elements", &[rest, order], Attrs::new().with("axis", 1i64))?;
        let best = node.reshape(&best, std::slice::from_ref(&batch))?;
        let stays = node.with_dim("equal", &best, 0)?;
        let (plus, minus) = (node.scalar(1.0, dtype)?, node.scalar(-1.0, dtype)?);
        let sign = node.choice(&stays, &plus, &minus)?;
        let top = node.part(&rest, 1, 0, 1)?;
        let pivot = node.part(&top, 2, 0, 1)?;
        let value = node.reshape(&pivot, std::slice::from_ref(&batch))?;
        let value = node.apply("multiply", &value, &sign)?;
        res = node.apply("multiply", &res, &value)?;
        if k + 1 == n {
            break;
        }
        // Where the pivot is 0, so is the determinant, and the other rows need no elimination.
        let none = node.with("equal", &pivot, 0.0)?;
        let safe = node.choice(&none, &plus, &pivot)?;
        let below = node.part(&rest, 1, 1, left.clone())?;
        let column = node.part(&below, 2, 0, 1)?;
        let factor = node.apply("divide", &column, &safe)?;
        let part = node.part(&below, 2, 1, left.clone())?;
        let top = node.part(&top, 2, 1, left)?;
        let taken = node.apply("multiply", &factor, &top)?;
        rest = node.apply("subtract", &part, &taken)?;
    }
    one(node.reshape(&res, outer))
}
