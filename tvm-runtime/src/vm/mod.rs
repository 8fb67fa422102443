//! The virtual machine: bytecode, verifier, interpreter.
//!
//! TVM counterpart: `runtime/vm` (Relay) and `runtime/relax_vm`.

mod executable;
mod instruction;
mod verify;

pub use executable::{Constant, Executable, KernelObject, ObjectKind, ValueType, VmFunction, VmParam};
pub use instruction::{
    ConstIdx, DimCheck, FuncIdx, Instruction, IntOpKind, IntOperand, KernelIdx, PackedIdx, Pc, Reg, Regs,
};
pub use verify::{VerifyError, verify};
