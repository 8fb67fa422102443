//! Kernels that the reference interpreter runs, so that a program can be executed without code generation.

use tvm_runtime::abi::Status;
use tvm_runtime::{HostArg, Kernel, Module, RuntimeError, Tensor, Value};

use crate::ir::IRModule;
use crate::tir::interp::{InterpError, InterpErrorKind, Program};
use crate::tir::{PrimFunc, kernel_sig};

/// A kernel for each tensor program of `module`, run by the [interpreter](crate::tir::interp). The counterpart of a
/// code generator's `build`.
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
    let program = Program::compile(func).map_err(|err| runtime_error(name, err))?;
    let called: std::sync::Arc<str> = name.into();
    Ok(Kernel::cancellable_host(kernel_sig(name, func), move |args, cancel| {
        let mut values = args.iter().map(to_value).collect::<Result<Vec<_>, _>>()?;
        program.run_until(&mut values, cancel).map_err(|err| runtime_error(&called, err))?;
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
            // Reused memory that is not written yet holds any bytes, but a bool is 0 or 1.
            let bytes: Vec<u8> = view.bytes().iter().map(|&it| u8::from(it != 0)).collect();
            Value::Tensor(Tensor::from_bytes(&bytes, view.shape(), view.dtype())?)
        }
        HostArg::Out(view) => Value::Tensor(Tensor::from_bytes(view.bytes(), view.shape(), view.dtype())?),
        HostArg::Int(value) => Value::Int(*value),
        HostArg::Float(value) => Value::Float(*value),
    })
}

fn runtime_error(func: &str, err: InterpError) -> RuntimeError {
    let place = Some(err.span.text()).filter(|text| !text.is_empty());
    match err.kind {
        InterpErrorKind::Runtime(err) => err,
        InterpErrorKind::OutOfBounds { buffer, axis, index, extent } => RuntimeError::OutOfBounds {
            func: func.into(),
            buffer: Some(buffer),
            axis: axis as i64,
            index,
            extent,
            place,
        },
        InterpErrorKind::AxisDomain { block, axis, value, min: _, end } => RuntimeError::AxisDomain {
            func: func.into(),
            axis: format!("axis `{axis}` of block `{block}`").into(),
            value,
            end,
            place,
        },
        InterpErrorKind::Allocation { buffer, dtype: _, shape } if shape.iter().any(|&it| it < 0) => {
            let axis = shape.iter().position(|&it| it < 0).unwrap_or_default();
            RuntimeError::NegativeExtent {
                func: func.into(),
                buffer: Some(buffer),
                axis: axis as i64,
                extent: shape[axis],
                place: None,
            }
        }
        InterpErrorKind::Assert { what, status, .. } if status == Status::Assert as i32 => {
            let message = Some(what).filter(|it| !it.is_empty());
            RuntimeError::Assert { func: func.into(), message, place }
        }
        kind => RuntimeError::Other(InterpError { kind, ..err }.to_string()),
    }
}
