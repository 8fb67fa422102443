//! Arithmetic of kernels: integers wrap, in debug builds too, where Rust's operators panic. Indices (`usize`) do not: an
//! index that overflows is an error. An index below 0, which compiled kernels compute with, has no value here: it is a panic, in
//! release builds too.

use half::{bf16, f16};

/// A type that kernels add, subtract, multiply and divide.
#[diagnostic::on_unimplemented(message = "a kernel cannot compute with `{Self}`")]
pub trait Arithmetic: Copy {
    /// `self + other`
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// `self - other`
    #[must_use]
    #[track_caller]
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
    ($($ty:ty, |$a:ident, $b:ident| $minus:expr;)*) => {$(
        impl Arithmetic for $ty {
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[track_caller]
            fn minus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $minus
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
others! {
    usize, |a, b| difference(a, b);
    f32, |a, b| a - b;
    f64, |a, b| a - b;
    f16, |a, b| a - b;
    bf16, |a, b| a - b;
}

/// The difference of two indices.
#[track_caller]
fn difference(a: usize, b: usize) -> usize {
    assert!(
        a >= b,
        "the index {a} - {b} is below 0: the plain Rust form of a kernel cannot compute it (compiled code and the \
         interpreter can); compare first (`i >= {b} && ..`), or add on the other side of a comparison"
    );
    a - b
}
