//! Arithmetic of kernels: integers wrap, in debug builds too, where Rust's operators panic. Indices (`usize`) keep Rust's
//! operators, because an index that overflows is an error.

use half::{bf16, f16};

/// A type that kernels add, subtract, multiply and divide.
#[diagnostic::on_unimplemented(message = "a kernel cannot compute with `{Self}`")]
pub trait Arithmetic: Copy {
    /// `self + other`
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// `self - other`
    #[must_use]
    fn minus(self, other: Self) -> Self;
    /// `self * other`
    #[must_use]
    fn times(self, other: Self) -> Self;
    /// `self / other`
    #[must_use]
    fn over(self, other: Self) -> Self;
    /// `self % other`
    #[must_use]
    fn rest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Arithmetic for $ty {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn over(self, other: Self) -> Self {
                self.wrapping_div(other)
            }
            fn rest(self, other: Self) -> Self {
                self.wrapping_rem(other)
            }
        }
    )*};
}

macro_rules! others {
    ($($ty:ty)*) => {$(
        impl Arithmetic for $ty {
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn over(self, other: Self) -> Self {
                self / other
            }
            fn rest(self, other: Self) -> Self {
                self % other
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
others! { usize f32 f64 f16 bf16 }
