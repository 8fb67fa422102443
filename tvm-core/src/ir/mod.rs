//! The nouns: ids, spans, variables, types, attributes, operators, the nodes of tensor programs and graph functions, the
//! module; and what holds for all of them: comparison, hashing, JSON, scopes.

mod attrs;
mod diagnostic;
mod error;
pub(crate) mod graph;
mod id;
pub mod json;
mod module;
mod node;
mod op;
pub(crate) mod show;
mod span;
pub mod structural;
pub(crate) mod tensor_program;
mod ty;
mod var;
pub(crate) mod well_formed;

pub use attrs::{AttrValue, Attrs};
pub use diagnostic::{Diagnose, Diagnostic, Note, fmt_diagnostics};
pub(crate) use error::FirstError;
pub use error::IrError;
pub use id::{BlockId, BufferId, GlobalVarId, ScheduleId, VarId};
pub use module::{BaseFunc, ExternFunc, IRModule};
pub use op::{
    ArgDef, ArgKind, AttrDef, AttrKind, GraphFn, IndexExtentsFn, InferContext, InferFn, Legalize,
    LegalizeContext, MemoryEffect, Op, OpDef, OpPattern, OpRegistry, TensorProgramFn,
};
pub use span::Span;
pub(crate) use structural::structural_hash_sampled;
pub use structural::{Mismatch, StructuralEqual, structural_equal, structural_hash};
pub use ty::{
    AdtType, ConstructorDef, FuncType, ShapeType, TensorShape, TensorType, Type, TypeDef, TypeParam,
};
pub use var::{GlobalVar, Var};
pub use well_formed::well_formed;
