//! Random graphs over images compute the same before and after the pass.

use std::sync::Arc;

use tvm_runtime::{DataType, Tensor, Value};
use tvm_testing::Rng;

use super::*;
use crate::ir::well_formed;
use crate::pass::PassContext;
use crate::relax::testing::vm;
use crate::relax::{BlockBuilder, Callee, If};
use crate::target::Target;

const CHANNELS: [i64; 8] = [3, 4, 5, 8, 10, 12, 16, 24];

/// A graph under construction: its values are images, as shapes `[n, channels, height, width]` with a variable `n`.
struct Graph {
    rng: Rng,
    builder: BlockBuilder,
    values: Vec<Var>,
    params: Vec<Var>,
    n: Var,
}

impl Graph {
    fn new(seed: u64) -> Graph {
        let mut rng = Rng::new(seed);
        let n = Var::index("n");
        let mut builder = BlockBuilder::new(IRModule::new());
        builder.begin_scope();
        let mut graph = Graph { n, builder, values: Vec::new(), params: Vec::new(), rng: Rng::new(seed) };
        for _ in 0..2 {
            let (channels, size) = (*rng.pick(&CHANNELS), rng.range(5, 8));
            let dims = [channels, size, size + 1].map(PrimExpr::index);
            let shape = [PrimExpr::from(&graph.n)].into_iter().chain(dims).collect();
            let x = graph.param("x", shape);
            graph.values.push(x);
        }
        graph
    }

    /// The module with the function `main` of one parameter, which computes `result`.
    fn function_of(mut self, param: Var, result: Var) -> IRModule {
        let body = self.builder.end_scope(result.into());
        let scope = |inner: &mut BlockBuilder| {
            body.bindings().for_each(|binding| inner.push(binding.clone()));
            Ok(body.ret.clone())
        };
        self.builder.add_function("main", &[param], scope).unwrap();
        self.builder.into_module()
    }

    fn param(&mut self, name: &str, shape: Vec<PrimExpr>) -> Var {
        let var = Var::new(name, Type::tensor(shape, DataType::F32));
        self.params.push(var.clone());
        var
    }

    fn numbers(&mut self, shape: &[i64]) -> Tensor {
        let len: i64 = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| self.rng.range(-100, 100) as f32 / 100.0).collect();
        Tensor::from_slice(&values, shape).unwrap()
    }

    /// A constant, or a parameter.
    fn weights(&mut self, shape: &[i64]) -> Arg {
        if self.rng.one_in(4) {
            let dims = shape.iter().map(|&it| PrimExpr::index(it)).collect();
            return self.param("w", dims).into();
        }
        Arg::Const(self.numbers(shape))
    }

    fn op(&mut self, op: &str, args: &[Arg], attrs: Attrs) -> Option<Var> {
        self.builder.emit_op("v", Op::get(op).unwrap(), args.to_vec(), attrs, &Span::none()).ok()
    }

    fn dims(&self, value: &Var) -> Vec<PrimExpr> {
        value.ty().as_tensor().unwrap().known_shape().unwrap().to_vec()
    }

    fn channels(&self, value: &Var) -> i64 {
        self.dims(value)[1].as_int().unwrap()
    }

    /// A value, recent ones more often.
    fn pick(&mut self) -> Var {
        let recent = self.values.len().saturating_sub(3);
        let from = if self.rng.one_in(3) { 0 } else { recent };
        self.rng.pick(&self.values[from..]).clone()
    }

    fn step(&mut self, depth: usize) -> Option<Var> {
        let x = self.pick();
        let (dims, channels) = (self.dims(&x), self.channels(&x));
        let arg = Arg::from(&x);
        match self.rng.below(15) {
            0..=3 => {
                let depthwise = self.rng.one_in(4);
                let groups = if depthwise { channels } else { *self.rng.pick(&[1, 1, 1, 2]) };
                let out = if depthwise { channels } else { *self.rng.pick(&CHANNELS) };
                let (kh, kw) = *self.rng.pick(&[(1, 1), (3, 3), (3, 2), (1, 3)]);
                let weight = self.weights(&[out, channels / groups, kh, kw]);
                let (stride, padding) = (self.rng.range(1, 2), self.rng.range(0, 1));
                let dilation = if self.rng.one_in(5) { 2i64 } else { 1 };
                let attrs = Attrs::new().with("strides", vec![stride, 1]).with("padding", vec![padding; 2]);
                let attrs = attrs.with("groups", groups).with("dilation", vec![dilation; 2]);
                self.op("nn.conv2d", &[arg, weight], attrs)
            }
            4 => {
                let name = *self.rng.pick(&["nn.relu", "negative", "sigmoid"]);
                self.op(name, &[arg], Attrs::new())
            }
            5 => {
                let shapes = [&[channels, 1, 1][..], &[1, channels, 1, 1], &[1], &[]];
                let shape = *self.rng.pick(&shapes);
                let weight = self.weights(shape);
                self.op("multiply", &[weight, arg], Attrs::new())
            }
            6 => self.op("add", &[arg, Arg::Prim(PrimExpr::float(0.5, DataType::F32))], Attrs::new()),
            7 => {
                let other = self.pick();
                self.op("add", &[arg, other.into()], Attrs::new())
            }
            8 => {
                let mut args = vec![arg];
                args.extend((0..3).map(|_| self.weights(&[channels])));
                let variance: Vec<f32> = (0..channels).map(|i| 0.5 + i as f32 / 4.0).collect();
                args.push(Arg::Const(Tensor::from_slice(&variance, &[channels]).unwrap()));
                self.op("nn.batch_norm", &args, Attrs::new())
            }
            9 => {
                let other = self.pick();
                let fields = Arg::Tuple(Arc::new([arg, other.into(), (&x).into()]));
                self.op("concat", &[fields], Attrs::new().with("axis", 1i64))
            }
            10 => {
                let name = *self.rng.pick(&["nn.max_pool2d", "nn.avg_pool2d"]);
                let attrs = Attrs::new().with("pool_size", vec![2i64, 2]).with("padding", vec![1i64, 1]);
                self.op(name, &[arg], attrs.with("strides", vec![2i64, 1]))
            }
            11 => {
                let (name, axes) = (*self.rng.pick(&["mean", "max"]), *self.rng.pick(&[[2i64, 3], [-1, -2]]));
                self.op(name, &[arg], Attrs::new().with("axis", axes.to_vec()).with("keepdims", true))
            }
            13 => {
                let size = [self.rng.range(1, 9), self.rng.range(1, 9)].map(PrimExpr::index);
                let method = *self.rng.pick(&["nearest_neighbor", "linear"]);
                let attrs = Attrs::new().with("method", method);
                self.op("image.resize2d", &[arg, Arg::Shape(size.to_vec().into())], attrs)
            }
            12 => self.op("nn.softmax", &[arg], Attrs::new().with("axis", 1i64)),
            _ if depth == 0 => {
                let scale = Var::new("s", Type::tensor(vec![dims[3].clone()], DataType::F32));
                self.params.push(scale.clone());
                self.op("multiply", &[arg, scale.into()], Attrs::new())
            }
            _ => {
                let cond = self.condition(&x)?;
                let then_branch = self.branch(&x, depth)?;
                let else_branch = self.branch(&x, depth)?;
                let value = Expr::If(Arc::new(If { cond, then_branch, else_branch, span: Span::none() }));
                self.builder.emit("v", value, &Span::none()).ok()
            }
        }
    }

    fn condition(&mut self, x: &Var) -> Option<Arg> {
        let sum = self.op("sum", &[x.into()], Attrs::new())?;
        let zero = Arg::Prim(PrimExpr::float(0.0, DataType::F32));
        self.op("greater", &[sum.into(), zero], Attrs::new()).map(Arg::from)
    }

    /// A branch whose result has the type of `like`.
    fn branch(&mut self, like: &Var, depth: usize) -> Option<Body> {
        let outer = self.values.len();
        self.builder.begin_scope();
        for _ in 0..3 {
            if let Some(var) = self.step(depth - 1) {
                self.values.push(var);
            }
        }
        let same = |it: &&Var| crate::ir::structural_equal(it.ty(), like.ty()).is_ok();
        let ret = self.values.iter().rfind(same).cloned();
        self.values.truncate(outer);
        let ret = ret.unwrap_or_else(|| like.clone());
        Some(self.builder.end_scope(ret.into()))
    }
}

fn random_graph(seed: u64) -> (IRModule, Vec<Value>) {
    let mut graph = Graph::new(seed);
    for _ in 0..12 {
        if let Some(var) = graph.step(2) {
            graph.values.push(var);
        }
    }
    let results: Vec<Arg> = (0..3).map(|_| graph.pick().into()).collect();
    let ret = graph.builder.emit("t", Expr::Arg(Arg::Tuple(results.into())), &Span::none()).unwrap();
    let body = graph.builder.end_scope(ret.into());
    let params = graph.params.clone();
    let args = params.iter().map(|param| {
        let dims = graph.dims(param);
        let shape: Vec<i64> = dims.iter().map(|it| it.as_int().unwrap_or(2)).collect();
        graph.numbers(&shape).into()
    });
    let args: Vec<Value> = args.collect();
    let mut builder = graph.builder;
    let scope = |inner: &mut BlockBuilder| {
        body.bindings().for_each(|binding| inner.push(binding.clone()));
        Ok(body.ret.clone())
    };
    builder.add_function("main", &params, scope).unwrap();
    (builder.into_module(), args)
}

fn results(module: &IRModule, args: &[Value]) -> Vec<Vec<f32>> {
    let context = PassContext::new().target(Target::interpreter());
    let got = context.scope(|| vm(module)).invoke("main", args).unwrap();
    got.as_adt().unwrap().fields().iter().map(crate::relax::testing::elements).collect()
}

#[test]
fn random_graphs_compute_the_same() {
    let mut in_blocks = 0;
    for seed in 0..60 {
        let (module, args) = random_graph(seed);
        let target = Target { machine: Machine::baseline(), ..Target::llvm() };
        let converted =
            PassContext::new().target(target).scope(|| convert_layout().apply(module.clone())).unwrap();
        well_formed(&converted).unwrap_or_else(|err| panic!("seed {seed}: {err}"));
        let text = format!("{converted:?}");
        in_blocks += usize::from(text.contains("NCHW8c") || text.contains("NCHW4c"));
        let (before, after) = (results(&module, &args), results(&converted, &args));
        for (before, after) in before.iter().zip(&after) {
            let most = before.iter().fold(1.0f32, |most, it| most.max(it.abs()));
            assert_eq!(before.len(), after.len(), "seed {seed}");
            for (before, after) in before.iter().zip(after) {
                let same = (before - after).abs() <= 1e-4 * most || before.is_nan() && after.is_nan();
                assert!(same, "seed {seed}: {before} became {after}");
            }
        }
    }
    assert!(in_blocks > 30, "{in_blocks} graphs have blocks");
}

/// A convolution of 3×3 with constant weights, after the pass: its operators, and the largest difference to what the
/// module computed before, relative to the largest value.
fn convolution(shape: [i64; 4], out: i64, attrs: Attrs, winograd: bool) -> (Vec<&'static str>, f32) {
    let mut graph = Graph::new(7);
    let data = graph.param("x", shape.iter().map(|&it| PrimExpr::index(it)).collect());
    let weight = graph.numbers(&[out, shape[1], 3, 3]);
    let result = graph.op("nn.conv2d", &[(&data).into(), Arg::Const(weight)], attrs).unwrap();
    let args = [Value::from(graph.numbers(&shape))];
    let module = graph.function_of(data, result);
    let target = Target { machine: Machine::baseline(), ..Target::llvm() };
    let context = PassContext::new().target(target).configure(|config| config.winograd = winograd);
    let converted = context.scope(|| convert_layout().apply(module.clone())).unwrap();
    well_formed(&converted).unwrap();
    let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
    let ops = func.body.bindings().filter_map(|binding| match &binding.value {
        Expr::Call(call) => match &call.callee {
            Callee::Op(op) => Some(op.name),
            _ => None,
        },
        _ => None,
    });
    let ops = ops.filter(|name| name.starts_with("nn.")).collect();
    let (before, after) = (results_of_one(&module, &args), results_of_one(&converted, &args));
    assert_eq!(before.len(), after.len());
    let most = before.iter().fold(0f32, |most, it| most.max(it.abs()));
    let error = before.iter().zip(&after).fold(0f32, |error, (a, b)| error.max((a - b).abs()));
    (ops, error / most)
}

/// The layouts of data and weights after the pass, which does not change the result of a convolution of bytes.
fn convolution_of_bytes(shape: [i64; 4], weights: [i64; 4], attrs: Attrs) -> Option<(String, Vec<i64>)> {
    let mut graph = Graph::new(11);
    let data = Var::new("x", Type::tensor(shape.map(PrimExpr::index).to_vec(), DataType::U8));
    let mut numbers = |shape: &[i64], dtype| {
        let len: i64 = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| graph.rng.range(-100, 100) as f32).collect();
        bytes(&values, shape, dtype)
    };
    let args = [Value::from(numbers(&shape, DataType::U8))];
    let weight = Arg::Const(numbers(&weights, DataType::I8));
    let attrs = attrs.with("out_dtype", DataType::I32);
    let sums = graph.op("nn.conv2d", &[(&data).into(), weight], attrs).unwrap();
    let result = graph.op("astype", &[sums.into()], Attrs::new().with("dtype", DataType::F32)).unwrap();
    let module = graph.function_of(data, result);
    let target = Target { machine: Machine::baseline(), ..Target::llvm() };
    let converted =
        PassContext::new().target(target).scope(|| convert_layout().apply(module.clone())).unwrap();
    well_formed(&converted).unwrap();
    assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
    let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
    let conv = func.body.bindings().find_map(|binding| match &binding.value {
        Expr::Call(call) if matches!(call.callee, Callee::Op(op) if op.name == "nn.conv2d") => {
            Some(call.clone())
        }
        _ => None,
    });
    let conv = conv.unwrap();
    let weights = conv.args[1].as_const().unwrap();
    let layout = conv.attrs.str("data_layout")?.to_string();
    (weights.dtype() == DataType::I32).then(|| (layout, weights.shape().to_vec()))
}

#[test]
fn convolutions_of_bytes_have_words() {
    let padded = || Attrs::new().with("padding", vec![1i64, 1]);
    // The baseline has vectors of four elements.
    for (shape, weights, attrs, want) in [
        ([1, 16, 5, 6], [24, 16, 3, 3], padded(), ("NCHW8c", [3, 2, 3, 3, 2, 8])),
        (
            [2, 8, 5, 4],
            [6, 8, 1, 1],
            Attrs::new().with("strides", vec![2i64, 2]),
            ("NCHW8c", [1, 1, 1, 1, 2, 8]),
        ),
        ([1, 12, 4, 4], [12, 12, 2, 2], padded(), ("NCHW4c", [3, 3, 2, 2, 1, 4])),
        // Channels that fill no word.
        ([1, 9, 4, 4], [8, 9, 2, 2], padded(), ("NCHW4c", [1, 3, 2, 2, 1, 8])),
        ([1, 3, 7, 6], [5, 3, 3, 3], padded(), ("NCHW4c", [1, 1, 3, 3, 1, 8])),
    ] {
        let got = convolution_of_bytes(shape, weights, attrs);
        assert_eq!(got, Some((want.0.to_string(), want.1.to_vec())), "{shape:?} {weights:?}");
    }
    let groups = padded().with("groups", 2i64);
    assert_eq!(convolution_of_bytes([1, 16, 4, 4], [8, 8, 2, 2], groups), None);
}

#[test]
fn winograd_is_chosen_where_it_is_faster() {
    let padded = || Attrs::new().with("padding", vec![1i64, 1]);
    let winograd = ["nn.winograd_data", "nn.winograd_product", "nn.winograd_result"];
    for (shape, out, attrs) in [
        ([1, 32, 9, 10], 40, padded()),
        ([2, 64, 6, 9], 24, Attrs::new()),
        ([1, 24, 12, 12], 64, Attrs::new().with("padding", vec![2i64, 0, 1, 2])),
    ] {
        let (ops, error) = convolution(shape, out, attrs.clone(), true);
        assert_eq!(ops, winograd, "{shape:?}");
        assert!(error <= 2e-5, "{shape:?}: {error}");
        let (ops, error) = convolution(shape, out, attrs, false);
        assert_eq!(ops, ["nn.conv2d"], "{shape:?}");
        assert!(error <= 1e-5, "{shape:?}: {error}");
    }
    for (shape, attrs) in [
        ([1, 4, 9, 10], padded()),
        ([1, 64, 2, 2], padded()),
        ([1, 32, 9, 10], padded().with("strides", vec![2i64, 1])),
        ([1, 32, 9, 10], padded().with("dilation", vec![1i64, 2])),
    ] {
        let (ops, _) = convolution(shape, 32, attrs, true);
        assert_eq!(ops, ["nn.conv2d"], "{shape:?}");
    }
}

/// `x w` with constant `w` of shape `[k, n]`, which is a constant `[n, k]` transposed if so asked; the operator that computes
/// it after the pass, and that the results are the same. Numbers are whole: their sums are exact in any order.
fn dense(rows: Option<i64>, [k, n]: [i64; 2], transposed: bool, dtype: DataType) -> (String, Vec<i64>) {
    let mut graph = Graph::new(7);
    let m = rows.map_or_else(|| PrimExpr::from(&graph.n), PrimExpr::index);
    let data = Var::new("x", Type::tensor(vec![m, k.into()], dtype));
    let mut numbers = |shape: &[i64], dtype| -> Tensor {
        let len: i64 = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| graph.rng.range(-4, 4) as f32).collect();
        match dtype {
            DataType::U8 | DataType::I8 => bytes(&values, shape, dtype),
            DataType::BF16 => {
                let values: Vec<_> = values.into_iter().map(half::bf16::from_f32).collect();
                Tensor::from_slice(&values, shape).unwrap()
            }
            _ => Tensor::from_slice(&values, shape).unwrap(),
        }
    };
    let args = [Value::from(numbers(&[rows.unwrap_or(5), k], dtype))];
    let [of_weights, of_result] = match dtype {
        DataType::U8 => [DataType::I8, DataType::I32],
        _ => [dtype; 2],
    };
    let mut weight = Arg::Const(numbers(&if transposed { [n, k] } else { [k, n] }, of_weights));
    if transposed {
        let swapped = graph.op("permute_dims", &[weight], Attrs::new().with("axes", vec![1i64, 0]));
        weight = swapped.unwrap().into();
    }
    let attrs = Attrs::new().with("out_dtype", of_result);
    let product = graph.op("matmul", &[(&data).into(), weight], attrs).unwrap();
    let result = graph.op("astype", &[product.into()], Attrs::new().with("dtype", DataType::F32)).unwrap();
    let module = graph.function_of(data, result);
    let machine = Machine { bf16_dot: true, ..Machine::baseline() };
    let context = PassContext::new().target(Target { machine, ..Target::llvm() });
    let context = context.configure(|config| config.fast_math = true);
    let converted = context.scope(|| convert_layout().apply(module.clone())).unwrap();
    well_formed(&converted).unwrap();
    assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
    let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
    let bindings: Vec<&Binding> = func.body.bindings().collect();
    let of_product = bindings[bindings.len() - 2];
    let Expr::Call(call) = &of_product.value else { panic!("the product is a call") };
    let Callee::Op(op) = call.callee else { panic!("of an operator") };
    let weight = call.args[1].as_const().map(|it| it.shape().to_vec());
    (op.name.to_string(), weight.unwrap_or_default())
}

/// Numbers as bytes; those of `u8` are 100 more.
fn bytes(values: &[f32], shape: &[i64], dtype: DataType) -> Tensor {
    let values: Vec<f64> =
        values.iter().map(|&it| f64::from(it) + if dtype == DataType::U8 { 100.0 } else { 0.0 }).collect();
    Tensor::from_f64s(&values, shape, dtype).unwrap()
}

fn results_of_one(module: &IRModule, args: &[Value]) -> Vec<f32> {
    let context = PassContext::new().target(Target::interpreter());
    crate::relax::testing::elements(&context.scope(|| vm(module)).invoke("main", args).unwrap())
}

#[test]
fn constant_weights_of_products_get_panels() {
    // The baseline has vectors of four elements.
    for (rows, shape, want) in [
        (Some(64), [12, 16], vec![2, 12, 8]),
        (Some(64), [12, 19], vec![5, 12, 4]),
        (Some(12), [12, 16], vec![4, 12, 4]),
        (Some(1), [12, 16], vec![2, 12, 8]),
        (None, [9, 30], vec![4, 9, 8]),
        (Some(0), [9, 30], vec![4, 9, 8]),
    ] {
        for transposed in [false, true] {
            let got = dense(rows, shape, transposed, DataType::F32);
            assert_eq!(got, ("nn.dense_pack".into(), want.clone()), "{rows:?} {shape:?}");
        }
    }
    // Pairs of terms are words of four bytes.
    for (shape, want) in [([12, 16], vec![2, 6, 8]), ([13, 15], vec![2, 7, 8])] {
        let got = dense(Some(64), shape, true, DataType::BF16);
        assert_eq!(got, ("nn.dense_pack".into(), want), "{shape:?}");
    }
    // So are four of bytes.
    for (shape, want) in [([12, 16], vec![2, 3, 8]), ([13, 19], vec![5, 4, 4])] {
        for transposed in [false, true] {
            let got = dense(Some(64), shape, transposed, DataType::U8);
            assert_eq!(got, ("nn.dense_pack".into(), want.clone()), "{shape:?}");
        }
    }
    // Too few columns for a vector, too few terms.
    for shape in [[12, 1], [3, 32]] {
        assert_eq!(dense(Some(64), shape, false, DataType::F32).0, "matmul", "{shape:?}");
    }
}
