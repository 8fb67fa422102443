//! Attention of the domain `com.microsoft`: whole layers as exporters and the optimiser of onnxruntime emit them.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{prove_equal, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::attention::{
    Bias, Product, heads, joined_heads, positions, scale, shared, split_heads, turned_pairs,
};
use super::fused::normalised;
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Attention", 1, With(attention)),
    row("EmbedLayerNormalization", 1, With(embeddings)),
    row("GroupQueryAttention", 1, With(group_query)),
    row("MultiHeadAttention", 1, With(multi_head)),
    row("RotaryEmbedding", 1, With(rotary)),
];

type Result<T> = std::result::Result<T, OnnxError>;

/// Rejects inputs and attributes that are given although they are not supported. Attributes may have the value 0.
fn check_unused(node: &Node<'_, '_>, inputs: &[(usize, &str)], attrs: &[&str]) -> Result<()> {
    if let Some((_, what)) = inputs.iter().find(|(i, _)| node.has(*i)) {
        return Err(node.unsupported(what));
    }
    for attr in attrs {
        if node.int_or(attr, 0)? > 0 {
            return Err(node.unsupported(format!("attribute `{attr}`")));
        }
    }
    Ok(())
}

/// Queries, keys and values (batch, heads, position, size).
struct Operands {
    query: Arg,
    key: Arg,
    value: Arg,
    /// Number of keys from earlier calls.
    past: PrimExpr,
}

/// (batch, position, heads, size) as (batch, heads, position, size), with a vector for all heads added.
fn by_heads(node: &mut Node<'_, '_>, mut x: Arg, bias: Option<Arg>) -> Result<Arg> {
    if let Some(bias) = bias {
        let shape = node.shape(&x)?;
        let bias = node.reshape(&bias, &shape[2..])?;
        x = node.apply("add", &x, &bias)?;
    }
    node.permuted(&x, &[0, 2, 1, 3])
}

/// Part `i` along axis 3 of a tensor (batch, position, heads, parts, size).
fn packed(node: &mut Node<'_, '_>, x: &Arg, i: i64) -> Result<Arg> {
    let mut shape = node.shape(x)?;
    let part = node.part(x, 3, i, i + 1)?;
    shape.remove(3);
    node.reshape(&part, &shape)
}

/// The scale in the attribute, of which 0 is none.
fn given_scale(node: &Node<'_, '_>) -> Result<Option<f64>> {
    Ok(Some(node.float_or("scale", 0.0)?).filter(|it| *it != 0.0))
}

impl Operands {
    /// The same with the keys and values of earlier calls before the new ones.
    fn with_past(self, node: &mut Node<'_, '_>, past: [Option<Arg>; 2]) -> Result<Operands> {
        match past {
            [Some(key), Some(value)] => Ok(Operands {
                past: node.extent(&key, 2)?,
                key: node.joined(vec![key, self.key], 2)?,
                value: node.joined(vec![value, self.value], 2)?,
                query: self.query,
            }),
            [None, None] => Ok(self),
            _ => Err(node.malformed("earlier keys and values are given together")),
        }
    }
}

/// Adds the mask of keys: 1 where a key may be used (batch, keys) or (batch, queries, keys), or the number of keys
/// (batch).
fn add_key_mask(
    node: &mut Node<'_, '_>,
    bias: &mut Bias,
    mask: &Arg,
    batch: &PrimExpr,
    keys: &PrimExpr,
) -> Result<()> {
    let shape = node.shape(mask)?;
    let one = || PrimExpr::index(1);
    let allowed = match &shape[..] {
        [count] if prove_equal(count, batch) => {
            let count = node.reshape(mask, &[batch.clone(), one(), one(), one()])?;
            let count = node.cast(&count, DataType::I64)?;
            let key = positions(node, keys, [one(), keys.clone()])?;
            node.apply("less", &key, &count)?
        }
        [rows, columns] => {
            let mask = node.reshape(mask, &[rows.clone(), one(), one(), columns.clone()])?;
            node.with("greater", &mask, 0.0)?
        }
        [rows, queries, columns] => {
            let mask = node.reshape(mask, &[rows.clone(), one(), queries.clone(), columns.clone()])?;
            node.with("greater", &mask, 0.0)?
        }
        _ => {
            return Err(
                node.unsupported("a mask other than of keys, of queries and keys, or a number of keys")
            );
        }
    };
    let filter = node.float_or("mask_filter_value", -10000.0)?;
    let (zero, low) = (node.scalar(0.0, bias.dtype)?, node.scalar(filter, bias.dtype)?);
    let part = node.choice(&allowed, &zero, &low)?;
    bias.add(node, part)
}

/// Excludes the keys after each query; the first query follows `past` keys.
fn add_causal(
    node: &mut Node<'_, '_>,
    bias: &mut Bias,
    queries: &PrimExpr,
    keys: &PrimExpr,
    past: &PrimExpr,
) -> Result<()> {
    let key = positions(node, keys, [PrimExpr::index(1), keys.clone()])?;
    let query = positions(node, queries, [queries.clone(), PrimExpr::index(1)])?;
    let query = node.with_dim("add", &query, past.clone())?;
    let allowed = node.apply("less_equal", &key, &query)?;
    bias.add_where(node, allowed)
}

/// What restricts the products of queries and keys.
struct Masks {
    keys: Option<Arg>,
    bias: Option<Arg>,
}

/// The attention of the operands; the results, and the keys and values.
fn attended(node: &mut Node<'_, '_>, it: Operands, masks: Masks) -> Result<[Arg; 3]> {
    let dtype = node.dtype(&it.query)?;
    let (q, k) = (node.shape(&it.query)?, node.shape(&it.key)?);
    let mut bias = Bias { sum: None, dtype };
    if let Some(mask) = masks.keys {
        add_key_mask(node, &mut bias, &mask, &q[0], &k[2])?;
    }
    if let Some(part) = masks.bias {
        bias.add(node, part)?;
    }
    if node.flag("unidirectional", false)? {
        add_causal(node, &mut bias, &q[2], &k[2], &it.past)?;
    }
    let scale = scale(node, given_scale(node)?, &it.query)?;
    let (key, value) = (it.key.clone(), it.value.clone());
    let product = Product {
        query: it.query,
        key: it.key,
        value: it.value,
        scale,
        softcap: 0.0,
        bias: bias.sum,
        precision: dtype,
    };
    let (res, _) = product.emit(node)?;
    Ok([joined_heads(node, &res)?, key, value])
}

fn multi_head(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    check_unused(node, &[(8, "a buffer for later keys"), (9, "beam search")], &[])?;
    if node.has_output(3) {
        return Err(node.unsupported("the products of queries and keys as output"));
    }
    let n = heads(node, "num_heads")?;
    let query = node.arg(0)?;
    let (mut query, mut key, mut value) = match (node.rank(&query)?, node.opt_arg(1)?, node.opt_arg(2)?) {
        (5, None, None) => (packed(node, &query, 0)?, packed(node, &query, 1)?, packed(node, &query, 2)?),
        (3, Some(key), None) if node.rank(&key)? == 5 => {
            (split_heads(node, &query, n)?, packed(node, &key, 0)?, packed(node, &key, 1)?)
        }
        (3, Some(key), Some(value)) => (split_heads(node, &query, n)?, key, value),
        _ => return Err(node.malformed("the ranks of queries, keys and values do not fit together")),
    };
    let mut ready = false;
    match (node.rank(&key)?, node.rank(&value)?) {
        (3, 3) => (key, value) = (split_heads(node, &key, n)?, split_heads(node, &value, n)?),
        // Keys of an encoder, with their heads in axis 1; packed ones have them in axis 2.
        (4, 4) => ready = node.has(2),
        _ => return Err(node.malformed("keys and values have three axes, or four")),
    }
    let mut biases = [None, None, None];
    if let Some(bias) = node.opt_arg(3)? {
        let mut from = PrimExpr::index(0);
        for (part, of) in biases.iter_mut().zip([&query, &key, &value]) {
            let shape = node.shape(of)?;
            let size = if ready && part.is_none() { node.extent(of, 3)? * n } else { &shape[2] * &shape[3] };
            let to = simplify_dim(&(from.clone() + size));
            *part = Some(node.part(&bias, 0, from, to.clone())?);
            from = to;
            if ready {
                break;
            }
        }
    }
    let [of_query, of_key, of_value] = biases;
    query = by_heads(node, query, of_query)?;
    if !ready {
        (key, value) = (by_heads(node, key, of_key)?, by_heads(node, value, of_value)?);
    }
    let past = [node.opt_arg(6)?, node.opt_arg(7)?];
    let operands = Operands { query, key, value, past: PrimExpr::index(0) }.with_past(node, past)?;
    let masks = Masks { keys: node.opt_arg(4)?, bias: node.opt_arg(5)? };
    let results = attended(node, operands, masks)?;
    Ok(results.map(Value::from).into())
}

/// The layer with its projection: one matrix for queries, keys and values.
fn attention(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    check_unused(node, &[(6, "a buffer for later keys")], &["do_rotary", "past_present_share_buffer"])?;
    let n = heads(node, "num_heads")?;
    let (x, weights) = (node.arg(0)?, node.arg(1)?);
    let mut all = node.apply("matmul", &x, &weights)?;
    if let Some(bias) = node.opt_arg(2)? {
        all = node.apply("add", &all, &bias)?;
    }
    let width = node.shape(&all)?.pop().unwrap_or_else(|| PrimExpr::index(0));
    let sizes: Vec<PrimExpr> = match node.attr_ints("qkv_hidden_sizes")? {
        Some(sizes) if sizes.len() == 3 => sizes.iter().map(|&it| PrimExpr::index(it)).collect(),
        Some(_) => return Err(node.malformed("attribute `qkv_hidden_sizes` has three numbers")),
        None => vec![simplify_dim(&width.floordiv(3)); 3],
    };
    let mut parts = Vec::new();
    let mut from = PrimExpr::index(0);
    for size in &sizes {
        let to = simplify_dim(&(from.clone() + size));
        let part = node.part(&all, 2, from, to.clone())?;
        let part = split_heads(node, &part, n)?;
        parts.push(by_heads(node, part, None)?);
        from = to;
    }
    let [query, key, value] = [0, 1, 2].map(|i| parts[i].clone());
    let mut past = [None, None];
    if let Some(both) = node.opt_arg(4)? {
        let shape = node.shape(&both)?;
        for (i, past) in past.iter_mut().enumerate() {
            let part = node.part(&both, 0, i as i64, i as i64 + 1)?;
            *past = Some(node.reshape(&part, &shape[1..])?);
        }
    }
    let operands = Operands { query, key, value, past: PrimExpr::index(0) }.with_past(node, past)?;
    let masks = Masks { keys: node.opt_arg(3)?, bias: node.opt_arg(5)? };
    let [res, key, value] = attended(node, operands, masks)?;
    let mut shape = node.shape(&key)?;
    shape.insert(0, PrimExpr::index(1));
    if !node.has_output(1) {
        return Ok(vec![res.into()]);
    }
    let present = vec![node.reshape(&key, &shape)?, node.reshape(&value, &shape)?];
    Ok(vec![res.into(), node.joined(present, 0)?.into()])
}

/// Attention whose keys and values several heads of queries share, with rotated positions and a cache. Input 5 has the
/// position of the last valid key of each sequence, input 6 the largest number of valid keys.
fn group_query(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let unused = ["smooth_softmax", "kv_cache_bit_width", "qk_output"];
    check_unused(node, &[(11, "sinks of heads"), (12, "a scaled cache"), (13, "a scaled cache")], &unused)?;
    let (n, shared_by) = (heads(node, "num_heads")?, heads(node, "kv_num_heads")?);
    let query = node.arg(0)?;
    let [batch, queries, width] = &node.shape(&query)?[..] else {
        return Err(node.malformed("queries have three axes"));
    };
    let (query, key, value) = match (node.opt_arg(1)?, node.opt_arg(2)?) {
        (Some(key), Some(value)) => (query, key, value),
        (None, None) => {
            let size = simplify_dim(&width.clone().floordiv(n + 2 * shared_by));
            let ends = [n, n + shared_by, n + 2 * shared_by].map(|it| simplify_dim(&(size.clone() * it)));
            (
                node.part(&query, 2, 0, ends[0].clone())?,
                node.part(&query, 2, ends[0].clone(), ends[1].clone())?,
                node.part(&query, 2, ends[1].clone(), ends[2].clone())?,
            )
        }
        _ => return Err(node.malformed("keys and values are given together")),
    };
    let (mut query, mut key) = (split_heads(node, &query, n)?, split_heads(node, &key, shared_by)?);
    let value = split_heads(node, &value, shared_by)?;
    let one = || PrimExpr::index(1);

    // Number of earlier keys of each sequence: none if all keys are new, as sequences of several lengths are padded then.
    let last = node.arg(5)?;
    let last = node.cast(&last, DataType::I64)?;
    let last = node.reshape(&last, &[batch.clone(), one()])?;
    let total = node.dim(6)?;
    let earlier = node.with_dim("add", &last, simplify_dim(&(one() - queries)))?;
    let first = Arg::Prim(total.clone().equal(queries.clone()).select(PrimExpr::index(0), one()));
    let earlier = node.apply("multiply", &earlier, &first)?;

    let step = node.count(queries, DataType::I64)?;
    let step = node.reshape(&step, &[one(), queries.clone()])?;
    let place = node.apply("add", &earlier, &step)?;
    if node.flag("do_rotary", false)? {
        let at = match node.opt_arg(9)? {
            Some(ids) => ids,
            None => place.clone(),
        };
        let interleaved = node.flag("rotary_interleaved", false)?;
        let (cos, sin, turned) = angles(node, 7, &at)?;
        query = turned_pairs(node, &query, &cos, &sin, turned, interleaved)?;
        key = turned_pairs(node, &key, &cos, &sin, turned, interleaved)?;
    }
    let query = by_heads(node, query, None)?;
    let (key, value) = (by_heads(node, key, None)?, by_heads(node, value, None)?);
    let (key, value) = match (node.opt_arg(3)?, node.opt_arg(4)?) {
        (Some(past_key), Some(past_value)) => {
            let past = node.extent(&past_key, 2)?;
            let room = simplify_dim(&past.clone().max(total));
            let places = cache_places(node, &earlier, &past, queries, &room)?;
            (cached(node, past_key, key, &places)?, cached(node, past_value, value, &places)?)
        }
        (None, None) => (key, value),
        _ => return Err(node.malformed("earlier keys and values are given together")),
    };

    let dtype = node.dtype(&query)?;
    let mut bias = Bias { sum: None, dtype };
    let keys = node.extent(&key, 2)?;
    let at = node.reshape(&place, &[batch.clone(), one(), queries.clone(), one()])?;
    let key_at = positions(node, &keys, [one(), keys.clone()])?;
    let allowed = node.apply("less_equal", &key_at, &at)?;
    bias.add_where(node, allowed)?;
    let end = node.reshape(&last, &[batch.clone(), one(), one(), one()])?;
    let allowed = node.apply("less_equal", &key_at, &end)?;
    bias.add_where(node, allowed)?;
    let window = node.int_or("local_window_size", -1)?;
    if window > 0 {
        let distance = node.apply("subtract", &at, &key_at)?;
        let allowed = node.with("less", &distance, window as f64)?;
        bias.add_where(node, allowed)?;
    }
    if let Some(part) = node.opt_arg(10)? {
        bias.add(node, part)?;
    }
    let present = [key.clone(), value.clone()];
    let (n, shared_by) = (PrimExpr::index(n), PrimExpr::index(shared_by));
    let (key, value) = (shared(node, key, &n, &shared_by)?, shared(node, value, &n, &shared_by)?);
    let scale = scale(node, given_scale(node)?, &query)?;
    let softcap = node.float_or("softcap", 0.0)?;
    let product = Product { query, key, value, scale, softcap, bias: bias.sum, precision: dtype };
    let (res, _) = product.emit(node)?;
    let res = joined_heads(node, &res)?;
    let [key, value] = present;
    Ok(vec![res.into(), key.into(), value.into()])
}

/// For each place in a cache with `room` places, where it comes from in the earlier keys (`past` of them, the first `earlier`
/// valid) followed by the new ones and zeros (batch, room).
fn cache_places(
    node: &mut Node<'_, '_>,
    earlier: &Arg,
    past: &PrimExpr,
    new: &PrimExpr,
    room: &PrimExpr,
) -> Result<Arg> {
    let at = positions(node, room, [PrimExpr::index(1), room.clone()])?;
    let is_new = node.apply("greater_equal", &at, earlier)?;
    let from_new = node.apply("subtract", &at, earlier)?;
    // What follows the new keys in a cache with room for later ones is 0, which is after them.
    let from_new = node.with_dim("minimum", &from_new, new.clone())?;
    let from_new = node.with_dim("add", &from_new, past.clone())?;
    node.choice(&is_new, &from_new, &at)
}

/// The earlier keys or values and the new ones, at their places.
fn cached(node: &mut Node<'_, '_>, past: Arg, new: Arg, places: &Arg) -> Result<Arg> {
    let [own_batch, heads, _, size] = &node.shape(&past)?[..] else {
        return Err(node.malformed("earlier keys and values have four axes"));
    };
    let one = || PrimExpr::index(1);
    let dtype = node.dtype(&past)?;
    let zeros = node.full(&[own_batch.clone(), heads.clone(), one(), size.clone()], 0.0, dtype)?;
    let all = node.joined(vec![past, new, zeros], 2)?;
    let [batch, room] = &node.shape(places)?[..] else { return Err(node.malformed("places have two axes")) };
    let places = node.reshape(places, &[batch.clone(), one(), room.clone(), one()])?;
    let places = node.broadcast(&places, &[batch.clone(), heads.clone(), room.clone(), size.clone()])?;
    node.op("gather_elements", &[all, places], Attrs::new().with("axis", 2i64))
}

/// Cosines and sines (batch, position, 1, pairs) from the tables in inputs `i` and `i + 1`, for the places `at` (batch,
/// position); and the number of elements that are turned.
fn angles(node: &mut Node<'_, '_>, i: usize, at: &Arg) -> Result<(Arg, Arg, i64)> {
    let mut tables = Vec::new();
    for i in [i, i + 1] {
        let table = node.arg(i)?;
        let table = node.take(&table, at, 0)?;
        let [batch, length, pairs] = &node.shape(&table)?[..] else {
            return Err(node.malformed("tables of angles and positions have two axes each"));
        };
        let shape = [batch.clone(), length.clone(), PrimExpr::index(1), pairs.clone()];
        tables.push(node.reshape(&table, &shape)?);
    }
    let sin = tables.remove(1);
    let cos = tables.remove(0);
    let pairs = node.shape(&cos)?.pop().and_then(|it| it.as_int());
    let pairs = pairs.ok_or_else(|| node.unsupported("heads of symbolic size"))?;
    Ok((cos, sin, 2 * pairs))
}

fn rotary(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    check_unused(node, &[], &["is_packed_batching"])?;
    let (input, ids) = (node.arg(0)?, node.arg(1)?);
    let shape = node.shape(&input)?;
    let table = node.arg(2)?;
    let pairs = node.extent(&table, 1)?;
    let x = match &shape[..] {
        [_, _, _, _] => node.permuted(&input, &[0, 2, 1, 3])?,
        [batch, length, width] => match node.int_or("num_heads", 0)? {
            0 => {
                let size = simplify_dim(&(pairs * 2));
                let n = simplify_dim(&width.clone().floordiv(size.clone()));
                node.reshape(&input, &[batch.clone(), length.clone(), n, size])?
            }
            n => split_heads(node, &input, n)?,
        },
        _ => return Err(node.malformed("the input has three or four axes")),
    };
    let [batch, length, ..] = &node.shape(&x)?[..] else {
        return Err(node.malformed("the input has four axes"));
    };
    let ids = match node.rank(&ids)? {
        1 => {
            let step = node.count(length, DataType::I64)?;
            let at = node.apply("add", &step, &ids)?;
            let at = node.reshape(&at, &[PrimExpr::index(1), length.clone()])?;
            node.broadcast(&at, &[batch.clone(), length.clone()])?
        }
        _ => ids,
    };
    let (cos, sin, turned) = angles(node, 2, &ids)?;
    let interleaved = node.flag("interleaved", false)?;
    let res = turned_pairs(node, &x, &cos, &sin, turned, interleaved)?;
    one(if shape.len() == 4 { node.permuted(&res, &[0, 2, 1, 3]) } else { node.reshape(&res, &shape) })
}

/// The sum of the embeddings of words, positions and segments, normalised along the last axis.
fn embeddings(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (ids, words) = (node.arg(0)?, node.arg(2)?);
    let [batch, length] = &node.shape(&ids)?[..] else { return Err(node.malformed("words have two axes")) };
    let mut sum = node.take(&words, &ids, 0)?;
    let table = node.arg(3)?;
    let at = match node.opt_arg(8)? {
        Some(at) => at,
        None => node.count(length, DataType::I64)?,
    };
    let part = node.take(&table, &at, 0)?;
    sum = node.apply("add", &sum, &part)?;
    if let (Some(segments), Some(table)) = (node.opt_arg(1)?, node.opt_arg(4)?) {
        let part = node.take(&table, &segments, 0)?;
        sum = node.apply("add", &sum, &part)?;
    }
    let (gamma, beta) = (node.arg(5)?, node.arg(6)?);
    let res = normalised(node, &sum, gamma, Some(beta))?;
    let counts = match node.opt_arg(7)? {
        Some(mask) => {
            let valid = node.with("equal", &mask, 1.0)?;
            let valid = node.cast(&valid, DataType::I32)?;
            node.op("sum", &[valid], Attrs::new().with("axis", vec![1i64]).with("keepdims", false))?
        }
        None => node.full(std::slice::from_ref(batch), 0.0, DataType::I32)?,
    };
    Ok(vec![res.into(), counts.into(), sum.into()])
}
