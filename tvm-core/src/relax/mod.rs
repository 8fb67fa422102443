//! The graph half: functions over tensors in A-normal form, their operators, passes and lowering to the VM.

pub mod analysis;
mod block_builder;
pub mod op;
pub mod pipeline;
#[cfg(test)]
pub(crate) mod testing;
pub mod transform;
pub mod vm;

pub use crate::ir::graph::*;
