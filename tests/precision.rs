//! Narrow operands and weights on request: whole numbers that the narrow types hold give the same results as f32, on every target.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tvm::codegen::compile_module;
use tvm::ir::IRModule;
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::Value;
use tvm_testing::Rng;

/// Whole numbers from -3 to 3.
fn numbers(rng: &mut Rng, shape: &[i64]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.range(-3, 3) as f32).collect();
    Tensor::from_vec(values, shape).unwrap()
}

/// Convolutions of 3 and of many channels, pooling, a sum of two values, and a product; sums stay below 2²⁴.
fn network(seed: u64) -> IRModule {
    let mut rng = Rng::new(seed);
    let [w1, w2, w3, w4] = [&[24, 3, 3, 3][..], &[24, 24, 1, 1], &[24, 1, 3, 3], &[24, 19]]
        .map(|shape: &[i64]| numbers(&mut rng, shape));
    let network = relax!(|x: Tensor<f32, n, 3, 13, 10>| -> Tensor<f32, n, 19> {
        let a = clip(conv2d(x, w1, padding = [1, 1]), -3.0, 3.0);
        let b = max_pool2d(a, pool_size = [2, 2], strides = [2, 2]);
        let c = clip(conv2d(b, w2) + b, -2.0, 2.0);
        let d = clip(conv2d(c, w3, padding = [1, 1], groups = 24), -3.0, 3.0);
        matmul(max(d, axis = [2, 3]), w4)
    });
    network.module().unwrap()
}

fn run(vm: &tvm::runtime::vm::Vm, x: &Tensor) -> Vec<f32> {
    let result: Tensor = vm.invoke("main", &[Value::Tensor(x.clone())]).unwrap().try_into().unwrap();
    result.to_vec().unwrap()
}

#[test]
fn whole_numbers_are_exact_in_narrow_types() {
    let seed = 1;
    let module = network(seed);
    let mut rng = Rng::new(seed + 10);
    let images = [1, 2, 5].map(|n| numbers(&mut rng, &[n, 3, 13, 10]));
    let want = compile_module(&module, &Target::interpreter()).unwrap();
    let targets =
        ["llvm", "c", "llvm -vector-bits=256 -vector-registers=16", "c -vector-bits=128", "interpreter"];
    for target in targets.iter().filter(|it| tvm_testing::checks(it, cfg!(feature = "llvm"))) {
        let target: Target = target.parse().unwrap();
        for precision in [Precision::Bf16, Precision::F16] {
            let context = PassContext::new().configure(|config| config.precision = precision);
            let vm = context.scope(|| compile_module(&module, &target)).unwrap();
            for x in &images {
                assert_eq!(run(&vm, x), run(&want, x), "{precision} on {target}, {:?}", x.shape());
            }
        }
    }
}

/// Products whose weights reach ±`most` in each group of 32 terms, so that scales are 1 and sums are exact.
fn product(most: f32) -> IRModule {
    let weight = |i: i64| if i % 11 == 3 { most } else { (i * 5 % 15) as f32 - 7.0 };
    let values: Vec<f32> = (0..64 * 19).map(|i| weight(i / 19 + i % 19 * 3)).collect();
    let w = Tensor::from_vec(values, &[64, 19]).unwrap();
    let product = relax!(|x: Tensor<f32, n, 64>| -> Tensor<f32, n, 19> { matmul(x, w) + 1.0 });
    product.module().unwrap()
}

#[test]
fn weights_of_integers_are_exact_with_scales_of_one() {
    let mut rng = Rng::new(3);
    let inputs = [0, 1, 4, 33].map(|n| numbers(&mut rng, &[n, 64]));
    for (precision, most) in [(Precision::Int8Weights, 127.0), (Precision::Int4Weights, 7.0)] {
        let module = product(most);
        let want = compile_module(&module, &Target::interpreter()).unwrap();
        let targets = ["llvm", "c", "c -vector-bits=128", "interpreter"];
        for target in targets.iter().filter(|it| tvm_testing::checks(it, cfg!(feature = "llvm"))) {
            let target: Target = target.parse().unwrap();
            let context = PassContext::new().configure(|config| config.precision = precision);
            let vm = context.scope(|| compile_module(&module, &target)).unwrap();
            for x in &inputs {
                assert_eq!(run(&vm, x), run(&want, x), "{precision} on {target}, {:?}", x.shape());
            }
        }
    }
}
