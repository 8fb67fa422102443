//! `NarrowBeforeMoves`: what makes elements smaller goes in front of what only moves them.
//!
//! ```text
//! quantize(concat(a, b))             becomes    concat(quantize(a), quantize(b))
//! quantize(reshape(dequantize(q)))   becomes    reshape(q)    if the scale and the zero point are the same
//! ```
//!
//! Then a quarter of the bytes is moved, and the steps of the quantisation join the operators that compute `a` and `b`. The steps are
//! element-wise, with constants of one element, so their order relative to a move does not matter. Requires that nothing else uses
//! the values in between. The bindings themselves are left to `DeadCodeElimination`.
//!
//! TVM counterpart: none; `relax.transform.ReorderPermuteDimsAfterConcat` moves one operator in the other direction.

use tvm_runtime::{DataType, Tensor};

use super::calls::{Calls, bound_call_on, op_name};
use crate::ir::{IRModule, structural_equal};
use crate::pass::{Pass, function_pass};
use crate::relax::mutator::walk_binding;
use crate::relax::{Arg, Binding, Call, Expr, ExprMutator, ExprVisitor, Function};

/// Name of the pass.
const NAME: &str = "NarrowBeforeMoves";

/// Element-wise operators of one argument.
const UNARY: [&str; 6] = ["round", "floor", "ceil", "nn.relu", "clip", "astype"];
/// Element-wise operators whose second argument is a constant of one element.
const BINARY: [&str; 6] = ["add", "subtract", "multiply", "divide", "maximum", "minimum"];
/// Operators each of whose elements is one of the first argument. The number of elements stays the same.
const MOVES: [&str; 6] = ["concat", "reshape", "permute_dims", "expand_dims", "squeeze", "flatten"];

/// The pass.
pub fn narrow_before_moves() -> Pass {
    function_pass(NAME, |func: &Function, module, _| {
        let mut calls = Calls::default();
        calls.visit_function(func);
        let mut narrow = Narrow { calls, module, bindings: Vec::new() };
        Ok(narrow.mutate_function(func))
    })
    .opt_level(1)
}

struct Narrow<'a> {
    calls: Calls,
    module: &'a IRModule,
    /// What goes in front of the current binding.
    bindings: Vec<Binding>,
}

impl ExprMutator for Narrow<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let walked = walk_binding(self, binding).map(|it| vec![it]);
        let (Expr::Call(call), false) = (&binding.value, binding.match_cast) else { return walked };
        let moved = self.narrowing(call).and_then(|(moved, steps)| self.narrowed(&moved, &steps));
        let mut bindings = std::mem::take(&mut self.bindings);
        let last = moved.filter(|it| {
            let ty = it.as_var().map(|var| var.ty());
            ty.is_some_and(|ty| structural_equal(ty, binding.var.ty()).is_ok())
        });
        match last {
            Some(last) => {
                // The value may be one from before: a move of all that is left.
                let is_last = bindings.last().is_some_and(|it| last.as_var() == Some(&it.var));
                let value = match bindings.pop_if(|_| is_last) {
                    Some(it) => it.value,
                    None => last.into(),
                };
                bindings.push(Binding { value, ..binding.clone() });
                Some(bindings)
            }
            None => walked,
        }
    }
}

/// Element-wise steps, first to last.
type Steps = Vec<Call>;

impl Narrow<'_> {
    /// The result of a move, and the steps that make its elements smaller, of which `call` is the last.
    fn narrowing(&self, call: &Call) -> Option<(Arg, Steps)> {
        let [data] = &*call.args else { return None };
        let from = data.as_var()?.ty().as_tensor()?.dtype?;
        let to: DataType = call.attrs.dtype("dtype")?;
        if op_name(call)? != "astype" || to.bits() >= from.bits() {
            return None;
        }
        let (mut steps, mut data) = (vec![call.clone()], data);
        while let Some(step) = self.step(data) {
            steps.push(step.clone());
            data = step.args.first()?;
        }
        self.calls.only_use(data, &MOVES)?;
        steps.reverse();
        Some((data.clone(), steps))
    }

    /// The element-wise step whose result is `data`, if nothing else uses it.
    fn step(&self, data: &Arg) -> Option<&Call> {
        self.calls.only_use(data, &UNARY).or_else(|| {
            let call = self.calls.only_use(data, &BINARY)?;
            scalar(&call.args).map(|_| call)
        })
    }

    /// The result of `steps` on `data`, in front of the moves that `data` is the result of.
    fn narrowed(&mut self, data: &Arg, steps: &Steps) -> Option<Arg> {
        if let Some(quantized) = self.quantized(data, steps) {
            return Some(quantized);
        }
        let Some(call) = self.calls.only_use(data, &MOVES).cloned() else {
            let apply = |data, step: &Call| self.emit(step, data);
            return steps.iter().try_fold(data.clone(), apply);
        };
        let moved = match call.args.first()? {
            Arg::Tuple(fields) => {
                let fields = fields.iter().map(|it| self.narrowed(it, steps)).collect::<Option<Vec<_>>>()?;
                Arg::Tuple(fields.into())
            }
            data => self.narrowed(data, steps)?,
        };
        self.emit(&call, moved)
    }

    /// A call like `call`, of `data` in place of the first argument.
    fn emit(&mut self, call: &Call, data: Arg) -> Option<Arg> {
        let binding = bound_call_on(self.module, call, data)?;
        let var = Arg::from(&binding.var);
        self.bindings.push(binding);
        Some(var)
    }

    /// The quantised tensor that `data` is dequantised from, if `steps` quantise it in the same way: the result is that tensor.
    fn quantized(&self, data: &Arg, steps: &Steps) -> Option<Arg> {
        let (quantize, dequantize) = (Scale::of_quantize(steps)?, self.dequantize(data)?);
        (dequantize.0 == quantize).then_some(dequantize.1)
    }

    /// How `data` is dequantised, and from what.
    fn dequantize(&self, data: &Arg) -> Option<(Scale, Arg)> {
        let scaled = self.calls.call(data, &["multiply"])?;
        let whole = self.calls.call(&scaled.args[0], &["astype"])?;
        let shifted = self.calls.call(&whole.args[0], &["subtract"])?;
        let wide = self.calls.call(&shifted.args[0], &["astype"])?;
        let quantized = wide.args.first()?;
        let dtype = quantized.as_var()?.ty().as_tensor()?.dtype?;
        let types = [scaled, whole].map(|it| it.args[0].as_var().and_then(|it| it.ty().as_tensor()?.dtype));
        if types != [Some(DataType::F32), Some(DataType::I32)] {
            return None;
        }
        let (scale, zero_point) = (number(scalar(&scaled.args)?)?, number(scalar(&shifted.args)?)?);
        Some((Scale { scale, zero_point, dtype }, quantized.clone()))
    }
}

/// How numbers of 8 bits stand for floats.
#[derive(PartialEq)]
struct Scale {
    scale: f64,
    zero_point: f64,
    dtype: DataType,
}

impl Scale {
    /// That of `steps`, which divide, round, shift, limit and convert; for scales with which a number that is dequantised and quantised
    /// again stays the same.
    fn of_quantize(steps: &Steps) -> Option<Scale> {
        let names: Vec<&str> = steps.iter().filter_map(op_name).collect();
        let shifts = match &*names {
            ["divide", "round", "maximum", "minimum", "astype"] => false,
            ["divide", "round", "add", "maximum", "minimum", "astype"] => true,
            _ => return None,
        };
        let at = |step: usize| number(scalar(&steps.get(step)?.args)?);
        let scale = at(0)?;
        let zero_point = if shifts { at(2)? } else { 0.0 };
        let dtype = steps.last()?.attrs.dtype("dtype")?;
        let (low, high) = dtype.int_range().filter(|_| dtype.bits() == 8)?;
        let limits = [names.len() - 3, names.len() - 2].map(at);
        let (low, high) = (low as f64, high as f64);
        let exact = (1e-30..=1e30).contains(&scale) && (low..=high).contains(&zero_point);
        (exact && limits == [Some(low), Some(high)]).then_some(Scale { scale, zero_point, dtype })
    }
}

/// The second of two arguments, if it is a constant of one element that does not change the shape of the first.
fn scalar(args: &[Arg]) -> Option<&Tensor> {
    let [data, constant] = args else { return None };
    let (constant, ndim) = (constant.as_const()?, data.as_var()?.ty().as_tensor()?.ndim()?);
    (constant.len() == 1 && constant.shape().len() <= ndim).then_some(constant)
}

fn number(constant: &Tensor) -> Option<f64> {
    constant.to_f64s().ok()?.first().copied()
}

#[cfg(test)]
mod tests {
    use tvm_runtime::Value;

    use super::*;
    use crate::ir::{Attrs, Var};
    use crate::pass::PassContext;
    use crate::relax::testing::vm;
    use crate::relax::transform::random_graphs::Graph;
    use crate::target::Target;
    use crate::tir::PrimExpr;

    /// A scale, a zero point, and the type.
    type Quantized = (f32, f32, DataType);

    const BYTES: Quantized = (0.03125, 3.0, DataType::U8);
    const SIGNED: Quantized = (0.3, -7.0, DataType::I8);

    fn of(graph: &mut Graph, op: &str, x: &Var, number: f32) -> Var {
        graph
            .op(op, &[x.into(), Arg::Const(Tensor::from_slice(&[number], &[1]).unwrap())], Attrs::new())
            .unwrap()
    }

    fn quantize(graph: &mut Graph, x: &Var, (scale, zero_point, dtype): Quantized) -> Var {
        let (low, high) = dtype.int_range().unwrap();
        let divided = of(graph, "divide", x, scale);
        let rounded = graph.op("round", &[(&divided).into()], Attrs::new()).unwrap();
        let shifted = of(graph, "add", &rounded, zero_point);
        let least = of(graph, "maximum", &shifted, low as f32);
        let limited = of(graph, "minimum", &least, high as f32);
        graph.op("astype", &[limited.into()], Attrs::new().with("dtype", dtype)).unwrap()
    }

    fn dequantize(graph: &mut Graph, q: &Var, (scale, zero_point, _): Quantized) -> Var {
        let wide = graph.op("astype", &[q.into()], Attrs::new().with("dtype", DataType::I32)).unwrap();
        let zero_point = Arg::Const(Tensor::from_slice(&[zero_point as i32], &[1]).unwrap());
        let shifted = graph.op("subtract", &[wide.into(), zero_point], Attrs::new()).unwrap();
        let whole = graph.op("astype", &[shifted.into()], Attrs::new().with("dtype", DataType::F32)).unwrap();
        of(graph, "multiply", &whole, scale)
    }

    fn concat(graph: &mut Graph, fields: &[&Var]) -> Var {
        let fields = Arg::Tuple(fields.iter().map(|it| Arg::from(*it)).collect());
        graph.op("concat", &[fields], Attrs::new().with("axis", 1i64)).unwrap()
    }

    fn moved(graph: &mut Graph, x: &Var) -> Var {
        let axes = Attrs::new().with("axes", vec![0i64, 2, 1, 3]);
        graph.op("permute_dims", &[x.into()], axes).unwrap()
    }

    /// What `make` computes of an image, with the pass; the results with and without it are the same.
    fn narrowed(make: impl Fn(&mut Graph, &Var) -> Var) -> String {
        let mut graph = Graph::new(7);
        let data = graph.param("x", [2, 3, 5, 4].map(PrimExpr::index).to_vec());
        let result = make(&mut graph, &data);
        let mut numbers: Vec<f32> = (0..120).map(|_| graph.rng.range(-4000, 4000) as f32 / 300.0).collect();
        numbers[..4].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
        let input = [Value::from(Tensor::from_slice(&numbers, &[2, 3, 5, 4]).unwrap())];
        let module = graph.function_of(data, result);
        let after = narrow_before_moves().apply(module.clone()).unwrap();
        let after = crate::relax::transform::dead_code_elimination().apply(after).unwrap();
        let run = |module: &IRModule| {
            let context = PassContext::new().target(Target::interpreter()).disable(NAME);
            let result = context.scope(|| vm(module)).invoke("main", &input).unwrap();
            let numbers = result.as_tensor().unwrap().to_f64s().unwrap();
            numbers.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        assert!(run(&module) == run(&after), "{after}");
        after.to_string()
    }

    /// How often `op` is called.
    fn steps(text: &str, op: &str) -> usize {
        text.matches(&format!(" {op}(")).count()
    }

    #[test]
    fn parts_are_quantised_before_they_are_joined() {
        let text = narrowed(|graph, x| {
            let relu = graph.op("nn.relu", &[x.into()], Attrs::new()).unwrap();
            let all = concat(graph, &[&relu, x]);
            quantize(graph, &all, BYTES)
        });
        assert_eq!((steps(&text, "round"), steps(&text, "concat")), (2, 1), "{text}");
        assert!(text.find("concat(") > text.rfind("astype("), "{text}");
    }

    #[test]
    fn what_is_quantised_in_the_same_way_stays() {
        for (again, left) in
            [(BYTES, 1), (SIGNED, 2), ((0.03125, 4.0, DataType::U8), 2), ((0.03, 3.0, DataType::U8), 2)]
        {
            let text = narrowed(|graph, x| {
                let q = quantize(graph, x, BYTES);
                let number = dequantize(graph, &q, BYTES);
                let swapped = moved(graph, &number);
                quantize(graph, &swapped, again)
            });
            assert_eq!((steps(&text, "round"), steps(&text, "permute_dims")), (left, 1), "{again:?}\n{text}");
        }
        // Floats do not have every difference to such a zero point.
        let far = (0.03125, 3e7, DataType::U8);
        let text = narrowed(|graph, x| {
            let q = quantize(graph, x, far);
            let number = dequantize(graph, &q, far);
            let swapped = moved(graph, &number);
            quantize(graph, &swapped, far)
        });
        assert_eq!(steps(&text, "round"), 2, "{text}");
        // The other part is quantised.
        let text = narrowed(|graph, x| {
            let q = quantize(graph, x, BYTES);
            let number = dequantize(graph, &q, BYTES);
            let parts = concat(graph, &[&number, x, &number]);
            let swapped = moved(graph, &parts);
            quantize(graph, &swapped, BYTES)
        });
        assert_eq!(steps(&text, "round"), 2, "{text}");
    }

    #[test]
    fn what_must_stay_behind_the_move() {
        // Something else uses the floats.
        let text = narrowed(|graph, x| {
            let all = concat(graph, &[x, x]);
            let q = quantize(graph, &all, BYTES);
            let number = dequantize(graph, &q, BYTES);
            graph.op("add", &[number.into(), all.into()], Attrs::new()).unwrap()
        });
        assert_eq!(steps(&text, "round"), 1, "{text}");
        // A number for each channel depends on the order of the channels.
        let text = narrowed(|graph, x| {
            let swapped = moved(graph, x);
            let rows = Arg::Const(Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0], &[5, 1, 1]).unwrap());
            let scaled = graph.op("multiply", &[swapped.into(), rows], Attrs::new()).unwrap();
            quantize(graph, &scaled, BYTES)
        });
        assert!(text.find("permute_dims(") < text.find("round("), "{text}");
        // The elements stay as wide.
        let text = narrowed(|graph, x| {
            let swapped = moved(graph, x);
            graph.op("nn.relu", &[swapped.into()], Attrs::new()).unwrap()
        });
        assert!(text.find("permute_dims(") < text.find("relu("), "{text}");
    }
}
