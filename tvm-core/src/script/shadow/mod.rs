//! The runtime of the shadow: a `#[prim_func]`'s body, compiled and run as plain Rust.
//!
//! Loops and blocks run one after another in program order; an index out of bounds panics, which a call of the shadow
//! reports as an error.

mod call;
mod iter;
mod math;
mod view;

pub use call::{ScalarArg, arg_error, check_bound, check_extent, extent, reference, scalar};
pub use iter::{Axis, O, Q, R, S, block, grid, init};
pub use math::*;
pub use view::{Local, View, ViewMut, alloc};
