//! Operators of the domain `com.microsoft` that stand for several standard ones: activations, products and normalisations
//! as exporters and the optimiser of onnxruntime emit them.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_runtime::DataType;

use super::{Row, Unary, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("BiasGelu", 1, With(bias_gelu)),
    row("FastGelu", 1, With(fast_gelu)),
    row("FusedConv", 1, With(fused_conv)),
    row("FusedGemm", 1, With(fused_gemm)),
    row("FusedMatMul", 1, With(fused_matmul)),
    row("Gelu", 1, Unary("nn.gelu")),
    row("QuickGelu", 1, With(quick_gelu)),
    row("SkipLayerNormalization", 1, With(|node| skip_norm(node, true))),
    row("SkipSimplifiedLayerNormalization", 1, With(|node| skip_norm(node, false))),
];

/// The operators that models use without a domain, although the standard does not define them.
pub(super) static WITHOUT_DOMAIN: &[Row] = &[row("SimplifiedLayerNormalization", 1, With(simplified_norm))];

type Results = Result<Vec<Value>, OnnxError>;

fn bias_gelu(node: &mut Node<'_, '_>) -> Results {
    let (x, bias) = (node.arg(0)?, node.arg(1)?);
    let sum = node.apply("add", &x, &bias)?;
    one(node.map("nn.gelu", &sum))
}

fn fast_gelu(node: &mut Node<'_, '_>) -> Results {
    let mut x = node.arg(0)?;
    if let Some(bias) = node.opt_arg(1)? {
        x = node.apply("add", &x, &bias)?;
    }
    one(node.map("nn.gelu_tanh", &x))
}

fn quick_gelu(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let scaled = node.with("multiply", &x, node.float_or("alpha", 1.702)?)?;
    let gate = node.map("sigmoid", &scaled)?;
    one(node.apply("multiply", &x, &gate))
}

/// The activation `name` with parameters of which it needs a certain number.
fn activated(node: &mut Node<'_, '_>, x: Arg, name: &str, params: &[Option<f64>]) -> Result<Arg, OnnxError> {
    let param = |node: &Node<'_, '_>, i: usize| {
        let value = params.get(i).copied().flatten();
        value.ok_or_else(|| node.malformed(format!("the activation {name} has no parameter {i}")))
    };
    match name {
        "" => Ok(x),
        "Relu" => node.map("nn.relu", &x),
        "Sigmoid" => node.map("sigmoid", &x),
        "Tanh" => node.map("tanh", &x),
        "LeakyRelu" => {
            let alpha = param(node, 0)?;
            leaky(node, &x, alpha)
        }
        "Clip" => {
            let (low, high) = (param(node, 0)?, param(node, 1)?);
            let x = node.with("maximum", &x, low)?;
            node.with("minimum", &x, high)
        }
        "HardSigmoid" => {
            let (alpha, beta) = (param(node, 0)?, param(node, 1)?);
            let line = node.with("multiply", &x, alpha)?;
            let line = node.with("add", &line, beta)?;
            let line = node.with("minimum", &line, 1.0)?;
            node.with("maximum", &line, 0.0)
        }
        _ => Err(node.unsupported(format!("the activation {}", crate::names::show(name)))),
    }
}

/// `x` where it is positive, `alpha` times `x` elsewhere.
pub(super) fn leaky(node: &mut Node<'_, '_>, x: &Arg, alpha: f64) -> Result<Arg, OnnxError> {
    let negative = node.with("multiply", x, alpha)?;
    let positive = node.with("greater", x, 0.0)?;
    node.choice(&positive, x, &negative)
}

/// The first of the values, as an argument.
fn first(node: &mut Node<'_, '_>, values: Vec<Value>) -> Result<Arg, OnnxError> {
    match values.into_iter().next() {
        Some(value) => node.materialise(value),
        None => Err(node.malformed("there is no result")),
    }
}

/// A convolution, plus input 3, and an activation of the sum.
fn fused_conv(node: &mut Node<'_, '_>) -> Results {
    let res = super::conv::conv(node)?;
    let mut x = first(node, res)?;
    if let Some(more) = node.opt_arg(3)? {
        x = node.apply("add", &x, &more)?;
    }
    let params = node.attr_floats("activation_params")?.unwrap_or_default();
    let params: Vec<Option<f64>> = params.iter().map(|&it| Some(it.into())).collect();
    let name = node.str_or("activation", "")?;
    one(activated(node, x, name, &params))
}

fn fused_gemm(node: &mut Node<'_, '_>) -> Results {
    let res = super::matmul::gemm(node)?;
    let x = first(node, res)?;
    let params = [node.attr_float("activation_alpha")?, node.attr_float("activation_beta")?];
    let name = node.str_or("activation", "")?;
    one(activated(node, x, name, &params))
}

/// A product of matrices whose factors are transposed: `trans` swaps the last two axes, `transBatch` moves the first axis
/// behind the batch axes.
fn fused_matmul(node: &mut Node<'_, '_>) -> Results {
    let mut factors = Vec::new();
    for (i, trans, batch) in [(0, "transA", "transBatchA"), (1, "transB", "transBatchB")] {
        let x = node.arg(i)?;
        let rank = node.rank(&x)?;
        let (trans, batch) = (node.flag(trans, false)?, node.flag(batch, false)?);
        let mut axes: Vec<i64> = (0..rank as i64).collect();
        match (trans, batch) {
            (false, false) => {}
            (true, true) => return Err(node.unsupported("a factor that is transposed in both ways")),
            _ if rank < 2 => return Err(node.malformed("a vector cannot be transposed")),
            (true, false) => axes.swap(rank - 2, rank - 1),
            (false, true) => axes[..rank - 1].rotate_left(1),
        }
        factors.push(if trans || batch { node.permuted(&x, &axes)? } else { x });
    }
    let product = node.call("matmul", &factors)?;
    let alpha = node.float_or("alpha", 1.0)?;
    if alpha == 1.0 {
        return Ok(vec![product.into()]);
    }
    one(node.with("multiply", &product, alpha))
}

/// `x` with mean 0, if `center`, and mean square 1 along the last axes, with what it was computed from.
struct Normal {
    /// The normalised values, of the type of `x`.
    values: Arg,
    /// The mean, if it was subtracted.
    mean: Option<Arg>,
    /// The factor.
    inverse: Arg,
}

/// `x` normalised along its last axis, scaled by `gamma` and moved by `beta`.
pub(super) fn normalised(
    node: &mut Node<'_, '_>,
    x: &Arg,
    gamma: Arg,
    beta: Option<Arg>,
) -> Result<Arg, OnnxError> {
    let axis = node.rank(x)? as i64 - 1;
    let epsilon = node.float_or("epsilon", 1e-12)?;
    let exact = matches!(node.dtype(x)?, DataType::F32 | DataType::F64);
    if let (true, Some(beta)) = (exact, &beta) {
        let attrs = Attrs::new().with("axes", vec![axis]).with("epsilon", epsilon);
        return node.op("nn.layer_norm", &[x.clone(), gamma, beta.clone()], attrs);
    }
    let it = normal(node, x, &[axis], true, epsilon)?;
    let res = node.apply("multiply", &it.values, &gamma)?;
    match beta {
        Some(beta) => node.apply("add", &res, &beta),
        None => Ok(res),
    }
}

fn normal(
    node: &mut Node<'_, '_>,
    x: &Arg,
    axes: &[i64],
    center: bool,
    epsilon: f64,
) -> Result<Normal, OnnxError> {
    let dtype = node.dtype(x)?;
    let wide = node.cast(x, super::norm::wide(dtype))?;
    let (mean, centered, variance) = super::norm::moments(node, &wide, axes, center)?;
    let inverse = super::norm::inverse_deviation(node, variance, epsilon)?;
    let values = node.apply("multiply", &centered, &inverse)?;
    Ok(Normal { values: node.cast(&values, dtype)?, mean: center.then_some(mean), inverse })
}

/// Normalises `input + skip + bias` along the last axis. Output 3 is that sum.
fn skip_norm(node: &mut Node<'_, '_>, center: bool) -> Results {
    let (x, skip, gamma) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    let (beta, bias) = if center { (node.opt_arg(3)?, node.opt_arg(4)?) } else { (None, node.opt_arg(3)?) };
    let mut sum = node.apply("add", &x, &skip)?;
    if let Some(bias) = bias {
        sum = node.apply("add", &sum, &bias)?;
    }
    let rank = node.rank(&sum)?;
    if rank == 0 || node.rank(&x)? != rank || node.rank(&gamma)? != 1 {
        return Err(
            node.malformed("the input has at least one axis, and as many as the sum; the scale has one")
        );
    }
    let axes = [rank as i64 - 1];
    let epsilon = node.float_or("epsilon", 1e-12)?;
    if center && !node.has_output(1) && !node.has_output(2) {
        let res = normalised(node, &sum, gamma, beta)?;
        // Outputs 1 and 2 are not used.
        return Ok(vec![res.clone().into(), res.clone().into(), res.into(), sum.into()]);
    }
    let it = normal(node, &sum, &axes, center, epsilon)?;
    let mut res = node.apply("multiply", &it.values, &gamma)?;
    if let Some(beta) = beta {
        res = node.apply("add", &res, &beta)?;
    }
    let mean = match it.mean {
        Some(mean) => mean,
        None => {
            let (shape, dtype) = (node.shape(&it.inverse)?, node.dtype(&it.inverse)?);
            node.full(&shape, 0.0, dtype)?
        }
    };
    Ok(vec![res.into(), mean.into(), it.inverse.into(), sum.into()])
}

/// `x` divided by the root of its mean square along the last axes. Output 1 is the inverse of that root.
fn simplified_norm(node: &mut Node<'_, '_>) -> Results {
    let (x, scale) = (node.arg(0)?, node.arg(1)?);
    let rank = node.rank(&x)?;
    let axis = node.axis(node.int_or("axis", -1)?, rank)?;
    let axes: Vec<i64> = (axis as i64..rank as i64).collect();
    let epsilon = node.float_or("epsilon", 1e-5)?;
    let it = normal(node, &x, &axes, false, epsilon)?;
    let scale_type = node.dtype(&scale)?;
    let values = node.cast(&it.values, scale_type)?;
    let res = node.apply("multiply", &values, &scale)?;
    Ok(vec![res.into(), it.inverse.into()])
}
