//! Attention written as products and a softmax: it becomes one operator, whose kernel gives what the parts give.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tvm::codegen::compile_module;
use tvm::ir::IRModule;
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::relax::transform::fuse_attention;
use tvm::runtime::Value;

#[relax::func]
fn scaled(
    q: Tensor<f32, 1, 3, m, 16>,
    k: Tensor<f32, 1, 3, n, 16>,
    v: Tensor<f32, 1, 3, n, 20>,
) -> Tensor<f32, 1, 3, m, 20> {
    let scores = matmul(q, permute_dims(k, axes = [0, 1, 3, 2])) * 0.25;
    softmax(scores, -1).matmul(v)
}

#[relax::func]
fn masked(
    q: Tensor<f32, 2, m, 7>,
    k: Tensor<f32, 2, n, 7>,
    v: Tensor<f32, 2, n, 64>,
    mask: Tensor<f32, m, n>,
) -> Tensor<f32, 2, m, 64> {
    let scores = matmul(q, permute_dims(k, axes = [0, 2, 1])) / 3.0 + mask;
    softmax(scores, -1).matmul(v)
}

#[relax::func]
fn fixed(
    q: Tensor<f32, 2, 40, 64>,
    k: Tensor<f32, 2, 129, 64>,
    v: Tensor<f32, 2, 129, 64>,
) -> Tensor<f32, 2, 40, 64> {
    softmax(matmul(q, permute_dims(k, axes = [0, 2, 1])), -1).matmul(v)
}

/// The weights are a result as well.
#[relax::func]
fn weights(
    q: Tensor<f32, 2, 5, 8>,
    k: Tensor<f32, 2, 6, 8>,
    v: Tensor<f32, 2, 6, 4>,
) -> (Tensor<f32, 2, 5, 4>, Tensor<f32, 2, 5, 6>) {
    let weights = softmax(matmul(q, permute_dims(k, axes = [0, 2, 1])), -1);
    (weights.matmul(v), weights)
}

#[relax::func]
fn other_axis(
    q: Tensor<f32, 2, 6, 8>,
    k: Tensor<f32, 2, 6, 8>,
    v: Tensor<f32, 2, 6, 4>,
) -> Tensor<f32, 2, 6, 4> {
    softmax(matmul(q, permute_dims(k, axes = [0, 2, 1])), 1).matmul(v)
}

#[relax::func]
fn scaled_by_tensor(
    q: Tensor<f32, 2, 6, 8>,
    k: Tensor<f32, 2, 6, 8>,
    v: Tensor<f32, 2, 6, 4>,
    s: Tensor<f32, 6>,
) -> Tensor<f32, 2, 6, 4> {
    softmax(matmul(q, permute_dims(k, axes = [0, 2, 1])) * s, -1).matmul(v)
}

/// Keys that get their place among the axes where they are turned.
#[relax::func]
fn turned_with_heads(
    q: Tensor<f32, 2, 3, 6, 8>,
    k: Tensor<f32, 2, 9, 3, 8>,
    v: Tensor<f32, 2, 3, 9, 4>,
) -> Tensor<f32, 2, 3, 6, 4> {
    softmax(matmul(q, permute_dims(k, axes = [0, 2, 3, 1])), -1).matmul(v)
}

#[relax::func]
fn not_transposed(
    q: Tensor<f32, 2, 6, 6>,
    k: Tensor<f32, 2, 6, 6>,
    v: Tensor<f32, 2, 6, 4>,
) -> Tensor<f32, 2, 6, 4> {
    softmax(matmul(q, permute_dims(k, axes = [0, 1, 2])), -1).matmul(v)
}

fn is_fused(module: &IRModule) -> bool {
    fuse_attention().apply(module.clone()).unwrap().to_string().contains("nn.attention")
}

#[test]
fn parts_of_attention_are_one_operator() {
    for module in [scaled::module(), masked::module(), fixed::module(), turned_with_heads::module()] {
        let module = module.unwrap();
        assert!(is_fused(&module), "{module}");
    }
    for module in
        [weights::module(), other_axis::module(), scaled_by_tensor::module(), not_transposed::module()]
    {
        let module = module.unwrap();
        assert!(!is_fused(&module), "{module}");
    }
}

fn values(shape: &[i64], seed: usize) -> Value {
    let count = shape.iter().product::<i64>() as usize;
    let data: Vec<f32> = (0..count).map(|i| (((i * 37 + seed * 11) % 61) as f32 - 30.0) / 16.0).collect();
    Value::Tensor(Tensor::from_vec(data, shape).unwrap())
}

/// The results of `main` on `target`, fused and in parts.
fn check(module: &IRModule, shapes: &[Vec<Vec<i64>>]) {
    let parts = PassContext::new()
        .disable("FuseAttention")
        .scope(|| compile_module(module, &Target::interpreter()))
        .unwrap();
    let name = module.functions().next().unwrap().0.name().to_string();
    let targets = ["llvm", "c", "llvm -vector-bits=256 -vector-registers=16", "c -vector-bits=128 -l2=4096"];
    for target in targets.iter().filter(|it| tvm_testing::checks(it, cfg!(feature = "llvm"))) {
        let target: Target = target.parse().unwrap();
        let fused = compile_module(module, &target).unwrap();
        for shapes in shapes {
            let args: Vec<Value> = shapes.iter().enumerate().map(|(i, shape)| values(shape, i)).collect();
            let run = |vm: &tvm::runtime::vm::Vm| -> Vec<f32> {
                let res: Tensor = vm.invoke(&name, &args).unwrap().try_into().unwrap();
                res.to_vec().unwrap()
            };
            let (got, want) = (run(&fused), run(&parts));
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 || a.is_nan() && b.is_nan();
            assert!(
                got.len() == want.len() && got.iter().zip(&want).all(close),
                "{name} of {shapes:?} on {target}"
            );
        }
    }
}

#[test]
fn attention_is_what_its_parts_are() {
    let sizes = [(1, 1), (5, 7), (33, 17), (40, 129), (64, 64), (0, 3)];
    let of = |[m, n]: [i64; 2]| vec![vec![1, 3, m, 16], vec![1, 3, n, 16], vec![1, 3, n, 20]];
    check(&scaled::module().unwrap(), &sizes.map(|(m, n)| of([m, n])));
    let of = |[m, n]: [i64; 2]| vec![vec![2, m, 7], vec![2, n, 7], vec![2, n, 64], vec![m, n]];
    check(&masked::module().unwrap(), &sizes.map(|(m, n)| of([m, n])));
    check(&fixed::module().unwrap(), &[vec![vec![2, 40, 64], vec![2, 129, 64], vec![2, 129, 64]]]);
    check(
        &turned_with_heads::module().unwrap(),
        &[vec![vec![2, 3, 6, 8], vec![2, 9, 3, 8], vec![2, 3, 9, 4]]],
    );
}
