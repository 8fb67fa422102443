//! LLVM code generation: lowered tensor programs to machine code, in process or as objects.
//!
//! Requires the lowered form of `tvm_core::tir::transform`. TVM counterpart: `CodeGenLLVM`, `CodeGenCPU`.
//!
//! Files: [`machine`](self) describes the target, `function` turns one kernel into an LLVM function, `stmt`, `expr`,
//! `memory`, `arith`, `intrin` its parts, `parallel` outlines loop bodies, `jit` loads the result.

mod arith;
mod error;
mod expr;
mod function;
mod intrin;
mod jit;
mod machine;
mod memory;
mod parallel;
mod stmt;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use tvm_core::target::Target;
use tvm_core::tir::PrimFunc;

pub use error::LlvmError;
pub use jit::JitLibrary;

/// What the code generator is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Floats may be reassociated and are assumed to be finite.
    pub fast_math: bool,
}

/// What is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// LLVM IR as text, after optimisation.
    Ir,
    /// Assembly of the target.
    Assembly,
    /// An object file.
    Object,
}

/// Emits the kernels `funcs` (symbol, lowered program) as one unit.
///
/// # Errors
/// When a program is not in the lowered form or the target is unknown.
pub fn emit(funcs: &[(String, PrimFunc)], target: &Target, options: Options, output: Output) -> Result<Vec<u8>, LlvmError> {
    let context = Context::create();
    let machine = machine::create(target)?;
    let module = build(&context, funcs, &machine, options)?;
    let invalid = |err: inkwell::support::LLVMString| LlvmError::Invalid(err.to_string());
    Ok(match output {
        Output::Ir => module.print_to_string().to_bytes().to_vec(),
        Output::Assembly => machine.write_to_memory_buffer(&module, FileType::Assembly).map_err(invalid)?.as_slice().to_vec(),
        Output::Object => machine.write_to_memory_buffer(&module, FileType::Object).map_err(invalid)?.as_slice().to_vec(),
    })
}

/// Generates machine code for the kernels `funcs` in this process.
///
/// # Errors
/// When a program is not in the lowered form or the target is not this machine.
pub fn jit(funcs: &[(String, PrimFunc)], target: &Target, options: Options) -> Result<JitLibrary, LlvmError> {
    JitLibrary::new(|context| {
        let machine = machine::create(target)?;
        build(context, funcs, &machine, options)
    })
}

fn build<'ctx>(
    context: &'ctx Context,
    funcs: &[(String, PrimFunc)],
    machine: &TargetMachine,
    options: Options,
) -> Result<Module<'ctx>, LlvmError> {
    let module = context.create_module("tvm");
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    let version = module.add_global(context.i32_type(), None, "tvm_abi_version");
    version.set_initializer(&context.i32_type().const_int(u64::from(tvm_runtime::abi::ABI_VERSION), false));
    version.set_constant(true);
    for (symbol, func) in funcs {
        function::kernel(context, &module, symbol, func, options)?;
    }
    machine::tag_functions(context, &module, machine);
    module.verify().map_err(|err| LlvmError::Invalid(err.to_string()))?;
    let passes = PassBuilderOptions::create();
    passes.set_loop_vectorization(true);
    passes.set_loop_slp_vectorization(true);
    passes.set_loop_interleaving(true);
    passes.set_loop_unrolling(true);
    module.run_passes("default<O3>", machine, passes).map_err(|err| LlvmError::Invalid(err.to_string()))?;
    Ok(module)
}
