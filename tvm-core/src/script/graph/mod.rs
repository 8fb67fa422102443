//! The code that `relax!`, `relay!` and their attribute forms expand to: the user's body runs as Rust over [`GraphValue`]s, and
//! running it builds the graph function. Source places come from `#[track_caller]`.
//!
//! Errors do not unwind: the frame records the first error of an expression, and the value of the expression becomes
//! [`GraphValue::poison`], whose uses report no further errors. [`define`] reports all errors at once.
//!
//! TVM counterpart: `script/ir_builder/relax`.

mod adt;
mod check_call;
mod control;
mod expr;
mod frame;
mod function;
mod item;
pub mod ops;
mod outcome;
mod scalar;
mod tensor_program;
mod value;

pub use adt::{AdtDef, Pat, construct, construct_unit, match_};
pub use check_call::{Text, Written, misuse, wrong_call, wrong_call_tir};
pub use control::{dataflow, if_, match_cast};
pub use expr::{constant, constant_bytes};
pub use frame::{dim, named, typed, untuple};
pub use function::{
    CallOf, Definition, FuncDef, GraphFunc, call_def, define, function, include, local, module_attr,
    module_of,
};
pub use item::{Args, IntoItem, Item, item};
pub use ops::names;
pub use outcome::{
    At, CallResult, CallsFunction, CallsKernel, CallsOperator, KernelCall, Named, NamedCall, Operator,
    Outcome, is_users, result,
};
pub use scalar::{ToScalar, prim, scalar, shape};
pub use tensor_program::{call_dps_packed, call_packed, call_tir, call_tir_inplace, include_tir};
pub use value::{GraphValue, closure, compare, tuple};
