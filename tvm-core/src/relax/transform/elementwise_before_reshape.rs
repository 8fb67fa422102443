//! `ElementwiseBeforeReshape`: element-wise operators on a reshaped convolution or product go in front of the reshape.
//!
//! ```text
//! relu(reshape(conv2d(x, w)))    becomes    reshape(relu(conv2d(x, w)))
//! reshape(reshape(x))            becomes    reshape(x), or x where the shape is the same again
//! ```
//!
//! So the operators join the kernel of the product, and a chain of convolutions over one axis, each of which is a convolution of an image
//! between two reshapes, keeps its layout from the first to the last. Element-wise operators of one argument compute each element by
//! itself, so their order relative to a reshape does not matter. Requires that nothing else uses the values in between. The bindings
//! themselves are left to `DeadCodeElimination`.
//!
//! TVM counterpart: none; `relax.transform.ReorderTakeAfterMatmul` is another exchange of neighbours.

use super::calls::{Calls, bound_call, bound_call_on, op_name};
use crate::ir::{IRModule, Type, structural_equal};
use crate::pass::{Pass, function_pass};
use crate::relax::mutator::walk_binding;
use crate::relax::{Arg, Binding, Call, Callee, Expr, ExprMutator, ExprVisitor, Function};

/// Name of the pass.
const NAME: &str = "ElementwiseBeforeReshape";

/// Operators whose kernels compute element-wise operators on their results.
const PRODUCTS: [&str; 7] = [
    "nn.conv1d",
    "nn.conv1d_transpose",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "nn.conv3d",
    "nn.conv3d_transpose",
    "matmul",
];
/// Operators between a product and the reshape: a bias, a scale.
const BINARY: [&str; 4] = ["add", "subtract", "multiply", "divide"];

/// The pass.
pub fn elementwise_before_reshape() -> Pass {
    function_pass(NAME, |func: &Function, module, _| {
        let mut calls = Calls::default();
        calls.visit_function(func);
        let mut exchange = Exchange { calls, module, bindings: Vec::new() };
        Ok(exchange.mutate_function(func))
    })
    .opt_level(1)
}

struct Exchange<'a> {
    calls: Calls,
    module: &'a IRModule,
    /// What goes in front of the current binding.
    bindings: Vec<Binding>,
}

impl ExprMutator for Exchange<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let walked = walk_binding(self, binding).map(|it| vec![it]);
        let (Expr::Call(call), false) = (&binding.value, binding.match_cast) else { return walked };
        let value = self.exchanged(call, binding.var.ty());
        let mut bindings = std::mem::take(&mut self.bindings);
        match value {
            Some(value) => {
                bindings.push(Binding { value, ..binding.clone() });
                Some(bindings)
            }
            None => walked,
        }
    }
}

impl Exchange<'_> {
    /// What computes the result of `call`, of type `ty`, with a reshape as the last step; `None` if it is left alone.
    fn exchanged(&mut self, call: &Call, ty: &Type) -> Option<Expr> {
        let data = call.args.first()?;
        let again = op_name(call)? == "reshape";
        if !again && !is_elementwise(call) {
            return None;
        }
        let (data, mut steps, reshape) = self.before_reshape(data)?;
        if !again {
            steps.push(call.clone());
        }
        if !steps.is_empty() && !self.is_product(&data) {
            return None;
        }
        let value = steps.iter().try_fold(data, |data, step| self.emit(step, data))?;
        let same = |it: &Type| structural_equal(it, ty).is_ok();
        if value.as_var().is_some_and(|it| same(it.ty())) {
            return Some(value.into());
        }
        let reshape = if again { call.clone() } else { reshape };
        let binding = bound_call(
            self.module,
            "reshape",
            "reshape",
            &[value, reshape.args.get(1)?.clone()],
            reshape.attrs,
            &call.span,
        )?;
        same(binding.var.ty()).then_some(binding.value)
    }

    /// The argument of the reshape that `data` is the result of, the element-wise steps after it, and the reshape itself; if
    /// nothing else uses what is in between.
    fn before_reshape(&self, data: &Arg) -> Option<(Arg, Vec<Call>, Call)> {
        let (mut steps, mut data) = (Vec::new(), data);
        while let Some(step) = self.calls.only_use_where(data, is_elementwise) {
            steps.push(step.clone());
            data = step.args.first()?;
        }
        steps.reverse();
        let reshape = self.calls.only_use(data, &["reshape"])?;
        Some((reshape.args.first()?.clone(), steps, reshape.clone()))
    }

    /// True if `data` is the result of a product and of what joins its kernel, and nothing but the reshape uses it.
    fn is_product(&self, data: &Arg) -> bool {
        if self.calls.only_use(data, &PRODUCTS).is_some() {
            return true;
        }
        let joins =
            |call: &Call| is_elementwise(call) || op_name(call).is_some_and(|it| BINARY.contains(&it));
        let call = self.calls.only_use_where(data, joins);
        call.and_then(|it| it.args.first()).is_some_and(|it| self.is_product(it))
    }

    /// A call like `call`, of `data` in place of the first argument.
    fn emit(&mut self, call: &Call, data: Arg) -> Option<Arg> {
        let binding = bound_call_on(self.module, call, data)?;
        let var = Arg::from(&binding.var);
        self.bindings.push(binding);
        Some(var)
    }
}

/// True for an element-wise operator whose other arguments are numbers.
fn is_elementwise(call: &Call) -> bool {
    let Callee::Op(op) = call.callee else { return false };
    let numbers = call.args.iter().skip(1).all(|it| matches!(it, Arg::Prim(_)));
    op.def().elementwise && numbers && call.args.first().is_some_and(|it| it.as_var().is_some())
}

#[cfg(test)]
mod tests {
    use tvm_runtime::{Tensor, Value};

    use super::*;
    use crate::ir::{Attrs, Var};
    use crate::pass::PassContext;
    use crate::relax::testing::vm;
    use crate::relax::transform::random_graphs::Graph;
    use crate::target::Target;
    use crate::tir::PrimExpr;

    fn reshape(graph: &mut Graph, x: &Var, shape: &[i64]) -> Var {
        let shape = Arg::Shape(shape.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>().into());
        graph.op("reshape", &[x.into(), shape], Attrs::new()).unwrap()
    }

    fn unary(graph: &mut Graph, op: &str, x: &Var) -> Var {
        graph.op(op, &[x.into()], Attrs::new()).unwrap()
    }

    /// A convolution of 2×3×5×6 to 2×4×5×6, with a bias.
    fn conv(graph: &mut Graph, x: &Var) -> Var {
        let [weight, bias] = [&[4, 3, 1, 1][..], &[4, 1, 1]].map(|it| Arg::Const(graph.numbers(it)));
        let product = graph.op("nn.conv2d", &[x.into(), weight], Attrs::new()).unwrap();
        graph.op("add", &[product.into(), bias], Attrs::new()).unwrap()
    }

    /// The graph that `make` builds on an image, after the pass; asserts that it computes the same numbers.
    fn exchanged(make: impl FnOnce(&mut Graph, &Var) -> Var) -> String {
        let mut graph = Graph::new(5);
        let x = graph.param("x", [2, 3, 5, 6].map(PrimExpr::index).to_vec());
        let result = make(&mut graph, &x);
        let mut numbers = graph.numbers(&[2, 3, 5, 6]).to_vec::<f32>().unwrap();
        numbers[..3].copy_from_slice(&[f32::NAN, f32::INFINITY, -0.0]);
        let module = graph.function_of(x, result);
        let after = elementwise_before_reshape().apply(module.clone()).unwrap();
        let after = crate::relax::transform::canonicalize_bindings().apply(after).unwrap();
        let after = crate::relax::transform::dead_code_elimination().apply(after).unwrap();
        let input = [Value::from(Tensor::from_slice(&numbers, &[2, 3, 5, 6]).unwrap())];
        let run = |module: &IRModule| {
            let context = PassContext::new().target(Target::interpreter()).disable(NAME);
            let result = context.scope(|| vm(module)).invoke("main", &input).unwrap();
            let tensor = result.as_tensor().unwrap();
            let bits = tensor.to_f64s().unwrap().into_iter().map(f64::to_bits).collect::<Vec<_>>();
            (tensor.shape().to_vec(), bits)
        };
        assert!(run(&module) == run(&after), "{after}");
        after.to_string()
    }

    /// The operators of `names` in the order of their calls.
    fn order<'a>(text: &str, names: &[&'a str]) -> Vec<&'a str> {
        let calls = names.iter().flat_map(|name| {
            text.match_indices(&format!(" {name}(")).map(|it| (it.0, *name)).collect::<Vec<_>>()
        });
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable();
        calls.into_iter().map(|it| it.1).collect()
    }

    const NAMES: [&str; 4] = ["relu", "sigmoid", "reshape", "negative"];

    #[test]
    fn steps_join_the_product() {
        let text = exchanged(|graph, x| {
            let y = conv(graph, x);
            let flat = reshape(graph, &y, &[2, 4, 30]);
            let y = unary(graph, "nn.relu", &flat);
            unary(graph, "sigmoid", &y)
        });
        assert_eq!(order(&text, &NAMES), ["relu", "sigmoid", "reshape"], "{text}");
    }

    #[test]
    fn reshapes_that_cancel_are_none() {
        let text = exchanged(|graph, x| {
            let y = conv(graph, x);
            let flat = reshape(graph, &y, &[2, 4, 30]);
            let y = unary(graph, "nn.relu", &flat);
            let back = reshape(graph, &y, &[2, 4, 5, 6]);
            unary(graph, "negative", &back)
        });
        assert_eq!(order(&text, &NAMES), ["relu", "negative"], "{text}");
        let text = exchanged(|graph, x| {
            let flat = reshape(graph, x, &[2, 90]);
            reshape(graph, &flat, &[4, 45])
        });
        assert_eq!(order(&text, &NAMES), ["reshape"], "{text}");
    }

    #[test]
    fn what_must_stay_behind_the_reshape() {
        // Something else uses what is reshaped, or the product.
        let text = exchanged(|graph, x| {
            let y = conv(graph, x);
            let flat = reshape(graph, &y, &[2, 4, 30]);
            let y = unary(graph, "sigmoid", &flat);
            graph.op("multiply", &[y.into(), flat.into()], Attrs::new()).unwrap()
        });
        assert_eq!(order(&text, &NAMES), ["reshape", "sigmoid"], "{text}");
        let text = exchanged(|graph, x| {
            let y = conv(graph, x);
            let flat = reshape(graph, &y, &[2, 4, 5, 6, 1]);
            let z = unary(graph, "sigmoid", &flat);
            let z = reshape(graph, &z, &[2, 4, 5, 6]);
            let y = unary(graph, "negative", &y);
            graph.op("add", &[y.into(), z.into()], Attrs::new()).unwrap()
        });
        assert_eq!(order(&text, &NAMES), ["reshape", "sigmoid", "reshape", "negative"], "{text}");
        // There is no product.
        let text = exchanged(|graph, x| {
            let flat = reshape(graph, x, &[2, 90]);
            unary(graph, "nn.relu", &flat)
        });
        assert_eq!(order(&text, &NAMES), ["reshape", "relu"], "{text}");
    }
}
