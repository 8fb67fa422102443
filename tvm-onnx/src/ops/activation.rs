//! Activations and other element-wise operators with parameters.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("BitShift", 11, With(bit_shift)),
    row("Celu", 12, With(celu)),
    row("Clip", 1, With(clip)),
    row("Elu", 1, With(elu)),
    row("Gelu", 20, With(gelu)),
    row("HardSigmoid", 1, With(|node| hard_sigmoid(node, 0.2, 0.5))),
    row("HardSwish", 14, With(hard_swish)),
    row("Hardmax", 13, With(hardmax)),
    row("IsInf", 10, With(is_inf)),
    row("LeakyRelu", 1, With(leaky_relu)),
    row("Mean", 1, With(mean)),
    row("Mish", 18, With(mish)),
    row("Mod", 10, With(modulo)),
    row("PRelu", 1, With(prelu)),
    row("Pow", 1, With(power)),
    row("Selu", 1, With(selu)),
    row("Shrink", 9, With(shrink)),
    row("Softplus", 1, With(softplus)),
    row("Softsign", 1, With(softsign)),
    row("Swish", 24, With(swish)),
    row("SwiGLU", 28, With(swiglu)),
    row("ThresholdedRelu", 10, With(thresholded_relu)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// Input 0, its element type, and the attribute `name` as a constant of that type.
fn with_attr(node: &mut Node<'_, '_>, name: &str, default: f64) -> Result<(Arg, DataType, Arg), OnnxError> {
    let x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    let value = node.float_or(name, default)?;
    Ok((x, dtype, node.scalar(value, dtype)?))
}

/// Selects `x` where it is above 0, and `negative` elsewhere.
fn where_positive(node: &mut Node<'_, '_>, x: Arg, negative: Arg) -> Results {
    let dtype = node.dtype(&x)?;
    let zero = node.scalar(0.0, dtype)?;
    let positive = node.call("greater", &[x.clone(), zero])?;
    one(node.call("where", &[positive, x, negative]))
}

/// Computes `exp(min(x, 0)) - 1`.
fn exp_minus_one(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    let dtype = node.dtype(x)?;
    let (zero, unit) = (node.scalar(0.0, dtype)?, node.scalar(1.0, dtype)?);
    let low = node.call("minimum", &[x.clone(), zero])?;
    let exp = node.call("exp", &[low])?;
    node.call("subtract", &[exp, unit])
}

fn elu(node: &mut Node<'_, '_>) -> Results {
    let (x, _, alpha) = with_attr(node, "alpha", 1.0)?;
    let negative = exp_minus_one(node, &x)?;
    let negative = node.call("multiply", &[negative, alpha])?;
    where_positive(node, x, negative)
}

fn celu(node: &mut Node<'_, '_>) -> Results {
    let (x, _, alpha) = with_attr(node, "alpha", 1.0)?;
    let scaled = node.call("divide", &[x.clone(), alpha.clone()])?;
    let negative = exp_minus_one(node, &scaled)?;
    let negative = node.call("multiply", &[negative, alpha])?;
    where_positive(node, x, negative)
}

fn selu(node: &mut Node<'_, '_>) -> Results {
    let (x, dtype, alpha) = with_attr(node, "alpha", 1.673_263_192_176_818_8)?;
    let gamma = node.scalar(node.float_or("gamma", 1.050_701_022_148_132_3)?, dtype)?;
    let negative = exp_minus_one(node, &x)?;
    let negative = node.call("multiply", &[negative, alpha])?;
    let zero = node.scalar(0.0, dtype)?;
    let positive = node.call("greater", &[x.clone(), zero])?;
    let res = node.call("where", &[positive, x, negative])?;
    one(node.call("multiply", &[res, gamma]))
}

fn leaky_relu(node: &mut Node<'_, '_>) -> Results {
    let (x, _, alpha) = with_attr(node, "alpha", 0.01)?;
    let negative = node.call("multiply", &[x.clone(), alpha])?;
    where_positive(node, x, negative)
}

fn thresholded_relu(node: &mut Node<'_, '_>) -> Results {
    let (x, dtype, alpha) = with_attr(node, "alpha", 1.0)?;
    let above = node.call("greater", &[x.clone(), alpha])?;
    let zero = node.scalar(0.0, dtype)?;
    one(node.call("where", &[above, x, zero]))
}

/// The slope is broadcast to the input; before opset 7, a vector of slopes is per channel.
fn prelu(node: &mut Node<'_, '_>) -> Results {
    let (x, slope) = (node.arg(0)?, node.arg(1)?);
    let (rank, mut shape) = (node.rank(&x)?, node.shape(&slope)?);
    let per_channel = node.opset < 7 && shape.len() == 1 && rank > 2;
    let slope = if per_channel {
        shape.extend((2..rank).map(|_| PrimExpr::index(1)));
        node.reshape(&slope, &shape)?
    } else {
        slope
    };
    let dtype = node.dtype(&x)?;
    let zero = node.scalar(0.0, dtype)?;
    let negative = node.call("multiply", &[x.clone(), slope])?;
    let below = node.call("less", &[x.clone(), zero])?;
    one(node.call("where", &[below, negative, x]))
}

/// Computes `max(0, min(1, alpha * x + beta))`.
fn hard_sigmoid_of(node: &mut Node<'_, '_>, x: &Arg, alpha: f64, beta: f64) -> Result<Arg, OnnxError> {
    let dtype = node.dtype(x)?;
    let [alpha, beta, zero, unit] = [
        node.scalar(alpha, dtype)?,
        node.scalar(beta, dtype)?,
        node.scalar(0.0, dtype)?,
        node.scalar(1.0, dtype)?,
    ];
    let line = node.call("multiply", &[x.clone(), alpha])?;
    let line = node.call("add", &[line, beta])?;
    let low = node.call("minimum", &[line, unit])?;
    node.call("maximum", &[low, zero])
}

fn hard_sigmoid(node: &mut Node<'_, '_>, alpha: f64, beta: f64) -> Results {
    let x = node.arg(0)?;
    let (alpha, beta) = (node.float_or("alpha", alpha)?, node.float_or("beta", beta)?);
    one(hard_sigmoid_of(node, &x, alpha, beta))
}

fn hard_swish(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let gate = hard_sigmoid_of(node, &x, 1.0 / 6.0, 0.5)?;
    one(node.call("multiply", &[x, gate]))
}

fn swish(node: &mut Node<'_, '_>) -> Results {
    let (x, _, alpha) = with_attr(node, "alpha", 1.0)?;
    let scaled = node.call("multiply", &[x.clone(), alpha])?;
    let gate = node.call("sigmoid", &[scaled])?;
    one(node.call("multiply", &[x, gate]))
}

fn gelu(node: &mut Node<'_, '_>) -> Results {
    let op = match node.str_or("approximate", "none")? {
        "tanh" => "nn.gelu_tanh",
        _ => "nn.gelu",
    };
    let x = node.arg(0)?;
    one(node.call(op, &[x]))
}

/// Computes `log(1 + exp(x))` as `max(x, 0) + log1p(exp(-|x|))`, which does not overflow.
fn softplus_of(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    let dtype = node.dtype(x)?;
    let zero = node.scalar(0.0, dtype)?;
    let size = node.call("abs", std::slice::from_ref(x))?;
    let size = node.call("negative", &[size])?;
    let exp = node.call("exp", &[size])?;
    let rest = node.call("log1p", &[exp])?;
    let high = node.call("maximum", &[x.clone(), zero])?;
    node.call("add", &[high, rest])
}

fn softplus(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    one(softplus_of(node, &x))
}

fn mish(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let soft = softplus_of(node, &x)?;
    let gate = node.call("tanh", &[soft])?;
    one(node.call("multiply", &[x, gate]))
}

fn softsign(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    let unit = node.scalar(1.0, dtype)?;
    let size = node.call("abs", std::slice::from_ref(&x))?;
    let divisor = node.call("add", &[size, unit])?;
    one(node.call("divide", &[x, divisor]))
}

/// Moves values beyond `lambd` by `bias` toward 0; all other values become 0.
fn shrink(node: &mut Node<'_, '_>) -> Results {
    let (x, dtype, bias) = with_attr(node, "bias", 0.0)?;
    let lambd = node.float_or("lambd", 0.5)?;
    let (high, low, zero) =
        (node.scalar(lambd, dtype)?, node.scalar(-lambd, dtype)?, node.scalar(0.0, dtype)?);
    let (above, below) = (node.call("greater", &[x.clone(), high])?, node.call("less", &[x.clone(), low])?);
    let down = node.call("subtract", &[x.clone(), bias.clone()])?;
    let up = node.call("add", &[x, bias])?;
    let rest = node.call("where", &[below, up, zero])?;
    one(node.call("where", &[above, down, rest]))
}

/// The limits are inputs from opset 11 on, and attributes before.
fn clip(node: &mut Node<'_, '_>) -> Results {
    let mut x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    for (i, name, op) in [(1, "min", "maximum"), (2, "max", "minimum")] {
        let limit = if node.opset >= 11 {
            node.opt_arg(i)?
        } else {
            node.attr_float(name)?.map(|it| node.scalar(it, dtype)).transpose()?
        };
        if let Some(limit) = limit {
            x = node.call(op, &[x, limit])?;
        }
    }
    Ok(vec![x.into()])
}

fn is_inf(node: &mut Node<'_, '_>) -> Results {
    let (positive, negative) = (node.flag("detect_positive", true)?, node.flag("detect_negative", true)?);
    let x = node.arg(0)?;
    if positive && negative {
        return one(node.call("isinf", &[x]));
    }
    let dtype = node.dtype(&x)?;
    let limit = match (positive, negative) {
        (true, _) => f64::INFINITY,
        (_, true) => f64::NEG_INFINITY,
        // No value equals NaN.
        _ => f64::NAN,
    };
    let limit = node.scalar(limit, dtype)?;
    one(node.call("equal", &[x, limit]))
}

fn modulo(node: &mut Node<'_, '_>) -> Results {
    let op = if node.flag("fmod", false)? { "mod" } else { "floor_mod" };
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    one(node.call(op, &[a, b]))
}

fn bit_shift(node: &mut Node<'_, '_>) -> Results {
    let op = match node.str_or("direction", "")? {
        "LEFT" => "left_shift",
        "RIGHT" => "right_shift",
        other => {
            return Err(node.malformed(format!("attribute `direction` is `{}`", crate::names::show(other))));
        }
    };
    let (a, b) = (node.arg(0)?, node.arg(1)?);
    one(node.call(op, &[a, b]))
}

/// The exponent may have another type than the base; the result has the type of the base.
fn power(node: &mut Node<'_, '_>) -> Results {
    let (a, b) = super::elementwise::operands(node)?;
    let (dtype, exponent) = (node.dtype(&a)?, node.dtype(&b)?);
    if dtype == exponent {
        return one(node.call("power", &[a, b]));
    }
    let wide = if dtype.is_float() { dtype } else { DataType::F64 };
    let (a, b) = (node.cast(&a, wide)?, node.cast(&b, wide)?);
    let res = node.call("power", &[a, b])?;
    one(node.cast(&res, dtype))
}

fn mean(node: &mut Node<'_, '_>) -> Results {
    let args = node.args()?;
    let n = args.len();
    let mut args = args.into_iter();
    let mut sum = args.next().ok_or_else(|| node.malformed("there is no input"))?;
    for arg in args {
        sum = node.call("add", &[sum, arg])?;
    }
    let dtype = node.dtype(&sum)?;
    let n = node.scalar(n as f64, dtype)?;
    one(node.call("divide", &[sum, n]))
}

/// 1 at the first maximum along the axis, 0 elsewhere.
fn hardmax(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (shape, dtype) = (node.shape(&x)?, node.dtype(&x)?);
    let axis = node.axis(node.int_or("axis", -1)?, shape.len())?;
    let extent = shape[axis].as_int();
    let extent = extent.ok_or_else(|| node.unsupported("a symbolic extent"))?;
    let index = node.op("argmax", &[x], Attrs::new().with("axis", axis).with("keepdims", false))?;
    let prim = |it: f64| Arg::Prim(PrimExpr::constant(it, dtype));
    let attrs = Attrs::new().with("depth", extent).with("axis", axis);
    one(node.op("one_hot", &[index, prim(1.0), prim(0.0)], attrs))
}

/// A gate `a · sigmoid(alpha · a)` times another value.
fn swiglu(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let (gate, value) = (node.arg(0)?, node.arg(1)?);
    let alpha = node.float_or("alpha", 1.0)?;
    let scaled = node.with("multiply", &gate, alpha)?;
    let open = node.map("sigmoid", &scaled)?;
    let gate = node.apply("multiply", &gate, &open)?;
    one(node.apply("multiply", &gate, &value))
}
