//! The instruction set of the virtual machine: a register machine over [`Value`](crate::Value)s.
//!
//! TVM counterpart: `relay::vm::Instruction`, of which this is a superset. Each function has its own `num_regs`
//! registers. Its arguments arrive in registers `0..params.len()`; the others start out null. Jump targets are indices
//! into the function's code. An instruction may read only registers that were written: reading a null register, or a
//! value of a kind that the instruction does not accept, ends the run with an error.

use std::fmt;

use crate::device::Device;
use crate::dim_bound::DimBound;
use crate::dtype::DataType;

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}

indices! {
    /// A register of the current function.
    Reg "%";
    /// An entry of `Executable::functions`.
    FuncIdx "f";
    /// An entry of `Executable::kernels`.
    KernelIdx "k";
    /// An entry of `Executable::packed`.
    PackedIdx "p";
    /// An entry of `Executable::constants`.
    ConstIdx "c";
    /// The index of an instruction of the current function.
    Pc "@";
}

/// An integer operand: a literal or the content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOperand {
    /// A literal.
    Const(i64),
    /// The integer in a register.
    Reg(Reg),
}

impl From<Reg> for IntOperand {
    fn from(reg: Reg) -> IntOperand {
        IntOperand::Reg(reg)
    }
}

impl From<i64> for IntOperand {
    fn from(value: i64) -> IntOperand {
        IntOperand::Const(value)
    }
}

/// Check of one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimCheck {
    /// No check.
    Any,
    /// The extent must equal a literal.
    Const(i64),
    /// The extent must equal the integer in a register.
    Reg(Reg),
    /// The extent is written to a register; this binds a symbolic dimension.
    Bind(Reg),
}

/// Binary operations on integers. Comparisons and logic return 0 or 1; overflow and division by zero are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum IntOpKind {
    Add = 0,
    Sub = 1,
    Mul = 2,
    FloorDiv = 3,
    FloorMod = 4,
    TruncDiv = 5,
    TruncMod = 6,
    Min = 7,
    Max = 8,
    Eq = 9,
    Ne = 10,
    Lt = 11,
    Le = 12,
    Gt = 13,
    Ge = 14,
    And = 15,
    Or = 16,
    BitAnd = 17,
    BitOr = 18,
    BitXor = 19,
    Shl = 20,
    Shr = 21,
}

impl IntOpKind {
    /// All operations with their names, indexed by operation number.
    pub const ALL: &[(IntOpKind, &str)] = &[
        (IntOpKind::Add, "add"),
        (IntOpKind::Sub, "sub"),
        (IntOpKind::Mul, "mul"),
        (IntOpKind::FloorDiv, "floordiv"),
        (IntOpKind::FloorMod, "floormod"),
        (IntOpKind::TruncDiv, "truncdiv"),
        (IntOpKind::TruncMod, "truncmod"),
        (IntOpKind::Min, "min"),
        (IntOpKind::Max, "max"),
        (IntOpKind::Eq, "eq"),
        (IntOpKind::Ne, "ne"),
        (IntOpKind::Lt, "lt"),
        (IntOpKind::Le, "le"),
        (IntOpKind::Gt, "gt"),
        (IntOpKind::Ge, "ge"),
        (IntOpKind::And, "and"),
        (IntOpKind::Or, "or"),
        (IntOpKind::BitAnd, "bitand"),
        (IntOpKind::BitOr, "bitor"),
        (IntOpKind::BitXor, "bitxor"),
        (IntOpKind::Shl, "shl"),
        (IntOpKind::Shr, "shr"),
    ];

    /// Name of the operation, as in the disassembly.
    pub fn name(self) -> &'static str {
        IntOpKind::ALL[self as usize].1
    }

    /// Evaluates the operation; `None` on overflow and division by zero.
    pub fn eval(self, lhs: i64, rhs: i64) -> Option<i64> {
        Some(match self {
            IntOpKind::Add => lhs.checked_add(rhs)?,
            IntOpKind::Sub => lhs.checked_sub(rhs)?,
            IntOpKind::Mul => lhs.checked_mul(rhs)?,
            IntOpKind::FloorDiv => {
                let (quot, rem) = (lhs.checked_div(rhs)?, lhs.checked_rem(rhs)?);
                if rem != 0 && (rem < 0) != (rhs < 0) { quot - 1 } else { quot }
            }
            IntOpKind::FloorMod => {
                let rem = lhs.checked_rem(rhs)?;
                if rem != 0 && (rem < 0) != (rhs < 0) { rem + rhs } else { rem }
            }
            IntOpKind::TruncDiv => lhs.checked_div(rhs)?,
            IntOpKind::TruncMod => lhs.checked_rem(rhs)?,
            IntOpKind::Min => lhs.min(rhs),
            IntOpKind::Max => lhs.max(rhs),
            IntOpKind::Eq => (lhs == rhs).into(),
            IntOpKind::Ne => (lhs != rhs).into(),
            IntOpKind::Lt => (lhs < rhs).into(),
            IntOpKind::Le => (lhs <= rhs).into(),
            IntOpKind::Gt => (lhs > rhs).into(),
            IntOpKind::Ge => (lhs >= rhs).into(),
            IntOpKind::And => (lhs != 0 && rhs != 0).into(),
            IntOpKind::Or => (lhs != 0 || rhs != 0).into(),
            IntOpKind::BitAnd => lhs & rhs,
            IntOpKind::BitOr => lhs | rhs,
            IntOpKind::BitXor => lhs ^ rhs,
            IntOpKind::Shl => lhs.checked_shl(u32::try_from(rhs).ok()?)?,
            IntOpKind::Shr => lhs.checked_shr(u32::try_from(rhs).ok()?)?,
        })
    }
}

/// A list of registers.
pub type Regs = Box<[Reg]>;

/// One instruction. `dst` is the register that it writes.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are explained with each instruction")]
pub enum Instruction {
    /// Copies a register (the handle, not the data).
    Move { dst: Reg, src: Reg },
    /// Returns `src` to the caller.
    Ret { src: Reg },
    /// Calls a function of the executable. The number of `args` is the number of its parameters.
    Invoke { dst: Reg, func: FuncIdx, args: Regs },
    /// Returns what `func(args)` returns, without growing the stack.
    TailInvoke { func: FuncIdx, args: Regs },
    /// Calls the closure in `closure`; its captured values come before `args`. The closure may be a packed function.
    InvokeClosure { dst: Reg, closure: Reg, args: Regs },
    /// Returns what `closure(args)` returns, without growing the stack.
    TailInvokeClosure { closure: Reg, args: Regs },
    /// Runs a kernel in destination-passing style: `args` correspond to the parameters of its signature. Inputs and outputs
    /// are tensors; scalars are integers, floats or tensors of one element. Outputs must be tensors allocated by this run.
    InvokeKernel { kernel: KernelIdx, args: Regs },
    /// Calls a packed function by name with values of any kind; it gets tensors on the host, but those inside of other values
    /// where they are.
    InvokePacked { dst: Reg, func: PackedIdx, args: Regs },
    /// Calls a packed function in destination-passing style: it gets the inputs on the host, and fills the tensors `outputs`, which must be tensors on the
    /// host that were allocated by this run.
    InvokeDpsPacked { func: PackedIdx, inputs: Regs, outputs: Regs },
    /// Takes the tensor in `src`, which becomes null, in order to write to it: the same memory if nobody else has it,
    /// otherwise a copy.
    MakeUnique { dst: Reg, src: Reg },
    /// Allocates `size` bytes on `device`, aligned to `align` (a power of two up to 4096).
    AllocStorage { dst: Reg, size: IntOperand, align: u32, device: Device },
    /// Makes a tensor of constant shape in `storage`, `offset` bytes from its start. `dst` may be the register of the storage,
    /// which then belongs to the tensor alone.
    AllocTensor { dst: Reg, storage: Reg, offset: IntOperand, dtype: DataType, shape: Box<[i64]> },
    /// As `AllocTensor`, but with the shape in a register. A tensor of more than `max_bytes` bytes is an error.
    AllocTensorReg {
        dst: Reg,
        storage: Reg,
        offset: IntOperand,
        dtype: DataType,
        shape: Reg,
        max_bytes: Option<u64>,
    },
    /// Makes an instance of a data type with constructor `tag`, or a tuple (tag 0).
    AllocADT { dst: Reg, tag: u32, fields: Regs },
    /// Makes a closure; the captured values become the first arguments of `func`.
    AllocClosure { dst: Reg, func: FuncIdx, captured: Regs },
    /// Reads field `index` of a tuple or data type.
    GetField { dst: Reg, src: Reg, index: u32 },
    /// Reads the tag of a data type as an integer.
    GetTag { dst: Reg, src: Reg },
    /// Jumps to `on_eq` if `test` (an integer, or a tensor with one element of integer or bool type) equals `target`,
    /// otherwise to `on_ne`. To test a condition, use `target: 0`; `on_ne` is then taken for true.
    If { test: Reg, target: i64, on_eq: Pc, on_ne: Pc },
    /// Jumps unconditionally.
    Goto { target: Pc },
    /// Loads from the constant pool (the handle, not the data).
    LoadConst { dst: Reg, index: ConstIdx },
    /// Loads an integer literal.
    LoadConsti { dst: Reg, value: i64 },
    /// Reads the shape of a tensor.
    ShapeOf { dst: Reg, src: Reg },
    /// Reads extent `axis` of a tensor or shape, as an integer.
    ShapeDim { dst: Reg, src: Reg, axis: u32 },
    /// Makes a shape from integers.
    MakeShape { dst: Reg, dims: Box<[IntOperand]> },
    /// Copies a shape into an `i64` tensor of rank 1.
    ShapeToTensor { dst: Reg, src: Reg },
    /// Makes a shape from an integer tensor of rank 1.
    TensorToShape { dst: Reg, src: Reg },
    /// Gives the tensor in `src` the shape in register `shape`; the result shares the memory.
    ReshapeTensor { dst: Reg, src: Reg, shape: Reg },
    /// Reads the only element of a tensor, as an integer (for integers and bools) or a float.
    ReadScalar { dst: Reg, src: Reg },
    /// Makes a tensor of rank 0 and type `dtype` that holds the integer or float in `src`.
    MakeScalar { dst: Reg, src: Reg, dtype: DataType },
    /// Computes a binary operation on integers.
    IntOp { op: IntOpKind, dst: Reg, lhs: IntOperand, rhs: IntOperand },
    /// Checks the tensor in `src` and binds symbolic dimensions, from left to right. `None` for `dtype` or `dims` skips
    /// that check. `context` names the checked value in the error: "argument `x`".
    CheckTensor { src: Reg, dtype: Option<DataType>, dims: Option<Box<[DimCheck]>>, context: Box<str> },
    /// Checks a shape in the same way.
    CheckShape { src: Reg, dims: Box<[DimCheck]>, context: Box<str> },
    /// Checks the integer in `src`, which is dimension `dim`, against its bounds; it comes from axis `axis` of argument
    /// `arg`, or is that argument.
    CheckBound { src: Reg, bound: DimBound, dim: Box<str>, arg: Box<str>, axis: Option<u32> },
    /// Checks a tensor of indices: positions along its last axis cycle through the extents in the shape `extents`, and
    /// an index for extent `n` must be in `-n..n`. `context` names the operator in the error.
    CheckIndices { src: Reg, extents: Reg, context: Box<str> },
    /// Moves a tensor to `device`: the same handle if it is already there, otherwise a copy.
    DeviceCopy { dst: Reg, src: Reg, device: Device },
    /// Sets a register to null, so that its memory can be reused.
    KillRegister { reg: Reg },
    /// Makes a reference cell that holds `src`.
    RefNew { dst: Reg, src: Reg },
    /// Reads the content of a reference cell.
    RefGet { dst: Reg, src: Reg },
    /// Stores `src` into the reference cell in `cell`.
    RefSet { cell: Reg, src: Reg },
    /// Ends the run with an error that carries `message`.
    Fatal { message: Box<str> },
}

impl Instruction {
    /// Name of the instruction, as in the disassembly.
    pub fn name(&self) -> &'static str {
        match self {
            Instruction::Move { .. } => "move",
            Instruction::Ret { .. } => "ret",
            Instruction::Invoke { .. } => "invoke",
            Instruction::TailInvoke { .. } => "tail_invoke",
            Instruction::InvokeClosure { .. } => "invoke_closure",
            Instruction::TailInvokeClosure { .. } => "tail_invoke_closure",
            Instruction::InvokeKernel { .. } => "invoke_kernel",
            Instruction::InvokePacked { .. } => "invoke_packed",
            Instruction::InvokeDpsPacked { .. } => "invoke_dps_packed",
            Instruction::MakeUnique { .. } => "make_unique",
            Instruction::AllocStorage { .. } => "alloc_storage",
            Instruction::AllocTensor { .. } => "alloc_tensor",
            Instruction::AllocTensorReg { .. } => "alloc_tensor_reg",
            Instruction::AllocADT { .. } => "alloc_adt",
            Instruction::AllocClosure { .. } => "alloc_closure",
            Instruction::GetField { .. } => "get_field",
            Instruction::GetTag { .. } => "get_tag",
            Instruction::If { .. } => "if",
            Instruction::Goto { .. } => "goto",
            Instruction::LoadConst { .. } => "load_const",
            Instruction::LoadConsti { .. } => "load_consti",
            Instruction::ShapeOf { .. } => "shape_of",
            Instruction::ShapeDim { .. } => "shape_dim",
            Instruction::MakeShape { .. } => "make_shape",
            Instruction::ShapeToTensor { .. } => "shape_to_tensor",
            Instruction::TensorToShape { .. } => "tensor_to_shape",
            Instruction::ReshapeTensor { .. } => "reshape_tensor",
            Instruction::ReadScalar { .. } => "read_scalar",
            Instruction::MakeScalar { .. } => "make_scalar",
            Instruction::IntOp { op, .. } => op.name(),
            Instruction::CheckTensor { .. } => "check_tensor",
            Instruction::CheckShape { .. } => "check_shape",
            Instruction::CheckBound { .. } => "check_bound",
            Instruction::CheckIndices { .. } => "check_indices",
            Instruction::DeviceCopy { .. } => "device_copy",
            Instruction::KillRegister { .. } => "kill_register",
            Instruction::RefNew { .. } => "ref_new",
            Instruction::RefGet { .. } => "ref_get",
            Instruction::RefSet { .. } => "ref_set",
            Instruction::Fatal { .. } => "fatal",
        }
    }
}
