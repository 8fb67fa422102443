//! Compiles the digits model, and a kernel that prepares images for it, into the application. For the tests, it also compiles
//! both for several CPU levels, with each code generator that there is.

#[cfg(feature = "cuda")]
#[path = "build/gpu.rs"]
mod gpu;

use tvm::prelude::*;
use tvm_build::{BuildError, Codegen, Kernel, Model};

/// Scales pixels from 0..=16 to 0..=1 and adds a channel axis.
#[prim_func]
fn normalize(pixels: &Tensor<u8, n, 8, 8>, image: &mut Tensor<f32, n, 1, 8, 8>) {
    for [b, i, j] in grid([n, 8, 8]) {
        image[[b, 0, i, j]] = pixels[[b, i, j]] as f32 / 16.0;
    }
}

/// A weighted sum of rows, for the tests.
#[prim_func]
fn blend(a: &Tensor<f32, n, 4>, weight: f32, b: &Tensor<f32, n, 4>, y: &mut Tensor<f32, n, 4>) {
    for [i, j] in grid([n, 4]) {
        block("y", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = a[[vi, vj]] * weight + b[[vi, vj]];
        });
    }
}

#[schedule(blend)]
fn blend_vectors(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [_, j] = s.loops(y)?;
    s.vectorize(j)
}

const LEVELS: [&str; 3] = ["x86-64", "x86-64-v3", "x86-64-v4"];

fn main() -> Result<(), BuildError> {
    let has = |name: &str, what: &str| std::env::var(name).is_ok_and(|it| it.split(',').any(|it| it == what));
    let x86 = has("CARGO_CFG_TARGET_ARCH", "x86_64");
    let mut digits = digits();
    if x86 && !has("CARGO_CFG_TARGET_FEATURE", "avx2") {
        // The baseline is meant: the tests compare the levels with it.
        digits = digits.cpu("x86-64");
    }
    if cfg!(feature = "cuda") {
        digits = digits.gpu_if_available(["sm_80", "sm_90"]);
    }
    digits.compile()?;
    let levels = |kernel: Kernel| if x86 { kernel.cpu_levels(LEVELS) } else { kernel };
    levels(Kernel::of::<normalize>()).compile()?;
    levels(Kernel::of::<blend_vectors>()).name("blend_c").codegen(Codegen::C).compile()?;
    if cfg!(feature = "llvm") {
        levels(Kernel::of::<blend_vectors>()).name("blend_llvm").codegen(Codegen::Llvm).compile()?;
    }
    if x86 {
        digits_of(Codegen::C, "digits_c")?;
        if cfg!(feature = "llvm") {
            digits_of(Codegen::Llvm, "digits_llvm")?;
        }
        #[cfg(feature = "cuda")]
        gpu::compile()?;
    }
    Ok(())
}

fn digits() -> Model {
    Model::onnx("../data/digits_cnn/model.onnx").name("digits").dim("n", 1..=360)
}

fn digits_of(codegen: Codegen, name: &str) -> Result<(), BuildError> {
    digits().name(name).codegen(codegen).cpu_levels(LEVELS).compile().map(drop)
}
