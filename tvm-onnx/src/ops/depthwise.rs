//! Depthwise convolutions of bytes: each channel of the result is computed from one channel of the data. They read bytes and sum in
//! `f32`, where whole numbers below 2²⁴ are exact: instructions that sum products of bytes sum neighbouring channels.
//!
//! TVM counterpart: none.

use tvm_core::relax::Arg;
use tvm_runtime::{DataType, Tensor};

use super::conv::{self, Convolution};
use crate::error::OnnxError;
use crate::node::Node;

/// Whole numbers up to this one are exact in `f32`.
const EXACT: f64 = (1 << 24) as f64;

/// The largest difference of two bytes.
const LARGEST: f64 = 255.0;

/// The convolution of `x - zero` and `weights - zeros`, as whole numbers of `f32`; `None` if it is not depthwise, if its operands are no
/// bytes, or if sums may be inexact. The data has one zero point, the weights have one in all or one for each channel; without one it is 0.
pub(super) fn sums(
    node: &mut Node<'_, '_>,
    (x, zero): (&Arg, Option<&Tensor>),
    (weights, zeros): (&Arg, Option<&Tensor>),
) -> Result<Option<Arg>, OnnxError> {
    let Some(numbers) = weights.as_const() else { return Ok(None) };
    let [channels, 1, ..] = *numbers.shape() else { return Ok(None) };
    let is_byte = |dtype| [DataType::U8, DataType::I8].contains(&dtype);
    let bytes = is_byte(node.dtype(x)?) && is_byte(numbers.dtype());
    if !bytes || channels < 2 || node.int_or("group", 1)? != channels {
        return Ok(None);
    }
    let points = |zeros: Option<&Tensor>| zeros.map_or(Some(vec![0.0]), |it| it.to_f64s().ok());
    let (Some(zero), Some(zeros)) = (points(zero), points(zeros)) else { return Ok(None) };
    let [zero] = zero[..] else { return Ok(None) };
    if zeros.len() != 1 && zeros.len() as i64 != channels {
        return Ok(None);
    }
    let mut values = numbers.to_f64s()?;
    let terms = values.len() / channels as usize;
    let mut excess = Vec::new();
    for (channel, values) in values.chunks_exact_mut(terms.max(1)).enumerate() {
        let zero_of_weights = zeros[channel % zeros.len()];
        values.iter_mut().for_each(|it| *it -= zero_of_weights);
        if values.iter().map(|it| it.abs()).sum::<f64>() * LARGEST >= EXACT {
            return Ok(None);
        }
        excess.push(values.iter().sum::<f64>() * zero);
    }
    let weights = Tensor::from_f64s(&values, numbers.shape(), DataType::F32)?;
    let how = Convolution { fill: zero, out_dtype: Some(DataType::F32), biased: false };
    let sums = conv::convolved(node, x.clone(), Arg::Const(weights), &how)?;
    if zero == 0.0 {
        return Ok(Some(sums));
    }
    let excess = Tensor::from_f64s(&excess, &along_channels(channels, numbers.shape().len()), DataType::F32)?;
    let excess = node.constant(excess)?;
    node.call("subtract", &[sums, excess]).map(Some)
}

/// The shape from which values of channels are broadcast to `rank` axes.
pub(super) fn along_channels(channels: i64, rank: usize) -> Vec<i64> {
    (0..rank).map(|axis| if axis == 1 { channels } else { 1 }).collect()
}
