//! The virtual machine: bytecode, verifier, interpreter.
//!
//! TVM counterpart: `runtime/vm` (Relay) and `runtime/relax_vm`.

mod args;
mod capture;
mod display;
mod executable;
mod indices;
mod instruction;
mod interp;
mod lent;
mod machine;
mod ops;
mod options;
mod pool;
mod profile;
mod verify;
mod workspace;

pub use args::IntoArgs;
pub(crate) use capture::CaptureLog;
pub use capture::CapturedCall;
pub use executable::{CodeObject, Constant, Executable, ObjectKind, ValueType, VmFunction, VmParam};
pub use instruction::{
    ConstIdx, DimCheck, FuncIdx, Instruction, IntOpKind, IntOperand, KernelIdx, PackedIdx, Pc, Reg, Regs,
};
pub use machine::{Vm, VmConfig};
pub use options::{CallOptions, CancelToken};
pub use profile::{Profile, ProfileArg, ProfileCall, ProfileEntry, ProfileKind};
pub use verify::{MAX_ALIGN, MAX_REGS, VerifyError, verify};
pub use workspace::Workspace;

#[cfg(test)]
mod tests;
