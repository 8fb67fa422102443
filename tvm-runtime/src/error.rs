//! The error type of the runtime.
//!
//! Messages are lower case, name the function, argument or section concerned, and give the expected and the actual
//! value. TVM counterpart: `tvm::ffi::Error` (untyped there).

mod notes;

use std::sync::Arc;

use crate::artifact::ArtifactError;
use crate::device::Device;
use crate::dtype::DataType;
use crate::vm::VerifyError;
use notes::{archs, at, axis_note, buffer_note, devices, dim_note, levels, message_note, one_of, quoted};

/// Run-time errors.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The number of arguments differs from the number of parameters of the function or kernel.
    #[error("`{func}`: expected {expected} argument(s), got {got}")]
    ArgCount {
        /// Function called.
        func: Arc<str>,
        /// Number of parameters.
        expected: usize,
        /// Number of arguments.
        got: usize,
    },
    /// The kind of an argument (tensor, int, float, …) differs from the expected one.
    #[error("`{func}`: argument `{arg}`: expected {expected}, got {got}")]
    ArgKind {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Kind expected.
        expected: Arc<str>,
        /// Kind got.
        got: Arc<str>,
    },
    /// The rank of a tensor argument differs from the expected one.
    #[error("`{func}`: argument `{arg}`: rank is {got}, expected {expected}")]
    ArgRank {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Rank expected.
        expected: i64,
        /// Rank got.
        got: i64,
    },
    /// The element type of a tensor argument differs from the expected one.
    #[error("`{func}`: argument `{arg}`: element type is {got}, expected {expected}")]
    ArgDType {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Element type expected.
        expected: DataType,
        /// Element type got.
        got: Arc<str>,
    },
    /// An extent of a tensor argument differs from the expected one.
    #[error("`{func}`: argument `{arg}`: axis {axis} is {got}, expected {expected}{}", dim_note(.dim))]
    ArgExtent {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Axis concerned.
        axis: i64,
        /// Extent expected.
        expected: i64,
        /// Extent got.
        got: i64,
        /// The dimension as the signature writes it, unless it is a constant.
        dim: Option<Arc<str>>,
    },
    /// A symbolic dimension is outside the bounds that the program was compiled for.
    #[error("`{func}`: argument `{arg}`{}is {got}, dimension `{dim}` was compiled for {expected}", axis_note(*.axis))]
    ArgBound {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Axis concerned; `None` if the argument is the dimension itself, a scalar.
        axis: Option<i64>,
        /// The dimension.
        dim: Arc<str>,
        /// Allowed values, for example `1..=64`.
        expected: Arc<str>,
        /// Extent got.
        got: i64,
    },
    /// The length of a slice does not fit the parameter's shape, or that shape has more than one unknown extent.
    #[error(
        "`{func}`: argument `{arg}`: {got} element(s) do not make a {ty}; pass an array or tensor, which has a shape"
    )]
    ArgLen {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Type of the parameter.
        ty: String,
        /// Number of elements in the slice.
        got: usize,
    },
    /// A tensor argument is not compact row-major.
    #[error(
        "`{func}`: argument `{arg}`: not contiguous: the stride of axis {axis} is {got}, expected {expected}; pass a row-major copy (ndarray: `.as_standard_layout()`)"
    )]
    ArgStrides {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Axis concerned.
        axis: i64,
        /// Stride expected, in elements.
        expected: i64,
        /// Stride got, in elements.
        got: i64,
    },
    /// A tensor argument is a null pointer.
    #[error("`{func}`: argument `{arg}`: the tensor is null")]
    ArgNull {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
    },
    /// Two arguments share memory, and one of them is written to.
    #[error("`{func}`: argument `{arg}` is written to and shares memory with argument `{other}`")]
    ArgOverlap {
        /// Function called.
        func: Arc<str>,
        /// Parameter written to.
        arg: Arc<str>,
        /// The other parameter.
        other: Arc<str>,
    },
    /// An argument that must not be written to would be written to.
    #[error("`{func}`: argument `{arg}` would be written to, but {reason}")]
    ArgReadOnly {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Why it must not be written to.
        reason: &'static str,
    },
    /// The signature of a function does not fit the Rust types of the call.
    #[error("`{func}`: signature mismatch: {detail}")]
    Signature {
        /// Function concerned.
        func: Arc<str>,
        /// Expected and actual signature.
        detail: String,
    },
    /// A kernel would have read or written outside a buffer. It stopped before the access; outputs may be partly
    /// written.
    #[error("`{func}`: index {index} is outside of axis {axis} of {}, whose extent is {extent}{}", buffer_note(.buffer), at(.place))]
    OutOfBounds {
        /// Kernel concerned.
        func: Arc<str>,
        /// The buffer accessed (a parameter or a buffer inside the kernel), if known.
        buffer: Option<Arc<str>>,
        /// Axis concerned.
        axis: i64,
        /// Value of the index.
        index: i64,
        /// Extent of the axis.
        extent: i64,
        /// Place in the source where the access was written, if known.
        place: Option<Arc<str>>,
    },
    /// A buffer inside a kernel would have had a negative extent.
    #[error("`{func}`: axis {axis} of {} would have extent {extent}{}", buffer_note(.buffer), at(.place))]
    NegativeExtent {
        /// Kernel concerned.
        func: Arc<str>,
        /// The buffer, if known.
        buffer: Option<Arc<str>>,
        /// Axis concerned.
        axis: i64,
        /// Value of the extent.
        extent: i64,
        /// Place in the source where the buffer was written, if known.
        place: Option<Arc<str>>,
    },
    /// The extents of the arguments are so large that the kernel's index arithmetic may overflow.
    #[error("`{func}`: the extents are too large: an index may reach {reached}, expected at most {limit}{}", at(.place))]
    IndexOverflow {
        /// Kernel concerned.
        func: Arc<str>,
        /// Upper bound of the index; `i64::MAX` if the bound does not fit.
        reached: i64,
        /// Largest index that fits.
        limit: i64,
        /// Place in the source where the kernel was written, if known.
        place: Option<Arc<str>>,
    },
    /// An axis of a block would have had a value outside its domain.
    #[error("`{func}`: {axis} is {value}, its domain ends before {end}{}", at(.place))]
    AxisDomain {
        /// Kernel concerned.
        func: Arc<str>,
        /// The axis and its block, as text: `axis `i` of block `B``.
        axis: Arc<str>,
        /// Value bound.
        value: i64,
        /// First value after the domain.
        end: i64,
        /// Place in the source where the block was written, if known.
        place: Option<Arc<str>>,
    },
    /// An element of an index tensor is out of range. Indices from -extent on are allowed and count from the end.
    #[error("`{op}`: index {index} is out of range for an axis of extent {extent}")]
    IndexOutOfRange {
        /// Operator that takes the indices.
        op: Arc<str>,
        /// Value of the index.
        index: i64,
        /// Extent of the axis.
        extent: i64,
    },
    /// An assertion inside a kernel failed.
    #[error("`{func}`: assertion failed{}{}", message_note(.message), at(.place))]
    Assert {
        /// Kernel concerned.
        func: Arc<str>,
        /// Message of the assertion.
        message: Option<Arc<str>>,
        /// Place in the source where the assertion was written, if known.
        place: Option<Arc<str>>,
    },
    /// A kernel returned a status that this runtime does not know.
    #[error("`{func}`: unknown status {status}")]
    UnknownStatus {
        /// Kernel concerned.
        func: Arc<str>,
        /// Value of the status.
        status: i32,
    },
    /// Memory could not be allocated.
    #[error("out of memory: cannot allocate {bytes} bytes on {device}")]
    OutOfMemory {
        /// Number of bytes requested.
        bytes: u64,
        /// Device on which memory was requested.
        device: Device,
    },
    /// The size of a tensor does not fit the address space, or an extent is negative.
    #[error("a tensor of shape {shape:?} and type {dtype} is not representable")]
    BadShape {
        /// Shape requested.
        shape: Vec<i64>,
        /// Element type.
        dtype: DataType,
    },
    /// Data and shape have different sizes.
    #[error("shape {shape:?} of {dtype} holds {expected} bytes, got {got}")]
    SizeMismatch {
        /// Shape requested.
        shape: Vec<i64>,
        /// Element type.
        dtype: DataType,
        /// Number of bytes that the shape requires.
        expected: usize,
        /// Number of bytes present.
        got: usize,
    },
    /// The rank of a tensor differs from the expected one.
    #[error("tensor of rank {got}, expected rank {expected}")]
    RankMismatch {
        /// Rank expected.
        expected: usize,
        /// Rank got.
        got: usize,
    },
    /// The element type of a tensor differs from the expected one.
    #[error("tensor of element type {got}, expected {expected}")]
    DTypeMismatch {
        /// Element type expected.
        expected: DataType,
        /// Element type got.
        got: DataType,
    },
    /// The tensors of a call are on different devices.
    #[error("`{func}`: argument `{arg}` is on {got}, the arguments before it on {expected}")]
    ArgDevice {
        /// Name of the kernel.
        func: Arc<str>,
        /// Name of the parameter.
        arg: Arc<str>,
        /// Device of the other tensors.
        expected: Device,
        /// Device of this tensor.
        got: Device,
    },
    /// The memory is on a device and the host cannot read it.
    #[error("the tensor is on {device}; copy it to cpu:0 first (`to_device`)")]
    NotOnHost {
        /// Device that holds the tensor.
        device: Device,
    },
    /// The bytes are not values of the element type, or the memory cannot hold the tensor.
    #[error("bad tensor data: {0}")]
    BadData(&'static str),
    /// The kind of a value differs from the expected one.
    #[error("{what}: expected {expected}, got {got}")]
    ValueKind {
        /// Where the value occurs.
        what: Arc<str>,
        /// Kind expected.
        expected: &'static str,
        /// Kind got.
        got: &'static str,
    },
    /// The build lacks the feature that an operation or device requires.
    #[error("{what} is not supported by this build: turn on the feature `{feature}` of tvm-runtime")]
    Unsupported {
        /// The operation or device requested.
        what: Arc<str>,
        /// The feature to turn on.
        feature: &'static str,
    },
    /// A device reported a failure.
    #[error("{device}: {message}")]
    DeviceFailure {
        /// Device concerned.
        device: Device,
        /// Message of the driver or of the device layer.
        message: String,
    },
    /// A kernel could not be launched on a device.
    #[error("`{func}` cannot be launched: {message}")]
    Launch {
        /// Kernel concerned.
        func: Arc<str>,
        /// Why, and what to do.
        message: String,
    },
    /// A call does what a captured call cannot do again.
    #[error("the call cannot be captured: {reason}")]
    Capture {
        /// Why, and what to do.
        reason: String,
    },
    /// An argument of a captured call is not of the kind, type, shape or value that it was captured with.
    #[error(
        "`{func}`: argument `{arg}` is {got}, the call was captured with {expected}\n  help: capture it for both"
    )]
    CapturedArg {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// What the call was captured with: `f32[1, 3]`.
        expected: Arc<str>,
        /// What was given.
        got: Arc<str>,
    },
    /// A kernel failed while it ran on a device: it accessed memory that it does not have, for example. This process cannot use
    /// the device any more.
    #[error(
        "{device}: {message} in {}; this process cannot use the device any more\n  help: start it again; with CUDA_LAUNCH_BLOCKING=1 the error names the one kernel that failed", one_of(.kernels)
    )]
    DeviceFault {
        /// Device concerned.
        device: Device,
        /// The kernels that may have failed: those that were launched since the device was last known to be well, the last one at
        /// the end.
        kernels: Vec<Arc<str>>,
        /// What the driver reports.
        message: String,
    },
    /// A function body or kernel panicked.
    #[error("`{func}` panicked: {message}")]
    Panicked {
        /// Function concerned.
        func: Arc<str>,
        /// Message of the panic.
        message: String,
    },
    /// A thread pool did not run each iteration of a parallel loop exactly once. Surplus requests of the pool were
    /// ignored; outputs may be partly written.
    #[error("thread pool: of a loop over {extent} iterations it {detail}")]
    ThreadPool {
        /// Number of iterations of the loop.
        extent: usize,
        /// What the pool did wrong.
        detail: String,
    },
    /// A global function of this name is already registered.
    #[error("a global function named `{name}` exists already")]
    DuplicateFunc {
        /// Name of the function.
        name: String,
    },
    /// Names without a definition.
    #[error("not found: {what} {}", quoted(.names))]
    NotFound {
        /// Kind of the missing things.
        what: &'static str,
        /// All names that are missing.
        names: Vec<String>,
    },
    /// A shared library could not be loaded.
    #[error("cannot load the kernel library `{name}`: {message}")]
    Library {
        /// Name or path of the library.
        name: String,
        /// Message of the loader.
        message: String,
    },
    /// A program carries a module of a kind for which the application gave no loader.
    #[error(
        "the program imports the module `{name}` of kind `{kind}`, for which there is no loader\n  help: add a `ModuleLoader` of this kind to `VmConfig::loaders`"
    )]
    NoLoader {
        /// Name of the module.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// A loader refused a module that a program carries.
    #[error("cannot load the module `{name}` of kind `{kind}`: {source}")]
    Import {
        /// Name of the module.
        name: String,
        /// Its kind.
        kind: String,
        /// The error of the loader.
        #[source]
        source: Box<RuntimeError>,
    },
    /// A compiled object was made for another ABI version.
    #[error("`{name}` was compiled for ABI version {got}, this runtime has {expected}; compile it again")]
    AbiVersion {
        /// Name of the object.
        name: String,
        /// ABI version of this runtime.
        expected: u32,
        /// ABI version of the object.
        got: u32,
    },
    /// The machine code needs CPU features that this machine lacks.
    #[error(
        "the program was compiled for a CPU with {}, which this machine lacks\n  help: compile it for a portable level, for example with the target `c -cpu=x86-64-v2`", quoted(.missing)
    )]
    CpuFeatures {
        /// The missing features.
        missing: Vec<String>,
    },
    /// A program has no kernels for the CPU level that was asked for.
    #[error("the program has no kernels for the CPU level `{level}`: {}", levels(.has))]
    CpuLevel {
        /// The level that was asked for.
        level: String,
        /// The levels that the program has kernels for.
        has: Vec<String>,
    },
    /// A program has no kernels for the GPU.
    #[error(
        "{device} is of the architecture {own}, the program has kernels for {}\n  help: compile it for this one as well: `tvmc compile MODEL --target \"cuda -arch={}\"`; in a build script, add it to `.gpu([..])`",
        .has.join(", "), archs(.own, .has)
    )]
    GpuArch {
        /// The GPU.
        device: Device,
        /// Its architecture, for example `sm_75`.
        own: String,
        /// What the program has kernels for: `sm_80`, `PTX for sm_80`.
        has: Vec<String>,
    },
    /// No code for a device is embedded in the application.
    #[error(
        "the application has no code for {device}, only for {}\n  help: a build script embeds code for GPUs by `.gpu([\"sm_80\"])`; it runs on cuda:0", devices(.has)
    )]
    NoCode {
        /// The device that was asked for.
        device: Device,
        /// The devices that there is code for.
        has: Vec<Device>,
    },
    /// The kernels of a program are not for the CPU levels that it lists.
    #[error("malformed program: CPU levels: {message}")]
    CpuLevelList {
        /// Description of the violation.
        message: String,
    },
    /// A closure was called by a virtual machine that did not create it.
    #[error("a closure of another program: only the virtual machine that made it can call it")]
    ForeignClosure,
    /// Bytecode violates a rule of the verifier.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// An artifact is damaged or was made by another version.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// A file could not be read or written.
    #[error("{path}: {message}")]
    Io {
        /// Path of the file.
        path: String,
        /// Message of the operating system.
        message: String,
    },
    /// An instruction of the virtual machine failed.
    #[error("in `{func}` at {pc}: {source}")]
    Vm {
        /// Function being run.
        func: Arc<str>,
        /// Index of the instruction in the function.
        pc: usize,
        /// The underlying error.
        #[source]
        source: Box<RuntimeError>,
    },
    /// A limit of the virtual machine was reached.
    #[error("{limit} limit of {value} reached")]
    Limit {
        /// Name of the limit.
        limit: &'static str,
        /// Value of the limit.
        value: u64,
    },
    /// The call was cancelled by its caller.
    #[error("the call was cancelled")]
    Cancelled,
    /// Integer arithmetic overflowed or divided by zero.
    #[error("integer {op} of {lhs} and {rhs} has no result")]
    Arithmetic {
        /// Name of the operation.
        op: &'static str,
        /// Left operand.
        lhs: i64,
        /// Right operand.
        rhs: i64,
    },
    /// The shape of a value differs from the shape that the program requires.
    #[error("{context}: {detail}")]
    ShapeCheck {
        /// Value that is checked, for example an argument.
        context: Arc<str>,
        /// Expected and actual shape.
        detail: String,
    },
    /// Execution reached a point that the program declares unreachable.
    #[error("fatal: {0}")]
    Fatal(Arc<str>),
    /// Error of a function that the application registered.
    #[error("{0}")]
    Other(String),
}

impl RuntimeError {
    /// Makes an error from a message of the application.
    pub fn other(message: impl Into<String>) -> RuntimeError {
        RuntimeError::Other(message.into())
    }
}
