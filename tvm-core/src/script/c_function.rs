//! C functions that kernels call: `unsafe { cbrtf(x) }`.

use std::sync::Arc;

use tvm_runtime::{DataType, Element};

use super::{FuncBuilder, KernelValue};
use crate::tir::{PrimCall, PrimCallee, PrimExpr};

/// Most parameters that a C function may have.
pub(crate) const C_ARITY: usize = 8;

/// A Rust type that a C function takes and returns.
#[diagnostic::on_unimplemented(
    message = "a C function of kernels neither takes nor returns `{Self}`",
    note = "the types are i32, i64, u32, u64, f32 and f64"
)]
pub trait CScalar: Element {}

impl CScalar for i32 {}
impl CScalar for i64 {}
impl CScalar for u32 {}
impl CScalar for u64 {}
impl CScalar for f32 {}
impl CScalar for f64 {}

/// The types of a C function.
#[derive(Clone, Debug)]
pub struct CSignature {
    params: Vec<DataType>,
    result: DataType,
}

/// A pointer to a C function of scalars.
pub trait CFunction {
    /// Its types.
    fn signature(&self) -> CSignature;
}

macro_rules! c_functions {
    ($(($($param:ident)*))*) => {$(
        impl<$($param: CScalar,)* Res: CScalar> CFunction for unsafe extern "C" fn($($param),*) -> Res {
            fn signature(&self) -> CSignature {
                CSignature { params: vec![$($param::DTYPE),*], result: Res::DTYPE }
            }
        }
    )*};
}

c_functions! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

impl FuncBuilder {
    /// `unsafe { symbol(args) }`: the result of the C function `symbol`.
    pub fn call_c<const N: usize>(
        &self,
        loc: (u32, u32),
        symbol: &str,
        function: &impl CFunction,
        args: [KernelValue; N],
    ) -> KernelValue {
        let CSignature { params, result } = function.signature();
        let typed = |(i, (arg, dtype)): (usize, (KernelValue, &DataType))| {
            let arg = arg.into_typed(*dtype);
            if arg.dtype() != *dtype {
                let message = format!("argument {i} of `{symbol}` is {}, expected {dtype}", arg.dtype());
                self.error(loc, message, "convert it with `as`");
            }
            arg
        };
        let args: Vec<PrimExpr> = args.into_iter().zip(&params).enumerate().map(typed).collect();
        KernelValue::typed(PrimExpr::Call(Arc::new(PrimCall {
            callee: PrimCallee::PureExtern(symbol.into()),
            args: args.into(),
            dtype: result,
            span: self.span(loc),
        })))
    }
}
