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
    for seed in 0..1 {
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
    kernel.block().iter().try_fold(1, |count, it| Some(count * it.as_int()?))
}

#[test]
fn every_block_becomes_a_kernel_of_many_threads() {
    let [m, n, k] = [20, 30, 4].map(PrimExpr::index);
    let kernels = check(&dense(m, n, k), &[]);
    assert!(kernels.len() == 2 && kernels.iter().all(|it| threads(it) == Some(150)), "{kernels:?}");
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
            "y: fallback (2 of 3 loops spatial, 150 threads in a block)",
            "o: fallback (2 of 2 loops spatial, 150 threads in a block)",
        ]
    );
    assert!(schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).is_none(), "it has a schedule now");
}

/// Axes of known length inside of one of any length are threads, the other one is blocks.
#[test]
fn loops_of_any_length_are_blocks() {
    let n = PrimExpr::from(Var::index("n"));
    let shape = [n, PrimExpr::index(5), PrimExpr::index(60)];
    let x = te::placeholder("x", shape.clone(), DataType::I64);
    let y = te::compute("y", shape, &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 3);
    let func = te::create_prim_func("f", &[x], &[y]).unwrap();
    for n in [0, 1, 7] {
        let kernels = check(&func, &[n]);
        let [kernel] = &kernels[..] else { unreachable!("there is one block: {kernels:?}") };
        assert_eq!(threads(kernel), Some(240));
    }
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

/// `x w`, of `batch` matrices each.
fn product(batch: Option<i64>, [m, n, k]: [PrimExpr; 3]) -> PrimFunc {
    let lead: Vec<PrimExpr> = batch.into_iter().map(PrimExpr::index).collect();
    let shape = |rest: [&PrimExpr; 2]| [&lead[..], &rest.map(Clone::clone)].concat();
    let x = te::placeholder("x", shape([&m, &k]), DataType::I64);
    let w = te::placeholder("w", shape([&k, &n]), DataType::I64);
    let r = te::reduce_axis("r", k.clone());
    let y = te::compute("y", shape([&m, &n]), &[&x, &w], |i: &[PrimExpr]| {
        let (lead, last) = i.split_at(i.len() - 2);
        let (row, column) = (&last[0], &last[1]);
        let at = |a: PrimExpr, b: PrimExpr| [lead, &[a, b]].concat();
        te::sum(x.at(at(row.clone(), r.expr())) * w.at(at(r.expr(), column.clone())), &[&r])
    });
    te::create_prim_func("product", &[x, w], &[y]).unwrap()
}

#[test]
fn products_have_tiles() {
    let rules = |func: &PrimFunc| {
        let (_, applied) = schedule_for_gpu(func, GpuArch::DEFAULT.limits()).unwrap();
        applied.iter().map(|it| format!("{} {}", it.rule, it.parameters)).collect::<Vec<_>>()
    };
    let tiles = ["matmul tiles of 64x64x16, 4x4 in a thread"];
    for (batch, sizes) in [(None, [70, 65, 33]), (Some(2), [33, 40, 37])] {
        let func = product(batch, sizes.map(PrimExpr::index));
        assert_eq!(rules(&func), tiles, "{sizes:?}");
        let kernels = check(&func, &[]);
        assert!(kernels.iter().any(|it| it.shared.len() == 2), "{kernels:?}");
    }
    let free = product(None, ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name))));
    assert_eq!(rules(&free), tiles);
    for [m, n, k] in [[1, 1, 1], [7, 70, 18], [0, 3, 2]] {
        check(&free, &[m, k, n]);
    }
}

#[test]
fn rows_have_a_block_of_threads() {
    let rows = |shape: &[PrimExpr]| {
        let x = te::placeholder("x", shape.to_vec(), DataType::I64);
        let (last, lead) = shape.split_last().unwrap();
        let r = te::reduce_axis("r", last.clone());
        let lead = if lead.is_empty() { vec![PrimExpr::index(1)] } else { lead.to_vec() };
        let count = shape.len() - 1;
        let y = te::compute("y", lead, &[&x], |i: &[PrimExpr]| {
            te::max(x.at([&i[..count], &[r.expr()]].concat()), &[&r])
        });
        te::create_prim_func("rows", &[x], &[y]).unwrap()
    };
    let [m, n] = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let fixed = |shape: &[i64]| rows(&shape.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>());
    let free = rows(&[m, n]);
    let cases: [(PrimFunc, bool, &[&[i64]]); 5] = [
        (fixed(&[3, 512]), true, &[&[]]),
        (fixed(&[2, 3, 1000]), false, &[&[]]),
        (fixed(&[700]), false, &[&[]]),
        (fixed(&[1024]), true, &[&[]]),
        (free, false, &[&[3, 5], &[1, 1], &[2, 700]]),
    ];
    for (func, shared, dims) in cases {
        let (_, applied) = schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).unwrap();
        assert_eq!(applied[0].rule, "reduction", "{func}");
        for dims in dims {
            let kernels = check(&func, dims);
            assert_eq!(kernels.iter().any(|it| !it.shared.is_empty()), shared, "{applied:?}");
            assert!(kernels.iter().any(|it| threads(it) == Some(256)), "{applied:?}");
        }
    }
}
