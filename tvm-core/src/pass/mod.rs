//! Pass infrastructure: a pass takes a module by value and returns one.
//!
//! TVM counterpart: `ir/transform.h`.

mod choices;
mod context;
mod error;
mod instrument;
mod kind;
mod pipelines;
mod registry;
mod sequential;
#[cfg(test)]
mod tests;

pub use choices::{Choice, Choices};
pub use context::{PassConfig, PassContext, Precision};
pub use error::PassError;
pub use instrument::{PassInstrument, PassTiming, PassTimingInstrument, PrintIR, Sink, VerifyEach};
pub use kind::{Pass, PassInfo, PassKind, dataflow_block_pass, function_pass, module_pass, prim_func_pass};
pub use pipelines::Pipelines;
pub use registry::{get_pass, pass_names, register_pass};
pub use sequential::Sequential;
