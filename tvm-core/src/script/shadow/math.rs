//! Numeric operations of the shadow, as free functions and as methods.
//!
//! Methods of `f32` and `f64` that the standard library has are used as they are; [`Math`] adds the others, and all of
//! them for half precision. The functions `max` and `min` return NaN when either side is NaN, and the first of two equal
//! values. The methods `max` and `min` are Rust's: of a NaN and a number they return the number, and of two equal values
//! here the second (Rust does not specify which zero).

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Rem, Sub, SubAssign};

use tvm_runtime::{Element, TypedParam};

use super::arithmetic::Arithmetic;
use crate::support::{to_bf16, to_f16};

/// A number during a conversion between types.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Of an integer type or bool.
    Int(i128),
    /// Of a float type.
    Float(f64),
}

/// A type that `as` converts from and to.
pub trait CastTo: Copy {
    /// The value.
    fn number(self) -> Number;
    /// The value as this type, as `as` converts it.
    fn from_number(number: Number) -> Self;
}

/// An element type that kernels compute with; what a type parameter `T: Element` of a kernel stands for.
#[diagnostic::on_unimplemented(message = "a kernel cannot compute with `{Self}`")]
pub trait Scalar:
    Element
    + TypedParam
    + CastTo
    + Arithmetic
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// The larger, as for Rust's floats: of a NaN and a number, the number.
    #[must_use]
    fn max(self, other: Self) -> Self {
        max_of_numbers(self, other)
    }

    /// The smaller, as for Rust's floats: of a NaN and a number, the number.
    #[must_use]
    fn min(self, other: Self) -> Self {
        min_of_numbers(self, other)
    }

    /// Absolute value.
    #[must_use]
    fn abs(self) -> Self {
        match self.number() {
            Number::Int(value) => Self::from_number(Number::Int(value.abs())),
            Number::Float(value) => Self::from_number(Number::Float(value.abs())),
        }
    }
}

macro_rules! casts {
    ($($ty:ty: $number:pat => $from:expr, |$int:ident| $to_int:expr, |$float:ident| $to_float:expr;)*) => {$(
        impl CastTo for $ty {
            fn number(self) -> Number {
                let $number = self;
                $from
            }

            fn from_number(number: Number) -> Self {
                match number {
                    Number::Int($int) => $to_int,
                    Number::Float($float) => $to_float,
                }
            }
        }
    )*};
}

macro_rules! integers {
    ($($ty:ty)*) => {
        casts! { $($ty: it => Number::Int(it as i128), |it| it as $ty, |it| it as $ty;)* }
    };
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 usize }

casts! {
    f32: it => Number::Float(it.into()), |it| it as f32, |it| it as f32;
    f64: it => Number::Float(it), |it| it as f64, |it| it;
    half::f16: it => Number::Float(it.to_f64()), |it| to_f16(it as f64), |it| to_f16(it);
    half::bf16: it => Number::Float(it.to_f64()), |it| to_bf16(it as f64), |it| to_bf16(it);
}

impl CastTo for bool {
    fn number(self) -> Number {
        Number::Int(self.into())
    }

    fn from_number(number: Number) -> bool {
        match number {
            Number::Int(value) => value != 0,
            Number::Float(value) => value != 0.0,
        }
    }
}

macro_rules! scalars {
    ($($ty:ty)*) => {
        $(impl Scalar for $ty {})*
    };
}

scalars! { f32 f64 half::f16 half::bf16 i8 i16 i32 i64 u8 u16 u32 u64 }

/// `value as To`, also for half precision and type parameters.
pub fn cast<To: CastTo>(value: impl CastTo) -> To {
    To::from_number(value.number())
}

/// A float literal in a kernel whose element type is a parameter or of half precision.
///
/// # Panics
/// If the type does not have this value; a call of the kernel reports it as an error.
pub fn lit<T: CastTo>(value: f64) -> T {
    let res = T::from_number(Number::Float(value));
    if let Number::Int(got) = res.number() {
        assert!(got as f64 == value, "the literal {value} is no value of the element type");
    }
    res
}

/// [`lit`] for a literal whose nearest `f64` rounds to narrower types differently from the literal itself; `odd` rounds
/// like the literal.
pub fn lit_near<T: CastTo>(nearest: f64, odd: f64) -> T {
    let res: T = lit(odd);
    match res.number() {
        // An `f64` holds `odd` exactly, so here the value is `nearest`.
        Number::Float(got) if got == odd => T::from_number(Number::Float(nearest)),
        Number::Float(_) | Number::Int(_) => res,
    }
}

/// `if condition { a } else { b }` with both evaluated.
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    if condition { a } else { b }
}

/// The larger; NaN if either is NaN; the first of two equal values.
pub fn max<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if b > a || b.partial_cmp(&b).is_none() { b } else { a }
}

/// The smaller; NaN if either is NaN; the first of two equal values.
pub fn min<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if b < a || b.partial_cmp(&b).is_none() { b } else { a }
}

/// `a.max(b)`: the larger; of a NaN and a number, the number; the second of two equal values.
pub fn max_of_numbers<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if a > b || b.partial_cmp(&b).is_none() { a } else { b }
}

/// `a.min(b)`: the smaller; of a NaN and a number, the number; the second of two equal values.
pub fn min_of_numbers<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if a < b || b.partial_cmp(&b).is_none() { a } else { b }
}

/// Integer division toward minus infinity.
pub fn floordiv<T: CastTo>(a: T, b: T) -> T {
    integers(a, b, |a, b| (a / b) - i128::from(a % b != 0 && (a < 0) != (b < 0)))
}

/// Remainder of [`floordiv`].
pub fn floormod<T: CastTo>(a: T, b: T) -> T {
    integers(a, b, |a, b| ((a % b) + b) % b)
}

/// Number of one bits.
pub fn count_ones<T: CastTo + Element>(x: T) -> u32 {
    bits(x).count_ones()
}

/// Number of leading zero bits.
pub fn leading_zeros<T: CastTo + Element>(x: T) -> u32 {
    bits(x).leading_zeros() - (128 - u32::from(T::DTYPE.bits()))
}

/// The bits of an integer, extended with zeros.
fn bits<T: CastTo + Element>(x: T) -> u128 {
    match x.number() {
        Number::Int(value) => value as u128 & (u128::MAX >> (128 - u32::from(T::DTYPE.bits()))),
        Number::Float(_) => 0,
    }
}

fn integers<T: CastTo>(a: T, b: T, f: impl FnOnce(i128, i128) -> i128) -> T {
    match (a.number(), b.number()) {
        (Number::Int(a), Number::Int(b)) => T::from_number(Number::Int(f(a, b))),
        _ => a,
    }
}

/// Absolute value.
pub fn abs<T: CastTo>(x: T) -> T {
    T::from_number(match x.number() {
        Number::Int(value) => Number::Int(value.abs()),
        Number::Float(value) => Number::Float(value.abs()),
    })
}

macro_rules! math {
    (
        functions { $($(#[$doc:meta])* $name:ident($x:ident $(, $y:ident)*) = $value:expr;)* }
        methods { $($(#[$m_doc:meta])* $m_name:ident($m_x:ident $(, $m_y:ident)*) = $m_value:expr;)* }
    ) => {
        /// A float type with the math functions of kernels.
        #[diagnostic::on_unimplemented(message = "math functions need a float, `{Self}` is none")]
        pub trait Math: CastTo {
            /// `self * y + z` with one rounding.
            #[must_use]
            fn fma(self, y: Self, z: Self) -> Self {
                Self::from_number(Number::Float(to_f64(self).mul_add(to_f64(y), to_f64(z))))
            }

            /// `1 / sqrt(self)`; the root is rounded before the division.
            #[must_use]
            fn rsqrt(self) -> Self {
                let root = Self::from_number(Number::Float(to_f64(self).sqrt()));
                Self::from_number(Number::Float(1.0 / to_f64(root)))
            }

            /// `self * y + z` with one rounding, as Rust names it.
            #[must_use]
            fn mul_add(self, y: Self, z: Self) -> Self {
                Math::fma(self, y, z)
            }

            $($(#[$doc])*
            #[must_use]
            fn $name(self $(, $y: Self)*) -> Self {
                let $x = to_f64(self);
                $(let $y = to_f64($y);)*
                Self::from_number(Number::Float($value))
            })*

            $($(#[$m_doc])*
            #[must_use]
            fn $m_name(self $(, $m_y: Self)*) -> Self {
                let $m_x = to_f64(self);
                $(let $m_y = to_f64($m_y);)*
                Self::from_number(Number::Float($m_value))
            })*

            /// True for NaN.
            fn is_nan(self) -> bool {
                to_f64(self).is_nan()
            }

            /// True for an infinity.
            fn is_inf(self) -> bool {
                to_f64(self).is_infinite()
            }
        }

        $($(#[$doc])*
        pub fn $name<T: Math>($x: T $(, $y: T)*) -> T {
            Math::$name($x $(, $y)*)
        })*
    };
}

fn to_f64(value: impl CastTo) -> f64 {
    match value.number() {
        Number::Int(value) => value as f64,
        Number::Float(value) => value,
    }
}

math! {
    functions {
        /// e to the x.
        exp(x) = x.exp();
        /// 2 to the x.
        exp2(x) = x.exp2();
        /// Natural logarithm.
        log(x) = x.ln();
        /// Logarithm to base 2.
        log2(x) = x.log2();
        /// Logarithm to base 10.
        log10(x) = x.log10();
        /// `log(1 + x)`.
        log1p(x) = x.ln_1p();
        /// Square root.
        sqrt(x) = x.sqrt();
        /// x to the y.
        pow(x, y) = x.powf(y);
        /// Sine.
        sin(x) = x.sin();
        /// Cosine.
        cos(x) = x.cos();
        /// Tangent.
        tan(x) = x.tan();
        /// Inverse sine.
        asin(x) = x.asin();
        /// Inverse cosine.
        acos(x) = x.acos();
        /// Inverse tangent.
        atan(x) = x.atan();
        /// Angle of the point (x, y), given as `atan2(y, x)`.
        atan2(x, y) = x.atan2(y);
        /// Hyperbolic sine.
        sinh(x) = x.sinh();
        /// Hyperbolic cosine.
        cosh(x) = x.cosh();
        /// Hyperbolic tangent.
        tanh(x) = x.tanh();
        /// Inverse hyperbolic sine.
        asinh(x) = x.asinh();
        /// Inverse hyperbolic cosine.
        acosh(x) = x.acosh();
        /// Inverse hyperbolic tangent.
        atanh(x) = x.atanh();
        /// Error function.
        erf(x) = libm::erf(x);
        /// `1 / (1 + exp(-x))`.
        sigmoid(x) = 1.0 / (1.0 + (-x).exp());
        /// Largest integer not above x.
        floor(x) = x.floor();
        /// Smallest integer not below x.
        ceil(x) = x.ceil();
        /// Rounds toward zero.
        trunc(x) = x.trunc();
        /// Rounds to the nearest integer, halves to even.
        round(x) = x.round_ties_even();
        /// Magnitude of x, sign of y.
        copysign(x, y) = x.copysign(y);
    }
    methods {
        /// Natural logarithm, as Rust names it.
        ln(x) = x.ln();
        /// `log(1 + x)`, as Rust names it.
        ln_1p(x) = x.ln_1p();
        /// x to the y, as Rust names it.
        powf(x, y) = x.powf(y);
        /// Rounds to the nearest integer, halves to even, as Rust names it.
        round_ties_even(x) = x.round_ties_even();
    }
}

impl Math for f32 {
    fn fma(self, y: f32, z: f32) -> f32 {
        f32::mul_add(self, y, z)
    }
}
impl Math for f64 {}
impl Math for half::f16 {}
impl Math for half::bf16 {}

/// `a * b + c` with one rounding.
pub fn fma<T: Math>(a: T, b: T, c: T) -> T {
    Math::fma(a, b, c)
}

/// `1 / sqrt(x)`; the root is rounded before the division.
pub fn rsqrt<T: Math>(x: T) -> T {
    Math::rsqrt(x)
}

/// True for NaN.
pub fn is_nan<T: Math>(x: T) -> bool {
    Math::is_nan(x)
}

/// True for an infinity.
pub fn is_inf<T: Math>(x: T) -> bool {
    Math::is_inf(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert!((erf(0.5f64) - 0.520_499_877_813_046_5).abs() < 1e-15);
        assert!((erf(-2.0f64) + 0.995_322_265_018_952_7).abs() < 1e-14);
        assert_eq!(erf(0.0f32), 0.0);
        assert!(max(f32::NAN, 1.0).is_nan() && max(1.0, f32::NAN).is_nan());
        assert!(min(f32::NAN, 1.0).is_nan() && min(1.0, f32::NAN).is_nan());
        assert_eq!(cast::<u8>(300i32), 300i32 as u8);
        assert_eq!(cast::<u8>(300f32), 255);
        assert_eq!(cast::<half::f16>(2usize).to_f32(), 2.0);
        assert_eq!(round(2.5f32), 2.0);
        assert_eq!([floordiv(-7i32, 2), floormod(-7, 2), floordiv(7, -2), floormod(7, -2)], [-4, 1, -4, -1]);
        assert_eq!((count_ones(-1i8), leading_zeros(1u16), leading_zeros(-1i64)), (8, 15, 0));
    }
}
