//! Linear attention: a recurrence over positions, whose state is a matrix for each head.

use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, row};
use crate::error::OnnxError;
use crate::iterate::{Finished, Loop, Step, iterate, row_at};
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("LinearAttention", 27, With(linear_attention))];

type Result<T> = std::result::Result<T, OnnxError>;

/// (batch, positions, heads · width) as (positions, batch, heads, width), in f32.
fn by_position(node: &mut Node<'_, '_>, x: &Arg, heads: i64) -> Result<Arg> {
    let [batch, positions, width] = &node.shape(x)?[..] else {
        return Err(node.malformed("queries, keys and values have three axes"));
    };
    if width.as_int().is_some_and(|width| width % heads != 0) {
        return Err(node.malformed(format!("the last axis does not divide into {heads} heads")));
    }
    let of_head = simplify_dim(&width.clone().floordiv(heads));
    let x = node.cast(x, DataType::F32)?;
    let split = node.reshape(&x, &[batch.clone(), positions.clone(), heads.into(), of_head])?;
    node.permuted(&split, &[1, 0, 2, 3])
}

fn linear_attention(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (query, key, value) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    let dtype = node.dtype(&query)?;
    let heads = |node: &Node<'_, '_>, name: &str| -> Result<i64> {
        let heads = node.attr_int(name)?;
        match node.required(name, heads)? {
            heads @ 1.. => Ok(heads),
            heads => Err(node.malformed(format!("attribute `{name}` is {heads}"))),
        }
    };
    let (readers, heads) = (heads(node, "q_num_heads")?, heads(node, "kv_num_heads")?);
    if readers % heads != 0 {
        return Err(node.malformed(format!("{readers} heads of queries for {heads} of keys")));
    }
    let (gated, corrected) = match node.str_or("update_rule", "gated_delta")? {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            return Err(node.malformed(format!("attribute `update_rule` is `{}`", crate::names::show(other))));
        }
    };
    if (node.has(4), node.has(5)) != (gated, corrected) {
        return Err(node.malformed("decay and beta are given exactly for the rules that use them"));
    }
    let (q, k, v) = (
        by_position(node, &query, readers)?,
        by_position(node, &key, heads)?,
        by_position(node, &value, heads)?,
    );
    let [positions, batch, _, depth] = &node.shape(&k)?[..] else { return Err(node.malformed("no heads")) };
    let width = node.extent(&v, 3)?;
    let (decay, beta) = (node.opt_arg(4)?, node.opt_arg(5)?);
    let decay = match decay {
        // One number for each head, or for each element of its keys.
        Some(decay) => Some(by_position(node, &decay, heads)?),
        None => None,
    };
    let beta = match beta {
        Some(beta) => {
            let own = if node.extent(&beta, 2)?.is_const(1) { 1 } else { heads };
            Some(by_position(node, &beta, own)?)
        }
        None => None,
    };
    let state_shape = [batch.clone(), heads.into(), depth.clone(), width.clone()];
    let (state, state_dtype) = match node.opt_arg(3)? {
        Some(state) => {
            let dtype = node.dtype(&state)?;
            (node.cast(&state, DataType::F32)?, dtype)
        }
        None => (node.full(&state_shape, 0.0, DataType::F32)?, dtype),
    };
    let scale = match node.float_or("scale", 0.0)? {
        0.0 => {
            let root = node.float_of(depth)?;
            let root = node.map("sqrt", &root)?;
            let one = node.scalar(1.0, DataType::F32)?;
            node.apply("divide", &one, &root)?
        }
        scale => node.scalar(scale, DataType::F32)?,
    };
    let row = [batch.clone(), heads.into(), 1.into(), width.clone()];
    let column = [batch.clone(), heads.into(), depth.clone(), 1.into()];
    let it = Loop { trip: Some(positions.clone()), cond: None, carried: vec![state], reversed: vec![false] };
    let Finished { carried, rows } = iterate(node, it, &mut |node, at, _, carried| {
        let mut state = carried[0].clone();
        if let Some(decay) = &decay {
            // (batch, heads, 1 or depth) as columns.
            let decay = row_at(node, decay, at.clone())?;
            let mut shape = node.shape(&decay)?;
            shape.push(1.into());
            let decay = node.reshape(&decay, &shape)?;
            let decay = node.map("exp", &decay)?;
            state = node.apply("multiply", &state, &decay)?;
        }
        let k = row_at(node, &k, at.clone())?;
        let k = node.reshape(&k, &column)?;
        let v = row_at(node, &v, at.clone())?;
        let mut v = node.reshape(&v, &row)?;
        if let Some(beta) = &beta {
            let across = node.permuted(&k, &[0, 1, 3, 2])?;
            let known = node.apply("matmul", &across, &state)?;
            let new = node.apply("subtract", &v, &known)?;
            let beta = row_at(node, beta, at.clone())?;
            let mut shape = node.shape(&beta)?;
            shape.push(1.into());
            let beta = node.reshape(&beta, &shape)?;
            v = node.apply("multiply", &new, &beta)?;
        }
        let more = node.apply("multiply", &k, &v)?;
        let state = node.apply("add", &state, &more)?;
        // Heads of queries that share a head of keys read the same state.
        let group = PrimExpr::index(readers / heads);
        let q = row_at(node, &q, at.clone())?;
        let q = node.reshape(&q, &[batch.clone(), heads.into(), group, depth.clone()])?;
        let read = node.apply("matmul", &q, &state)?;
        let read = node.apply("multiply", &read, &scale)?;
        let all = simplify_dim(&(width.clone() * readers));
        let read = node.reshape(&read, &[batch.clone(), all])?;
        Ok(Step { cond: None, carried: vec![state], rows: vec![read] })
    })?;
    let res = node.permuted(&rows[0], &[1, 0, 2])?;
    Ok(vec![node.cast(&res, dtype)?.into(), node.cast(&carried[0], state_dtype)?.into()])
}
