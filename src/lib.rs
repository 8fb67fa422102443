//! A tensor compiler embedded in Rust: kernels and models are written inline, compiled to native code, and called with
//! types.
//!
//! ```
//! use tvm::prelude::*;
//!
//! #[prim_func]
//! fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
//!     for i in 0..n {
//!         y[[i]] = x[[i]] * s;
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let f = scale::compile(&Target::host())?;
//! let mut y = [0.0f32; 3];
//! f.call(&[1.0f32, 2.0, 3.0], 2.0, &mut y)?;
//! assert_eq!(y, [2.0, 4.0, 6.0]);
//!
//! scale::reference(&[1.0f32, 2.0, 3.0], 3.0, &mut y)?; // the same function as plain Rust
//! assert_eq!(y, [3.0, 6.0, 9.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # The guide
//! The guide is the way in: the folder `docs/guide` of the repository, an mdBook (`mdbook serve docs/guide`) whose chapters are also
//! plain Markdown files. Its examples are tests of this crate.
//!
//! | to | read the chapter | and here |
//! |---|---|---|
//! | write a kernel | "A first kernel", "The kernel language" | [`prim_func`](macro@prim_func), [`prim_helper`](macro@prim_helper), [`CompiledFn`] |
//! | make it fast | "Schedules" | [`schedule`](macro@schedule), [`tir::schedule::Schedule`], [`dlight`] |
//! | write a network | "Graphs", "Operators" | [`relax::func`](macro@relax::func), [`relax!`](macro@relax), [`ir_module`](macro@ir_module) |
//! | write recursive programs over data types | "Graphs" | [`relay::func`](macro@relay::func), [`relay::adt`](macro@relay::adt), [`relay!`](macro@relay) |
//! | run an ONNX model | "Models", "Serving" | `Model`, `CompiledModel`, `onnx` |
//! | compile a model while the application is built | "Models in a build script" | [`include_model!`], the crate `tvm-build` |
//! | rewrite programs | "Passes" | [`pass`], [`pipeline`] |
//! | choose a code generator or another machine | "Targets and features" | [`target::Target`], [`codegen`] |
//! | understand an error or a wrong result | "Debugging" | [`Report`], [`pass::PrintIR`], [`tir::interp`] |
//!
//! The chapters "What tensor programs mean", "What graph functions mean" and "The virtual machine and its artifacts" define what
//! programs compute.
//!
//! # Modules
//! [`prelude`] has what almost every program needs. [`ir`], [`tir`], [`relax`](mod@relax), [`te`] and [`topi`] are programs as data;
//! [`runtime`] is what runs them: tensors, devices, the virtual machine. Applications that only run compiled models depend on
//! `tvm-runtime` alone.

mod compile;
#[cfg(doctest)]
mod guide;
mod include_model;
#[cfg(feature = "onnx")]
mod model;

pub use compile::CompileError;
#[cfg(feature = "onnx")]
pub use model::{
    CapturedModel, CompiledModel, DimInfo, Input, InputList, Inputs, IntoInput, Model, ModelError,
    NamedInput, OutputKey, Outputs, RunOptions, TensorInfo,
};
pub use tvm_codegen as codegen;
pub use tvm_codegen::{BestTarget, Report};
pub use tvm_core::pass::Precision;
pub use tvm_core::{arith, dlight, ir, pass, pipeline, script, target, te, tir, topi};
#[doc(inline)]
pub use tvm_macros::{ir_module, prim_func, prim_helper, relax, relay, schedule};
#[cfg(feature = "onnx")]
pub use tvm_onnx as onnx;
pub use tvm_runtime as runtime;
#[cfg(feature = "ndarray")]
pub use tvm_runtime::ndarray;
pub use tvm_runtime::{CompiledFn, DataType, Device, In, Out, RuntimeError, Tensor};

/// Graph functions: operators, passes, lowering; `#[relax::func]`.
pub mod relax {
    pub use tvm_core::relax::*;
    #[doc(inline)]
    pub use tvm_macros::relax_func as func;
}

/// The functional surface syntax of graphs: `#[relay::func]`, `#[relay::adt]`.
pub mod relay {
    pub use tvm_core::relay::*;
    #[doc(inline)]
    pub use tvm_macros::{relay_adt as adt, relay_func as func};
}

/// Items that almost every program needs.
pub mod prelude {
    pub use crate::ir::{IRModule, IrError};
    pub use crate::runtime::{CompiledFn, DataType, Device, Element, RuntimeError, Tensor};
    pub use crate::target::Target;
    pub use crate::tir::schedule::{Schedule, ScheduleError};
    pub use crate::tir::{Scope, ThreadTag};
    #[cfg(feature = "onnx")]
    pub use crate::{CompiledModel, Model, Precision, RunOptions};
    pub use crate::{ir_module, prim_func, prim_helper, relax, relay, schedule};
    pub use half::{bf16, f16};
}

/// Items that macro expansions refer to. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::compile::{CompileError, compile};
    pub use tvm_core::script::shadow;
    pub use tvm_core::target::Target;
    pub use tvm_core::{ir, script, tir};
    pub use tvm_runtime as runtime;
}
