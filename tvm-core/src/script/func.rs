//! The trait of the types that `#[prim_func]` defines.

use tvm_runtime::Params;

use super::FuncSig;
use crate::ir::{IRModule, IrError};
use crate::tir::PrimFunc;

/// A tensor program written as `#[prim_func]`: the macro implements this for a type of the function's name.
pub trait PrimFuncDef {
    /// Parameter types of a typed call.
    type Args: Params;

    /// True for a kernel, false for a schedule of one.
    const IS_KERNEL: bool = true;

    /// Name and parameters of the program.
    const SIG: FuncSig;

    /// Builds the program.
    fn prim_func() -> Result<PrimFunc, IrError>;

    /// A module of this one program.
    fn module() -> Result<IRModule, IrError> {
        Self::prim_func().map(IRModule::from_prim_func)
    }
}
