//! Steps of optimisers (domain `ai.onnx.preview.training`): the new parameters, and the new statistics of the gradients.
//!
//! The inputs are the learning rate, the number of updates so far, and for any number of parameters first all parameters,
//! then all gradients, then each kind of statistics; the outputs are parameters and statistics in the same order.

use tvm_core::relax::Arg;

use super::{Row, With, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] =
    &[row("Adagrad", 1, With(adagrad)), row("Adam", 1, With(adam)), row("Momentum", 1, With(momentum))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Calls `step` for each parameter with the parameter, its gradient and its `statistics` kinds of statistics; it returns the
/// new values without the gradient.
fn each(
    node: &mut Node<'_, '_>,
    statistics: usize,
    mut step: impl FnMut(&mut Node<'_, '_>, &[Arg]) -> Result<Vec<Arg>>,
) -> Result<Vec<Value>> {
    let inputs = node.args()?;
    let kinds = 2 + statistics;
    let tensors = inputs.get(2..).unwrap_or_default();
    if tensors.is_empty() || tensors.len() % kinds != 0 {
        let got = inputs.len();
        return Err(
            node.malformed(format!("there are {got} inputs, expected 2 and {kinds} for each parameter"))
        );
    }
    let count = tensors.len() / kinds;
    let mut results = vec![Vec::new(); kinds - 1];
    for i in 0..count {
        let of: Vec<Arg> = (0..kinds).map(|kind| tensors[kind * count + i].clone()).collect();
        let made = step(node, &of)?;
        results.iter_mut().zip(made).for_each(|(all, it)| all.push(Value::from(it)));
    }
    Ok(results.into_iter().flatten().collect())
}

/// The gradient of the loss and of `norm_coefficient / 2` times the squared norm of the parameter.
fn regularised(node: &mut Node<'_, '_>, x: &Arg, gradient: &Arg) -> Result<Arg> {
    match node.float_or("norm_coefficient", 0.0)? {
        0.0 => Ok(gradient.clone()),
        factor => {
            let part = node.with("multiply", x, factor)?;
            node.apply("add", &part, gradient)
        }
    }
}

/// `a * x + b * y`.
fn mixed(node: &mut Node<'_, '_>, (a, x): (f64, &Arg), (b, y): (f64, &Arg)) -> Result<Arg> {
    let (x, y) = (node.with("multiply", x, a)?, node.with("multiply", y, b)?);
    node.apply("add", &x, &y)
}

/// The learning rate and the number of updates, both of the type of `x`.
fn rate_and_count(node: &mut Node<'_, '_>, x: &Arg) -> Result<[Arg; 2]> {
    let dtype = node.dtype(x)?;
    let (rate, count) = (node.arg(0)?, node.arg(1)?);
    Ok([node.cast(&rate, dtype)?, node.cast(&count, dtype)?])
}

/// Duchi, Hazan, Singer: Adaptive subgradient methods (2011).
fn adagrad(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (decay, epsilon) = (node.float_or("decay_factor", 0.0)?, node.float_or("epsilon", 1e-6)?);
    each(node, 1, |node, of| {
        let [x, gradient, squares] = of else {
            return Err(node.malformed("a parameter lacks its statistics"));
        };
        let [rate, count] = rate_and_count(node, x)?;
        let slower = node.with("multiply", &count, decay)?;
        let slower = node.with("add", &slower, 1.0)?;
        let rate = node.apply("divide", &rate, &slower)?;
        let gradient = regularised(node, x, gradient)?;
        let square = node.apply("multiply", &gradient, &gradient)?;
        let squares = node.apply("add", squares, &square)?;
        Ok(vec![moved(node, x, &rate, &gradient, &squares, epsilon)?, squares])
    })
}

/// `x - rate * direction / (sqrt(squares) + epsilon)`.
fn moved(
    node: &mut Node<'_, '_>,
    x: &Arg,
    rate: &Arg,
    direction: &Arg,
    squares: &Arg,
    epsilon: f64,
) -> Result<Arg> {
    let root = node.map("sqrt", squares)?;
    let root = node.with("add", &root, epsilon)?;
    let step = node.apply("multiply", rate, direction)?;
    let step = node.apply("divide", &step, &root)?;
    node.apply("subtract", x, &step)
}

/// Kingma, Ba: Adam (2014).
fn adam(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (alpha, beta) = (node.float_or("alpha", 0.9)?, node.float_or("beta", 0.999)?);
    let epsilon = node.float_or("epsilon", 1e-6)?;
    let shrink = node.float_or("norm_coefficient_post", 0.0)?;
    each(node, 2, |node, of| {
        let [x, gradient, mean, squares] = of else {
            return Err(node.malformed("a parameter lacks its statistics"));
        };
        let [rate, count] = rate_and_count(node, x)?;
        let gradient = regularised(node, x, gradient)?;
        let mean = mixed(node, (alpha, mean), (1.0 - alpha, &gradient))?;
        let square = node.apply("multiply", &gradient, &gradient)?;
        let squares = mixed(node, (beta, squares), (1.0 - beta, &square))?;
        // The statistics start at 0; the correction has no meaning before the first update.
        let dtype = node.dtype(x)?;
        let mut left = Vec::new();
        for base in [alpha, beta] {
            let base = node.scalar(base, dtype)?;
            let power = node.apply("power", &base, &count)?;
            let power = node.map("negative", &power)?;
            left.push(node.with("add", &power, 1.0)?);
        }
        let root = node.map("sqrt", &left[1])?;
        let corrected = node.apply("multiply", &rate, &root)?;
        let corrected = node.apply("divide", &corrected, &left[0])?;
        let later = node.with("greater", &count, 0.0)?;
        let rate = node.choice(&later, &corrected, &rate)?;
        let mut next = moved(node, x, &rate, &mean, &squares, epsilon)?;
        if shrink != 0.0 {
            next = node.with("multiply", &next, 1.0 - shrink)?;
        }
        Ok(vec![next, mean, squares])
    })
}

fn momentum(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let alpha = node.attr_float("alpha")?;
    let beta = node.attr_float("beta")?;
    let (alpha, beta) = (node.required("alpha", alpha)?, node.required("beta", beta)?);
    let nesterov = match node.str_or("mode", "standard")? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(node.malformed(format!("attribute `mode` is `{other}`"))),
    };
    each(node, 1, |node, of| {
        let [x, gradient, velocity] = of else {
            return Err(node.malformed("a parameter lacks its statistics"));
        };
        let [rate, count] = rate_and_count(node, x)?;
        let gradient = regularised(node, x, gradient)?;
        let dtype = node.dtype(x)?;
        let (beta, one) = (node.scalar(beta, dtype)?, node.scalar(1.0, dtype)?);
        let later = node.with("greater", &count, 0.0)?;
        let beta = node.choice(&later, &beta, &one)?;
        let kept = node.with("multiply", velocity, alpha)?;
        let added = node.apply("multiply", &beta, &gradient)?;
        let velocity = node.apply("add", &kept, &added)?;
        let mut direction = velocity.clone();
        if nesterov {
            let ahead = node.with("multiply", &velocity, alpha)?;
            direction = node.apply("add", &gradient, &ahead)?;
        }
        let step = node.apply("multiply", &rate, &direction)?;
        Ok(vec![node.apply("subtract", x, &step)?, velocity])
    })
}
