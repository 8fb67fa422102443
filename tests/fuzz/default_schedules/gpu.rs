//! Default schedules for GPUs of random programs, above all of products in tiles, and reductions by threads: run as threads by the interpreter, which reports
//! races and accesses that are not in bounds, and compared with the program as it is written.

use std::collections::BTreeMap;

use tvm::codegen::lowered;
use tvm::dlight::schedule_for_gpu;
use tvm::ir::IRModule;
use tvm::prelude::*;
use tvm::runtime::Value;
use tvm::target::GpuArch;
use tvm::tir::interp::{InterpErrorKind, Program as Interpreted};
use tvm_testing::{Budget, Rng};

use super::program::Program;
use super::{indexed, products, reductions, windows};

/// Statements and iterations of all threads at most.
const MAX_STEPS: u64 = 12_000_000;

#[test]
fn fuzz_default_gpu() {
    let makes: [fn(&mut Rng) -> Program; 13] = [
        windows::of_many_channels,
        windows::of_many_channels,
        windows::of_many_channels,
        windows::of_many_channels,
        windows::convolution,
        windows::pointwise,
        windows::transposed,
        products::product,
        reductions::reduction,
        reductions::norm,
        reductions::rows,
        reductions::position_or_softmax,
        indexed::scatter,
    ];
    let (mut programs, mut too_long) = (0, 0);
    let mut rules: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in Budget::new("default_gpu", 12) {
        let mut rng = Rng::new(seed);
        let program = (rng.pick(&makes))(&mut rng);
        let Ok(expected) = program.expected() else { continue };
        let func = &program.func;
        let head = || format!("seed {seed} of default_gpu, {:?}\n{func}", program.extents);
        let mut module = lowered(&IRModule::from_prim_func(func.clone()), &Target::cuda())
            .unwrap_or_else(|err| panic!("{err}\n{}", head()));
        let kernels = module.pop().expect("a module of one function").1;
        let mut args = expected.args.clone();
        let threads = Interpreted::compile(&kernels).unwrap_or_else(|err| panic!("{err}\n{}", head()));
        match threads.strict(seed).run_limited(&mut args, MAX_STEPS) {
            Ok(()) => programs += 1,
            Err(err) if matches!(err.kind, InterpErrorKind::StepLimit) => {
                too_long += 1;
                continue;
            }
            Err(err) => panic!("{err}\n{}\n{kernels}", head()),
        }
        let outputs = (0..args.len()).filter(|&i| program.is_output(i)).filter_map(|i| match &args[i] {
            Value::Tensor(tensor) => Some(tensor.clone()),
            _ => None,
        });
        let outputs: Vec<Tensor> = outputs.collect();
        program.compare(&expected, &outputs).unwrap_or_else(|err| panic!("{err}\n{}\n{kernels}", head()));
        let applied = schedule_for_gpu(func, GpuArch::DEFAULT.limits()).map(|it| it.1);
        applied.iter().flatten().for_each(|it| *rules.entry(it.rule).or_default() += 1);
    }
    println!("default_gpu: {programs} programs, {too_long} too long to run; blocks by rule: {rules:?}");
    assert!(programs < 12 || rules.contains_key("conv"), "no convolution is a product: {rules:?}");
}
