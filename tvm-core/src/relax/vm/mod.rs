//! Lowering of graph functions to the virtual machine.
//!
//! TVM counterpart: `relax::vm_build`, `VMCodeGen`, Relay's `VMCompiler`.

mod bounds;
mod builder;
mod codegen;
mod kernels;
mod pattern;
mod shape;
mod value_type;

use tvm_runtime::vm::Executable;

use crate::ir::IRModule;
use crate::pass::{PassContext, PassError, Pipelines};
use crate::target::Target;

pub use codegen::vm_codegen;
pub use kernels::{interpreted_kernel, interpreted_kernels};
pub use value_type::value_type;

/// [`compile_for`] the target of the current [`PassContext`].
///
/// # Errors
/// What a pass or the code generator reports.
pub fn compile(module: IRModule) -> Result<(IRModule, Executable), PassError> {
    compile_for(module, &PassContext::current().target)
}

/// Runs the pipeline for graph functions ([`Pipelines::of`] the current context) and [`vm_codegen`]: returns the tensor
/// programs that are still to be built, and the executable that calls them with tensors on the device of `target`.
///
/// # Errors
/// What a pass or the code generator reports.
pub fn compile_for(module: IRModule, target: &Target) -> Result<(IRModule, Executable), PassError> {
    let context = PassContext::current().target(target.clone());
    let module = Pipelines::of(&context)?.graph.apply_in(module, &context)?;
    vm_codegen(&module, target.device()).map_err(|err| PassError::ir("VMCodeGen", err))
}

#[cfg(test)]
mod tests;
