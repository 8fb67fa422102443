//! The one error type of the runtime.
//!
//! Messages are lower case, name the function, argument or section concerned, and say what was expected and what
//! was got. TVM counterpart: `tvm::ffi::Error` (untyped there).

use std::sync::Arc;

use crate::artifact::ArtifactError;
use crate::device::Device;
use crate::dtype::DataType;
use crate::vm::VerifyError;

/// What can go wrong at run time.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A function or kernel got another number of arguments.
    #[error("`{func}`: expected {expected} argument(s), got {got}")]
    ArgCount {
        /// Function called.
        func: Arc<str>,
        /// Number of parameters.
        expected: usize,
        /// Number of arguments.
        got: usize,
    },
    /// An argument is of another kind (tensor, int, float, …).
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
    /// A tensor argument has another rank.
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
    /// A tensor argument has another element type.
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
    /// A tensor argument has another extent.
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
    /// A symbolic dimension is outside of the bounds that the program was compiled for.
    #[error("`{func}`: argument `{arg}`: axis {axis} is {got}, {}was compiled for {expected}", dim_prefix(.dim))]
    ArgBound {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Axis concerned.
        axis: i64,
        /// The dimension.
        dim: Option<Arc<str>>,
        /// What it may be, for example `1..=64`.
        expected: Arc<str>,
        /// Extent got.
        got: i64,
    },
    /// A slice does not have as many elements as the parameter, or the parameter has more than one unknown extent.
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
        /// Elements got.
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
    /// Two arguments of which one is written to share memory.
    #[error("`{func}`: argument `{arg}` is written to and shares memory with argument `{other}`")]
    ArgOverlap {
        /// Function called.
        func: Arc<str>,
        /// Parameter written to.
        arg: Arc<str>,
        /// The other parameter.
        other: Arc<str>,
    },
    /// An argument may not be written to.
    #[error("`{func}`: argument `{arg}` would be written to, but {reason}")]
    ArgReadOnly {
        /// Function called.
        func: Arc<str>,
        /// Parameter name.
        arg: Arc<str>,
        /// Why it may not.
        reason: &'static str,
    },
    /// A signature does not fit the Rust types it is called with.
    #[error("`{func}`: signature mismatch: {detail}")]
    Signature {
        /// Function concerned.
        func: Arc<str>,
        /// Expected and got.
        detail: String,
    },
    /// A kernel would have read or written outside of a buffer. It stopped in front of the access; outputs may be half
    /// written.
    #[error("`{func}`: index {index} is outside of axis {axis} of {}, whose extent is {extent}{}", buffer_note(.buffer), at(.place))]
    OutOfBounds {
        /// Kernel concerned.
        func: Arc<str>,
        /// The parameter or the buffer inside the kernel that is accessed, where it is known.
        buffer: Option<Arc<str>>,
        /// Axis concerned.
        axis: i64,
        /// The index.
        index: i64,
        /// The extent of the axis.
        extent: i64,
        /// Where the access was written, where that is known.
        place: Option<Arc<str>>,
    },
    /// A buffer inside a kernel would have got a negative extent.
    #[error("`{func}`: axis {axis} of {} would have extent {extent}{}", buffer_note(.buffer), at(.place))]
    NegativeExtent {
        /// Kernel concerned.
        func: Arc<str>,
        /// The buffer, where it is known.
        buffer: Option<Arc<str>>,
        /// Axis concerned.
        axis: i64,
        /// The extent.
        extent: i64,
        /// Where the buffer was written, where that is known.
        place: Option<Arc<str>>,
    },
    /// The extents of the arguments are so large that the kernel's index arithmetic may overflow.
    #[error("`{func}`: the extents are too large: an index may reach {reached}, expected at most {limit}{}", at(.place))]
    IndexOverflow {
        /// Kernel concerned.
        func: Arc<str>,
        /// What an index may reach, `i64::MAX` for more than fits.
        reached: i64,
        /// What fits.
        limit: i64,
        /// Where the kernel was written, where that is known.
        place: Option<Arc<str>>,
    },
    /// An axis of a block of a kernel would have got a value outside of its domain.
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
        /// Where the block was written, where that is known.
        place: Option<Arc<str>>,
    },
    /// A tensor of indices names an element that is not there. Indices from -extent on count from the end.
    #[error("`{op}`: index {index} is out of range for an axis of extent {extent}")]
    IndexOutOfRange {
        /// Operator that takes the indices.
        op: Arc<str>,
        /// The index.
        index: i64,
        /// The extent of the axis.
        extent: i64,
    },
    /// An assertion inside a kernel failed.
    #[error("`{func}`: assertion {number} failed")]
    Assert {
        /// Kernel concerned.
        func: Arc<str>,
        /// Number of the assertion, in the kernel's order.
        number: i64,
    },
    /// A kernel returned a status that this runtime does not know.
    #[error("`{func}`: unknown status {status}")]
    UnknownStatus {
        /// Kernel concerned.
        func: Arc<str>,
        /// The status.
        status: i32,
    },
    /// Memory could not be had.
    #[error("out of memory: cannot allocate {bytes} bytes on {device}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Device asked.
        device: Device,
    },
    /// The size of a tensor does not fit, or an extent is negative.
    #[error("a tensor of shape {shape:?} and type {dtype} is not representable")]
    BadShape {
        /// Shape asked for.
        shape: Vec<i64>,
        /// Element type.
        dtype: DataType,
    },
    /// Data and shape have different sizes.
    #[error("shape {shape:?} of {dtype} holds {expected} bytes, got {got}")]
    SizeMismatch {
        /// Shape asked for.
        shape: Vec<i64>,
        /// Element type.
        dtype: DataType,
        /// Bytes of that shape.
        expected: usize,
        /// Bytes there are.
        got: usize,
    },
    /// A tensor has another rank.
    #[error("tensor of rank {got}, expected rank {expected}")]
    RankMismatch {
        /// Rank expected.
        expected: usize,
        /// Rank got.
        got: usize,
    },
    /// A tensor has another element type.
    #[error("tensor of element type {got}, expected {expected}")]
    DTypeMismatch {
        /// Element type expected.
        expected: DataType,
        /// Element type got.
        got: DataType,
    },
    /// Memory is on a device that the host cannot read.
    #[error("the tensor is on {device}; copy it to cpu:0 first (`to_device`)")]
    NotOnHost {
        /// Where the tensor is.
        device: Device,
    },
    /// Bytes that are no value of their element type, or memory that cannot hold it.
    #[error("bad tensor data: {0}")]
    BadData(&'static str),
    /// A value is of another kind.
    #[error("{what}: expected {expected}, got {got}")]
    ValueKind {
        /// Where.
        what: Arc<str>,
        /// Kind expected.
        expected: &'static str,
        /// Kind got.
        got: &'static str,
    },
    /// A build without a feature, or a device that is not there.
    #[error("{what} is not supported by this build: turn on the feature `{feature}` of tvm-runtime")]
    Unsupported {
        /// What was asked for.
        what: Arc<str>,
        /// The feature to turn on.
        feature: &'static str,
    },
    /// A device refused.
    #[error("{device}: {message}")]
    DeviceFailure {
        /// Device concerned.
        device: Device,
        /// What its driver says.
        message: String,
    },
    /// A function body or kernel panicked.
    #[error("`{func}` panicked: {message}")]
    Panicked {
        /// Function concerned.
        func: Arc<str>,
        /// The panic's message.
        message: String,
    },
    /// A thread pool did not run each iteration of a parallel loop once. What it asked for beyond that was not run;
    /// outputs may be half written.
    #[error("thread pool: of a loop over {extent} iterations it {detail}")]
    ThreadPool {
        /// Iterations of the loop.
        extent: usize,
        /// What it did.
        detail: String,
    },
    /// A global function of that name exists.
    #[error("a global function named `{name}` exists already")]
    DuplicateFunc {
        /// Its name.
        name: String,
    },
    /// Names that nothing defines.
    #[error("not found: {what} {}", quoted(.names))]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// All the names that are missing.
        names: Vec<String>,
    },
    /// A shared library could not be loaded.
    #[error("cannot load the kernel library `{name}`: {message}")]
    Library {
        /// Its name or path.
        name: String,
        /// What the loader says.
        message: String,
    },
    /// A compiled object was made for another version of the ABI.
    #[error("`{name}` was compiled for ABI version {got}, this runtime has {expected}; compile it again")]
    AbiVersion {
        /// The object.
        name: String,
        /// Version of this runtime.
        expected: u32,
        /// Version of the object.
        got: u32,
    },
    /// Machine code for a CPU with more features than this machine has.
    #[error(
        "the program was compiled for a CPU with {}, which this machine lacks\n  help: compile it for a portable level, for example with the target `c -cpu=x86-64-v2`", quoted(.missing)
    )]
    CpuFeatures {
        /// The features that this machine lacks.
        missing: Vec<String>,
    },
    /// A closure is called by a virtual machine that did not make it.
    #[error("a closure of another program: only the virtual machine that made it can call it")]
    ForeignClosure,
    /// Bytecode that breaks a rule.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A damaged or foreign artifact.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// A file could not be read or written.
    #[error("{path}: {message}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        message: String,
    },
    /// An instruction of the virtual machine failed.
    #[error("in `{func}` at {pc}: {source}")]
    Vm {
        /// Function being run.
        func: Arc<str>,
        /// Index of the instruction.
        pc: usize,
        /// What happened.
        #[source]
        source: Box<RuntimeError>,
    },
    /// A limit of the virtual machine was reached.
    #[error("{limit} limit of {value} reached")]
    Limit {
        /// Which one.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// Integer arithmetic left its range, or a division by zero.
    #[error("integer {op} of {lhs} and {rhs} has no result")]
    Arithmetic {
        /// The operation.
        op: &'static str,
        /// Left operand.
        lhs: i64,
        /// Right operand.
        rhs: i64,
    },
    /// A value does not have the shape that the program says.
    #[error("{context}: {detail}")]
    ShapeCheck {
        /// What is checked, e.g. an argument.
        context: Arc<str>,
        /// Expected and got.
        detail: String,
    },
    /// The program says that this point is not reachable.
    #[error("fatal: {0}")]
    Fatal(Arc<str>),
    /// An error of a function registered by the application.
    #[error("{0}")]
    Other(String),
}

impl RuntimeError {
    /// An error with a message of the application's own.
    pub fn other(message: impl Into<String>) -> RuntimeError {
        RuntimeError::Other(message.into())
    }
}

fn dim_note(dim: &Option<Arc<str>>) -> String {
    dim.as_ref().map(|dim| format!(" (= {dim})")).unwrap_or_default()
}

fn dim_prefix(dim: &Option<Arc<str>>) -> String {
    dim.as_ref().map(|dim| format!("dimension `{dim}` ")).unwrap_or_default()
}

fn at(place: &Option<Arc<str>>) -> String {
    place.as_ref().map_or_else(String::new, |place| format!(" (at {place})"))
}

fn buffer_note(buffer: &Option<Arc<str>>) -> String {
    buffer.as_ref().map_or_else(|| "a buffer of the kernel".into(), |name| format!("`{name}`"))
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
