//! Which loops the rules bind, and that the programs compute what they did.

use tvm_runtime::DataType;

use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::{GpuArch, Target};
use crate::te;
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::Program;
use crate::tir::testing::{arguments, dense, stencil};
use crate::tir::{PrimExpr, PrimFunc};

use super::schedule_for_gpu;

/// Lowers `func` with its default schedule, and compares a run of its threads with a run of `func`.
fn check(func: &PrimFunc, dims: &[i64]) -> Vec<DeviceKernel> {
    let context = PassContext::new().target(Target::cuda());
    let pipeline = Pipelines::for_target(&Target::cuda()).tir;
    let lowered = pipeline.apply_in(IRModule::from_prim_func(func.clone()), &context).unwrap();
    let lowered = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
    let mut want = arguments(func, dims);
    Program::compile(func).unwrap().run(&mut want).unwrap();
    for seed in 0..3 {
        let mut got = arguments(func, dims);
        Program::compile(lowered)
            .unwrap()
            .strict(seed)
            .run(&mut got)
            .unwrap_or_else(|err| panic!("{err}\n{lowered}"));
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.as_tensor().unwrap(), want.as_tensor().unwrap());
            assert_eq!(got.bytes().unwrap(), want.bytes().unwrap(), "{lowered}");
        }
    }
    DeviceKernel::all(lowered)
}

fn threads(kernel: &DeviceKernel) -> Option<i64> {
    kernel.block()[0].as_int()
}

#[test]
fn every_block_becomes_a_kernel_of_many_threads() {
    let [m, n, k] = [20, 30, 4].map(PrimExpr::index);
    let kernels = check(&dense(m, n, k), &[]);
    assert!(kernels.len() >= 2 && kernels.iter().all(|it| threads(it) == Some(256)), "{kernels:?}");
    let free = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let [m, n, k] = free;
    let free = dense(m, n, k);
    for [m, n, k] in [[1, 1, 1], [17, 33, 3], [3, 0, 2]] {
        let kernels = check(&free, &[m, k, n]);
        assert!(kernels.len() >= 2 && kernels.iter().all(|it| threads(it) == Some(256)), "{kernels:?}");
    }
    let kernels = check(&stencil(PrimExpr::index(7), PrimExpr::index(5)), &[]);
    assert!(kernels.iter().all(|it| threads(it) > Some(30)), "{kernels:?}");
}

#[test]
fn the_rule_says_what_it_chose() {
    let [m, n, k] = [20, 30, 4].map(PrimExpr::index);
    let (func, applied) = schedule_for_gpu(&dense(m, n, k), GpuArch::DEFAULT.limits()).unwrap();
    let text: Vec<String> =
        applied.iter().map(|it| format!("{}: {} ({})", it.block, it.rule, it.parameters)).collect();
    assert_eq!(
        text,
        [
            "y: fallback (2 of 3 loops spatial, 256 threads in a block)",
            "o: fallback (2 of 2 loops spatial, 256 threads in a block)",
        ]
    );
    assert!(schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).is_none(), "it has a schedule now");
}

/// A sum of all elements has no independent iterations: one thread computes it.
#[test]
fn what_cannot_be_divided_runs_in_one_thread() {
    let n = PrimExpr::index(50);
    let x = te::placeholder("x", [n.clone()], DataType::I64);
    let r = te::reduce_axis("r", n);
    let y = te::compute("y", [PrimExpr::index(1)], &[&x], |_: &[PrimExpr]| te::sum(x.at([r.expr()]), &[&r]));
    let func = te::create_prim_func("f", &[x], &[y]).unwrap();
    assert_eq!(check(&func, &[]).iter().map(threads).collect::<Vec<_>>(), [Some(1)]);
}
