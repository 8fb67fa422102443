//! Kernels that the reference interpreter runs: a program can be executed without code generation.

use tvm_runtime::{HostArg, Kernel, Module, RuntimeError, Tensor, Value};

use crate::ir::IRModule;
use crate::tir::interp::{InterpError, Program};
use crate::tir::{PrimFunc, kernel_sig};

/// A kernel for each tensor program of `module`, run by the [interpreter](crate::tir::interp). The twin of a code
/// generator's `build`.
///
/// # Errors
/// When a tensor program is malformed.
pub fn interpreted_kernels(module: &IRModule) -> Result<Module, RuntimeError> {
    let funcs = module.functions().filter_map(|(gv, _)| Some((gv, module.prim_func(gv)?)));
    let kernels = funcs.map(|(gv, func)| interpreted_kernel(gv.name(), func));
    Module::new(kernels.collect::<Result<Vec<_>, _>>()?)
}

/// The kernel `name` that interprets `func`.
///
/// # Errors
/// When it is malformed.
pub fn interpreted_kernel(name: &str, func: &PrimFunc) -> Result<Kernel, RuntimeError> {
    let program = Program::compile(func).map_err(runtime_error)?;
    Ok(Kernel::host(kernel_sig(name, func), move |args| {
        let mut values = args.iter().map(to_value).collect::<Result<Vec<_>, _>>()?;
        program.run(&mut values).map_err(runtime_error)?;
        for (arg, value) in args.iter_mut().zip(&values) {
            if let (HostArg::Out(view), Value::Tensor(tensor)) = (arg, value) {
                view.bytes_mut().copy_from_slice(tensor.bytes()?);
            }
        }
        Ok(())
    }))
}

fn to_value(arg: &HostArg<'_>) -> Result<Value, RuntimeError> {
    Ok(match arg {
        HostArg::In(view) => Value::Tensor(Tensor::from_bytes(view.bytes(), view.shape(), view.dtype())?),
        HostArg::Out(view) if view.dtype().is_bool() => {
            // Memory that was used before and is not written yet holds any bytes.
            let bytes: Vec<u8> = view.bytes().iter().map(|&it| u8::from(it != 0)).collect();
            Value::Tensor(Tensor::from_bytes(&bytes, view.shape(), view.dtype())?)
        }
        HostArg::Out(view) => Value::Tensor(Tensor::from_bytes(view.bytes(), view.shape(), view.dtype())?),
        HostArg::Int(value) => Value::Int(*value),
        HostArg::Float(value) => Value::Float(*value),
    })
}

fn runtime_error(err: InterpError) -> RuntimeError {
    match err {
        InterpError::Runtime(err) => err,
        other => RuntimeError::Other(other.to_string()),
    }
}
