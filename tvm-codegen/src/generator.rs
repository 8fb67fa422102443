//! Code generators: one per target kind, behind one trait.
//!
//! TVM counterpart: the global functions `target.build.*`.

use tvm_core::ir::IRModule;
use tvm_core::pass::{PassContext, Pipelines};
use tvm_core::relax::vm::interpreted_kernel;
use tvm_core::target::{Target, TargetKind};
use tvm_core::tir::PrimFunc;
use tvm_runtime::Module;

use crate::driver::{context_for, prim_funcs, source_programs};
use crate::{CodegenError, c};

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitKind {
    /// C source.
    C,
    /// LLVM IR as text, after optimisation.
    LlvmIr,
    /// Assembly.
    Asm,
    /// An object file, position independent.
    Object,
    /// A shared library.
    SharedLibrary,
    /// CUDA C source.
    Cuda,
    /// PTX, by NVRTC (feature `cuda`).
    Ptx,
    /// Machine code for a GPU, by NVRTC (feature `cuda`).
    Cubin,
}

/// Options of all code generators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Optimisation level of the machine code, from 0 to 3; default 3.
    pub opt_level: u8,
    /// Floats may be reassociated and are assumed to be finite; default false.
    pub fast_math: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { opt_level: 3, fast_math: false }
    }
}

impl Options {
    /// The options of the current [`PassContext`]: its levels 0 and 1 are for quick compilation; 2 (the default) and higher
    /// are for speed, and select level 3.
    pub fn current() -> Options {
        let context = PassContext::current();
        let opt_level = match context.opt_level {
            level @ 0..=1 => level,
            _ => 3,
        };
        Options { opt_level, fast_math: context.config.fast_math }
    }
}

/// Kernels that are compiled together.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// Symbol and program, in the lowered form, of each kernel.
    pub kernels: &'a [(String, PrimFunc)],
    /// What the code is for; its kind may be another one than that of the code generator.
    pub target: &'a Target,
    /// Options of the code generator.
    pub options: Options,
}

/// Translates tensor programs for the targets of one kind.
pub trait CodeGenerator: Sync {
    /// Compiles the tensor programs of `module` and loads them into this process. The kernels have the names of the
    /// programs.
    ///
    /// # Errors
    /// When a program is malformed, or the target cannot express or run it.
    fn build(&self, module: &IRModule, target: &Target, options: Options) -> Result<Module, CodegenError>;

    /// Emits `unit` as `kind`.
    ///
    /// # Errors
    /// When the target cannot express a program, or has no output of this kind.
    fn emit(&self, unit: Unit<'_>, kind: EmitKind) -> Result<Vec<u8>, CodegenError>;
}

/// The code generator for targets of `kind`.
///
/// # Errors
/// When this build does not have it.
pub fn code_generator(kind: TargetKind) -> Result<&'static dyn CodeGenerator, CodegenError> {
    match kind {
        TargetKind::Interpreter => Ok(&Interpreter),
        TargetKind::Host if cfg!(feature = "llvm") => code_generator(TargetKind::Llvm),
        TargetKind::Host | TargetKind::C => Ok(&c::load::C),
        #[cfg(feature = "llvm")]
        TargetKind::Llvm => Ok(&crate::llvm::Llvm),
        #[cfg(not(feature = "llvm"))]
        TargetKind::Llvm => {
            let help = " (LLVM 19: `cargo xtask setup`)";
            Err(CodegenError::Unsupported { target: "llvm", feature: "llvm", help })
        }
        TargetKind::Cuda => Ok(&crate::cuda::Cuda),
    }
}

/// The reference interpreter, which has no code to emit.
struct Interpreter;

impl CodeGenerator for Interpreter {
    /// The interpreter runs programs as they are written: of the pipeline, only passes before the default ones run.
    fn build(&self, module: &IRModule, target: &Target, _: Options) -> Result<Module, CodegenError> {
        let context = context_for(module, target);
        let (source, _) = Pipelines::of(&context)?.source_and_lowering();
        let programs = source_programs(module, &source, &context)?;
        let kernels = prim_funcs(&programs).map(|(name, func)| interpreted_kernel(name, func));
        Ok(Module::new(kernels.collect::<Result<Vec<_>, _>>()?)?)
    }

    fn emit(&self, unit: Unit<'_>, _: EmitKind) -> Result<Vec<u8>, CodegenError> {
        let message = "the interpreter has no code to emit".into();
        Err(CodegenError::Target { target: unit.target.to_string(), message })
    }
}
