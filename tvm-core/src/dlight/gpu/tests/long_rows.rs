//! Rows that are longer than what several blocks of a multiprocessor have beside each other.

use tvm_runtime::DimBound;

use super::{check, softmax};
use crate::dlight::gpu::schedule_for_gpu;
use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::{GpuArch, Target};
use crate::tir::{PrimExpr, PrimFunc, Scope};

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
    assert_eq!(loops.len(), 3, "the maximum is found while the row is copied: {text}");
    assert!(loops.iter().all(|it| !it[1].starts_with("if ")), "{text}");
    assert_eq!(text.matches("pragma_unroll = 8").count(), 3, "{text}");
    assert_eq!(text.matches(" < 545 {").count(), 4, "{text}");
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
