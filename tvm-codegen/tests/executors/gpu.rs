//! Programs that are scheduled for GPUs, mutants of their source that must be found, and what the source looks like.

use std::process::Command;

use tvm_codegen::{CodegenError, EmitKind, cuda as generator, emit};
use tvm_core::ir::{IRModule, Var};
use tvm_core::target::Target;
use tvm_core::te;
use tvm_core::tir::schedule::Schedule;
use tvm_core::tir::{ForKind, PrimExpr, PrimFunc, Scope, ThreadTag};
use tvm_runtime::{Backend, DataType, LaunchArg, Value};

use super::cuda::{emulate_source, interpret, lower, skip};
use super::data::Rng;
use super::suite::{Case, check, matmul, tensor};

const F32: DataType = DataType::F32;

/// `x w` in tiles of `tile` × `tile`, whose operands are in shared memory. Each thread sums one element, in memory of its own.
fn tiled([m, n, k]: [PrimExpr; 3], tile: i64) -> PrimFunc {
    tiled_in(Scope::Shared, [m, n, k], tile, &[])
}

/// The same, with the operands in the scope `scope`, and these annotations of the loop over groups of terms.
pub(crate) fn tiled_in(scope: Scope, [m, n, k]: [PrimExpr; 3], tile: i64, hints: &[&str]) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), k.clone()], F32);
    let w = te::placeholder("w", [k.clone(), n.clone()], F32);
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [m, n], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]) * w.at([r.expr(), i[1].clone()]), &[&r])
    });
    let mut s = Schedule::new(te::create_prim_func("product", &[x, w], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let out = s.cache_write(y, 0, Scope::Local).unwrap();
    let [i, j, r] = s.loops(y).unwrap();
    let [io, ii] = s.split(i, [None, Some(tile)]).unwrap();
    let [jo, ji] = s.split(j, [None, Some(tile)]).unwrap();
    let [ro, ri] = s.split(r, [None, Some(tile)]).unwrap();
    s.reorder([io, jo, ro, ii, ji, ri]).unwrap();
    s.reverse_compute_at(out, jo).unwrap();
    let mut inner = Vec::new();
    for operand in 0..2 {
        let part = s.cache_read(y, operand, scope).unwrap();
        s.compute_at(part, ro).unwrap();
        inner.push(part);
    }
    let init = s.decompose_reduction(y, ro).unwrap();
    inner.extend([init, out]);
    // From outside to inside: each step is about what the threads of the kernel so far share.
    s.bind(io, ThreadTag::BlockIdxY).unwrap();
    s.bind(jo, ThreadTag::BlockIdxX).unwrap();
    for block in inner {
        let loops = s.get_loops(block).unwrap();
        let [.., row, column] = loops[..] else { panic!("a tile has two loops") };
        s.bind(row, ThreadTag::ThreadIdxY).unwrap();
        s.bind(column, ThreadTag::ThreadIdxX).unwrap();
    }
    s.bind(ii, ThreadTag::ThreadIdxY).unwrap();
    s.bind(ji, ThreadTag::ThreadIdxX).unwrap();
    for hint in hints {
        s.annotate(ro, hint, true).unwrap();
    }
    s.into_func()
}

pub(crate) fn symbols() -> [PrimExpr; 3] {
    ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)))
}

pub(crate) fn args([m, n, k]: [i64; 3], rng: &mut Rng) -> Vec<Value> {
    [[m, k], [k, n], [m, n]].map(|shape| tensor(&shape, F32, rng)).to_vec()
}

#[test]
fn tiles_in_shared_memory() {
    let mut rng = Rng(21);
    let fixed = |sizes: [i64; 3], rng: &mut Rng| Case {
        func: tiled(sizes.map(PrimExpr::index), 8),
        args: vec![args(sizes, rng)],
        tolerance: 1e-5,
    };
    let sizes = [[8, 8, 8], [17, 9, 20], [1, 1, 1], [3, 30, 5], [0, 3, 3]];
    let free = Case {
        func: tiled(symbols(), 4),
        args: sizes.map(|it| args(it, &mut rng)).to_vec(),
        tolerance: 1e-5,
    };
    // The programs have threads, which no CPU has.
    let dynamic = Case {
        func: tiled_in(Scope::SharedDyn, symbols(), 4, &[]),
        args: sizes.map(|it| args(it, &mut rng)).to_vec(),
        tolerance: 1e-5,
    };
    for case in [fixed([16, 24, 32], &mut rng), fixed([13, 7, 19], &mut rng), free, dynamic] {
        let module = IRModule::from_prim_func(case.func.clone());
        let programs = lower(&module);
        let calls = [case.args.clone()];
        let want = interpret(&[("the schedule".into(), matmul([ForKind::Serial; 3]))], &calls);
        close(&interpret(&programs, &calls), &want);
        if let Some(got) = super::cuda::emulate(&programs, &calls) {
            close(&got, &want);
        }
    }
}

pub(crate) fn close(got: &[Vec<Vec<Value>>], want: &[Vec<Vec<Value>>]) {
    assert_eq!(far(got, want), None);
}

/// A difference between the outputs.
pub(crate) fn far(got: &[Vec<Vec<Value>>], want: &[Vec<Vec<Value>>]) -> Option<String> {
    let numbers = |all: &[Vec<Vec<Value>>]| -> Vec<f32> {
        all.iter().flatten().flat_map(|args| args[2].as_tensor().unwrap().to_vec::<f32>().unwrap()).collect()
    };
    let (got, want) = (numbers(got), numbers(want));
    let wrong = |(got, want): &(&f32, &f32)| {
        let close = (*got - *want).abs() <= 1e-4 * want.abs().max(1.0);
        !close
    };
    let at = got.iter().zip(&want).find(wrong)?;
    Some(format!("{} instead of {}", at.0, at.1))
}

/// The source with one change that makes it wrong: the emulator must stop, or compute something else.
#[test]
fn mutants_are_found() {
    let sizes = [13, 9, 18];
    let module = IRModule::from_prim_func(tiled(sizes.map(PrimExpr::index), 4));
    let programs = lower(&module);
    let source = generator::source(&programs).unwrap();
    let calls = [vec![args(sizes, &mut Rng(5)), args(sizes, &mut Rng(6))]];
    let want = interpret(&programs, &calls);
    let Some(right) = emulate_source(&source, &calls) else { return };
    close(&right.unwrap(), &want);
    let (prelude, kernels) = source.text.split_at(source.text.find("// grid").unwrap());
    let barrier = "(void)tvm_barrier();";
    let count = kernels.matches(barrier).count();
    assert!(count >= 2, "{kernels}");
    let without = |at: usize| {
        let mut parts: Vec<String> = kernels.split(barrier).map(String::from).collect();
        let next = parts.remove(at + 1);
        parts[at] += &next;
        parts.join(barrier)
    };
    let mut mutants: Vec<(String, String)> =
        (0..count).map(|at| (format!("without barrier {at}"), without(at))).collect();
    for (from, to) in [
        ("= threadIdx.x;", "= threadIdx.y;"),
        ("= blockIdx.y;", "= blockIdx.x;"),
        ("< 13)", "< 15)"),
        ("< 18)", "< 17)"),
    ] {
        // The last one: the first bound is one of a tile, of which more elements may be copied than are used.
        let at = kernels.rfind(from).unwrap_or_else(|| panic!("{from} in {kernels}"));
        let mutant = [&kernels[..at], to, &kernels[at + from.len()..]].concat();
        mutants.push((format!("`{from}` is `{to}`"), mutant));
    }
    for (what, kernels) in mutants {
        let mutant = generator::CudaSource { text: format!("{prelude}{kernels}"), ..source.clone() };
        let found = match emulate_source(&mutant, &calls).unwrap() {
            Ok(got) => far(&got, &want).is_some(),
            Err(_) => true,
        };
        assert!(found, "{what} is not found:\n{kernels}");
    }
}

/// Places in the memory whose size the launch gives: a kernel that writes beyond it, or over another buffer, is found.
#[test]
fn mutants_of_dynamic_memory_are_found() {
    let sizes = [13, 9, 18];
    let module = IRModule::from_prim_func(tiled_in(Scope::SharedDyn, sizes.map(PrimExpr::index), 4, &[]));
    let programs = lower(&module);
    let source = generator::source(&programs).unwrap();
    let calls = [vec![args(sizes, &mut Rng(5))]];
    let want = interpret(&programs, &calls);
    let plan = source.programs[0].plan(&calls[0][0]).unwrap();
    let generator::Step::Launch { shared, .. } = &plan.steps[0];
    assert_eq!(*shared, 2 * 4 * 4 * 4);
    let Some(right) = emulate_source(&source, &calls) else { return };
    close(&right.unwrap(), &want);
    for (from, to) in
        [("(tvm_dynamic + 64)", "(tvm_dynamic + 80)"), ("(tvm_dynamic + 64)", "(tvm_dynamic + 48)")]
    {
        assert!(source.text.contains(from), "{}", source.text);
        let mutant = generator::CudaSource { text: source.text.replace(from, to), ..source.clone() };
        let found = match emulate_source(&mutant, &calls).unwrap() {
            Ok(got) => far(&got, &want).is_some(),
            Err(_) => true,
        };
        assert!(found, "`{to}` is not found");
    }
}

/// A kernel that finds an index outside of a buffer fails the call, and kernels after it do nothing.
#[test]
fn failures_in_kernels_end_the_call() {
    let x = te::placeholder("x", [PrimExpr::index(8)], F32);
    let at = te::placeholder("at", [PrimExpr::index(4)], DataType::I64);
    let y = te::compute("y", [PrimExpr::index(4)], &[&x, &at], |i: &[PrimExpr]| x.at([at.at(i.to_vec())]));
    let func = te::create_prim_func("gather", &[x, at], &[y]).unwrap();
    let programs = lower(&IRModule::from_prim_func(func));
    let source = generator::source(&programs).unwrap();
    let call = |index: i64| {
        let at = tvm_runtime::Tensor::from_slice(&[0, 7, index, 1], &[4]).unwrap();
        let mut rng = Rng(3);
        vec![tensor(&[8], F32, &mut rng), Value::Tensor(at), tensor(&[4], F32, &mut rng)]
    };
    let good = [vec![call(3)]];
    let want = interpret(&programs, &good);
    let Some(got) = emulate_source(&source, &good) else { return };
    close(&got.unwrap(), &want);
    for bad in [8, -1, i64::MAX, i64::MIN] {
        let err = emulate_source(&source, &[vec![call(bad)]]).unwrap().unwrap_err();
        assert!(err.contains("a kernel failed") && err.contains(&bad.to_string()), "{err}");
    }
}

/// A launch is planned from shapes, and arguments that do not fit are errors.
#[test]
fn the_host_checks_arguments() {
    let programs = lower(&IRModule::from_prim_func(matmul([ForKind::Serial; 3])));
    let source = generator::source(&programs).unwrap();
    let plan = |shapes: [[i64; 2]; 3]| {
        source.programs[0]
            .plan(&shapes.map(|shape| tensor(&shape, F32, &mut Rng(1))))
            .map_err(|err| err.to_string())
    };
    let good = plan([[40, 50], [50, 60], [40, 60]]).unwrap();
    let last = good.steps.last().unwrap();
    let generator::Step::Launch { grid, block, .. } = last;
    assert_eq!((grid, block), (&[80, 1, 1], &[32, 8, 1]));
    assert!(plan([[0, 3], [3, 4], [0, 4]]).unwrap().steps.is_empty(), "there is nothing to compute");
    let err = plan([[4, 5], [6, 7], [4, 7]]).unwrap_err();
    assert_eq!(err, "an argument does not fit: expected 5, got 6");
}

/// Symbolic extents beyond 2³¹ are refused, constant ones are planned, with indices of 64 bits.
#[test]
fn large_extents_are_planned_or_refused() {
    let source = |n: PrimExpr| {
        let x = te::placeholder("x", [n], DataType::U8);
        let y = te::compute("y", [x.shape()[0].clone()], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()));
        let programs = lower(&IRModule::from_prim_func(te::create_prim_func("same", &[x], &[y]).unwrap()));
        generator::source(&programs).unwrap()
    };
    type Launch = ([u32; 3], [u32; 3]);
    let plan = |source: &generator::CudaSource, n: i64| -> Result<Option<Launch>, String> {
        let arg = LaunchArg::Tensor { shape: &[n], dtype: DataType::U8 };
        let plan = source.programs[0].plan_launch(&[arg, arg]).map_err(|err| err.to_string())?;
        match &plan.steps[..] {
            [] => Ok(None),
            [generator::Step::Launch { grid, block, .. }] => Ok(Some((*grid, *block))),
            steps => panic!("{steps:?}"),
        }
    };
    let fixed = source(PrimExpr::index(1 << 33));
    assert_eq!(plan(&fixed, 1 << 33), Ok(Some(([1 << 23, 1, 1], [256, 1, 1]))));
    assert!(fixed.text.contains("* 1024ll"), "{}", fixed.text);
    let free = source(Var::index("n").into());
    assert_eq!(plan(&free, (1 << 31) - 1), Ok(Some(([1 << 23, 1, 1], [256, 1, 1]))));
    let err = plan(&free, 1 << 31).unwrap_err();
    let what = "a GPU kernel with symbolic shapes takes tensors of fewer than 2^31 elements: `x`";
    assert_eq!(err, format!("{what}: expected 2147483647, got 2147483648"));
    let err = plan(&free, 1 << 40).unwrap_err();
    assert!(err.contains("a GPU runs at most 2147483647 iterations of a loop over blockIdx.x"), "{err}");
    assert!(plan(&free, i64::MAX).is_err() && plan(&free, -1).map_or(true, |it| it.is_none()));
}

#[test]
fn source_is_the_same_each_time_and_only_of_cuda() {
    let module = IRModule::from_prim_func(matmul([ForKind::Serial; 3]));
    let target: Target = "cuda -arch=sm_90".parse().unwrap();
    let text = emit(&module, &target, EmitKind::Cuda).unwrap();
    assert_eq!(text, emit(&module, &target, EmitKind::Cuda).unwrap());
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("extern \"C\" __global__ void __launch_bounds__(256, 2) tvm_kernel_matmul_k0("),
        "{text}"
    );
    // Only what no kernel writes may be read from the cache for such data.
    assert!(text.contains("float *__restrict__ a,") && text.contains("float *c"), "{text}");
    assert!(!text.contains("#include"), "{text}");
    for (target, kind) in
        [(&target, EmitKind::Object), (&target, EmitKind::C), (&Target::c(), EmitKind::Cuda)]
    {
        let err = emit(&module, target, kind).unwrap_err();
        assert!(err.to_string().contains("does not support"), "{kind:?}: {err}");
    }
    match tvm_codegen::build(&module, &target) {
        Ok(built) => assert_eq!(built.get("matmul").unwrap().backend(), Backend::Device),
        Err(CodegenError::Unsupported { feature, .. }) => {
            assert!(feature == "cuda" && cfg!(not(feature = "cuda")));
        }
        Err(err) => assert!(err.to_string().contains("libnvrtc is not found"), "{err}"),
    }
}

/// Clang checks the syntax and the types of the text for the device, where it is installed.
#[test]
fn clang_accepts_the_source() {
    // Barriers, asynchronous copies with and without conditions, vectors.
    let pipelined = tiled_in(Scope::Shared, symbols(), 4, &["software_pipeline"]);
    let mut text = generator::source(&lower(&IRModule::from_prim_func(pipelined))).unwrap().text;
    assert!(text.contains("tvm_async_copy<1>("), "{text}");
    text += "__global__ void vectors(float *x, uint8_t *y) { tvm_copy<4>(x, x + 4); tvm_copy<2>(y, y + 2, x[0] > 0); }";
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("kernels.cu");
    std::fs::write(&input, text).unwrap();
    let words = dir.path().join("words.h");
    std::fs::write(&words, include_str!("clang_words.h")).unwrap();
    let mut command = Command::new("clang-19");
    command.args(["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib"]);
    command.args(["-fsyntax-only", "-Wno-unknown-cuda-version", "-include"]).arg(words).arg(&input);
    let Ok(out) = command.output() else { return skip("the syntax of CUDA kernels: there is no clang-19") };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Programs whose author chose parallel loops or vectors run on threads as well.
#[test]
fn loops_for_cpus_run_on_gpus() {
    let mut rng = Rng(8);
    let kinds = [ForKind::Parallel, ForKind::Vectorized, ForKind::Unrolled];
    let args = [[5, 4, 3], [300, 2, 2]].map(|it| args(it, &mut rng)).to_vec();
    check(&[Case { func: matmul(kinds), args, tolerance: 1e-5 }]);
}
