//! Strings. They are tensors of bytes with one more axis at the end (see [`crate::strings`]), so their operators are arithmetic on
//! bytes.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, prove_equal, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::select::places;
use super::{Convert, Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::strings::encode_strings;
use crate::value::Value;

pub(super) static ROWS: &[Row] =
    &[row("StringConcat", 20, With(concat)), row("StringNormalizer", 10, With(normalize))];

type Result<T> = std::result::Result<T, OnnxError>;

impl Node<'_, '_> {
    /// True if input `i` is a tensor of strings.
    pub(super) fn is_strings(&self, i: usize) -> bool {
        matches!(self.opt_value(i), Some(Value::Strings(_)))
    }

    /// The bytes of input `i`, a tensor of strings.
    pub(super) fn strings(&self, i: usize) -> Result<Arg> {
        match self.value(i)? {
            Value::Strings(bytes) => Ok(bytes.clone()),
            _ => Err(self.malformed(format!("input {i} is a tensor of strings"))),
        }
    }

    /// A constant vector of strings.
    pub(super) fn text_table<T: AsRef<[u8]>>(&mut self, strings: &[T]) -> Result<Arg> {
        self.constant(encode_strings(strings, &[strings.len() as i64])?)
    }

    /// Strings with `width` bytes, which is not less than they have.
    fn widened(&mut self, x: &Arg, width: &PrimExpr) -> Result<Arg> {
        let mut shape = self.shape(x)?;
        let last = shape.len() - 1;
        if prove_equal(&shape[last], width) {
            return Ok(x.clone());
        }
        shape[last] = simplify_dim(&(width.clone() - &shape[last]));
        let zeros = self.full(&shape, 0.0, DataType::U8)?;
        self.joined(vec![x.clone(), zeros], last)
    }

    /// Whether strings are equal, with broadcasting.
    pub(super) fn same_strings(&mut self, a: &Arg, b: &Arg) -> Result<Arg> {
        let width =
            |node: &Self, x: &Arg| -> Result<PrimExpr> { node.extent(x, node.rank(x)?.saturating_sub(1)) };
        let most = simplify_dim(&width(self, a)?.max(width(self, b)?));
        let (a, b) = (self.widened(a, &most)?, self.widened(b, &most)?);
        let differs = self.apply("not_equal", &a, &b)?;
        let differs = self.cast(&differs, DataType::I32)?;
        let last = self.rank(&differs)? as i64 - 1;
        let any =
            self.op("max", &[differs], Attrs::new().with("axis", vec![last]).with("keepdims", false))?;
        self.with("equal", &any, 0.0)
    }
}

/// The bytes of strings (byte, string) in `i64`, with the shape of the strings.
pub(super) fn by_byte(node: &mut Node<'_, '_>) -> Result<(Arg, Vec<PrimExpr>)> {
    let x = node.strings(0)?;
    let mut shape = node.shape(&x)?;
    let width = shape.pop().ok_or_else(|| node.malformed("strings have an axis for their bytes"))?;
    let x = node.reshape(&x, &[product(&shape), width])?;
    let x = node.permuted(&x, &[1, 0])?;
    Ok((node.cast(&x, DataType::I64)?, shape))
}

/// Converts an operator that only moves elements: it moves the numbers of the strings, by which they are looked up then.
pub(super) fn moved(node: &mut Node<'_, '_>, convert: &Convert) -> Result<Vec<Value>> {
    let (mut tables, mut given, mut first) = (Vec::new(), Vec::new(), PrimExpr::index(0));
    let mut width: Option<PrimExpr> = None;
    for i in (0..node.num_inputs()).filter(|&i| node.is_strings(i)).collect::<Vec<_>>() {
        let x = node.strings(i)?;
        let mut shape = node.shape(&x)?;
        let own = shape.pop().unwrap_or_else(|| PrimExpr::index(1));
        let count = product(&shape);
        let numbers = node.count(&count, DataType::I64)?;
        let numbers = node.with_dim("add", &numbers, first.clone())?;
        given.push((i, Value::from(node.reshape(&numbers, &shape)?)));
        tables.push(node.reshape(&x, &[count.clone(), own.clone()])?);
        first = simplify_dim(&(first + count));
        width = Some(match width {
            Some(width) if !prove_equal(&width, &own) => simplify_dim(&width.max(own)),
            _ => own,
        });
    }
    let width = width.unwrap_or_else(|| PrimExpr::index(1));
    for table in &mut tables {
        *table = node.widened(table, &width)?;
    }
    let table = node.joined(tables, 0)?;
    let moved = node.with_inputs(given, |node| super::apply(node, convert))?;
    let look_up = |it: Value| {
        let places = node.materialise(it)?;
        Ok(Value::Strings(node.take(&table, &places, 0)?))
    };
    moved.into_iter().map(look_up).collect()
}

/// Each string of the first operand, followed by the one of the second.
fn concat(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (a, b) = (node.strings(0)?, node.strings(1)?);
    // Each operand gets the axes of the other, by a byte that changes nothing.
    let mut operands = Vec::new();
    for (x, other) in [(&a, &b), (&b, &a)] {
        let mut shape = node.shape(other)?;
        shape.pop();
        shape.push(PrimExpr::index(1));
        let zeros = node.full(&shape, 0.0, DataType::U8)?;
        operands.push(node.apply("bitwise_or", x, &zeros)?);
    }
    let shape = node.shape(&operands[0])?;
    let last = shape.len() - 1;
    let first = shape[last].clone();
    let width = simplify_dim(&(first.clone() + node.extent(&operands[1], last)?));
    let used = node.with("not_equal", &operands[0], 0.0)?;
    let used = node.cast(&used, DataType::I64)?;
    let attrs = Attrs::new().with("axis", vec![last as i64]).with("keepdims", true);
    let length = node.op("sum", &[used], attrs)?;
    let mut zero = shape.clone();
    zero[last] = PrimExpr::index(1);
    operands.push(node.full(&zero, 0.0, DataType::U8)?);
    let all = node.joined(operands, last)?;
    // After the first string come the bytes of the second one, then zeros, of which there is one after both.
    let at = node.count(&width, DataType::I64)?;
    let from_second = node.apply("subtract", &at, &length)?;
    let inside = node.apply("less", &at, &length)?;
    let from_second = node.with_dim("add", &from_second, first)?;
    let from = node.choice(&inside, &at, &from_second)?;
    let from = node.with_dim("minimum", &from, width.clone())?;
    let mut wide = shape;
    wide[last] = width;
    let from = node.broadcast(&from, &wide)?;
    let res = node.op("gather_elements", &[all, from], Attrs::new().with("axis", last))?;
    Ok(vec![Value::Strings(res)])
}

/// Bytes whose letters from `from` on, 26 of them, are moved by 32 as `op` says.
fn changed_case(node: &mut Node<'_, '_>, x: &Arg, from: u8, op: &str) -> Result<Arg> {
    let low = node.with("greater_equal", x, from.into())?;
    let high = node.with("less", x, f64::from(from + 26))?;
    let letter = node.apply("logical_and", &low, &high)?;
    let other = node.with(op, x, 32.0)?;
    node.choice(&letter, &other, x)
}

/// Removes stop words and changes the case of a vector of strings, or of one row of them.
fn normalize(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let x = node.strings(0)?;
    let shape = node.shape(&x)?;
    let (count, width) = match &shape[..] {
        [count, width] => (count.clone(), width.clone()),
        [rows, count, width] if rows.is_const(1) => (count.clone(), width.clone()),
        _ => return Err(node.malformed("the input is a vector of strings, or one row of them")),
    };
    let mut x = node.reshape(&x, &[count, width])?;
    let action = node.str_or("case_change_action", "NONE")?;
    let sensitive = node.flag("is_case_sensitive", false)?;
    let stops = node.attr_strings("stopwords")?;
    if action != "NONE" || (!sensitive && !stops.is_empty()) {
        check_ascii(node, &x)?;
    }
    if !stops.is_empty() {
        let lowered = |it: &&str| if sensitive { it.to_string() } else { it.to_ascii_lowercase() };
        let stops: Vec<String> = stops.iter().map(lowered).collect();
        let table = node.text_table(&stops)?;
        let compared = if sensitive { x.clone() } else { changed_case(node, &x, b'A', "add")? };
        let mut shape = node.shape(&compared)?;
        shape.insert(1, PrimExpr::index(1));
        let compared = node.reshape(&compared, &shape)?;
        let same = node.same_strings(&compared, &table)?;
        let same = node.cast(&same, DataType::I32)?;
        let stop = node.op("max", &[same], Attrs::new().with("axis", vec![1i64]).with("keepdims", false))?;
        let kept = node.with("equal", &stop, 0.0)?;
        x = remaining(node, &x, &kept)?;
    }
    let res = match action {
        "NONE" => x,
        "LOWER" => changed_case(node, &x, b'A', "add")?,
        "UPPER" => changed_case(node, &x, b'a', "subtract")?,
        other => return Err(node.malformed(format!("attribute `case_change_action` is `{other}`"))),
    };
    let mut made = node.shape(&res)?;
    if shape.len() == 3 {
        made.insert(0, PrimExpr::index(1));
    }
    Ok(vec![Value::Strings(node.reshape(&res, &made)?)])
}

/// The strings that are kept; an empty one if there are none.
fn remaining(node: &mut Node<'_, '_>, x: &Arg, kept: &Arg) -> Result<Arg> {
    let (shape, one) = (node.shape(x)?, PrimExpr::index(1));
    let number = node.cast(kept, DataType::I64)?;
    let any = node.op("sum", &[number], Attrs::new().with("axis", vec![0i64]).with("keepdims", true))?;
    let none = node.with("equal", &any, 0.0)?;
    let kept = node.joined(vec![kept.clone(), none], 0)?;
    let empty = node.full(&[one, shape[1].clone()], 0.0, DataType::U8)?;
    let all = node.joined(vec![x.clone(), empty], 0)?;
    let places = places(node, &kept)?;
    node.take(&all, &places, 0)
}

/// A check that no string has letters beyond ASCII, whose case is not known.
fn check_ascii(node: &mut Node<'_, '_>, x: &Arg) -> Result<()> {
    let zero = Arg::Const(Tensor::from_slice(&[0u8], &[1])?);
    let flat = node.shape(x)?;
    let flat = node.reshape(x, &[product(&flat)])?;
    let all = node.joined(vec![flat, zero], 0)?;
    let most = node.op("max", &[all], Attrs::new().with("axis", vec![0i64]).with("keepdims", false))?;
    let within = node.with("less", &most, 128.0)?;
    let span = node.span().clone();
    node.importer().check_condition(&within, true, &span)
}

/// Whether strings are equal.
pub(super) fn equal(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (a, b) = (node.strings(0)?, node.strings(1)?);
    one(node.same_strings(&a, &b))
}
