//! The code that the macros expand to: builders of tensor programs and graph functions, and the runtime of the shadow
//! (the same body as plain Rust).
//!
//! TVM counterpart: `script/ir_builder`.

mod builder;
mod c_function;
mod call;
mod check_schedule;
mod func;
pub mod graph;
mod helper;
mod host;
mod literal;
pub mod shadow;
mod sig;
mod smaller;
mod table;
mod unwritten;
mod value;

pub use builder::{AxisArg, Domain, FuncBuilder, LoopSpec};
pub(crate) use c_function::C_ARITY;
pub use c_function::{CFunction, CScalar, CSignature};
pub use call::CallArg;
pub use check_schedule::{CheckError, check_equivalent, check_schedule};
pub use func::PrimFuncDef;
pub use host::{HostArray, HostConst};
pub use sig::{DimSpec, FuncSig, ParamSpec};
pub use value::{INDEX, KernelValue};
