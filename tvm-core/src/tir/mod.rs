//! TensorIR: expressions, statements, blocks, buffers, tensor programs; analyses, passes and schedules over them.

pub mod analysis;
mod derive_blocks;
pub mod index_map;
pub mod interp;
pub mod layout;
pub mod pipeline;
pub mod schedule;
mod signature;
pub mod tensor_intrin;
#[cfg(test)]
pub(crate) mod testing;
pub mod transform;
pub(crate) mod words;

pub use crate::ir::tensor_program::*;
pub(crate) use derive_blocks::{BlockNames, derive_blocks};
pub use index_map::{IndexMap, IndexMapError};
pub use layout::{Layout, LayoutAxis};
pub use signature::{dim_sig, kernel_sig};
pub use tensor_intrin::TensorIntrin;
