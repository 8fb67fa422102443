//! Tests of the files that are written for a kernel, and of kernels that are refused. `examples/build_rs_app` compiles, links
//! and runs wrappers.

use std::path::Path;

use tvm::prelude::*;
use tvm_core::ir::Span;
use tvm_core::script::{FuncSig, PrimFuncDef};
use tvm_core::tir::PrimFunc;
use tvm_runtime::{DimSig, KernelSig, ParamKind, ParamSig};

use crate::kernel_wrapper::KernelWrapper;
use crate::{BuildError, Codegen, Kernel};

#[prim_func]
fn scale(x: &Tensor<f32, n, 4>, factor: f32, y: &mut Tensor<f32, n, 4>) {
    for [i, j] in grid([n, 4]) {
        block("y", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = x[[vi, vj]] * factor;
        });
    }
}

#[schedule(scale)]
fn vectorized(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [_, j] = s.loops(y)?;
    s.vectorize(j)
}

/// A kernel that cannot be built.
struct Refused;

impl PrimFuncDef for Refused {
    type Args = <scale as PrimFuncDef>::Args;
    const SIG: FuncSig = <scale as PrimFuncDef>::SIG;

    fn prim_func() -> Result<PrimFunc, IrError> {
        Err(IrError::new("no block is named `z`", &Span::none()))
    }
}

#[prim_func]
fn sum(x: &Tensor<f32, 4096>, y: &mut Tensor<f32, 1>) {
    let mut sum = 0.0f32;
    for i in 0..4096 {
        sum += x[[i]];
    }
    y[[0]] = sum;
}

/// A builder for this machine.
fn of<D: PrimFuncDef>(dir: &Path) -> Kernel {
    Kernel::of::<D>().codegen(Codegen::C).out_dir(dir)
}

#[test]
fn files_of_a_kernel() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let compile = |dir: &Path| of::<vectorized>(dir).name("scale_fast").compile().unwrap();
    let compiled = compile(dirs[0].path());
    assert!(std::fs::metadata(&compiled.library).unwrap().len() > 500);
    let wrapper = std::fs::read_to_string(&compiled.wrapper).unwrap();
    for expected in [
        "pub struct ScaleFast {",
        "::tvm_runtime::CompiledFn<(::tvm_runtime::In<f32, 2>, f32, ::tvm_runtime::Out<f32, 2>, )>",
        "pub fn call(&self, x: impl ::tvm_runtime::TypedArg<::tvm_runtime::In<f32, 2>>, factor: f32, y: impl ::tvm_runtime::TypedArg<\
         ::tvm_runtime::Out<f32, 2>>) -> Result<(), ::tvm_runtime::RuntimeError> {",
        "shape: vec![::tvm_runtime::DimSig::Var(\"n\".into()), ::tvm_runtime::DimSig::Const(4)]",
        "(None, \"scale\", scale_fast_",
        "fn scale(x: &Tensor<f32, n, 4>, factor: f32, y: &mut Tensor<f32, n, 4>)",
    ] {
        assert!(wrapper.contains(expected), "{expected} is not in\n{wrapper}");
    }
    assert!(wrapper.contains(&format!("TARGET: &'static str = {:?}", compiled.target)), "{wrapper}");
    let facade = std::fs::read_to_string(dirs[0].path().join("scale_fast.facade.rs")).unwrap();
    assert_eq!(facade.replace("::tvm::runtime", "::tvm_runtime"), wrapper);
    let again = compile(dirs[1].path());
    assert_eq!(std::fs::read_to_string(again.wrapper).unwrap(), wrapper);
    let code = |dir: usize| std::fs::read(dirs[dir].path().join(source_name(&wrapper))).unwrap();
    assert!(code(0) == code(1), "two compilations differ");
}

/// The name of the C source beside a wrapper.
fn source_name(wrapper: &str) -> String {
    let (_, rest) = wrapper.split_once("library: \"").unwrap();
    format!("{}.c", rest.split('"').next().unwrap())
}

#[test]
fn fast_math_changes_the_code() {
    let [exact, fast] = [false, true].map(|fast_math| {
        let dir = tempfile::tempdir().unwrap();
        let files = of::<sum>(dir.path()).fast_math(fast_math).compile().unwrap();
        std::fs::read(files.library).unwrap()
    });
    assert!(exact != fast, "a sum that may be reassociated is compiled as one that may not");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_kernel_for_several_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let files = of::<scale>(dir.path()).cpu_levels(["x86-64-v4", "x86-64", "x86-64-v3"]).compile().unwrap();
    assert!(files.target.ends_with("-cpu=x86-64,x86-64-v3,x86-64-v4"), "{}", files.target);
    let wrapper = std::fs::read_to_string(files.wrapper).unwrap();
    for (level, suffix) in [("x86-64", "v1"), ("x86-64-v3", "v3"), ("x86-64-v4", "v4")] {
        let line = wrapper.lines().find(|line| line.contains(&format!("(Some({level:?}), \"scale\"")));
        assert!(line.is_some_and(|line| line.contains(&format!("_{suffix}_"))), "{level}: {wrapper}");
    }
    // It needs what the lowest level has.
    assert!(wrapper.contains("features: [\"sse\", \"sse2\"],"), "{wrapper}");
}

#[test]
fn what_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut bare = scale::prim_func().unwrap();
    bare.params = Default::default();
    let kernels: [(Kernel, &[&str]); 5] = [
        (of::<scale>(dir.path()).name("no-name"), &["`no-name` cannot name a kernel", ".name("]),
        (of::<Refused>(dir.path()), &["cannot build kernel `scale`", "`z`"]),
        (
            Kernel::new(bare).codegen(Codegen::C).out_dir(dir.path()),
            &["kernel `scale` has 0 parameters: a typed call has 1 to 12"],
        ),
        (
            of::<scale>(dir.path()).target("aarch64-unknown-linux-gnu").cpu_levels(["x86-64", "x86-64-v3"]),
            &["kernel `scale`: ", "aarch64"],
        ),
        (
            of::<scale>(dir.path()).target("mips-none-nowhere"),
            &["cannot compile kernel `scale` for mips-none-nowhere: "],
        ),
    ];
    for (kernel, expected) in kernels {
        let err = kernel.compile().unwrap_err();
        let message = err.to_string();
        for expected in expected {
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        }
    }
    let written: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(
        !written.iter().any(|it| it.extension().is_some_and(|it| it == "rs" || it == "a")),
        "{written:?}"
    );
    if std::env::var_os("OUT_DIR").is_none() {
        let err = Kernel::of::<scale>().compile().unwrap_err();
        assert!(
            matches!(&err, BuildError::NoOutDir { item } if item.to_string() == "kernel `scale`"),
            "{err}"
        );
    }
}

#[test]
fn wrappers_hold_no_foreign_code() {
    let evil = "x`\"\n*/ } fn evil() { \\";
    let param = |kind| ParamSig {
        name: evil.into(),
        kind,
        dtype: DataType::BF16,
        shape: vec![DimSig::Expr(evil.into())],
    };
    let signature =
        KernelSig { name: evil.into(), params: vec![param(ParamKind::In), param(ParamKind::Out)] };
    let units = [(None, "big_1".to_string())];
    let target = Target::c();
    let features = ["sse2".to_string()];
    let (name, library) = ("big", "tvm_big_1");
    let wrapper = KernelWrapper {
        name,
        library,
        target: &target,
        signature: &signature,
        features: &features,
        units: &units,
        gpu: None,
    };
    let text = wrapper.text("::tvm::runtime");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("*/ } fn evil")), "{text}");
    assert!(
        text.contains(
            "x_fn_evil: impl ::tvm::runtime::TypedArg<::tvm::runtime::In<::tvm::runtime::half::bf16, 1>>"
        ),
        "{text}"
    );
    assert!(text.contains("x_fn_evil_2: impl ::tvm::runtime::TypedArg<::tvm::runtime::Out<"), "{text}");
}
