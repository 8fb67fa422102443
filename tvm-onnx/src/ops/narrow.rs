//! Conversions from and to narrow element types.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_runtime::DataType;

use crate::error::OnnxError;
use crate::narrow::{Float, Kind, Narrow};
use crate::node::Node;

type Result<T> = std::result::Result<T, OnnxError>;

/// Treatment of numbers that the type cannot represent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding {
    /// Numbers beyond the largest become the largest, instead of infinity or NaN.
    pub(super) saturate: bool,
    /// Rounding mode for powers of two: `up`, `down` or `nearest`.
    pub(super) mode: &'static str,
}

/// Reads the rounding from the attributes.
pub(super) fn rounding(node: &Node<'_, '_>) -> Result<Rounding> {
    let mode = match node.str_or("round_mode", "up")? {
        "up" => "up",
        "down" => "down",
        "nearest" => "nearest",
        mode => {
            return Err(node.malformed(format!("attribute `round_mode` is `{}`", crate::names::show(mode))));
        }
    };
    Ok(Rounding { saturate: node.flag("saturate", true)?, mode })
}

/// Converts elements of a narrow type to the numbers that they represent, as `dtype`.
pub(super) fn widened(node: &mut Node<'_, '_>, x: &Arg, narrow: Narrow, dtype: DataType) -> Result<Arg> {
    if narrow.int_range().is_some() {
        return node.cast(x, dtype);
    }
    let table = node.constant(narrow.values()?)?;
    let index = node.cast(x, DataType::I32)?;
    // Every element of the type is a valid index: the table has 256 entries.
    let attrs = Attrs::new().with("axis", 0i64).with("mode", "clip");
    let values = node.op("take", &[table, index], attrs)?;
    node.cast(&values, dtype)
}

/// Converts `x` to elements of a narrow type.
pub(super) fn narrowed(node: &mut Node<'_, '_>, x: &Arg, narrow: Narrow, how: Rounding) -> Result<Arg> {
    match narrow.kind {
        Kind::UInt | Kind::Int => low_bits(node, x, narrow),
        Kind::Exponent => exponent(node, x, how),
        Kind::Float(float) => encoded(node, x, narrow, float, how.saturate),
    }
}

/// Calls `op` on `x` and a constant of its type.
fn with(node: &mut Node<'_, '_>, op: &str, x: &Arg, value: f64) -> Result<Arg> {
    let dtype = node.dtype(x)?;
    let value = node.scalar(value, dtype)?;
    node.call(op, &[x.clone(), value])
}

fn select(node: &mut Node<'_, '_>, condition: Arg, value: f64, rest: Arg) -> Result<Arg> {
    let dtype = node.dtype(&rest)?;
    let value = node.scalar(value, dtype)?;
    node.call("where", &[condition, value, rest])
}

/// The low bits of `x`, truncated toward zero to an integer.
fn low_bits(node: &mut Node<'_, '_>, x: &Arg, narrow: Narrow) -> Result<Arg> {
    let x = node.cast(x, DataType::I32)?;
    let unit = f64::from(1u32 << narrow.bits);
    let mut bits = with(node, "bitwise_and", &x, unit - 1.0)?;
    if narrow.kind == Kind::Int {
        bits = with(node, "bitwise_xor", &bits, unit / 2.0)?;
        bits = with(node, "subtract", &bits, unit / 2.0)?;
    }
    node.cast(&bits, narrow.storage())
}

/// The exponent of the largest power of two that is at most `x`, and that power; exponents are at least `least`.
fn power_under(node: &mut Node<'_, '_>, x: &Arg, least: i32) -> Result<(Arg, Arg)> {
    let log = node.call("log", std::slice::from_ref(x))?;
    let log = with(node, "multiply", &log, std::f64::consts::LOG2_E)?;
    let exponent = node.call("floor", &[log])?;
    let exponent = with(node, "maximum", &exponent, f64::from(least))?;
    let two = node.scalar(2.0, DataType::F32)?;
    let power = node.call("power", &[two, exponent.clone()])?;
    Ok((exponent, power))
}

/// Bits of the nearest element. There are `2^mantissa` steps from a power of two to the next, and steps are counted
/// across powers. If the exponent is off by one, for `x` close to a power of two, the count is still the same.
fn encoded(node: &mut Node<'_, '_>, x: &Arg, narrow: Narrow, float: Float, saturate: bool) -> Result<Arg> {
    let x = node.cast(x, DataType::F32)?;
    let size = node.call("abs", std::slice::from_ref(&x))?;
    let finite = node.call("isfinite", std::slice::from_ref(&x))?;
    // Values that are not finite get their bits at the end.
    let (zero, far) = (node.scalar(0.0, DataType::F32)?, 2f64.powi(100));
    let bounded = with(node, "minimum", &size, far)?;
    let size = node.call("where", &[finite, bounded, zero])?;
    let steps = f64::from(1 << float.mantissa);
    let (exponent, power) = power_under(node, &size, float.least)?;
    let ratio = node.call("divide", &[size, power])?;
    let ratio = with(node, "multiply", &ratio, steps)?;
    let count = node.call("round", &[ratio])?;
    let start = with(node, "subtract", &exponent, f64::from(float.least))?;
    let start = with(node, "multiply", &start, steps)?;
    let mut bits = node.call("add", &[start, count])?;
    let nan = float.nan.unwrap_or(0);
    let largest = f64::from(float.largest);
    let beyond = if saturate || float.nan.is_none() { largest } else { float.infinity.unwrap_or(nan).into() };
    let past = with(node, "greater", &bits, largest)?;
    bits = select(node, past, beyond, bits)?;
    let infinite = node.call("isinf", std::slice::from_ref(&x))?;
    bits = select(node, infinite, beyond, bits)?;
    // Sign of `x`, also for zeros: the inverse of a negative zero is minus infinity.
    let unit = node.scalar(1.0, DataType::F32)?;
    let inverse = node.call("divide", &[unit, x.clone()])?;
    let (below, inverse_below) = (with(node, "less", &x, 0.0)?, with(node, "less", &inverse, 0.0)?);
    let negative = node.call("logical_or", &[below, inverse_below])?;
    let sign = f64::from(1u32 << (narrow.bits - 1));
    let signed = with(node, "add", &bits, sign)?;
    let mut signed = node.call("where", &[negative, signed, bits.clone()])?;
    if float.unsigned_zero {
        let nothing = with(node, "equal", &bits, 0.0)?;
        signed = select(node, nothing, 0.0, signed)?;
        let wrong = with(node, "greater", &signed, 255.0)?;
        signed = select(node, wrong, nan.into(), signed)?;
    }
    let is_nan = node.call("isnan", &[x])?;
    // A type without NaN uses its negative zero instead.
    let nan = if float.nan.is_some() { nan.into() } else { sign };
    let bits = select(node, is_nan, nan, signed)?;
    node.cast(&bits, DataType::U8)
}

/// The biased exponent (bias 127) of the power of two that `x` is rounded to; 255 for values that are not finite.
fn exponent(node: &mut Node<'_, '_>, x: &Arg, how: Rounding) -> Result<Arg> {
    let x = node.cast(x, DataType::F32)?;
    let size = node.call("abs", std::slice::from_ref(&x))?;
    let (exponent, power) = power_under(node, &size, -127)?;
    let ratio = node.call("divide", &[size, power])?;
    // Factor above the lower power of two from which on `x` is rounded up.
    let limit = match how.mode {
        "nearest" => 1.5,
        "down" => 2.0,
        _ => 1.0 + f64::from(f32::EPSILON),
    };
    let up = with(node, "greater_equal", &ratio, limit)?;
    let up = node.cast(&up, DataType::F32)?;
    let exponent = node.call("add", &[exponent, up])?;
    let bits = with(node, "add", &exponent, 127.0)?;
    let bits = with(node, "minimum", &bits, if how.saturate { 254.0 } else { 255.0 })?;
    let finite = node.call("isfinite", &[x])?;
    let special = node.scalar(255.0, DataType::F32)?;
    let bits = node.call("where", &[finite, bits, special])?;
    node.cast(&bits, DataType::U8)
}
