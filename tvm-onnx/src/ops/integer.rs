//! Convolutions and matrix products of dequantised bytes, computed with the bytes: integers are summed in `i32`, and the sums are
//! scaled. This is the same value: `sum((x - z) * s * w * t) = (sum(x * w) - z * sum(w)) * s * t`, where the zero point `z` and the
//! scale `s` belong to all of `x`, and the scale `t` of `w` to one column or channel of the result.
//!
//! TVM counterpart: `FakeQuantizationToInteger`.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_runtime::{DataType, Tensor};

use super::conv::{self, Convolution};
use super::depthwise;
use crate::error::OnnxError;
use crate::node::Node;

/// The terms of a product from which on it is computed in integers: the instructions take four at a time.
const TERMS: i64 = 8;

/// The channels of a convolution from which on it is computed in integers: they are three quarters of a word.
const CHANNELS: i64 = 3;

/// The channels of a group are so many, or a multiple, if it is computed in integers: those of a block on all machines.
const BLOCK: i64 = 16;

/// A value that is `(numbers - zero) * scale`.
#[derive(Clone)]
pub(crate) struct Quantized {
    /// The value itself, as a node got it from the importer.
    value: Arg,
    numbers: Arg,
    zero: Option<Tensor>,
    scale: Tensor,
    /// The axis along which zero points and scales lie, if they are several.
    axis: usize,
}

/// Notes that output 0 of the node, `DequantizeLinear`, is `value`.
pub(super) fn note(node: &mut Node<'_, '_>, value: &Arg) -> Result<(), OnnxError> {
    let numbers = node.arg(0)?;
    let bytes = [DataType::U8, DataType::I8].contains(&node.dtype(&numbers)?) && node.narrow(0).is_none();
    let zero = node.opt_value(2).map(|it| it.tensor());
    let (Some(scale), true) = (node.value(1)?.tensor(), bytes) else { return Ok(()) };
    let zero = match zero {
        Some(None) => return Ok(()),
        Some(zero) => zero,
        None => None,
    };
    let single = scale.shape().len() <= 1 && scale.dtype() == DataType::F32;
    let of_scales = zero.as_ref().is_none_or(|it| it.len() == 1 || it.len() == scale.len());
    if !single || !of_scales || node.dtype(value)? != DataType::F32 || node.int_or("block_size", 0)? != 0 {
        return Ok(());
    }
    let rank = node.rank(&numbers)?;
    let axis = if scale.len() == 1 { 0 } else { node.axis(node.int_or("axis", 1)?, rank)? };
    node.is_quantized(Quantized { value: value.clone(), numbers, zero, scale, axis });
    Ok(())
}

impl Quantized {
    /// True if this says what `value` is.
    pub(crate) fn is_of(&self, value: &Arg) -> bool {
        match (&self.value, value) {
            (Arg::Var(own), Arg::Var(other)) => own.id() == other.id(),
            (Arg::Const(own), Arg::Const(other)) => {
                let place = |it: &Tensor| it.bytes().ok().map(<[u8]>::as_ptr);
                own.shape() == other.shape() && place(own) == place(other)
            }
            _ => false,
        }
    }

    /// The numbers and their zero points.
    fn operand(&self) -> (&Arg, Option<&Tensor>) {
        (&self.numbers, self.zero.as_ref())
    }

    /// The zero point and the scale of `u8`, if they are those of all elements.
    fn of_all(&self, node: &Node<'_, '_>) -> Option<(i64, f32)> {
        let zero = zero_of(node, &self.numbers, self.zero.as_ref())?;
        let [scale] = self.scale.to_vec::<f32>().ok()?[..] else { return None };
        Some((zero, scale))
    }

    /// The scale and the zero point, if they are those of all elements, and quantising a value gives its number.
    fn exact(&self) -> Option<(f32, f64)> {
        let zero = self.zero.as_ref().map_or(Some(vec![0.0]), |it| it.to_f64s().ok())?;
        let ([zero], [scale]) = (&zero[..], &self.scale.to_vec::<f32>().ok()?[..]) else { return None };
        (scale.is_normal() && *scale > 0.0 && (scale * 512.0).is_finite()).then_some((*scale, *zero))
    }

    /// Constant weights of `i8` with the zero point 0, and the scale of each element of `axis`.
    fn weights(&self, axis: usize) -> Option<(Tensor, Vec<f32>)> {
        let weights = weights_of(&self.numbers, self.zero.as_ref())?;
        Some((weights, self.scales(axis)?))
    }

    /// The scale of each element of `axis` of constant weights.
    fn scales(&self, axis: usize) -> Option<Vec<f32>> {
        let extent = usize::try_from(*self.numbers.as_const()?.shape().get(axis)?).ok()?;
        let scales = self.scale.to_vec::<f32>().ok()?;
        match scales[..] {
            [scale] => Some(vec![scale; extent]),
            _ if self.axis == axis && scales.len() == extent => Some(scales),
            _ => None,
        }
    }
}

/// The largest of the dequantised values of input 0 in each of the windows of which `largest` gives the largest numbers, as
/// larger numbers represent larger values; `None` if input 0 is no byte with one scale.
pub(super) fn largest(
    node: &mut Node<'_, '_>,
    largest: impl FnOnce(&mut Node<'_, '_>, &Arg) -> Result<Arg, OnnxError>,
) -> Result<Option<Arg>, OnnxError> {
    let Some(x) = node.quantized(0) else { return Ok(None) };
    let Some((scale, zero)) = x.exact() else { return Ok(None) };
    let numbers = largest(node, &x.numbers)?;
    let wide = node.cast(&numbers, DataType::I32)?;
    let zero = node.scalar(zero, DataType::I32)?;
    let wide = node.call("subtract", &[wide, zero])?;
    let (wide, scale) = (node.cast(&wide, DataType::F32)?, node.scalar(f64::from(scale), DataType::F32)?);
    let value = node.call("multiply", &[wide, scale])?;
    node.is_quantized(Quantized { value: value.clone(), numbers, ..x });
    Ok(Some(value))
}

/// The numbers that input 0 was dequantised from, if they are what quantising it with the scale in input 1 and the zero point in
/// input 2 to `dtype` gives.
pub(super) fn quantized_before(node: &mut Node<'_, '_>, dtype: DataType) -> Option<Arg> {
    let x = node.quantized(0)?;
    let (scale, zero) = x.exact()?;
    let of_scale = node.value(1).ok()?.tensor()?;
    let of_zero = match node.opt_value(2) {
        Some(value) => value.tensor()?.to_f64s().ok()?,
        None => vec![0.0],
    };
    let same = of_scale.dtype() == DataType::F32 && of_scale.to_vec::<f32>().ok()? == [scale];
    (same && of_zero == [zero] && node.dtype(&x.numbers).ok()? == dtype).then_some(x.numbers)
}

/// The zero point of all elements of `x`, which are `u8`.
fn zero_of(node: &Node<'_, '_>, x: &Arg, zero: Option<&Tensor>) -> Option<i64> {
    let of_type = node.dtype(x).ok()? == DataType::U8;
    let zero = zero.map_or(Some(vec![0.0]), |it| it.to_f64s().ok())?;
    let [zero] = zero[..] else { return None };
    of_type.then_some(zero as i64)
}

/// Constant weights of `i8` whose zero point is 0.
fn weights_of(numbers: &Arg, zero: Option<&Tensor>) -> Option<Tensor> {
    let weights = numbers.as_const().filter(|it| it.dtype() == DataType::I8)?;
    let zeros = zero.map_or(Some(Vec::new()), |it| it.to_f64s().ok())?;
    zeros.iter().all(|zero| *zero == 0.0).then(|| weights.clone())
}

/// The convolution of inputs 0 and 1, without bias; `None` if they are no bytes.
pub(super) fn convolved(node: &mut Node<'_, '_>) -> Result<Option<Arg>, OnnxError> {
    let (Some(x), Some(w)) = (node.quantized(0), node.quantized(1)) else { return Ok(None) };
    if let (&[scale], Some(scales)) = (&x.scale.to_vec::<f32>()?[..], w.scales(0))
        && let Some(sums) = depthwise::sums(node, x.operand(), w.operand())?
    {
        let shape = depthwise::along_channels(scales.len() as i64, node.rank(&sums)?);
        return scaled(node, sums, (scale, scales), &shape).map(Some);
    }
    let (Some((zero, scale)), Some((weights, scales))) = (x.of_all(node), w.weights(0)) else {
        return Ok(None);
    };
    let Some(sums) = sums_of_windows(node, x.numbers, zero, weights)? else { return Ok(None) };
    let channels = scales.len() as i64;
    scaled(node, sums, (scale, scales), &[1, channels, 1, 1]).map(Some)
}

/// The convolution of two inputs, each minus the zero point in the input beside it, in `i32`; `None` if they are no
/// bytes.
pub(super) fn convolved_numbers(
    node: &mut Node<'_, '_>,
    [x, x_zero]: [usize; 2],
    [w, w_zero]: [usize; 2],
) -> Result<Option<Arg>, OnnxError> {
    let (x, w) = (node.arg(x)?, node.arg(w)?);
    let zero = |i: usize| match node.opt_value(i) {
        Some(value) => value.tensor().map(Some),
        None => Some(None),
    };
    let (Some(x_zero), Some(w_zero)) = (zero(x_zero), zero(w_zero)) else { return Ok(None) };
    if let Some(sums) = depthwise::sums(node, (&x, x_zero.as_ref()), (&w, w_zero.as_ref()))? {
        return node.cast(&sums, DataType::I32).map(Some);
    }
    match (zero_of(node, &x, x_zero.as_ref()), weights_of(&w, w_zero.as_ref())) {
        (Some(zero), Some(weights)) => sums_of_windows(node, x, zero, weights),
        _ => Ok(None),
    }
}

/// The convolution of `x - zero` and `weights` in `i32`; `None` if integers are not faster.
fn sums_of_windows(
    node: &mut Node<'_, '_>,
    x: Arg,
    zero: i64,
    weights: Tensor,
) -> Result<Option<Arg>, OnnxError> {
    let [channels, of_data, height, width] = weights.shape()[..] else { return Ok(None) };
    let groups = node.int_or("group", 1)?;
    // Groups are products of their own where a pixel of the result is computed from one of the data; others have whole blocks of channels.
    let (pixels, ones) = ([height, width] == [1, 1], node.attr_ints("strides")?.unwrap_or_default());
    let blocks = [of_data, channels / groups.max(1)].iter().all(|it| it % BLOCK == 0);
    let fits = groups == 1 || of_data >= TERMS && (blocks || pixels && ones.iter().all(|it| *it == 1));
    if of_data < CHANNELS || !fits {
        return Ok(None);
    }
    let excess = excess(&weights, 0, zero);
    let how = Convolution { fill: zero as f64, out_dtype: Some(DataType::I32), biased: false };
    let sums = conv::convolved(node, x, Arg::Const(weights), &how)?;
    without(node, sums, excess, &[1, channels, 1, 1]).map(Some)
}

/// The product of inputs 0 and 1, or of input 0 and input 1 with its two axes swapped; `None` if they are no bytes, or the second is no
/// matrix.
pub(super) fn product(node: &mut Node<'_, '_>, swapped: bool) -> Result<Option<Arg>, OnnxError> {
    let (Some(a), Some(b)) = (node.quantized(0), node.quantized(1)) else { return Ok(None) };
    let columns = usize::from(!swapped);
    let (Some((zero, scale)), Some((weights, scales))) = (a.of_all(node), b.weights(columns)) else {
        return Ok(None);
    };
    if weights.shape().len() != 2 || weights.shape()[1 - columns] < TERMS || node.rank(&a.numbers)? == 0 {
        return Ok(None);
    }
    let excess = excess(&weights, columns, zero);
    let mut factor = Arg::Const(weights);
    if swapped {
        factor = node.op("permute_dims", &[factor], Attrs::new().with("axes", vec![1i64, 0]))?;
    }
    let sums = node.op("matmul", &[a.numbers, factor], Attrs::new().with("out_dtype", DataType::I32))?;
    let count = scales.len() as i64;
    let sums = without(node, sums, excess, &[count])?;
    scaled(node, sums, (scale, scales), &[count]).map(Some)
}

/// What a zero point adds to the sums: its product with the sum of the weights of each element of `axis`; `None` if it is 0.
fn excess(weights: &Tensor, axis: usize, zero: i64) -> Option<Vec<i32>> {
    let values = weights.as_slice::<i8>().ok().filter(|_| zero != 0)?;
    let extent = weights.shape()[axis] as usize;
    let inner: i64 = weights.shape()[axis + 1..].iter().product();
    let mut sums = vec![0i64; extent];
    for (at, value) in values.iter().enumerate() {
        sums[at / inner as usize % extent] += i64::from(*value);
    }
    // Sums wrap as the product does.
    Some(sums.into_iter().map(|sum| (sum * zero) as i32).collect())
}

/// `sums` minus the excess, which is broadcast from `shape`.
fn without(
    node: &mut Node<'_, '_>,
    sums: Arg,
    excess: Option<Vec<i32>>,
    shape: &[i64],
) -> Result<Arg, OnnxError> {
    let Some(excess) = excess else { return Ok(sums) };
    let excess = node.constant(Tensor::from_vec(excess, shape)?)?;
    node.call("subtract", &[sums, excess])
}

/// `sums` times both scales, of which the second is broadcast from `shape`.
fn scaled(
    node: &mut Node<'_, '_>,
    sums: Arg,
    (scale, scales): (f32, Vec<f32>),
    shape: &[i64],
) -> Result<Arg, OnnxError> {
    let scales: Vec<f32> = scales.into_iter().map(|it| it * scale).collect();
    let scales = node.constant(Tensor::from_vec(scales, shape)?)?;
    let sums = node.cast(&sums, DataType::F32)?;
    node.call("multiply", &[sums, scales])
}
