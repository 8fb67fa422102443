//! Attention whose scores and probabilities are changed by graphs that the model gives (domain `ai.onnx.preview`).

use tvm_core::ir::{Attrs, Type};
use tvm_core::relax::Arg;
use tvm_runtime::DataType;

use super::attention::{scale, shared};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::proto::AttributeType;
use crate::tensor::dtype_from_onnx;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("FlexAttention", 1, With(flex_attention))];

/// Applies the graph in the attribute `name`, if there is one.
fn modified(node: &mut Node<'_, '_>, name: &str, x: Arg) -> Result<Arg, OnnxError> {
    if node.attr_type(name) != Some(AttributeType::Graph) {
        return Ok(x);
    }
    let before = node.type_of(&x)?;
    let graph = node.graph(name)?;
    let mut values = node.nested(name, graph, vec![x.into()])?;
    if values.len() != 1 {
        return Err(node.malformed(format!("the graph `{name}` has {} outputs, expected 1", values.len())));
    }
    let x = node.materialise(values.remove(0))?;
    let after = node.type_of(&x)?;
    if (after.dtype, after.ndim()) != (before.dtype, before.ndim()) {
        return Err(node.malformed(format!(
            "the graph `{name}` changes {} to {}",
            Type::Tensor(before),
            Type::Tensor(after)
        )));
    }
    Ok(x)
}

/// Computes `prob_mod(softmax(score_mod(scale · Q Kᵀ))) V` per head.
fn flex_attention(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let inputs = node.args()?;
    let mut ranks = Vec::new();
    for input in &inputs {
        ranks.push(node.rank(input)?);
    }
    let ([query, key, value], [4, 4, 4]) = (&inputs[..], &ranks[..]) else {
        return Err(node.malformed("the inputs are queries, keys and values with four axes"));
    };
    let (q, k) = (node.shape(query)?, node.shape(key)?);
    let dtype = node.dtype(query)?;
    let precision = match node.attr_int("softmax_precision")? {
        Some(elem) => dtype_from_onnx(elem)?,
        None if dtype == DataType::F64 => dtype,
        None => DataType::F32,
    };
    let scale = scale(node, node.attr_float("scale")?, query)?;
    let key = shared(node, key.clone(), &q[1], &k[1])?;
    let value = shared(node, value.clone(), &q[1], &k[1])?;
    let query = node.with("multiply", query, scale.sqrt())?;
    let key = node.with("multiply", &key, scale.sqrt())?;
    let key = node.permuted(&key, &[0, 1, 3, 2])?;
    let scores = node.apply("matmul", &query, &key)?;
    let scores = node.cast(&scores, precision)?;
    let scores = modified(node, "score_mod", scores)?;
    let weights = node.op("nn.softmax", &[scores], Attrs::new().with("axis", -1i64))?;
    let weights = modified(node, "prob_mod", weights)?;
    let value = node.cast(&value, precision)?;
    let res = node.apply("matmul", &weights, &value)?;
    one(node.cast(&res, dtype))
}
