//! `FlushSubnormalWeights`: weights smaller than the smallest normal number become 0.
//!
//! Training with weight decay leaves numbers such as 1e-40 in channels that are of no use. Many CPUs multiply such subnormal numbers
//! in microcode, in over a hundred cycles for a vector that has one, so that a few of them take most of the time of a convolution. A weight `w` becomes 0 where `|w| < 2⁻¹²⁶` for f32 and bf16 (`2⁻¹⁰²²` for f64), which changes a term `w * x` by less than
//! `2⁻¹²⁶ * |x|`. For an infinite `x`, that term is NaN instead of infinity.
//!
//! Weights are the constant operands of convolutions and matrix products, also where `permute_dims` or `reshape` moves them, and the
//! constants that follow a product with more than one element: bias, and factors and summands of a batch normalisation.
//! Constants of other operators stay, as does what is computed when the model runs.
//!
//! TVM counterpart: none; OpenVINO flushes subnormal numbers for whole models that have such weights.

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::half::bf16;
use tvm_runtime::{DataType, Element, Tensor};

use super::calls::{Calls, bound_call, op_name};
use crate::ir::{IRModule, VarId};
use crate::pass::{Choices, Pass, function_pass};
use crate::relax::mutator::walk_binding;
use crate::relax::{Arg, Binding, Call, Expr, ExprMutator, ExprVisitor, Function};

/// Name of the pass.
const NAME: &str = "FlushSubnormalWeights";

/// Operators whose results are sums of products of their arguments.
const PRODUCTS: [&str; 7] = [
    "matmul",
    "nn.conv1d",
    "nn.conv1d_transpose",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "nn.conv3d",
    "nn.conv3d_transpose",
];
/// Operators each of whose elements is one of the first argument.
const MOVES: [&str; 2] = ["permute_dims", "reshape"];
/// Element-wise operators whose constants belong to the product before them.
const STEPS: [&str; 3] = ["add", "multiply", "subtract"];

/// The pass.
pub fn flush_subnormal_weights() -> Pass {
    function_pass(NAME, |func: &Function, module, context| {
        let mut calls = Calls::default();
        calls.visit_function(func);
        let mut flush = Flush {
            calls,
            module,
            choices: &context.choices,
            sums: FxHashSet::default(),
            seen: FxHashMap::default(),
            bindings: Vec::new(),
        };
        Ok(flush.mutate_function(func))
    })
    .opt_level(1)
}

struct Flush<'a> {
    calls: Calls,
    module: &'a IRModule,
    choices: &'a Choices,
    /// The results of products, and of steps after them.
    sums: FxHashSet<VarId>,
    /// The new tensor for each one that was looked at, by the place of its elements; `None` if it has no subnormal numbers.
    seen: FxHashMap<*mut u8, Option<Tensor>>,
    /// What goes in front of the current binding.
    bindings: Vec<Binding>,
}

impl ExprMutator for Flush<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let walked = walk_binding(self, binding).map(|it| vec![it]);
        let (Expr::Call(call), false) = (&binding.value, binding.match_cast) else { return walked };
        let Some(name) = op_name(call) else { return walked };
        let is_product = PRODUCTS.contains(&name);
        let is_sum = |arg: &Arg| arg.as_var().is_some_and(|var| self.sums.contains(&var.id()));
        let is_step = STEPS.contains(&name) && call.args.iter().any(is_sum);
        if !(is_product || is_step) {
            return walked;
        }
        self.sums.insert(binding.var.id());
        let new: Vec<Option<Arg>> = (call.args.iter())
            .map(|arg| match arg {
                Arg::Const(tensor) if is_product || tensor.len() > 1 => self.constant(tensor),
                Arg::Var(_) if is_product => self.moved(arg),
                _ => None,
            })
            .collect();
        if new.iter().all(Option::is_none) {
            return walked;
        }
        let args = new.into_iter().zip(call.args.iter()).map(|(new, arg)| new.unwrap_or_else(|| arg.clone()));
        let call = Call { args: args.collect(), ..(**call).clone() };
        let mut bindings = std::mem::take(&mut self.bindings);
        bindings.push(Binding { value: call.into(), ..binding.clone() });
        Some(bindings)
    }
}

impl Flush<'_> {
    /// The constant without subnormal numbers, if it has some.
    fn constant(&mut self, tensor: &Tensor) -> Option<Arg> {
        let choices = self.choices;
        let new = self.seen.entry(tensor.data_ptr()).or_insert_with(|| {
            let (new, count) = flushed(tensor)?;
            choices.note(NAME, || {
                let subject = format!("weights {:?} of {}", tensor.shape(), tensor.dtype());
                let chosen = format!("{count} of {} elements become 0", tensor.len());
                [subject, chosen, "they are subnormal, which many CPUs multiply slowly".into()]
            });
            Some(new)
        });
        Some(Arg::Const(new.as_ref()?.reshape(tensor.shape()).ok()?))
    }

    /// The value, moved from a constant with subnormal numbers, without them.
    fn moved(&mut self, value: &Arg) -> Option<Arg> {
        let call = self.calls.call(value, &MOVES)?.clone();
        let (data, others) = call.args.split_first()?;
        let args: Vec<Arg> =
            [self.constant(data.as_const()?)?].into_iter().chain(others.iter().cloned()).collect();
        let binding =
            bound_call(self.module, "weights", op_name(&call)?, &args, call.attrs.clone(), &call.span)?;
        let var = binding.var.clone();
        self.bindings.push(binding);
        Some(Arg::from(&var))
    }
}

/// The tensor with zeros of the same sign in place of subnormal numbers, and how many there are; `None` without any.
fn flushed(tensor: &Tensor) -> Option<(Tensor, usize)> {
    match tensor.dtype() {
        DataType::F32 => replaced(tensor, f32::is_subnormal, |it| 0f32.copysign(it)),
        DataType::F64 => replaced(tensor, f64::is_subnormal, |it| 0f64.copysign(it)),
        DataType::BF16 => {
            replaced(tensor, |it: bf16| it.to_f32().is_subnormal(), |it| bf16::ZERO.copysign(it))
        }
        _ => None,
    }
}

fn replaced<T: Element>(
    tensor: &Tensor,
    is_small: impl Fn(T) -> bool,
    zero: impl Fn(T) -> T,
) -> Option<(Tensor, usize)> {
    let count = tensor.as_slice::<T>().ok()?.iter().filter(|&&it| is_small(it)).count();
    if count == 0 {
        return None;
    }
    let mut new = tensor.clone();
    new.as_mut_slice::<T>().ok()?.iter_mut().filter(|it| is_small(**it)).for_each(|it| *it = zero(*it));
    Some((new, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Attrs;
    use crate::relax::testing::{elements, vm};
    use crate::relax::transform::random_graphs::Graph;
    use crate::tir::PrimExpr;

    const TINY: f64 = 1e-40;

    fn tensor(values: &[f64], shape: &[i64], dtype: DataType) -> Arg {
        Arg::Const(Tensor::from_f64s(values, shape, dtype).unwrap())
    }

    fn flush(module: &IRModule) -> IRModule {
        flush_subnormal_weights().apply(module.clone()).unwrap()
    }

    /// The constants of `main` that are subnormal.
    fn subnormal(module: &IRModule) -> usize {
        struct Count(usize);
        impl ExprVisitor for Count {
            fn visit_arg(&mut self, arg: &Arg) {
                self.0 += arg.as_const().map_or(0, |it| {
                    it.to_f64s().unwrap().iter().filter(|it| (**it as f32).is_subnormal()).count()
                });
                crate::relax::visitor::walk_arg(self, arg);
            }
        }
        let mut count = Count(0);
        count.visit_function(module.relax_func(module.global_var("main").unwrap()).unwrap());
        count.0
    }

    /// A product of a vector with a matrix of which two elements are subnormal, and steps after it. With `turned`, `permute_dims` moves
    /// the matrix.
    fn product(turned: bool, bias: &[f64]) -> IRModule {
        let mut graph = Graph::new(1);
        let x = graph.param("x", [1, 2].map(PrimExpr::index).to_vec());
        let mut weight = tensor(&[1.0, TINY, 2.0, -TINY, 3.0, 4.0], &[2, 3], DataType::F32);
        if turned {
            weight = tensor(&[1.0, -TINY, TINY, 3.0, 2.0, 4.0], &[3, 2], DataType::F32);
            weight = graph.op("permute_dims", &[weight], Attrs::new()).unwrap().into();
        }
        let y = graph.op("matmul", &[(&x).into(), weight], Attrs::new()).unwrap();
        let bias = tensor(bias, &[bias.len() as i64], DataType::F32);
        let y = graph.op("add", &[y.into(), bias], Attrs::new()).unwrap();
        graph.function_of(x, y)
    }

    #[test]
    fn weights_and_what_follows_products_are_flushed() {
        for turned in [false, true] {
            let module = product(turned, &[0.5, TINY, -0.5]);
            let after = crate::relax::transform::dead_code_elimination().apply(flush(&module)).unwrap();
            assert_eq!([subnormal(&module), subnormal(&after)], [3, 0], "{after}");
            let x = Tensor::from_f64s(&[2.0, 10.0], &[1, 2], DataType::F32).unwrap();
            let got = elements(&vm(&after).invoke("main", &[x.into()]).unwrap());
            assert_eq!(got, [2.5, 30.0, 43.5], "turned: {turned}");
        }
    }

    /// One element is a small number that keeps what follows from 0, not a bias.
    #[test]
    fn other_constants_stay() {
        let module = product(false, &[TINY]);
        assert_eq!(subnormal(&flush(&module)), 1);
        let mut graph = Graph::new(1);
        let x = graph.param("x", [1, 2].map(PrimExpr::index).to_vec());
        let tiny = tensor(&[TINY; 2], &[2], DataType::F32);
        let y = graph.op("maximum", &[(&x).into(), tiny.clone()], Attrs::new()).unwrap();
        let y = graph.op("add", &[y.into(), tiny], Attrs::new()).unwrap();
        let module = graph.function_of(x, y);
        assert_eq!(flush(&module).to_string(), module.to_string());
        assert_eq!(subnormal(&module), 4);
    }

    #[test]
    fn subnormal_numbers_of_each_type() {
        for (dtype, tiny, normal) in [
            (DataType::F32, 1.1e-38, 1.2e-38),
            (DataType::BF16, 1.1e-38, 1.2e-38),
            (DataType::F64, 2.2e-308, 2.3e-308),
        ] {
            let values = [tiny, normal, -tiny, 0.0, f64::INFINITY];
            let tensor = Tensor::from_f64s(&values, &[5], dtype).unwrap();
            let (new, count) = flushed(&tensor).unwrap();
            let (new, old) = (new.to_f64s().unwrap(), tensor.to_f64s().unwrap());
            assert_eq!((count, &new[..]), (2, &[0.0, old[1], 0.0, 0.0, old[4]][..]), "{dtype}");
            assert!(
                new[2].is_sign_negative()
                    && flushed(&Tensor::from_f64s(&new, &[5], dtype).unwrap()).is_none()
            );
        }
        assert!(flushed(&Tensor::from_f64s(&[1e-7], &[1], DataType::F16).unwrap()).is_none());
    }
}
