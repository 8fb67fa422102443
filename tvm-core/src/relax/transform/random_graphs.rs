//! Random graphs over images, for tests of the passes that change how convolutions and products are computed.

use std::sync::Arc;

use tvm_runtime::{DataType, Tensor, Value};
use tvm_testing::Rng;

use crate::ir::{Attrs, IRModule, Op, Span, Type, Var};
use crate::pass::PassContext;
use crate::relax::testing::vm;
use crate::relax::{Arg, BlockBuilder, Body, Expr, If};
use crate::target::Target;
use crate::tir::PrimExpr;

const CHANNELS: [i64; 8] = [3, 4, 5, 8, 10, 12, 16, 24];

/// A graph under construction: its values are images, as shapes `[n, channels, height, width]` with a variable `n`.
pub(super) struct Graph {
    pub(super) rng: Rng,
    builder: BlockBuilder,
    values: Vec<Var>,
    params: Vec<Var>,
    pub(super) n: Var,
}

impl Graph {
    pub(super) fn new(seed: u64) -> Graph {
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
    pub(super) fn function_of(mut self, param: Var, result: Var) -> IRModule {
        let body = self.builder.end_scope(result.into());
        let scope = |inner: &mut BlockBuilder| {
            body.bindings().for_each(|binding| inner.push(binding.clone()));
            Ok(body.ret.clone())
        };
        self.builder.add_function("main", &[param], scope).unwrap();
        self.builder.into_module()
    }

    pub(super) fn param(&mut self, name: &str, shape: Vec<PrimExpr>) -> Var {
        let var = Var::new(name, Type::tensor(shape, DataType::F32));
        self.params.push(var.clone());
        var
    }

    pub(super) fn numbers(&mut self, shape: &[i64]) -> Tensor {
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

    pub(super) fn op(&mut self, op: &str, args: &[Arg], attrs: Attrs) -> Option<Var> {
        self.builder.emit_op("v", Op::get(op).unwrap(), args.to_vec(), attrs, &Span::none()).ok()
    }

    /// Part `index` of a tuple of images.
    pub(super) fn field(&mut self, tuple: &Var, index: usize) -> Option<Var> {
        let field = self.builder.emit("v", Expr::TupleGetItem(tuple.into(), index), &Span::none()).ok()?;
        (self.channels(&field) > 0).then_some(field)
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
        match self.rng.below(18) {
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
            14 => {
                let columns = *self.rng.pick(&[4, 8, 9]);
                let weight = self.weights(&[dims[3].as_int()?, columns]);
                self.op("matmul", &[arg, weight], Attrs::new())
            }
            16 => {
                let attrs = Attrs::new().with("axis", if self.rng.one_in(2) { 1i64 } else { -3 });
                let attrs = if self.rng.one_in(2) {
                    attrs.with("indices_or_sections", 2i64)
                } else {
                    let mut cuts = [0; 2].map(|_| *self.rng.pick(&[1, 4, 5, 8, 12]).min(&channels));
                    cuts.sort_unstable();
                    attrs.with("indices_or_sections", cuts.to_vec())
                };
                let parts = self.op("split", &[arg], attrs)?;
                let index = self.rng.below(2);
                self.field(&parts, index)
            }
            17 => {
                let [begin, end] = [0i64, 3].map(|least| least + *self.rng.pick(&[0, 1, 4, 8]));
                let bounds = [begin, if self.rng.one_in(4) { -1 } else { end }, 1];
                let bounds = bounds.map(|it| Arg::Shape(Arc::new([PrimExpr::index(it)])));
                let args = [&[arg], &bounds[..]].concat();
                let sliced = self.op("strided_slice", &args, Attrs::new().with("axes", vec![1i64]))?;
                (self.channels(&sliced) > 0).then_some(sliced)
            }
            12 => self.op("nn.softmax", &[arg], Attrs::new().with("axis", 1i64)),
            _ if depth == 0 => {
                let scale = Var::new("s", Type::tensor(vec![dims[3].clone()], DataType::F32));
                self.params.push(scale.clone());
                self.op("multiply", &[arg, scale.into()], Attrs::new())
            }
            _ => {
                let cond = self.condition()?;
                let then_branch = self.branch(&x, depth)?;
                let else_branch = self.branch(&x, depth)?;
                let value = Expr::If(Arc::new(If { cond, then_branch, else_branch, span: Span::none() }));
                self.builder.emit("v", value, &Span::none()).ok()
            }
        }
    }

    /// A condition on the first parameter, which has the same value however exactly the others are computed.
    fn condition(&mut self) -> Option<Arg> {
        let sum = self.op("sum", &[(&self.params[0].clone()).into()], Attrs::new())?;
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

/// A random graph, and arguments for two images.
pub(super) fn random_graph(seed: u64) -> (IRModule, Vec<Value>) {
    random_graph_for(seed, 2)
}

/// A random graph, and arguments for `images`.
pub(super) fn random_graph_for(seed: u64, images: i64) -> (IRModule, Vec<Value>) {
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
        let shape: Vec<i64> = dims.iter().map(|it| it.as_int().unwrap_or(images)).collect();
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

pub(super) fn results(module: &IRModule, args: &[Value]) -> Vec<Vec<f32>> {
    // A pass that would do the same to both modules is left out.
    let context = PassContext::new().target(Target::interpreter()).disable("FoldBatchNorm");
    let got = context.scope(|| vm(module)).invoke("main", args).unwrap();
    got.as_adt().unwrap().fields().iter().map(crate::relax::testing::elements).collect()
}

/// The largest difference between results, as a share of the largest number before; `None` where other elements are NaN or the
/// shapes differ.
pub(super) fn difference(before: &[f32], after: &[f32]) -> Option<f32> {
    let most = before.iter().fold(1.0f32, |most, it| most.max(it.abs()));
    let mut largest = 0f32;
    for (before, after) in before.iter().zip(after) {
        let apart = (before - after).abs();
        let same = before.to_bits() == after.to_bits() || before.is_nan() && after.is_nan();
        if !same && apart.is_nan() {
            return None;
        }
        largest = largest.max(if same { 0.0 } else { apart });
    }
    (before.len() == after.len()).then_some(largest / most)
}
