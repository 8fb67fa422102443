//! Parts of strings: `StringSplit`, by one loop over the bytes for all strings at once.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::strings::by_byte;
use super::{Row, With, row};
use crate::error::OnnxError;
use crate::iterate::{Loop, Step, iterate, row_at};
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("StringSplit", 20, With(split))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Bytes that separate parts if no delimiter is given.
const WHITESPACE: &[u8] = b" \t\n\r\x0b\x0c";

/// Whether the delimiter, or whitespace, begins at each byte (byte, string).
fn delimiters(node: &mut Node<'_, '_>, bytes: &Arg, delimiter: &[u8]) -> Result<Arg> {
    let (width, count) = (node.extent(bytes, 0)?, node.extent(bytes, 1)?);
    if delimiter.is_empty() {
        let mut space = node.with("equal", bytes, WHITESPACE[0].into())?;
        for &byte in &WHITESPACE[1..] {
            let this = node.with("equal", bytes, byte.into())?;
            space = node.apply("logical_or", &space, &this)?;
        }
        return Ok(space);
    }
    let after = node.full(&[PrimExpr::index(delimiter.len() as i64), count], 0.0, DataType::I64)?;
    let padded = node.joined(vec![bytes.clone(), after], 0)?;
    let mut found: Option<Arg> = None;
    for (i, &byte) in delimiter.iter().enumerate() {
        let from = i as i64;
        let part = node.part(&padded, 0, from, width.clone() + from)?;
        let this = node.with("equal", &part, byte.into())?;
        found = Some(match found {
            Some(found) => node.apply("logical_and", &found, &this)?,
            None => this,
        });
    }
    found.ok_or_else(|| node.malformed("the delimiter is empty"))
}

/// Separates strings into parts: the parts along a new last axis, filled up with empty ones, and their numbers. Whitespace
/// counts as one delimiter however long it is, and gives no empty parts.
fn split(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let delimiter = node.str_or("delimiter", "")?.as_bytes();
    let most = node.attr_int("maxsplit")?;
    let (bytes, shape) = by_byte(node)?;
    let (width, count) = (node.extent(&bytes, 0)?, node.extent(&bytes, 1)?);
    let by_space = delimiter.is_empty();
    let begins = delimiters(node, &bytes, delimiter)?;
    let begins = node.cast(&begins, DataType::I64)?;

    // The state of each string: the number of the part, the length of the part so far, bytes of the delimiter to skip.
    let number =
        |node: &mut Node<'_, '_>, value: f64| node.full(std::slice::from_ref(&count), value, DataType::I64);
    let carried =
        vec![number(node, if by_space { -1.0 } else { 0.0 })?, number(node, 0.0)?, number(node, 0.0)?];
    let it = Loop { trip: Some(width.clone()), cond: None, carried, reversed: vec![false, false] };
    let finished = iterate(node, it, &mut |node, at, _, carried| {
        let [part, length, skip] = carried else { return Err(node.malformed("the loop has another state")) };
        let byte = row_at(node, &bytes, at.clone())?;
        let begins = row_at(node, &begins, at.clone())?;
        let (zero, one) = (node.scalar(0.0, DataType::I64)?, node.scalar(1.0, DataType::I64)?);
        let mut is_delimiter = node.with("equal", &begins, 1.0)?;
        let skipping = node.with("greater", skip, 0.0)?;
        let inside = node.with("not_equal", &byte, 0.0)?;
        let free = node.map("logical_not", &skipping)?;
        is_delimiter = node.apply("logical_and", &is_delimiter, &free)?;
        if let Some(most) = most {
            // In the last part, whitespace counts only before it begins.
            let left = node.with("less", part, most as f64)?;
            let mut can = left;
            if by_space {
                let before = node.with("equal", length, 0.0)?;
                can = node.apply("logical_or", &can, &before)?;
            }
            is_delimiter = node.apply("logical_and", &is_delimiter, &can)?;
        }
        let kept = node.map("logical_not", &is_delimiter)?;
        let kept = node.apply("logical_and", &kept, &free)?;
        let kept = node.apply("logical_and", &kept, &inside)?;
        let (here, next_part);
        if by_space {
            // A part begins with its first byte, and ends with whitespace.
            let first = node.with("equal", length, 0.0)?;
            let first = node.apply("logical_and", &first, &kept)?;
            let first = node.cast(&first, DataType::I64)?;
            here = node.apply("add", part, &first)?;
            next_part = here.clone();
        } else {
            let step = node.cast(&is_delimiter, DataType::I64)?;
            here = part.clone();
            next_part = node.apply("add", part, &step)?;
        }
        let longer = node.apply("add", length, &one)?;
        let next_length = node.choice(&kept, &longer, length)?;
        let next_length = node.choice(&is_delimiter, &zero, &next_length)?;
        let fewer = node.apply("subtract", skip, &one)?;
        let fewer = node.apply("maximum", &fewer, &zero)?;
        let all = node.scalar(delimiter.len() as f64 - 1.0, DataType::I64)?;
        let next_skip = if by_space { zero.clone() } else { node.choice(&is_delimiter, &all, &fewer)? };
        let next_skip = node.broadcast(&next_skip, std::slice::from_ref(&count))?;
        // What belongs to no part is written after the bytes of all parts.
        let minus = node.scalar(-1.0, DataType::I64)?;
        let place = node.choice(&kept, length, &minus)?;
        Ok(Step { cond: None, carried: vec![next_part, next_length, next_skip], rows: vec![here, place] })
    })?;
    let [part, place] = &finished.rows[..] else { return Err(node.malformed("the loop has other rows")) };
    let number = node.with("add", &finished.carried[0], 1.0)?;

    // Scatter the bytes to (string, part, place), with one more place for what is not kept.
    let floor = node.constant(Tensor::from_slice(&[0i64], &[1])?)?;
    let all = node.joined(vec![number.clone(), floor], 0)?;
    let largest = node.op("max", &[all], Attrs::new().with("axis", vec![0i64]).with("keepdims", true))?;
    let parts = node.read(&largest)?.remove(0);
    let last = Arg::Prim(width.clone());
    let outside = node.with("less", place, 0.0)?;
    let place = node.choice(&outside, &last, place)?;
    let string = node.count(&count, DataType::I64)?;
    let pitch = simplify_dim(&(width.clone() + 1i64));
    let row = simplify_dim(&(parts.clone() * &pitch));
    let base = node.with_dim("multiply", &string, row.clone())?;
    let start = node.with("maximum", part, 0.0)?;
    let highest = Arg::Prim(simplify_dim(&(parts.clone() - 1i64).max(0)));
    let start = node.apply("minimum", &start, &highest)?;
    let start = node.with_dim("multiply", &start, pitch.clone())?;
    let to = node.apply("add", &base, &start)?;
    let to = node.apply("add", &to, &place)?;
    let total = simplify_dim(&(count.clone() * &row));
    let size = product(&node.shape(&to)?);
    let to = node.reshape(&to, std::slice::from_ref(&size))?;
    // A tensor without a part has no place, so there is one at the end that is dropped.
    let limit = Arg::Prim(total.clone());
    let to = node.apply("minimum", &to, &limit)?;
    let values = node.reshape(&bytes, &[size])?;
    let blank = node.full(&[simplify_dim(&(total.clone() + 1i64))], 0.0, DataType::I64)?;
    let attrs = Attrs::new().with("axis", 0i64).with("reduction", "update");
    let res = node.op("scatter_elements", &[blank, to, values], attrs)?;
    let res = node.part(&res, 0, 0, total)?;
    let res = node.reshape(&res, &[count.clone(), parts.clone(), pitch])?;
    let res = node.part(&res, 2, 0, width.clone())?;
    let res = node.cast(&res, DataType::U8)?;
    let full: Vec<PrimExpr> = shape.iter().cloned().chain([parts, width]).collect();
    Ok(vec![Value::Strings(node.reshape(&res, &full)?), node.reshape(&number, &shape)?.into()])
}
