//! Operators as functions, for kernels whose element type has no Rust literals (an untyped literal takes the type of the
//! other side), for kernels with integers, which wrap, and for differences, which may be indices below 0.

use super::arithmetic::Arithmetic;
use super::math::{CastTo, Number};

/// `-x`
pub fn neg<T: CastTo>(x: T) -> T {
    T::from_number(match x.number() {
        Number::Int(value) => Number::Int(-value),
        Number::Float(value) => Number::Float(-value),
    })
}

macro_rules! operators {
    ($($name:ident $assign:ident: $method:ident;)*) => {$(
        /// The operator between two values of one type, so that a literal takes the type of the other side.
        #[track_caller]
        pub fn $name<T: Arithmetic>(a: T, b: T) -> T {
            a.$method(b)
        }

        /// The compound assignment of the operator.
        #[track_caller]
        pub fn $assign<T: Arithmetic>(a: &mut T, b: T) {
            *a = a.$method(b);
        }
    )*};
}

operators! {
    add add_assign: plus;
    sub sub_assign: minus;
    mul mul_assign: times;
    div div_assign: over;
    rem rem_assign: rest;
}

macro_rules! comparisons {
    ($($name:ident: $bound:ident $op:tt;)*) => {$(
        /// The operator between two values of one type, so that a literal takes the type of the other side.
        pub fn $name<T: $bound>(a: T, b: T) -> bool {
            a $op b
        }
    )*};
}

comparisons! {
    eq: PartialEq ==;
    ne: PartialEq !=;
    lt: PartialOrd <;
    le: PartialOrd <=;
    gt: PartialOrd >;
    ge: PartialOrd >=;
}
