//! Costs of calls: a typed call of a one-element kernel, and one instruction of the virtual machine.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, criterion_group, criterion_main};
use tvm::codegen::compile_module;
use tvm::prelude::*;
use tvm::runtime::Value;
use tvm::runtime::vm::Workspace;

#[prim_func]
fn add_one(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for i in 0..1 {
        y[[i]] = x[[i]] + 1.0;
    }
}

/// Length of the list over which the measured function recurses (tail recursion, a loop of the virtual machine).
const LENGTH: usize = 1000;

/// Instructions per element: check_tensor, get_tag, if, two get_field, tail_invoke.
const INSTRUCTIONS: usize = 6;

#[relay::adt]
enum List {
    Nil,
    Cons(Tensor<f32>, Box<List>),
}

#[relay::func]
fn last(x: Tensor<f32>, l: List) -> Tensor<f32> {
    match l {
        List::Nil => x,
        List::Cons(h, t) => last(h, *t),
    }
}

#[relax::func]
fn increment(x: Tensor<f32, 1>) -> Tensor<f32, 1> {
    x + 1.0
}

/// A call of a model of one element: with a new result each time, and with results given back.
fn models(c: &mut Criterion) {
    let vm =
        compile_module(&increment::module().expect("well formed"), &Target::host()).expect("it compiles");
    let x = [Value::Tensor(Tensor::from_vec(vec![1.0f32], &[1]).expect("a tensor"))];
    let mut group = c.benchmark_group("model of one element");
    group.bench_function("new result", |b| b.iter(|| vm.invoke("increment", &x)));
    let mut workspace = Workspace::new();
    group.bench_function("result given back", |b| {
        b.iter(|| {
            let y = vm.invoke_in(&mut workspace, "increment", &x).expect("it runs");
            workspace.recycle(y);
        });
    });
    group.finish();
}

fn calls(c: &mut Criterion) {
    let f = add_one::compile(&Target::host()).expect("the kernel compiles");
    let (x, mut y) = ([41.0f32], [0.0f32]);
    f.call(&x, &mut y).expect("it runs");
    assert_eq!(y, [42.0]);
    c.bench_function("typed call of a one-element kernel", |b| b.iter(|| f.call(&x, &mut y)));

    let vm =
        compile_module(&last::module().expect("well formed"), &Target::interpreter()).expect("it compiles");
    let scalar = |value: f32| Value::Tensor(Tensor::scalar(value));
    let nil = Value::from(tvm::runtime::Adt::new(0, vec![]));
    let list =
        (0..LENGTH).fold(nil, |tail, i| tvm::runtime::Adt::new(1, vec![scalar(i as f32), tail]).into());
    let mut group = c.benchmark_group("virtual machine");
    group.throughput(criterion::Throughput::Elements((LENGTH * INSTRUCTIONS) as u64));
    group.bench_function("instructions of a match, two fields, a tail call", |b| {
        b.iter(|| vm.invoke("last", &[scalar(0.0), list.clone()]));
    });
    group.finish();
}

criterion_group!(benches, calls, models);
criterion_main!(benches);
