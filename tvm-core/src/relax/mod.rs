//! The graph half: functions over tensors in A-normal form, their operators, passes and lowering to the VM.

pub mod analysis;
mod block_builder;
mod expr;
pub mod mutator;
pub mod op;
#[cfg(test)]
pub(crate) mod testing;
pub mod transform;
pub mod visitor;
pub mod vm;

pub use block_builder::BlockBuilder;
pub use expr::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Clause, Constructor, Expr, Function, If, Match, Pattern,
};
pub use mutator::{Mutator, Substitute};
pub use visitor::Visitor;
