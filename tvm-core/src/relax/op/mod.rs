//! Operators, one file per family: tables of [`OpDef`]s with their type inference and legalisation.
//!
//! Names follow TVM's relax operators. The `infer` function of a definition runs after [`check_call`], so the number and
//! kinds of arguments are right, and every attribute is known and of the right kind. The tensor program of a call is built
//! when all its tensors have known symbolic shapes and element types; the computation itself is in [`crate::topi`].
//! Other crates register their operators in the [`OpRegistry`].
//!
//! TVM counterpart: `src/relax/op`.

mod binary;
mod check;
mod context;
mod create;
mod datatype;
pub mod def;
pub mod device;
mod image;
mod index;
mod layout;
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

use crate::ir::{OpDef, OpRegistry};

impl OpRegistry {
    /// The built-in operator tables.
    pub const BUILT_IN: &[&[OpDef]] = &[
        binary::OPS,
        create::CONSTANTS,
        create::OPS,
        datatype::OPS,
        device::OPS,
        image::OPS,
        index::OPS,
        layout::OPS,
        linear_algebra::OPS,
        manipulate::OPS,
        memory::OPS,
        nn::activation::OPS,
        nn::attention::OPS,
        nn::conv::OPS,
        nn::dense::OPS,
        nn::norm::OPS,
        nn::pad::OPS,
        nn::pool::OPS,
        nn::winograd::OPS,
        shape::OPS,
        sort::OPS,
        statistical::OPS,
        unary::OPS,
    ];
}
