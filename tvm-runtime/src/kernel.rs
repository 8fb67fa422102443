//! Kernels: a signature and an entry point, which is native code, a host function, or a program for a device.
//!
//! TVM counterpart: a `PackedFunc` made from a `PrimFunc`. A native kernel checks its arguments itself and reports a
//! [`Status`](crate::abi::Status); here the status becomes an error that names the parameter.
#![allow(unsafe_code, reason = "calls generated code; each block says why it is sound")]

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::abi::{CallContext, KernelArg, KernelFn, Status};
use crate::context::{take_failure, with_context};
use crate::device::Order;
use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::host_arg::{HostArg, with_host_args, with_raw_args};
use crate::launch::DeviceProgram;
use crate::status;
use crate::thread_pool::{ThreadPool, panic_message};
use crate::vm::{CallOptions, CancelToken};

/// One extent in a signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DimSig {
    /// An extent known at compile time.
    Const(i64),
    /// A symbolic dimension, by name.
    Var(String),
    /// An expression of symbolic dimensions, in the syntax of the DSL; only the kernel itself evaluates it.
    Expr(String),
}

impl DimSig {
    /// The extent, if it is constant.
    pub fn as_const(&self) -> Option<i64> {
        if let DimSig::Const(extent) = self { Some(*extent) } else { None }
    }
}

/// Role of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ParamKind {
    /// A tensor that the kernel reads.
    In,
    /// A tensor that the kernel writes (and may read).
    Out,
    /// A scalar that is passed by value.
    Scalar,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ParamSig {
    /// Name of the parameter.
    pub name: String,
    /// Role of the parameter.
    pub kind: ParamKind,
    /// Element type of the tensor, or type of the scalar.
    pub dtype: DataType,
    /// Extents; empty for a scalar.
    pub shape: Vec<DimSig>,
}

/// The signature of a kernel; `Display` writes it in the syntax of the DSL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelSig {
    /// Name of the kernel; its symbol derives from it.
    pub name: String,
    /// Parameters, in order.
    pub params: Vec<ParamSig>,
}

impl fmt::Display for DimSig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DimSig::Const(value) => write!(f, "{value}"),
            DimSig::Var(name) => f.write_str(name),
            DimSig::Expr(expr) => write!(f, "{{ {expr} }}"),
        }
    }
}

impl DimSig {
    /// Text of the dimension for error messages; `None` for a constant.
    pub fn label(&self) -> Option<Arc<str>> {
        match self {
            DimSig::Const(_) => None,
            DimSig::Var(label) | DimSig::Expr(label) => Some(label.as_str().into()),
        }
    }
}

impl fmt::Display for ParamSig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reference = match self.kind {
            ParamKind::Scalar => return write!(f, "{}: {}", self.name, self.dtype),
            ParamKind::In => "&",
            ParamKind::Out => "&mut ",
        };
        write!(f, "{}: {reference}Tensor<{}", self.name, self.dtype)?;
        self.shape.iter().try_for_each(|dim| write!(f, ", {dim}"))?;
        write!(f, ">")
    }
}

impl fmt::Display for KernelSig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fn {}(", self.name)?;
        fmt_list(f, &self.params)?;
        write!(f, ")")
    }
}

/// Writes `items` separated by commas.
pub(crate) fn fmt_list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(i, item)| write!(f, "{}{item}", if i == 0 { "" } else { ", " }))
}

/// A host function that acts as a kernel. It receives checked views of its arguments, in the order of the signature, and
/// the token that cancels the call.
pub type HostFn = dyn Fn(&mut [HostArg<'_>], Option<&CancelToken>) -> Result<(), RuntimeError> + Send + Sync;

/// Kind of code that runs when a kernel is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Machine code.
    Native,
    /// A function of the host: the reference interpreter, if the program was compiled for it.
    Host,
    /// Kernels of a GPU.
    Device,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Native => "native code",
            Backend::Host => "interpreter",
            Backend::Device => "kernels of a GPU",
        })
    }
}

enum Entry {
    Native { func: KernelFn, keep: Arc<dyn Any + Send + Sync> },
    Host(Box<HostFn>),
    Device(DeviceProgram),
}

struct Inner {
    sig: KernelSig,
    entry: Entry,
}

/// A callable kernel; cheap to clone, callable from any thread.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

impl Kernel {
    /// Makes a kernel from machine code. `library` stays alive as long as the kernel.
    ///
    /// # Safety
    /// `func` follows the kernel ABI ([`crate::abi`]), does what `sig` says (reads inputs, writes only outputs, all
    /// within the extents that it checked), may run in several threads at once, and is valid while `library` lives.
    pub unsafe fn native(sig: KernelSig, func: KernelFn, library: Arc<dyn Any + Send + Sync>) -> Kernel {
        Kernel(Arc::new(Inner { sig, entry: Entry::Native { func, keep: library } }))
    }

    /// Makes a kernel from code for a device.
    ///
    /// # Safety
    /// Called with arguments that its plan accepts, the program does what `sig` says: it reads inputs and writes only outputs,
    /// all within the extents that the plan checked; the plan passes each kernel the parameters that it takes.
    pub unsafe fn device(sig: KernelSig, program: DeviceProgram) -> Kernel {
        Kernel(Arc::new(Inner { sig, entry: Entry::Device(program) }))
    }

    /// Makes a kernel from a Rust function. Element types, ranks and constant extents are checked before it is called, and
    /// no output overlaps another argument.
    pub fn host(
        sig: KernelSig,
        func: impl Fn(&mut [HostArg<'_>]) -> Result<(), RuntimeError> + Send + Sync + 'static,
    ) -> Kernel {
        Kernel::cancellable_host(sig, move |args, _| func(args))
    }

    /// As [`Kernel::host`], for a function that may take long, such as the reference interpreter: it looks at the token
    /// of its call from time to time, and returns [`RuntimeError::Cancelled`].
    pub fn cancellable_host(
        sig: KernelSig,
        func: impl Fn(&mut [HostArg<'_>], Option<&CancelToken>) -> Result<(), RuntimeError>
        + Send
        + Sync
        + 'static,
    ) -> Kernel {
        Kernel(Arc::new(Inner { sig, entry: Entry::Host(Box::new(func)) }))
    }

    /// Signature of the kernel.
    pub fn signature(&self) -> &KernelSig {
        &self.0.sig
    }

    /// Name of the kernel.
    pub fn name(&self) -> &str {
        &self.0.sig.name
    }

    /// Kind of code that a call runs.
    pub fn backend(&self) -> Backend {
        match self.0.entry {
            Entry::Native { .. } => Backend::Native,
            Entry::Host(_) => Backend::Host,
            Entry::Device(_) => Backend::Device,
        }
    }

    /// The code and the launches of a kernel that runs on a device.
    pub fn device_program(&self) -> Option<&DeviceProgram> {
        if let Entry::Device(program) = &self.0.entry { Some(program) } else { None }
    }

    /// True if the kernel is machine code.
    pub fn is_native(&self) -> bool {
        matches!(self.0.entry, Entry::Native { .. })
    }

    /// The library that holds the code of a native kernel; `None` for other kernels.
    pub fn library(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        match &self.0.entry {
            Entry::Native { keep, .. } => Some(keep),
            Entry::Host(_) | Entry::Device(_) => None,
        }
    }

    /// Calls the kernel with checked views. `pool` replaces the global thread pool.
    pub fn call(&self, args: &mut [HostArg<'_>], pool: Option<&dyn ThreadPool>) -> Result<(), RuntimeError> {
        self.check_kinds(args)?;
        with_raw_args(args, |raw| {
            // SAFETY: the kinds agree with the signature, and the pointers come from views that outlive the call.
            unsafe { self.call_raw(raw, pool) }
        })
    }

    /// Calls the kernel with arguments in the form of the ABI.
    ///
    /// # Safety
    /// `args` has one entry per parameter, of the kind that the signature requires; tensors are valid; inputs are
    /// readable and not written during the call; outputs are writable and not accessed by others during the call.
    pub unsafe fn call_raw(
        &self,
        args: &[KernelArg],
        pool: Option<&dyn ThreadPool>,
    ) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise.
        unsafe { self.call_raw_with(args, CallOptions { pool, cancel: None }, Order::Everything) }
    }

    /// As [`Kernel::call_raw`], for a call that may be cancelled, or overlap others on a device.
    ///
    /// # Safety
    /// That of [`Kernel::call_raw`]. With [`Order::Marked`], the memory of the tensors on a device is marked.
    #[inline]
    pub(crate) unsafe fn call_raw_with(
        &self,
        args: &[KernelArg],
        options: CallOptions<'_>,
        order: Order,
    ) -> Result<(), RuntimeError> {
        match &self.0.entry {
            Entry::Native { func, .. } => {
                // The error is boxed, so that a call that succeeds copies only a pointer.
                let failure = with_context(options.pool, |ctx| {
                    // SAFETY: `native` promised a kernel of this ABI, the caller promises valid arguments.
                    let status = unsafe { func(args.as_ptr(), args.len() as i32, ctx) };
                    // SAFETY: `ctx` is the context of this call, which failed with `status`.
                    (status != 0).then(|| unsafe { self.failure(status, ctx) })
                });
                failure.map_or(Ok(()), |err| Err(*err))
            }
            Entry::Host(func) => {
                // SAFETY: the caller promises valid arguments of the signature's kinds.
                let run = || unsafe { with_host_args(&self.0.sig, args, |args| func(args, options.cancel)) };
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
                    Err(RuntimeError::Panicked { func: self.name().into(), message: panic_message(&*panic) })
                })
            }
            // SAFETY: the caller promises valid arguments of the signature's kinds.
            Entry::Device(program) => unsafe { program.call(&self.0.sig, args, order) },
        }
    }

    /// The error of a native call that returned `status`.
    ///
    /// # Safety
    /// `ctx` is the context of that call, which is still valid.
    #[cold]
    unsafe fn failure(&self, status: i32, ctx: *mut CallContext) -> Box<RuntimeError> {
        if status == Status::Runtime as i32
            // SAFETY: the caller's promise.
            && let Some(failure) = unsafe { take_failure(ctx) }
        {
            return Box::new(failure);
        }
        // SAFETY: the caller's promise.
        let error = unsafe { (*ctx).error };
        // SAFETY: `native` promised a kernel of this ABI: its texts live as long as the kernel.
        let [what, place] = [error.what, error.place].map(|text| unsafe { text_at(text) });
        Box::new(status::render(&self.0.sig, status, &error, what, place))
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.backend() {
            Backend::Native => "native",
            Backend::Host => "host",
            Backend::Device => "device",
        };
        write!(f, "{kind} {}", self.0.sig)
    }
}

/// The text at `ptr`; `None` if `ptr` is null.
///
/// # Safety
/// `ptr` is null or points to a text that ends with a zero byte.
unsafe fn text_at(ptr: *const std::ffi::c_char) -> Option<Arc<str>> {
    if ptr.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::ffi::CStr::from_ptr(ptr) }.to_string_lossy().into())
}
