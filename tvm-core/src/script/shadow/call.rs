//! Calls of a shadow as a typed function, with the arguments, checks and errors of a compiled call.

use std::any::type_name;
use std::cell::RefCell;

use tvm_runtime::{CompiledFn, DimBound, HostArg, Kernel, RuntimeError};

use crate::script::PrimFuncDef;
use crate::support::{to_bf16, to_f16};

/// The shadow `run` of `P` as a function that is called like the compiled program.
pub fn reference<P: PrimFuncDef>(
    run: impl Fn(&mut [HostArg<'_>]) -> Result<(), RuntimeError> + Send + Sync + 'static,
) -> Result<CompiledFn<P::Args>, RuntimeError> {
    CompiledFn::new(Kernel::host(P::SIG.to_kernel_sig(), run))
}

thread_local! {
    /// Kernels that other kernels have called and that are still running.
    static RUNNING: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// A running kernel that another one has called; dropping it ends the call.
#[derive(Debug)]
pub struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

/// Begins a call of the kernel `name`, of type `P`, by another one; a kernel that calls itself panics.
#[track_caller]
pub fn enter<P>(name: &str) -> Running {
    let key = type_name::<P>();
    assert!(!RUNNING.with_borrow(|running| running.contains(&key)), "the kernel `{name}` calls itself");
    RUNNING.with_borrow_mut(|running| running.push(key));
    Running(())
}

/// Panics with the error in the arguments of a call, if any; the call of the outermost kernel reports it.
#[track_caller]
pub fn expect(checked: Result<(), RuntimeError>) {
    let error = checked.err().map(|error| error.to_string());
    assert!(error.is_none(), "{}", error.unwrap_or_default());
}

/// Panics with `message` unless `holds`; the call of the outermost kernel reports it.
#[track_caller]
pub fn assertion(holds: bool, message: &str) {
    assert!(holds, "assertion failed: {message}");
}

/// The error for arguments of other kinds than the signature's; the checks of a call have ruled it out.
pub fn arg_error(func: &str) -> RuntimeError {
    RuntimeError::Signature { func: func.into(), detail: "arguments of other kinds".into() }
}

/// Extent `axis` of an argument.
pub fn extent(shape: &[i64], axis: usize) -> usize {
    shape.get(axis).map_or(0, |&extent| extent as usize)
}

/// Checks an extent that is an expression of symbolic dimensions.
pub fn check_extent(
    func: &str,
    arg: &str,
    (axis, text): (usize, &str),
    expected: usize,
    shape: &[i64],
) -> Result<(), RuntimeError> {
    let (expected, got) = (expected as i64, extent(shape, axis) as i64);
    if expected == got {
        return Ok(());
    }
    let (func, arg, dim) = (func.into(), arg.into(), Some(text.into()));
    Err(RuntimeError::ArgExtent { func, arg, axis: axis as i64, expected, got, dim })
}

/// Checks the dimension `dim`, which is an axis of the argument `arg` or the argument itself, against its bounds.
pub fn check_bound(
    func: &str,
    (arg, axis): (&str, Option<usize>),
    dim: &str,
    bound: Option<DimBound>,
    got: i64,
) -> Result<(), RuntimeError> {
    let Some(bound) = bound.filter(|it| !it.contains(got)) else { return Ok(()) };
    let (func, arg, axis, dim) = (func.into(), arg.into(), axis.map(|axis| axis as i64), dim.into());
    Err(RuntimeError::ArgBound { func, arg, axis, dim, expected: bound.to_string().into(), got })
}

/// A Rust scalar type of a kernel's parameter.
pub trait ScalarArg: Sized {
    /// The value of the argument; `None` if it is of another kind.
    fn from_arg(arg: &HostArg<'_>) -> Option<Self>;
}

macro_rules! scalar_args {
    ($($ty:ty: $variant:ident |$it:ident| $value:expr;)*) => {$(
        impl ScalarArg for $ty {
            fn from_arg(arg: &HostArg<'_>) -> Option<Self> {
                if let HostArg::$variant($it) = arg { Some($value) } else { None }
            }
        }
    )*};
}

scalar_args! {
    f32: Float |it| *it as f32;
    f64: Float |it| *it;
    half::f16: Float |it| to_f16(*it);
    half::bf16: Float |it| to_bf16(*it);
    i8: Int |it| *it as i8;
    i16: Int |it| *it as i16;
    i32: Int |it| *it as i32;
    i64: Int |it| *it;
    u8: Int |it| *it as u8;
    u16: Int |it| *it as u16;
    u32: Int |it| *it as u32;
    u64: Int |it| *it as u64;
    bool: Int |it| *it != 0;
}

/// The value of a scalar argument.
pub fn scalar<T: ScalarArg>(func: &str, arg: &HostArg<'_>) -> Result<T, RuntimeError> {
    T::from_arg(arg).ok_or_else(|| arg_error(func))
}
