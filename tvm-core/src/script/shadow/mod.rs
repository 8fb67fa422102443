//! The runtime of the shadow: a `#[prim_func]`'s body, compiled and run as plain Rust.
//!
//! Loops and blocks run one after another in program order; an index out of bounds panics, which a call of the shadow
//! reports as an error.

mod arithmetic;
mod call;
mod iter;
mod math;
mod operators;
mod view;

pub use arithmetic::Arithmetic;
pub use call::{
    ScalarArg, arg_error, assertion, check_bound, check_extent, enter, expect, extent, reference, scalar,
};
pub use iter::Axis;
pub use math::{CastTo, Math, Number, Scalar, abs, cast, lit, lit_near, max_of_numbers, min_of_numbers};
pub use operators::*;
pub use view::{AsView, AsViewMut, Local, Region, View, ViewMut, region, single};

/// The names that are in scope in a kernel's body.
pub mod kernel {
    pub use super::iter::{O, Q, R, S, bind, block, grid, init};
    pub use super::math::{
        Math as _, abs, acos, acosh, asin, asinh, atan, atan2, atanh, ceil, copysign, cos, cosh, count_ones,
        erf, exp, exp2, floor, floordiv, floormod, fma, is_inf, is_nan, leading_zeros, log, log1p, log2,
        log10, max, min, pow, round, rsqrt, select, sigmoid, sin, sinh, sqrt, tan, tanh, trunc,
    };
    pub use super::view::alloc;
}
