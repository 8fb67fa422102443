//! The nodes of tensor programs: expressions, statements, blocks, buffers, functions; how they are visited and rewritten.
//! The public path of each is [`tir`](crate::tir).

mod binary_op;
mod buffer;
mod expr;
mod function;
mod intrinsic;
mod mutator;
pub(in crate::ir) mod nodes;
mod ops;
mod stmt;
mod visitor;

pub use binary_op::BinaryOp;
pub(crate) use binary_op::{arithmetic, bitwise, comparison, logical};
pub use buffer::{Buffer, BufferNode, Scope};
pub(crate) use expr::C_TYPES;
pub use expr::{
    Binary, Broadcast, BufferLoad, Cast, FloatImm, IntImm, Let, Not, PrimCall, PrimCallee, PrimExpr, Ramp,
    Select, Shuffle,
};
pub use function::{ON_HOST, Param, PrimFunc};
pub use intrinsic::{Effect, Intrinsic, Operands};
pub(crate) use mutator::mutate_slice;
pub use mutator::{Mutator, Substitute, substitute_expr, substitute_stmt};
pub(crate) use nodes::Traverse;
pub use ops::{IntoOperand, binary, eval_int, float_to_int, wide_int, wrap_int};
pub use stmt::{
    AllocBuffer, AssertStmt, Bind, Block, BlockRealize, BufferRegion, BufferStore, DeclBuffer, Evaluate,
    Failure, For, ForKind, IfThenElse, IterKind, IterVar, MatchBufferRegion, Range, Stmt, ThreadTag, While,
};
pub use visitor::{Visitor, any_expr, for_each_load, uses_var, walk_block, walk_expr, walk_stmt};
