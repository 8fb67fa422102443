//! Pass infrastructure: a pass takes a module by value and gives one back.
//!
//! TVM counterpart: `ir/transform.h`.

mod context;
mod error;
mod kind;
mod sequential;

pub use context::{PassConfig, PassContext};
pub use error::PassError;
pub use kind::{Pass, PassInfo, PassKind, function_pass, module_pass, prim_func_pass};
pub use sequential::Sequential;
