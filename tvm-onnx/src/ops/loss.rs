//! Loss functions.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("NegativeLogLikelihoodLoss", 12, With(nll_loss)),
    row("SoftmaxCrossEntropyLoss", 12, With(softmax_loss)),
];

fn nll_loss(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    Ok(vec![loss(node, &x)?.into()])
}

/// The loss of the logarithm of the softmax; the second output is that logarithm.
fn softmax_loss(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let log = node.op("nn.log_softmax", &[x], Attrs::new().with("axis", 1i64))?;
    Ok(vec![loss(node, &log)?.into(), log.into()])
}

/// Computes minus the elements of `x` (batch, class, …) at the classes in input 1 (batch, …), each multiplied by the
/// weight of its class. The class `ignore_index` has weight 0. The mean is weighted.
fn loss(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    let target = node.arg(1)?;
    let (dtype, target_dtype) = (node.dtype(x)?, node.dtype(&target)?);
    let shape = node.shape(&target)?;
    if shape.is_empty() || node.rank(x)? != shape.len() + 1 {
        return Err(node.malformed("the target has one axis fewer than the input"));
    }
    let ignored = match node.attr_int("ignore_index")? {
        Some(ignored) => {
            let ignored = node.scalar(ignored as f64, target_dtype)?;
            Some(node.call("equal", &[target.clone(), ignored])?)
        }
        None => None,
    };
    // The ignored class may lie outside the range of classes.
    let class = match &ignored {
        Some(ignored) => {
            let zero = node.scalar(0.0, target_dtype)?;
            node.call("where", &[ignored.clone(), zero, target])?
        }
        None => target,
    };
    let mut with_class = shape.clone();
    with_class.insert(1, PrimExpr::index(1));
    let index = node.reshape(&class, &with_class)?;
    let picked = node.op("gather_elements", &[x.clone(), index], Attrs::new().with("axis", 1i64))?;
    let picked = node.reshape(&picked, &shape)?;
    let mut weight = match node.opt_arg(2)? {
        Some(weight) => Some(node.op("take", &[weight, class], Attrs::new().with("axis", 0i64))?),
        None => None,
    };
    if let Some(ignored) = ignored {
        let (zero, unit) = (node.scalar(0.0, dtype)?, node.scalar(1.0, dtype)?);
        weight = Some(node.call("where", &[ignored, zero, weight.unwrap_or(unit)])?);
    }
    let mut loss = node.call("negative", &[picked])?;
    if let Some(weight) = &weight {
        loss = node.call("multiply", &[loss, weight.clone()])?;
    }
    match (node.str_or("reduction", "mean")?, weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => node.call("sum", &[loss]),
        ("mean", None) => mean(node, loss, dtype),
        ("mean", Some(weight)) => {
            let (sum, weights) = (node.call("sum", &[loss])?, node.call("sum", &[weight])?);
            node.call("divide", &[sum, weights])
        }
        (other, _) => {
            Err(node.malformed(format!("attribute `reduction` is `{}`", crate::names::show(other))))
        }
    }
}

fn mean(node: &mut Node<'_, '_>, x: Arg, dtype: DataType) -> Result<Arg, OnnxError> {
    if dtype.is_float() {
        return node.call("mean", &[x]);
    }
    Err(node.unsupported(format!("a mean of {dtype} elements")))
}
