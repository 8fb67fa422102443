//! Operators, one file per family: tables of [`OpDef`]s with type inference and legalisation.
//!
//! Names follow TVM's relax operators. A definition's `infer` runs after [`check_call`], so it sees the right number
//! of arguments of the right kinds and only known attributes of the right kinds. Its tensor program is built when every
//! tensor involved has a known symbolic shape and element type; the computation itself lives in [`crate::topi`].
//! [`OpRegistry`](crate::ir::OpRegistry) adds operators of other crates.
//!
//! TVM counterpart: `src/relax/op`.

mod binary;
mod check;
mod context;
mod create;
mod datatype;
pub mod def;
mod image;
mod index;
mod linear_algebra;
mod manipulate;
pub mod memory;
mod nn;
mod shape;
mod sort;
mod statistical;
mod unary;

pub use check::check_call;
pub use context::broadcast_dims;
pub(crate) use index::check_indices;

use crate::ir::OpDef;

/// All built-in tables.
pub static TABLES: &[&[OpDef]] = &[
    binary::OPS,
    create::CONSTANTS,
    create::OPS,
    datatype::OPS,
    image::OPS,
    index::OPS,
    linear_algebra::OPS,
    manipulate::OPS,
    memory::OPS,
    nn::activation::OPS,
    nn::conv::OPS,
    nn::norm::OPS,
    nn::pad::OPS,
    nn::pool::OPS,
    shape::OPS,
    sort::OPS,
    statistical::OPS,
    unary::OPS,
];
