//! Rows that are longer than what several blocks of a multiprocessor have beside each other.

use tvm_runtime::{DataType, DimBound};

use super::{check, softmax};
use crate::dlight::gpu::schedule_for_gpu;
use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::{GpuArch, Target};
use crate::tir::{PrimExpr, PrimFunc, Scope};
use crate::{te, topi};

/// What the rule says of `func` on a GPU of this architecture.
fn parameters(func: &PrimFunc, arch: &str) -> String {
    let arch: GpuArch = arch.parse().unwrap();
    let (_, applied) = schedule_for_gpu(func, arch.limits()).unwrap();
    let [rows] = &applied[..] else { panic!("{applied:?}") };
    assert_eq!(rows.rule, "rows");
    rows.parameters.clone()
}

fn of_length(length: i64) -> PrimFunc {
    softmax(&[3, length].map(PrimExpr::index))
}

#[test]
fn they_are_read_once() {
    let kernels = check(&softmax(&[2, 2101].map(PrimExpr::index)), &[]);
    let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
    assert_eq!(kernel.dynamic().bytes.as_int(), Some(16816), "a multiple of 16 bytes");
    assert_eq!(kernel.dynamic().buffers.len(), 1);
}

/// Loops of threads have no conditions, which are after them, and several loads of each thread are under way.
#[test]
fn last_elements_are_apart() {
    let target = Target::cuda().with_arch("sm_90".parse().unwrap());
    let module = IRModule::from_prim_func(of_length(20_001));
    let context = PassContext::new().target(target.clone());
    let lowered = Pipelines::for_target(&target).tir.apply_in(module, &context).unwrap();
    let text = lowered.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let loops: Vec<&[&str]> = lines.windows(2).filter(|it| it[0].ends_with("in 0..19 {")).collect();
    assert_eq!(loops.len(), 4, "{text}");
    assert!(loops.iter().all(|it| !it[1].starts_with("if ")), "{text}");
    assert_eq!(text.matches("pragma_unroll = 8").count(), 4, "{text}");
    assert_eq!(text.matches(" < 545 {").count(), 4, "{text}");
}

fn rows_of(length: i64, dtype: DataType) -> PrimFunc {
    let x = te::placeholder("x", [3, length].map(PrimExpr::index), dtype);
    let y = topi::softmax(&x, 1);
    te::create_prim_func("softmax", &[x], &[y]).unwrap()
}

/// A block asks for its whole row before it waits for any of it, from the architecture on that can.
#[test]
fn they_are_under_way_together() {
    for (arch, dtype, length, copied) in [
        ("sm_90", DataType::F32, 20_000, Some(4)),
        ("sm_90", DataType::F64, 20_000, Some(2)),
        ("sm_80", DataType::F32, 20_001, Some(1)),
        ("sm_75", DataType::F32, 8000, None),
        ("sm_90", DataType::F16, 50_000, None),
    ] {
        let arch: GpuArch = arch.parse().unwrap();
        let func = rows_of(length, dtype);
        let (scheduled, _) = schedule_for_gpu(&func, arch.limits()).unwrap();
        let text = scheduled.to_string();
        assert_eq!(text.contains("async_copy"), copied.is_some(), "{text}");
        let lanes = copied.filter(|&it| it > 1).map(|it| format!("in 0..{it} {{"));
        assert!(
            lanes.is_none_or(|it| text.contains(&it)) && text.contains("vectorize") == (copied > Some(1)),
            "{text}"
        );
    }
}

#[test]
fn they_are_as_long_as_the_memory_of_the_architecture() {
    let shared = |length: i64, arch: &str| parameters(&of_length(length), arch).contains("in shared memory");
    // 8 bytes for each element.
    for (arch, kib) in [("sm_75", 64), ("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_90", 227)] {
        let most = (kib - 18) * 128;
        assert!(shared(most, arch) && !shared(most + 2048, arch), "{arch}");
    }
    // All threads that a block can have, if a multiprocessor runs one block.
    assert!(parameters(&of_length(20000), "sm_90").starts_with("4 blocks up to `y`, 1024 threads for a row"));
}

#[test]
fn dimensions_with_bounds() {
    let rows = |bound: Option<DimBound>| {
        let n = Var::index("n").within(bound);
        softmax(&[PrimExpr::from(Var::index("m")), PrimExpr::from(n)])
    };
    let bounded = rows(Some(DimBound::between(1, 5000).unwrap()));
    for [m, n] in [[1, 2100], [0, 3]] {
        let kernels = check(&bounded, &[m, n]);
        let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
        assert_eq!(kernel.dynamic().bytes.as_int(), Some(40_960), "five elements for each of 1024 threads");
        assert!(kernel.shared.iter().any(|it| it.buffer.scope == Scope::SharedDyn));
    }
    let free = rows(None);
    for [m, n] in [[2, 1], [1, 2300]] {
        let kernels = check(&free, &[m, n]);
        let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
        assert!(kernel.dynamic().buffers.is_empty(), "no length is known");
    }
}
