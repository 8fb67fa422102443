//! CUDA C: the kernels of lowered tensor programs as one source, and what the host does to launch them.
//!
//! Requires the lowered form of `tvm_core::tir::transform` as [`lower_cuda`](tvm_core::pipeline::lower_cuda) makes it. Ensures:
//! the source needs no header, and no software of NVIDIA is needed to write it. Kernels call functions of the prelude only,
//! of which `prelude.h` has the definitions for GPUs; with the macro `TVM_EMULATED`, the includer defines those that C++ has no
//! words for. TVM counterpart: `CodeGenCUDA`.
//!
//! A failed assertion is recorded in memory of the GPU, and its thread ends; kernels that are launched after it in the same
//! call end at once. Waiting threads, and those of a warp that exchange values, do not wait for one that has ended (from `sm_70` on).
//!
//! Files: `image` compiles the source, by default with NVIDIA's library (`nvrtc`), and caches the code. `host` writes the host's
//! part of a program as data. `load` makes kernels of both, which the runtime launches; `objects` puts both into
//! artifacts. Statements and expressions are
//! those of [`crate::c`], in the dialect `Cuda`.

mod host;
mod image;
mod load;
#[cfg(feature = "cuda")]
mod nvrtc;
mod objects;

use std::fmt::Write as _;

use tvm_core::ir::IRModule;
use tvm_core::target::{GpuArch, Target};
use tvm_core::tir::analysis::DeviceKernel;
use tvm_core::tir::{
    Failure, Intrinsic, PrimCallee, PrimExpr, PrimFunc, Stmt, Visitor, walk_expr, walk_stmt,
};
use tvm_runtime::{CodeFormat, Module};

pub use host::CudaProgram;
pub use image::{ImageCompiler, ImageOptions, image_compiler, set_image_compiler};
pub(crate) use objects::objects;
pub use tvm_runtime::{Argument, LaunchPlan, Step};

use crate::c::{self, device::DeviceParam};
use crate::{CodeGenerator, CodegenError, EmitKind, Options, Unit};

const PRELUDE: &str = include_str!("prelude.h");
const NARROW: &str = include_str!("narrow.h");
const ATOMIC: &str = include_str!("atomic.h");

/// CUDA source, and the programs whose kernels it has.
#[derive(Clone, Debug)]
pub struct CudaSource {
    /// The text.
    pub text: String,
    /// What the host does for each program, in their order.
    pub programs: Vec<CudaProgram>,
    /// What the assertions in kernels report, by their number, which begins at 1.
    pub failures: Vec<Failure>,
}

/// A kernel of a [`CudaSource`].
#[derive(Clone, Debug)]
pub struct CudaKernel {
    /// Name in the source.
    pub name: String,
    /// The types of the parameters.
    pub(crate) params: Vec<DeviceParam>,
    /// The kernel in the program.
    pub(crate) kernel: DeviceKernel,
}

impl CudaKernel {
    /// True if threads of a block wait for each other, or exchange values.
    pub fn has_barriers(&self) -> bool {
        struct Find(bool);
        impl Visitor for Find {
            fn visit_expr(&mut self, expr: &PrimExpr) {
                self.0 |= matches!(expr, PrimExpr::Call(it) if matches!(
                    it.callee,
                    PrimCallee::Intrinsic(Intrinsic::StorageSync | Intrinsic::WarpShuffleXor)
                ));
                walk_expr(self, expr);
            }
        }
        let mut find = Find(false);
        find.visit_stmt(&self.kernel.body);
        find.0
    }
}

/// Generates the source of the kernels of `funcs` (symbol, lowered program).
///
/// # Errors
/// When a program is not in the lowered form, or uses a feature without a counterpart in CUDA C.
pub fn source(funcs: &[(String, PrimFunc)]) -> Result<CudaSource, CodegenError> {
    let mut unit = c::Unit::cuda();
    let mut programs = Vec::new();
    for (symbol, func) in funcs {
        unit.position = Default::default();
        let written = program(&mut unit, symbol, func);
        programs.push(written.map_err(|err| unit.position.error(func, for_cuda(err)))?);
    }
    let text = [PRELUDE, c::NUMBERS, NARROW, ATOMIC, &unit.functions].concat();
    Ok(CudaSource { text, programs, failures: unit.sites })
}

fn program(unit: &mut c::Unit, symbol: &str, func: &PrimFunc) -> Result<CudaProgram, CodegenError> {
    let found = DeviceKernel::all(func);
    let checks = found.iter().any(|kernel| has_checks(&kernel.body));
    let mut kernels = Vec::new();
    for (at, kernel) in found.into_iter().enumerate() {
        let name = format!("{symbol}_k{at}");
        let _ = writeln!(unit.functions, "{}", launch_comment(&kernel));
        let params = unit.device_kernel(&name, &kernel, checks)?;
        kernels.push(CudaKernel { name, params, kernel });
    }
    Ok(CudaProgram::new(func, kernels))
}

/// The launch of a kernel, for readers.
fn launch_comment(kernel: &DeviceKernel) -> String {
    let extents = |it: [PrimExpr; 3]| it.map(|it| it.to_string()).join(", ");
    format!("// grid ({}), block ({})", extents(kernel.grid()), extents(kernel.block())).replace('\n', " ")
}

fn has_checks(stmt: &Stmt) -> bool {
    struct Find(bool);
    impl Visitor for Find {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 |= matches!(stmt, Stmt::AssertStmt(_));
            walk_stmt(self, stmt);
        }
    }
    let mut find = Find(false);
    find.visit_stmt(stmt);
    find.0
}

/// `err` with the name of this code generator.
fn for_cuda(err: CodegenError) -> CodegenError {
    match err {
        CodegenError::NotSupported { what, .. } => CodegenError::NotSupported { target: "CUDA", what },
        other => other,
    }
}

/// The code generator.
pub(crate) struct Cuda;

impl CodeGenerator for Cuda {
    fn build(&self, module: &IRModule, target: &Target, options: Options) -> Result<Module, CodegenError> {
        load::build(module, target, options)
    }

    fn emit(&self, unit: Unit<'_>, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
        let code = |format| {
            let arch = unit.target.gpu_arch().unwrap_or(GpuArch::DEFAULT);
            let options = ImageOptions { arch, fast_math: unit.options.fast_math, format };
            image::compile(&source(unit.kernels)?, &options)
        };
        match kind {
            EmitKind::Cuda => Ok(source(unit.kernels)?.text.into_bytes()),
            EmitKind::Ptx => code(CodeFormat::Ptx),
            EmitKind::Cubin => code(CodeFormat::Cubin),
            EmitKind::C | EmitKind::LlvmIr | EmitKind::Asm | EmitKind::Object | EmitKind::SharedLibrary => {
                let what = "output other than CUDA C, PTX and cubins (`tvmc compile --emit cuda`); applications load an artifact (`tvmc compile MODEL --target cuda -o model.tvm`)";
                Err(CodegenError::NotSupported { target: "CUDA", what: what.to_string() })
            }
        }
    }
}
