//! For the tests: models and kernels for GPUs, whose code the CPU runs instead of a GPU.

use std::sync::Arc;

use tvm::codegen::cuda::set_image_compiler;
use tvm::prelude::*;
use tvm::tir::ThreadTag;
use tvm_build::{BuildError, Codegen, Kernel};

#[path = "../../../tests/cuda/emulated.rs"]
mod emulated;

/// Rows in blocks, for the kernel of a weighted sum.
#[schedule(super::blend)]
fn blend_blocks(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [i, j] = s.loops(y)?;
    s.bind(i, ThreadTag::BlockIdxX)?;
    s.bind(j, ThreadTag::ThreadIdxX)
}

/// Compiles them.
pub(crate) fn compile() -> Result<(), BuildError> {
    set_image_compiler(Some(Arc::new(emulated::Emulated)));
    super::digits().name("digits_gpu").cpu("x86-64").gpu(["sm_90", "sm_80"]).compile()?;
    let placed = super::digits().name("digits_placed").codegen(Codegen::C).cpu_levels(super::LEVELS);
    placed.place("Softmax", Device::cpu()).gpu(["sm_90a"]).compile()?;
    let blend = Kernel::of::<super::blend_vectors>().gpu_schedule::<blend_blocks>();
    blend.name("blend_gpu").cpu_levels(super::LEVELS).gpu(["sm_80"]).compile()?;
    set_image_compiler(None);
    Ok(())
}
