//! The interpreter as a target: a kernel that is a host function.

use tvm_core::tir::interp::{InterpError, Program};
use tvm_core::tir::{PrimFunc, kernel_sig};
use tvm_runtime::{HostArg, Kernel, RuntimeError, Tensor, Value};

use crate::CodegenError;

/// The kernel `name` that interprets `func`.
pub(crate) fn kernel(name: &str, func: &PrimFunc) -> Result<Kernel, CodegenError> {
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
