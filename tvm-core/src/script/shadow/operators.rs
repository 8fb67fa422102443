//! Operators as functions, for kernels whose element type has no Rust literals: an untyped literal takes the type of the
//! other side.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Rem, RemAssign, Sub, SubAssign};

use super::math::{Cast, Number};

/// `-x`
pub fn neg<T: Cast>(x: T) -> T {
    T::from_number(match x.number() {
        Number::Int(value) => Number::Int(-value),
        Number::Float(value) => Number::Float(-value),
    })
}

macro_rules! same_type {
    ($($name:ident: $bound:ident |$a:ident, $b:ident| $value:expr => $res:ty;)*) => {$(
        /// The operator between two values of one type, so that a literal takes the type of the other side.
        pub fn $name<T: $bound<T, Output = T>>($a: T, $b: T) -> $res {
            $value
        }
    )*};
}

same_type! {
    add: Add |a, b| a + b => T;
    sub: Sub |a, b| a - b => T;
    mul: Mul |a, b| a * b => T;
    div: Div |a, b| a / b => T;
    rem: Rem |a, b| a % b => T;
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

macro_rules! assignments {
    ($($name:ident: $bound:ident $op:tt;)*) => {$(
        /// The operator between two values of one type, so that a literal takes the type of the other side.
        pub fn $name<T: $bound<T>>(a: &mut T, b: T) {
            *a $op b;
        }
    )*};
}

assignments! {
    add_assign: AddAssign +=;
    sub_assign: SubAssign -=;
    mul_assign: MulAssign *=;
    div_assign: DivAssign /=;
    rem_assign: RemAssign %=;
}
