//! Constants of the host program (constants, const generics, type parameters' constants) captured in a kernel.

use tvm_runtime::Element;

use super::KernelValue;
use super::shadow::{CastTo, Number};
use crate::tir::PrimExpr;

/// A type of which constants can be captured in a kernel.
#[diagnostic::on_unimplemented(
    message = "a constant of type `{Self}` cannot be used in a kernel",
    note = "kernels capture integers, floats and bools"
)]
pub trait HostConst: Copy {
    /// The constant as a kernel value.
    fn to_value(self) -> KernelValue;
}

impl HostConst for usize {
    fn to_value(self) -> KernelValue {
        KernelValue::index(PrimExpr::index(self as i64))
    }
}

/// A constant array of the host program, of any number of dimensions.
pub trait HostArray {
    /// Extents of the array; none for a single constant.
    fn extents() -> Vec<i64>;

    /// Elements of the array, the last axis fastest.
    fn elements(&self) -> Vec<KernelValue>;
}

impl<T: HostConst> HostArray for T {
    fn extents() -> Vec<i64> {
        Vec::new()
    }

    fn elements(&self) -> Vec<KernelValue> {
        vec![self.to_value()]
    }
}

impl<T: HostArray, const N: usize> HostArray for [T; N] {
    fn extents() -> Vec<i64> {
        [N as i64].into_iter().chain(T::extents()).collect()
    }

    fn elements(&self) -> Vec<KernelValue> {
        self.iter().flat_map(HostArray::elements).collect()
    }
}

macro_rules! captured {
    ($($ty:ty)*) => {$(
        impl HostConst for $ty {
            fn to_value(self) -> KernelValue {
                let dtype = <$ty as Element>::DTYPE;
                KernelValue::typed(match self.number() {
                    Number::Int(value) => PrimExpr::int(value as i64, dtype),
                    Number::Float(value) => PrimExpr::float(value, dtype),
                })
            }
        }
    )*};
}

captured!(i8 i16 i32 i64 u8 u16 u32 u64 bool f32 f64 half::f16 half::bf16);
