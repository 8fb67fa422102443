//! The nodes of graph functions: bindings, bodies, expressions, functions; how they are visited, rewritten and built.
//! The public path of each is [`relax`](crate::relax).

mod block_builder;
mod expr;
pub mod mutator;
mod nodes;
pub mod visitor;

pub use block_builder::BlockBuilder;
pub use expr::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Clause, Constructor, Expr, Function, If, Match, Pattern,
};
pub use mutator::{ExprMutator, ExprSubstitute};
pub use visitor::ExprVisitor;
