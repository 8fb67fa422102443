//! Growth of compilation work with program size. Each pass is measured at n, 2n and 4n, and the slope of the logarithms
//! is printed (1: linear, 2: quadratic).
#![allow(missing_docs, reason = "criterion's macros")]
#![allow(clippy::print_stdout, reason = "the slopes are the result")]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tvm::arith::Analyzer;
use tvm::ir::{Attrs, BaseFunc, IRModule, Op, Span, Type, Var};
use tvm::pass::PassContext;
use tvm::pipeline::default_build;
use tvm::relax::{Arg, BlockBuilder};
use tvm::runtime::{DataType, Tensor};
use tvm::te;
use tvm::tir::schedule::Schedule;
use tvm::tir::{PrimExpr, PrimFunc, Range};

/// Prepares the work to be measured for a given size.
type Work = fn(usize) -> Box<dyn FnMut()>;

fn vector() -> Type {
    Type::tensor(vec![PrimExpr::index(2)], DataType::F32)
}

/// A module with `main(x)`, which contains the values that `body` emits.
fn graph(body: impl FnOnce(&mut BlockBuilder, &Var) -> Var) -> IRModule {
    let x = Var::new("x", vector());
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| Ok(body(b, &x).into()))
        .unwrap_or_else(|err| panic!("{err}"));
    builder.into_module()
}

fn call(b: &mut BlockBuilder, name: &str, args: Vec<Arg>) -> Var {
    let op = Op::get(name).expect("an operator");
    b.emit_op("v", op, args, Attrs::new(), &Span::none()).unwrap_or_else(|err| panic!("{err}"))
}

fn pipeline(module: IRModule) -> Box<dyn FnMut()> {
    let pass = default_build();
    Box::new(move || {
        let context = PassContext::new().without_instruments();
        drop(context.scope(|| pass.apply(module.clone())).unwrap_or_else(|err| panic!("{err}")));
    })
}

/// An element-wise program over `n` elements.
fn copy(n: i64) -> PrimFunc {
    let x = te::placeholder("x", [PrimExpr::index(n)], DataType::F32);
    let y = te::compute("y", x.shape().to_vec(), &[&x], |i| x.at(i) + 1);
    te::create_prim_func("copy", &[x], &[y]).expect("a program")
}

fn splits(n: usize) -> Box<dyn FnMut()> {
    let func = copy(1_000_003);
    Box::new(move || {
        let mut s = Schedule::new(func.clone()).expect("it can be scheduled");
        let y = s.block("y").expect("the block");
        let [mut outer] = s.loops(y).expect("one loop");
        for _ in 0..n {
            [outer, _] = s.split(outer, [None, Some(2)]).expect("a legal split");
        }
    })
}

fn concat(n: usize) -> Box<dyn FnMut()> {
    pipeline(graph(|b, x| {
        let parts = Arg::Tuple((0..n).map(|_| Arg::from(x)).collect());
        call(b, "concat", vec![parts])
    }))
}

fn maximum(n: usize) -> Box<dyn FnMut()> {
    pipeline(graph(|b, x| (0..n).fold(x.clone(), |v, _| call(b, "maximum", vec![(&v).into(), x.into()]))))
}

fn doubled(n: usize) -> Box<dyn FnMut()> {
    pipeline(graph(|b, x| (0..n).fold(x.clone(), |v, _| call(b, "add", vec![(&v).into(), (&v).into()]))))
}

fn nested_index(n: usize) -> Box<dyn FnMut()> {
    let i = Var::index("i");
    let mut analyzer = Analyzer::new();
    analyzer.bind_range(&i, &Range::from_extent(1 << 20));
    let x = PrimExpr::from(&i);
    let expr = (0..n as i64).fold(x.clone(), |e, k| (e * 3 + &x).floormod(1000 + k));
    Box::new(move || drop(analyzer.simplify(&expr)))
}

fn create_prim_func(n: usize) -> Box<dyn FnMut()> {
    let x = te::placeholder("x", [PrimExpr::index(4)], DataType::F32);
    let stage = |t: te::TensorExpr| te::compute("t", t.shape().to_vec(), &[&t], |i| t.at(i) + 1);
    let y = (0..n).fold(x.clone(), |t, _| stage(t));
    let (inputs, outputs) = ([x], [y]);
    Box::new(move || drop(te::create_prim_func("f", &inputs, &outputs).expect("a program")))
}

fn common_subexpressions(n: usize) -> Box<dyn FnMut()> {
    let module = graph(|b, x| {
        (0..n).fold(x.clone(), |v, i| {
            let weight = Tensor::from_slice(&[i as f32, 1.0], &[2]).expect("two elements");
            call(b, "add", vec![(&v).into(), weight.into()])
        })
    });
    let pass = tvm::relax::transform::eliminate_common_subexpr();
    Box::new(move || {
        let context = PassContext::new().without_instruments();
        drop(context.scope(|| pass.apply(module.clone())).unwrap_or_else(|err| panic!("{err}")));
    })
}

fn module_add(n: usize) -> Box<dyn FnMut()> {
    let func = copy(4);
    Box::new(move || {
        let mut module = IRModule::new();
        for _ in 0..n {
            module.add("f", BaseFunc::Prim(func.clone().into()));
        }
    })
}

fn print(n: usize) -> Box<dyn FnMut()> {
    let x = te::placeholder("x", [PrimExpr::index(4)], DataType::F32);
    let y = te::compute("y", x.shape().to_vec(), &[&x], |i| (0..n).fold(x.at(i), |e, _| e + x.at(i)));
    let func = te::create_prim_func("f", &[x], &[y]).expect("a program");
    Box::new(move || drop(func.to_string()))
}

/// The shortest time of three runs.
fn time(work: &mut dyn FnMut()) -> Duration {
    let run = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(run).min().unwrap_or_default()
}

fn scale(c: &mut Criterion) {
    let table: [(&str, usize, Work); 9] = [
        ("splits of one loop", 500, splits),
        ("concat of n inputs", 250, concat),
        ("maximum of n inputs", 250, maximum),
        ("v = v + v", 250, doubled),
        ("nested index expressions", 500, nested_index),
        ("create_prim_func", 2_500, create_prim_func),
        ("CSE beside weights", 2_500, common_subexpressions),
        ("IRModule::add", 2_500, module_add),
        ("print", 5_000, print),
    ];
    let mut group = c.benchmark_group("scale");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for (name, n, make) in table {
        let times = [n, 2 * n, 4 * n].map(|n| {
            let mut work = make(n);
            group.bench_function(BenchmarkId::new(name, n), |b| b.iter(&mut work));
            time(&mut work).as_secs_f64()
        });
        let slope = (times[2] / times[0]).ln() / 4f64.ln();
        println!("{name}: {times:?} s at n, 2n, 4n for n = {n}: slope {slope:.2}");
    }
    group.finish();
}

criterion_group!(benches, scale);
criterion_main!(benches);
