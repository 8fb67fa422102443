//! Kernels that the reference interpreter runs: a program can be executed without code generation.

use tvm_runtime::{HostArg, Kernel, Module, RuntimeError, Tensor, TensorView, Value};

use crate::ir::IRModule;
use crate::tir::interp::{InterpError, Program};
use crate::tir::kernel_sig;

/// A kernel for each tensor program of `module`, run by the [interpreter](crate::tir::interp). The twin of a code
/// generator's `build`.
///
/// # Errors
/// When a tensor program is malformed.
pub fn interpreted_kernels(module: &IRModule) -> Result<Module, InterpError> {
    let mut kernels = Module::default();
    for (gv, _) in module.functions() {
        if let Some(func) = module.prim_func(gv) {
            let program = Program::compile(func)?;
            let kernel = Kernel::host(kernel_sig(gv.name(), func), move |args| run(&program, args));
            // Names are unique in a module.
            kernels.add(kernel).expect("the names of a module are unique");
        }
    }
    Ok(kernels)
}

fn run(program: &Program, args: &mut [HostArg<'_>]) -> Result<(), RuntimeError> {
    let copy =
        |bytes: &[u8], shape: &[i64], dtype| Tensor::from_bytes(bytes, shape, dtype).map(Value::Tensor);
    let mut values = args
        .iter()
        .map(|arg| match arg {
            HostArg::In(view) => copy(view.bytes(), TensorView::shape(view), view.dtype()),
            HostArg::Out(view) => copy(view.bytes(), view.shape(), view.dtype()),
            HostArg::Int(value) => Ok(Value::Int(*value)),
            HostArg::Float(value) => Ok(Value::Float(*value)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    program.run(&mut values).map_err(|err| RuntimeError::other(err.to_string()))?;
    for (arg, value) in args.iter_mut().zip(&values) {
        if let (HostArg::Out(view), Value::Tensor(tensor)) = (arg, value) {
            view.bytes_mut().copy_from_slice(tensor.bytes()?);
        }
    }
    Ok(())
}
