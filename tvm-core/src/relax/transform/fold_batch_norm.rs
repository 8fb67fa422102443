//! `FoldBatchNorm`: batch normalisation becomes a product and a sum per channel, which go into the convolution before it where that
//! is possible.
//!
//! ```text
//! batch_norm(x, gamma, beta, mean, variance)    becomes    x * scale + shift
//! batch_norm(conv2d(x, w) + bias, ..)           becomes    conv2d(x, w * scale) + (bias * scale + shift)
//! ```
//!
//! with `scale = gamma / sqrt(variance + epsilon)` and `shift = beta - mean * scale`. The second form requires that weights, bias and
//! statistics are constant, and that nothing else uses the values in between. The bindings themselves are left to
//! `DeadCodeElimination`.
//!
//! TVM counterpart: `relax.transform.DecomposeOpsForInference`, `FoldBatchnormToConv2D`.

use std::sync::Arc;

use tvm_runtime::Tensor;

use super::calls::{Calls, bound_call, op_name};
use crate::ir::{Attrs, IRModule, Span, structural_equal};
use crate::pass::{Choices, Pass, function_pass};
use crate::relax::mutator::walk_binding;
use crate::relax::{Arg, Binding, Call, Expr, ExprMutator, ExprVisitor, Function};
use crate::tir::PrimExpr;

/// Name of the pass.
const NAME: &str = "FoldBatchNorm";

/// The convolutions whose weights have the output channels first.
const CONVOLUTIONS: [&str; 3] = ["nn.conv1d", "nn.conv2d", "nn.conv3d"];

/// The pass.
pub fn fold_batch_norm() -> Pass {
    function_pass(NAME, |func: &Function, module, context| {
        let mut calls = Calls::default();
        calls.visit_function(func);
        let mut fold = Fold { calls, module, choices: &context.choices, bindings: Vec::new() };
        Ok(fold.mutate_function(func))
    })
    .opt_level(1)
}

struct Fold<'a> {
    calls: Calls,
    module: &'a IRModule,
    choices: &'a Choices,
    /// What goes in front of the current binding.
    bindings: Vec<Binding>,
}

impl ExprMutator for Fold<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let walked = walk_binding(self, binding).map(|it| vec![it]);
        let (Expr::Call(call), false) = (&binding.value, binding.match_cast) else { return walked };
        let Some(norm) = Norm::of(call) else { return walked };
        let folded = match norm.constants() {
            Some(constants) => {
                self.join_convolution(&norm, &constants).or_else(|| self.constant_steps(&norm, &constants))
            }
            None => self.steps(&norm),
        };
        let mut bindings = std::mem::take(&mut self.bindings);
        let last = folded.and_then(|_| bindings.pop()).filter(|last| {
            let (ty, own) = (last.var.ty(), binding.var.ty());
            structural_equal(ty, own).is_ok()
        });
        match last {
            Some(last) => {
                bindings.push(Binding { value: last.value, ..binding.clone() });
                Some(bindings)
            }
            None => walked,
        }
    }
}

/// A batch normalisation.
struct Norm<'a> {
    call: &'a Call,
    /// gamma, beta, mean and variance.
    statistics: [&'a Arg; 4],
    epsilon: f64,
    axis: usize,
    ndim: usize,
}

/// The product and the sum per channel that a normalisation is.
struct Constants {
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl<'a> Norm<'a> {
    fn of(call: &'a Call) -> Option<Norm<'a>> {
        let [data, statistics @ ..] = &*call.args else { return None };
        let [gamma, beta, mean, variance] = statistics else { return None };
        if op_name(call)? != "nn.batch_norm" {
            return None;
        }
        let ndim = data.as_var()?.ty().as_tensor()?.ndim()?;
        let axis = call.attrs.int("axis").unwrap_or(1);
        let axis = usize::try_from(if axis < 0 { axis + ndim as i64 } else { axis }).ok()?;
        let epsilon = call.attrs.float("epsilon").unwrap_or(1e-5);
        Some(Norm { call, statistics: [gamma, beta, mean, variance], epsilon, axis, ndim })
    }

    fn constants(&self) -> Option<Constants> {
        let numbers = |arg: &Arg| arg.as_const()?.to_f64s().ok();
        let [gamma, beta, mean, variance] = self.statistics.map(numbers);
        let scale: Vec<f64> = gamma?
            .iter()
            .zip(variance?)
            .map(|(gamma, variance)| gamma / (variance + self.epsilon).sqrt())
            .collect();
        let shift =
            beta?.iter().zip(mean?).zip(&scale).map(|((beta, mean), scale)| beta - mean * scale).collect();
        Some(Constants { scale, shift })
    }

    /// The shape in which numbers per channel broadcast against the data.
    fn shape(&self, channels: i64) -> Vec<i64> {
        (0..self.ndim).map(|axis| if axis == self.axis { channels } else { 1 }).collect()
    }

    fn data(&self) -> &Arg {
        &self.call.args[0]
    }

    fn span(&self) -> &Span {
        &self.call.span
    }
}

impl Fold<'_> {
    /// Multiplies the weights of the convolution that is normalised, and nothing else.
    fn join_convolution(&mut self, norm: &Norm<'_>, by: &Constants) -> Option<()> {
        let mut shift = by.shift.clone();
        let mut data = norm.data();
        if let Some(sum) = self.calls.only_use(data, &["add"]) {
            let [summand, bias] = &*sum.args else { return None };
            let bias = bias.as_const()?;
            let of_channels = norm.shape(shift.len() as i64);
            let is_of_channels = of_channels.ends_with(bias.shape()) && bias.len() == shift.len();
            let bias = bias.to_f64s().ok().filter(|_| is_of_channels)?;
            shift
                .iter_mut()
                .zip(bias)
                .zip(&by.scale)
                .for_each(|((shift, bias), scale)| *shift += bias * scale);
            data = summand;
        }
        let conv = self.calls.only_use(data, &CONVOLUTIONS)?;
        let [input, weight] = &*conv.args else { return None };
        let plain = |name: &str| conv.attrs.str(name).is_none_or(|it| it.is_empty() || it.starts_with("NC"));
        let kernel = conv.attrs.str("kernel_layout").is_none_or(|it| it.is_empty() || it.starts_with("OI"));
        let dtype = data.as_var()?.ty().as_tensor()?.dtype?;
        let weight = weight.as_const().filter(|it| it.dtype() == dtype && dtype.is_float())?;
        if norm.axis != 1 || !plain("data_layout") || !plain("out_layout") || !kernel {
            return None;
        }
        let channels = *weight.shape().first()?;
        let mut numbers = weight.to_f64s().ok().filter(|_| channels as usize == by.scale.len())?;
        let of_channel = numbers.len() / by.scale.len().max(1);
        for (weights, scale) in numbers.chunks_mut(of_channel.max(1)).zip(&by.scale) {
            weights.iter_mut().for_each(|weight| *weight *= scale);
        }
        let weight = Tensor::from_f64s(&numbers, weight.shape(), dtype).ok()?;
        let shift = Tensor::from_f64s(&shift, &norm.shape(channels), dtype).ok()?;
        let (op, attrs) = (op_name(conv)?, conv.attrs.clone());
        let (input, span) = (input.clone(), conv.span.clone());
        let product = self.emit("conv", op, &[input, Arg::Const(weight)], attrs, &span)?;
        self.emit("sum", "add", &[product, Arg::Const(shift)], Attrs::new(), norm.span())?;
        self.choices.note(NAME, || {
            let subject = norm.data().as_var().map_or_else(String::new, |it| it.ty().to_string());
            let reason = "weights and statistics are constant";
            [
                format!("batch normalisation of {subject}"),
                "part of the convolution before it".into(),
                reason.into(),
            ]
        });
        Some(())
    }

    fn constant_steps(&mut self, norm: &Norm<'_>, by: &Constants) -> Option<()> {
        let dtype = norm.data().as_var()?.ty().as_tensor()?.dtype?;
        let shape = norm.shape(by.scale.len() as i64);
        let constant = |numbers: &[f64]| Some(Arg::Const(Tensor::from_f64s(numbers, &shape, dtype).ok()?));
        let (scale, shift) = (constant(&by.scale)?, constant(&by.shift)?);
        self.apply(norm, scale, shift)
    }

    /// The steps whose statistics are only known to a run.
    fn steps(&mut self, norm: &Norm<'_>) -> Option<()> {
        let ty = norm.data().as_var()?.ty().as_tensor()?;
        let (dtype, channels) = (ty.dtype?, ty.known_shape()?.get(norm.axis)?.clone());
        let [gamma, beta, mean, variance] = norm.statistics;
        let epsilon = Arg::Prim(PrimExpr::float(norm.epsilon, dtype));
        let mut step = |name: &str, op: &str, args: &[&Arg]| {
            let args: Vec<Arg> = args.iter().map(|it| (*it).clone()).collect();
            self.emit(name, op, &args, Attrs::new(), norm.span())
        };
        let sum = step("variance", "add", &[variance, &epsilon])?;
        let root = step("rsqrt", "rsqrt", &[&sum])?;
        let scale = step("scale", "multiply", &[gamma, &root])?;
        let centre = step("centre", "multiply", &[mean, &scale])?;
        let shift = step("shift", "subtract", &[beta, &centre])?;
        let shape: Arc<[PrimExpr]> = (0..norm.ndim)
            .map(|axis| if axis == norm.axis { channels.clone() } else { PrimExpr::index(1) })
            .collect();
        let shape = Arg::Shape(shape);
        let scale = step("scale", "reshape", &[&scale, &shape])?;
        let shift = step("shift", "reshape", &[&shift, &shape])?;
        self.apply(norm, scale, shift)
    }

    fn apply(&mut self, norm: &Norm<'_>, scale: Arg, shift: Arg) -> Option<()> {
        let scaled =
            self.emit("scaled", "multiply", &[norm.data().clone(), scale], Attrs::new(), norm.span())?;
        self.emit("normalized", "add", &[scaled, shift], Attrs::new(), norm.span())?;
        Some(())
    }

    /// Binds a call of an operator in front of the current binding; `None` if it is ill-typed.
    fn emit(&mut self, name: &str, op: &str, args: &[Arg], attrs: Attrs, span: &Span) -> Option<Arg> {
        let binding = bound_call(self.module, name, op, args, attrs, span)?;
        let var = binding.var.clone();
        self.bindings.push(binding);
        Some(Arg::from(&var))
    }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::Value;

    use super::*;
    use crate::pass::PassContext;
    use crate::relax::transform::random_graphs::{Graph, difference, random_graph, results};
    use crate::target::Target;

    fn folded(module: &IRModule) -> IRModule {
        crate::relax::transform::dead_code_elimination()
            .apply(fold_batch_norm().apply(module.clone()).unwrap())
            .unwrap()
    }

    /// What a module computes, without the pass.
    fn unfolded<T>(run: impl FnOnce() -> T) -> T {
        PassContext::new().target(Target::interpreter()).disable(NAME).scope(run)
    }

    #[test]
    fn random_graphs_compute_the_same() {
        let mut count = 0;
        for seed in 300..340 {
            let (module, args) = random_graph(seed);
            count += usize::from(module.to_string().contains("batch_norm("));
            let folded = folded(&module);
            assert!(!folded.to_string().contains("batch_norm("), "seed {seed}");
            let [before, after] = [&module, &folded].map(|it| results(it, &args));
            for (before, after) in before.iter().zip(&after) {
                let apart = difference(before, after);
                assert!(apart.is_some_and(|it| it <= 1e-4), "seed {seed}: {apart:?}");
            }
        }
        assert!(count > 10, "{count} graphs have a batch normalisation");
    }

    /// A convolution, a bias or none, and a normalisation; how many products are left, and the difference of the results.
    fn of_convolution(op: &str, biased: bool, used_twice: bool, constant: bool) -> (usize, f32) {
        let mut graph = Graph::new(3);
        let spatial = if op == "nn.conv1d" { 1 } else { 2 };
        let image: Vec<i64> = [2, 3].into_iter().chain(std::iter::repeat_n(6, spatial)).collect();
        let data = graph.param("x", image.iter().map(|it| PrimExpr::index(*it)).collect());
        let kernel: Vec<i64> = [5, 3].into_iter().chain(std::iter::repeat_n(3, spatial)).collect();
        let weight = Arg::Const(graph.numbers(&kernel));
        let conv = graph.op(op, &[(&data).into(), weight], Attrs::new()).unwrap();
        let mut value = conv.clone();
        if biased {
            let ones = std::iter::repeat_n(1, spatial);
            let shape: Vec<i64> = std::iter::once(5).chain(ones).collect();
            let bias = Arg::Const(graph.numbers(&shape));
            value = graph.op("add", &[value.into(), bias], Attrs::new()).unwrap();
        }
        let mut args = vec![Arg::from(&value)];
        args.extend((0..3).map(|_| Arg::Const(graph.numbers(&[5]))));
        args.push(Arg::Const(
            Tensor::from_f64s(&[0.5, 1.0, 2.0, 0.25, 3.0], &[5], tvm_runtime::DataType::F32).unwrap(),
        ));
        if !constant {
            let statistics = graph.op("negative", &[args[3].clone()], Attrs::new()).unwrap();
            args[3] = statistics.into();
        }
        let mut result = graph.op("nn.batch_norm", &args, Attrs::new().with("epsilon", 1e-3)).unwrap();
        if used_twice {
            result = graph.op("add", &[result.into(), conv.into()], Attrs::new()).unwrap();
        }
        let input = [Value::from(graph.numbers(&image))];
        let module = graph.function_of(data, result);
        let folded = folded(&module);
        let run = |module: &IRModule| -> Vec<f32> {
            crate::relax::testing::elements(
                &unfolded(|| crate::relax::testing::vm(module)).invoke("main", &input).unwrap(),
            )
        };
        let (before, after) = (run(&module), run(&folded));
        let largest = before.iter().fold(0f32, |a, b| a.max(b.abs()));
        let apart = before.iter().zip(&after).fold(0f32, |a, (x, y)| a.max((x - y).abs()));
        (folded.to_string().matches(" * ").count(), apart / largest)
    }

    #[test]
    fn convolutions_take_what_is_constant_and_theirs_alone() {
        for op in ["nn.conv1d", "nn.conv2d"] {
            for (biased, used_twice, constant, products) in [
                (false, false, true, 0),
                (true, false, true, 0),
                (false, true, true, 1),
                (true, false, false, 3),
            ] {
                let (left, apart) = of_convolution(op, biased, used_twice, constant);
                assert_eq!(
                    left, products,
                    "{op}, biased {biased}, used twice {used_twice}, constant {constant}"
                );
                assert!(apart <= 1e-5, "{op}, biased {biased}, used twice {used_twice}: {apart}");
            }
        }
    }
}
