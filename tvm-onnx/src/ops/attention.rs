//! Attention and related operators.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::tensor::dtype_from_onnx;
use crate::value::Value;

pub(super) static ROWS: &[Row] =
    &[row("Attention", 23, With(attention)), row("RotaryEmbedding", 23, With(rotary_embedding))];

type Result<T> = std::result::Result<T, OnnxError>;

/// The number in the attribute `attr`, which says how many heads there are.
pub(super) fn heads(node: &Node<'_, '_>, attr: &str) -> Result<i64> {
    let heads = node.attr_int(attr)?;
    node.required(attr, heads)
}

/// Reshapes (batch, position, heads · size) to (batch, position, heads, size).
pub(super) fn split_heads(node: &mut Node<'_, '_>, x: &Arg, heads: i64) -> Result<Arg> {
    let [batch, length, hidden] = &node.shape(x)?[..] else {
        return Err(node.malformed("the inputs have three or four axes"));
    };
    if heads < 1 || hidden.as_int().is_some_and(|it| it % heads != 0) {
        return Err(node.malformed(format!("{heads} heads do not divide the last axis")));
    }
    let size = simplify_dim(&hidden.clone().floordiv(heads));
    node.reshape(x, &[batch.clone(), length.clone(), PrimExpr::index(heads), size])
}

/// Input `i` as (batch, heads, position, size), and whether its heads were joined in one axis.
fn by_heads(node: &mut Node<'_, '_>, i: usize, attr: &str) -> Result<(Arg, bool)> {
    let x = node.arg(i)?;
    match node.rank(&x)? {
        4 => Ok((x, false)),
        _ => {
            let heads = heads(node, attr)?;
            let x = split_heads(node, &x, heads)?;
            Ok((node.permuted(&x, &[0, 2, 1, 3])?, true))
        }
    }
}

/// The numbers from 0 to `extent` (excluded), reshaped to `shape`.
pub(super) fn positions(node: &mut Node<'_, '_>, extent: &PrimExpr, shape: [PrimExpr; 2]) -> Result<Arg> {
    let range = node.count(extent, DataType::I64)?;
    node.reshape(&range, &shape)
}

/// 0 where `allowed` holds, minus infinity elsewhere.
fn penalty(node: &mut Node<'_, '_>, allowed: Arg, dtype: DataType) -> Result<Arg> {
    let (zero, low) = (node.scalar(0.0, dtype)?, node.scalar(f64::NEG_INFINITY, dtype)?);
    node.call("where", &[allowed, zero, low])
}

/// The sum that is added to the products of queries and keys; `None` if it is empty.
pub(super) struct Bias {
    pub(super) sum: Option<Arg>,
    pub(super) dtype: DataType,
}

impl Bias {
    pub(super) fn add(&mut self, node: &mut Node<'_, '_>, part: Arg) -> Result<()> {
        self.sum = Some(match self.sum.take() {
            Some(sum) => node.call("add", &[sum, part])?,
            None => part,
        });
        Ok(())
    }

    pub(super) fn add_where(&mut self, node: &mut Node<'_, '_>, allowed: Arg) -> Result<()> {
        let part = penalty(node, allowed, self.dtype)?;
        self.add(node, part)
    }

    /// Adds input 3: a bool mask selects keys, another one is added. Keys beyond its end are excluded.
    fn add_mask(&mut self, node: &mut Node<'_, '_>, keys: &PrimExpr) -> Result<()> {
        let Some(mask) = node.opt_arg(3)? else { return Ok(()) };
        let mut mask = if node.dtype(&mask)?.is_bool() { penalty(node, mask, self.dtype)? } else { mask };
        let shape = node.shape(&mask)?;
        let given = shape.last().ok_or_else(|| node.malformed("the mask has at least one axis"))?;
        let missing = simplify_dim(&(keys - given)).as_int().filter(|&it| it > 0 && !given.is_const(1));
        if let Some(missing) = missing {
            let mut widths = vec![0; 2 * shape.len() - 1];
            widths.push(missing);
            let attrs = Attrs::new().with("pad_width", widths).with("pad_value", f64::NEG_INFINITY);
            mask = node.op("nn.pad", &[mask], attrs)?;
        }
        self.add(node, mask)
    }

    /// Adds the restrictions of keys relative to queries: `is_causal`, the windows, and input 6, the number of valid
    /// keys per batch.
    fn add_positions(&mut self, node: &mut Node<'_, '_>, queries: &PrimExpr, keys: &PrimExpr) -> Result<()> {
        // The standard defines only the value 1.
        let causal = node.int_or("is_causal", 0)? == 1;
        let window = [node.int_or("left_window_size", -1)?, node.int_or("right_window_size", -1)?];
        if let Some(size) = window.iter().find(|&&it| it < -1) {
            return Err(node.malformed(format!("a window size is {size}")));
        }
        let count = match node.opt_arg(6)? {
            Some(count) => {
                let count = node.cast(&count, DataType::I64)?;
                let batch = product(&node.shape(&count)?);
                let one = PrimExpr::index(1);
                Some(node.reshape(&count, &[batch, one.clone(), one.clone(), one])?)
            }
            None => None,
        };
        let key = positions(node, keys, [PrimExpr::index(1), keys.clone()])?;
        if causal || window != [-1, -1] {
            // Distance from a key to the query; the position of the query comes after the earlier keys.
            let query = positions(node, queries, [queries.clone(), PrimExpr::index(1)])?;
            let offset = match (&count, node.opt_arg(4)?) {
                (_, Some(past)) => Arg::Prim(node.extent(&past, 2)?),
                (Some(count), None) => node.call("subtract", &[count.clone(), Arg::Prim(queries.clone())])?,
                (None, None) => Arg::Prim(PrimExpr::index(0)),
            };
            let query = node.call("add", &[query, offset])?;
            let distance = node.call("subtract", &[query, key.clone()])?;
            let limit = |it: i64| Arg::Prim(PrimExpr::index(it));
            if causal {
                let allowed = node.call("greater_equal", &[distance.clone(), limit(0)])?;
                self.add_where(node, allowed)?;
            }
            if window[0] >= 0 {
                let allowed = node.call("less_equal", &[distance.clone(), limit(window[0])])?;
                self.add_where(node, allowed)?;
            }
            if window[1] >= 0 {
                let allowed = node.call("greater_equal", &[distance, limit(-window[1])])?;
                self.add_where(node, allowed)?;
            }
        }
        if let Some(count) = count {
            let allowed = node.call("less", &[key, count])?;
            self.add_where(node, allowed)?;
        }
        Ok(())
    }
}

/// Appends `x` to the cache of earlier calls in input `i`, if it is given.
fn with_past(node: &mut Node<'_, '_>, i: usize, x: Arg) -> Result<Arg> {
    match node.opt_arg(i)? {
        Some(past) => node.joined(vec![past, x], 2),
        None => Ok(x),
    }
}

/// Computes `softmax(scale · Q Kᵀ + bias) V` per head. The result is 0 for a query that may attend to no key.
fn attention(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (query, joined) = by_heads(node, 0, "q_num_heads")?;
    let (key, _) = by_heads(node, 1, "kv_num_heads")?;
    let (value, _) = by_heads(node, 2, "kv_num_heads")?;
    let dtype = node.dtype(&query)?;
    let (key, value) = (with_past(node, 4, key)?, with_past(node, 5, value)?);
    let present = (key.clone(), value.clone());
    let (q, k) = (node.shape(&query)?, node.shape(&key)?);
    if q.len() != 4 || k.len() != 4 || node.rank(&value)? != 4 {
        return Err(node.malformed("the inputs have three or four axes"));
    }

    let mut bias = Bias { sum: None, dtype };
    bias.add_mask(node, &k[2])?;
    bias.add_positions(node, &q[2], &k[2])?;

    let scale = scale(node, node.attr_float("scale")?, &query)?;
    let (key, value) = (shared(node, key, &q[1], &k[1])?, shared(node, value, &q[1], &k[1])?);
    let softcap = node.float_or("softcap", 0.0)?;
    let precision = match node.attr_int("softmax_precision")? {
        Some(elem) => dtype_from_onnx(elem)?,
        None => dtype,
    };
    let (mut res, stages) =
        Product { query, key, value, scale, softcap, bias: bias.sum, precision }.emit(node)?;
    if joined {
        res = joined_heads(node, &res)?;
    }
    let mode = node.int_or("qk_matmul_output_mode", 0)?;
    let stage = usize::try_from(mode).ok().and_then(|mode| stages.into_iter().nth(mode));
    let stage =
        stage.ok_or_else(|| node.malformed(format!("attribute `qk_matmul_output_mode` is {mode}")))?;
    Ok(vec![res.into(), present.0.into(), present.1.into(), stage.into()])
}

/// The given scale of products with `query` (batch, heads, position, size), or the inverse root of the size.
pub(super) fn scale(node: &Node<'_, '_>, given: Option<f64>, query: &Arg) -> Result<f64> {
    match (given, node.extent(query, 3)?.as_int()) {
        (Some(scale), _) => Ok(scale),
        (None, Some(size)) => Ok(1.0 / (size as f64).sqrt()),
        (None, None) => Err(node.unsupported("heads of symbolic size without `scale`")),
    }
}

/// `softmax(scale · Q Kᵀ + bias) V` for tensors (batch, heads, position, size).
pub(super) struct Product {
    pub(super) query: Arg,
    pub(super) key: Arg,
    pub(super) value: Arg,
    pub(super) scale: f64,
    /// Bound of the scaled products, by a hyperbolic tangent; 0 is none.
    pub(super) softcap: f64,
    pub(super) bias: Option<Arg>,
    /// Element type of the softmax.
    pub(super) precision: DataType,
}

impl Product {
    /// Emits the product. Also returns its stages: products of queries and keys, the same bounded, the same with the bias,
    /// weights.
    pub(super) fn emit(self, node: &mut Node<'_, '_>) -> Result<(Arg, Vec<Arg>)> {
        let dtype = node.dtype(&self.query)?;
        let root = node.scalar(self.scale.sqrt(), dtype)?;
        let query = node.call("multiply", &[self.query, root.clone()])?;
        let key = node.permuted(&self.key, &[0, 1, 3, 2])?;
        let key = node.call("multiply", &[key, root])?;
        let mut stages = vec![node.call("matmul", &[query, key])?];
        let mut logits = stages[0].clone();
        if self.softcap > 0.0 {
            let cap = node.scalar(self.softcap, dtype)?;
            let ratio = node.call("divide", &[logits, cap.clone()])?;
            let bent = node.call("tanh", &[ratio])?;
            logits = node.call("multiply", &[bent, cap])?;
        }
        stages.push(logits.clone());
        if let Some(bias) = &self.bias {
            logits = node.call("add", &[logits, bias.clone()])?;
        }
        stages.push(logits.clone());
        let logits = node.cast(&logits, self.precision)?;
        let weights = node.op("nn.softmax", &[logits], Attrs::new().with("axis", -1i64))?;
        let mut weights = node.cast(&weights, dtype)?;
        if let Some(bias) = self.bias {
            let largest =
                node.op("max", &[bias], Attrs::new().with("axis", vec![-1i64]).with("keepdims", true))?;
            let (low, zero) = (node.scalar(f64::NEG_INFINITY, dtype)?, node.scalar(0.0, dtype)?);
            let blind = node.call("equal", &[largest, low])?;
            weights = node.call("where", &[blind, zero, weights])?;
        }
        stages.push(weights.clone());
        Ok((node.call("matmul", &[weights, self.value])?, stages))
    }
}

/// Reshapes (batch, heads, position, size) to (batch, position, heads · size).
pub(super) fn joined_heads(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg> {
    let shape = node.shape(x)?;
    let flat = [shape[0].clone(), shape[2].clone(), simplify_dim(&(&shape[1] * &shape[3]))];
    let x = node.permuted(x, &[0, 2, 1, 3])?;
    node.reshape(&x, &flat)
}

/// Repeats keys or values so that each head of the queries has one; a head serves several neighbouring heads of queries.
pub(super) fn shared(node: &mut Node<'_, '_>, x: Arg, queries: &PrimExpr, keys: &PrimExpr) -> Result<Arg> {
    match (queries.as_int(), keys.as_int()) {
        (Some(queries), Some(keys)) if queries != keys => {
            if keys < 1 || queries % keys != 0 {
                return Err(node.malformed(format!("{queries} heads cannot share {keys}")));
            }
            node.op("repeat", &[x], Attrs::new().with("repeats", queries / keys).with("axis", 1i64))
        }
        _ => Ok(x),
    }
}

/// The slice `x[begin..end by stride]` along the last axis; `end` counts from the front.
fn part(node: &mut Node<'_, '_>, x: &Arg, begin: i64, end: &PrimExpr, stride: i64) -> Result<Arg> {
    let axis = node.rank(x)? as i64 - 1;
    super::index::sliced(
        node,
        x.clone(),
        &[axis],
        &[PrimExpr::index(begin)],
        std::slice::from_ref(end),
        &[stride],
    )
}

/// Rotates pairs of elements by angles that depend on their position.
fn rotary_embedding(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let input = node.arg(0)?;
    let shape = node.shape(&input)?;
    // (batch, position, heads, size)
    let x = match shape.len() {
        4 => node.permuted(&input, &[0, 2, 1, 3])?,
        _ => {
            let heads = heads(node, "num_heads")?;
            split_heads(node, &input, heads)?
        }
    };
    let size = node.extent(&x, 3)?;
    let size = size.as_int().ok_or_else(|| node.unsupported("heads of symbolic size"))?;
    let turned = match node.int_or("rotary_embedding_dim", 0)? {
        0 => size,
        turned => turned,
    };
    if !(0..=size).contains(&turned) || turned % 2 != 0 {
        return Err(node.malformed(format!("{turned} of {size} elements cannot be turned in pairs")));
    }
    let mut tables = Vec::new();
    for i in [1, 2] {
        let mut table = node.arg(i)?;
        if let Some(ids) = node.opt_arg(3)? {
            table = node.op("take", &[table, ids], Attrs::new().with("axis", 0i64))?;
        }
        let [batch, length, half] = &node.shape(&table)?[..] else {
            return Err(node.malformed("the caches have three axes, or two and position ids"));
        };
        let extents = [batch.clone(), length.clone(), PrimExpr::index(1), half.clone()];
        tables.push(node.reshape(&table, &extents)?);
    }
    let [cos, sin] = [tables[0].clone(), tables[1].clone()];
    let interleaved = node.flag("interleaved", false)?;
    let res = turned_pairs(node, &x, &cos, &sin, turned, interleaved)?;
    one(if shape.len() == 4 { node.permuted(&res, &[0, 2, 1, 3]) } else { node.reshape(&res, &shape) })
}

/// Turns pairs among the first `turned` elements of `x` (batch, position, heads, size) by angles with the given cosines and
/// sines (batch, position, 1, turned / 2). The pairs are neighbours, or one element comes from each half.
pub(super) fn turned_pairs(
    node: &mut Node<'_, '_>,
    x: &Arg,
    cos: &Arg,
    sin: &Arg,
    turned: i64,
    interleaved: bool,
) -> Result<Arg> {
    let size = node.extent(x, 3)?;
    let (end, half) = (PrimExpr::index(turned), PrimExpr::index(turned / 2));
    let (first, second) = if interleaved {
        (part(node, x, 0, &end, 2)?, part(node, x, 1, &end, 2)?)
    } else {
        (part(node, x, 0, &half, 1)?, part(node, x, turned / 2, &end, 1)?)
    };
    let product = |node: &mut Node<'_, '_>, a: &Arg, b: &Arg| node.call("multiply", &[a.clone(), b.clone()]);
    let (a, b) = (product(node, cos, &first)?, product(node, sin, &second)?);
    let real = node.call("subtract", &[a, b])?;
    let (a, b) = (product(node, sin, &first)?, product(node, cos, &second)?);
    let imaginary = node.call("add", &[a, b])?;
    let mut res = if interleaved {
        let mut extents = node.shape(&real)?;
        let mut pairs = extents.clone();
        pairs[3] = end.clone();
        extents.push(PrimExpr::index(1));
        let both = vec![node.reshape(&real, &extents)?, node.reshape(&imaginary, &extents)?];
        let both = node.joined(both, 4)?;
        node.reshape(&both, &pairs)?
    } else {
        node.joined(vec![real, imaginary], 3)?
    };
    if !size.is_const(turned) {
        let rest = part(node, x, turned, &size, 1)?;
        res = node.joined(vec![res, rest], 3)?;
    }
    Ok(res)
}
