//! The binary interface between generated kernels and the runtime.
//!
//! A kernel is `extern "C" fn(args, n_args, ctx) -> i32`. It returns 0, or a non-zero [`Status`] after it has
//! filled `ctx.error`. Tensors arrive as DLPack `DLTensor`s. A kernel reaches everything it needs from the runtime
//! (threads, scratch memory) through [`CallContext`], so a compiled object has no undefined runtime symbol.
//!
//! TVM counterpart: `TVMFFIAny` arguments and the `TVMBackend*` C functions.

use std::ffi::{c_char, c_void};

use crate::dtype::DataType;

/// Version of everything in this file; the runtime refuses an object that was compiled for another version.
pub const ABI_VERSION: u32 = 4;

/// DLPack's `DLDevice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// `DLDeviceType`, see [`crate::DeviceKind`].
    pub kind: i32,
    /// Ordinal.
    pub id: i32,
}

/// DLPack's `DLTensor`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// Start of the allocation.
    pub data: *mut c_void,
    /// Where the data lives.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides in elements; null means compact row-major.
    pub strides: *mut i64,
    /// Offset of the first element from `data`, in bytes.
    pub byte_offset: u64,
}

impl DLTensor {
    /// Describes no memory: a rank of 0 and a null pointer, on the host.
    pub(crate) const NULL: DLTensor = DLTensor {
        data: std::ptr::null_mut(),
        device: DLDevice { kind: 1, id: 0 },
        ndim: 0,
        dtype: DataType::HANDLE,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
}

/// One kernel argument: a tensor pointer, an integer (bool and all integer types, sign-extended) or a float (f64).
#[derive(Clone, Copy)]
#[repr(C)]
pub union KernelArg {
    /// A tensor.
    pub tensor: *const DLTensor,
    /// Any integer scalar.
    pub int: i64,
    /// Any floating scalar.
    pub float: f64,
    /// An opaque pointer.
    pub handle: *mut c_void,
}

/// Result of a kernel; the values are part of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// The kernel ran to its end.
    Ok = 0,
    /// Wrong number of arguments: `expected`, `got`.
    ArgCount = 1,
    /// Argument `arg` has another rank: `expected`, `got`.
    Rank = 2,
    /// Argument `arg` has another element type: `expected`, `got` are `DataType`s packed by [`pack_dtype`].
    DType = 3,
    /// Axis `axis` of argument `arg` has another extent: `expected`, `got`.
    Extent = 4,
    /// Argument `arg` is not compact row-major (stride of `axis`: `expected`, `got`).
    Strides = 5,
    /// Argument `arg` is a null pointer.
    Null = 6,
    /// An `assert!` of the kernel itself failed; `what` is its message.
    Assert = 7,
    /// Scratch memory could not be allocated: `expected` bytes.
    OutOfMemory = 8,
    /// An access outside axis `axis` of argument `arg` (-1: of a buffer inside the kernel): extent `expected`, index
    /// `got`.
    OutOfBounds = 9,
    /// Axis `axis` of argument `arg` (-1: the scalar itself) is `got`, which is outside the bounds that the kernel was
    /// compiled for; `what` are the bounds, as text.
    Bound = 10,
    /// The extents of the arguments are so large that index arithmetic may overflow: an index may reach `got`, but at
    /// most `expected` fits.
    IndexOverflow = 13,
    /// Axis number `axis` of a block (`what` names both) got the value `got`, outside its domain, which ends before
    /// `expected`.
    AxisDomain = 14,
    /// Axis `axis` of a buffer inside the kernel (`what`) would have the extent `got`, which is negative.
    NegativeExtent = 16,
    /// The runtime itself could not run a parallel loop; it keeps the error.
    Runtime = 15,
}

/// Details that a failing kernel leaves in its context.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CallError {
    /// A [`Status`] value.
    pub status: i32,
    /// Index of the argument, or -1.
    pub arg: i32,
    /// Axis of that argument, or -1.
    pub axis: i32,
    /// Keeps the 64-bit fields aligned.
    pub reserved: i32,
    /// Meaning depends on the status, see [`Status`].
    pub expected: i64,
    /// Meaning depends on the status, see [`Status`].
    pub got: i64,
    /// Subject of the error (`axis `i` of block `B``), as UTF-8 text that lives as long as the kernel; null when there
    /// is nothing to add.
    pub what: *const c_char,
    /// Place in the source where the subject was written (`src/a.rs:12:5`), as text with the same lifetime, or null.
    pub place: *const c_char,
}

/// Body of a parallel loop: runs the iterations `begin..end`. A non-zero result is a [`Status`].
pub type ParallelBody =
    unsafe extern "C" fn(ctx: *mut CallContext, begin: i64, end: i64, env: *mut c_void) -> i32;

/// Services that the runtime gives to a kernel for one call. The generated code reads the fields by offset.
#[repr(C)]
pub struct CallContext {
    /// [`ABI_VERSION`] of the runtime.
    pub abi_version: u32,
    /// Threads that `parallel_for` may use, at least 1.
    pub num_threads: u32,
    /// Runs `body` over `0..extent` in contiguous chunks; returns 0, or the first non-zero status. `cost` is the approximate
    /// number of operations of one iteration.
    pub parallel_for: unsafe extern "C" fn(
        ctx: *mut CallContext,
        body: ParallelBody,
        extent: i64,
        cost: u64,
        env: *mut c_void,
    ) -> i32,
    /// Allocates scratch memory aligned to 64 bytes; null if there is none.
    pub alloc: unsafe extern "C" fn(ctx: *mut CallContext, bytes: u64) -> *mut c_void,
    /// Frees scratch memory. Blocks are freed in reverse order of allocation.
    pub free: unsafe extern "C" fn(ctx: *mut CallContext, ptr: *mut c_void),
    /// The runtime's own state (thread pool, workspace).
    pub state: *mut c_void,
    /// Filled by a kernel that returns non-zero.
    pub error: CallError,
}

/// Symbol of the kernel `name`. The prefix keeps a kernel named `exp` from replacing libm's `exp`. All characters but
/// letters, digits and underscores are escaped. Different names have different symbols: an underscore that could be
/// read as the start of an escape is escaped too.
pub fn kernel_symbol(name: &str) -> String {
    let mut symbol = String::from("tvm_kernel_");
    for (at, c) in name.char_indices() {
        if c.is_ascii_alphanumeric() || (c == '_' && !starts_escape(&name[at + 1..])) {
            symbol.push(c);
        } else {
            symbol.push_str(&format!("_u{:x}_", c as u32));
        }
    }
    symbol
}

/// Whether `rest`, the text after an underscore, could be read as the rest of an escape once it is escaped itself.
fn starts_escape(rest: &str) -> bool {
    let Some(digits) = rest.strip_prefix('u') else { return false };
    let end = digits.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    end.len() < digits.len() && end.starts_with(|c: char| !c.is_ascii_alphanumeric())
}

/// The entry point of every generated kernel.
pub type KernelFn = unsafe extern "C" fn(args: *const KernelArg, n_args: i32, ctx: *mut CallContext) -> i32;

/// Packs a data type as `code | bits << 8 | lanes << 16`, the form that kernels compare: the little-endian word of
/// `DLDataType`.
pub const fn pack_dtype(dtype: DataType) -> i64 {
    dtype.code() as i64 | (dtype.bits() as i64) << 8 | (dtype.lanes() as i64) << 16
}

#[cfg(test)]
mod tests {
    use super::kernel_symbol;

    #[test]
    fn symbols_of_different_names_differ() {
        let names = [
            "a.b",
            "a_u2e_b",
            "a_b",
            "a_u5f_u2e_b",
            "a_u5f_b",
            "a_ub",
            "a__u2e_b",
            "a_.b",
            "é",
            "_ue9_",
            "_",
            "_u",
            "",
            "_u2e.",
            ".u2e_",
            "._",
            "_u2e",
            "_u2eé",
        ];
        let symbols: std::collections::BTreeSet<String> =
            names.iter().map(|name| kernel_symbol(name)).collect();
        assert_eq!(symbols.len(), names.len(), "{symbols:?}");
        assert_eq!(kernel_symbol("fused_unsqueeze_1"), "tvm_kernel_fused_unsqueeze_1");
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(symbols.iter().all(|symbol| symbol.chars().all(legal)));
    }
}
