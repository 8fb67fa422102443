//! Runtime of tvm: data types, tensors, modules, virtual machine, artifacts. It contains no compiler; a deployed model
//! links nothing else of tvm.
//!
//! - [`Tensor`]: shared, dense memory with a shape; converts to and from `ndarray` and DLPack without copying.
//! - [`Kernel`] and [`CompiledFn`]: compiled functions on tensors, called by signature or by type. They come from a
//!   [`Module`] or a [`Library`]. [`abi`] is the binary interface of their machine code.
//! - [`vm`]: whole programs in bytecode that call kernels; [`artifact`]: such programs as files.
//! - [`include_model!`], [`LinkedModel`]: models that a build script compiled into the application; [`include_kernel!`]: kernels.
//! - [`PackedFunc`]: functions of the application that programs call by name; [`RuntimeModule`]: such functions of an
//!   external code generator, which artifacts carry.
//! - [`Device`]: where tensors are; [`DeviceProgram`]: kernels that run on a GPU, and how they are launched.
//! - [`ThreadPool`]: runs parallel loops.
//!
//! ```no_run
//! use tvm_runtime::vm::{Executable, Vm};
//! use tvm_runtime::{RuntimeError, Tensor};
//!
//! # fn main() -> Result<(), RuntimeError> {
//! // SAFETY: we compiled `digits.tvm`, and nobody else can write to it.
//! let model = unsafe { Vm::linked(Executable::load_file("digits.tvm")?)? };
//! let image = Tensor::from_vec(vec![0.0f32; 64], &[1, 1, 8, 8])?;
//! let scores: Tensor = model.invoke("main", &[image.into()])?.try_into()?;
//! println!("{:?}", scores.as_slice::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! No function of this crate panics on bad input: wrong arguments, damaged files and hostile bytecode are errors.

pub mod abi;
#[cfg(feature = "ndarray")]
mod arrays;
pub mod artifact;
mod call;
mod context;
mod cpu;
mod cpu_level;
mod device;
mod dim_bound;
mod dtype;
mod error;
mod host_arg;
mod kernel;
mod launch;
mod model;
mod module;
mod packed;
mod status;
mod tensor;
mod thread_pool;
mod trust;
mod value;
pub mod vm;

#[cfg(feature = "ndarray")]
pub use arrays::Rank;
pub use call::{AsInput, AsOutput, CompiledFn, In, Out, Params, TypedArg, TypedParam};
pub use cpu::{all_cpu_features, cpu_features, cpu_requirements, least_level, level_features, level_index};
pub use cpu_level::{choose_cpu_level, cpu_level_list};
pub use device::{Device, DeviceKind, DeviceProperties, ParseDeviceError};
pub use dim_bound::{DimBound, DimBoundError};
pub use dtype::{DTypeCode, DataType, Element, ParseDataTypeError};
pub use error::RuntimeError;
#[doc(hidden)]
pub use half;
pub use host_arg::{HostArg, TensorView, TensorViewMut};
pub use kernel::{Backend, DimSig, HostFn, Kernel, KernelSig, ParamKind, ParamSig};
pub use launch::{
    Argument, CodeFormat, DeviceImage, DeviceProgram, HostInstr, HostOp, HostParam, HostProgram, HostQuery,
    HostReg, KernelFailure, LaunchArg, LaunchError, LaunchPlan, Step,
};
#[doc(hidden)]
pub use launch::{float_to_int, wide_int, wrap_int};
#[doc(hidden)]
pub use model::{ModelCall, ModelOutputs, ShapeOf};
pub use model::{ModelInput, TypedTensor};
pub use module::{ABI_SYMBOL, KernelTable, Library, LinkedModel, Module, ModuleLoader, RuntimeModule};
#[doc(hidden)]
pub use module::{Aligned, EmbeddedGpu, EmbeddedKernel, EmbeddedModel, LinkedKernel};
#[cfg(feature = "ndarray")]
pub use ndarray;
pub use packed::{
    FromValue, IntoPacked, PackedFunc, get_global_func, global_func_names, register_global_func,
    remove_global_func,
};
pub use tensor::{
    ALIGNMENT, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, Shape, Storage, Tensor, byte_size,
};
#[cfg(feature = "rayon")]
pub use thread_pool::RayonPool;
pub use thread_pool::{SerialPool, ThreadPool, WorkerPool, parallel_for, set_thread_pool, thread_pool};
pub use trust::Trust;
pub use value::{Adt, Closure, RefCell, Value};
