//! Runtime of tvm: data types, tensors, modules, virtual machine, artifacts. No compiler in it: this is all that a
//! deployed model links.

pub mod abi;
pub mod artifact;
mod context;
mod device;
mod dtype;
mod error;
mod host_arg;
mod kernel;
mod status;
mod tensor;
mod thread_pool;
mod value;
pub mod vm;

pub use device::{Device, DeviceKind};
pub use dtype::{DTypeCode, DataType, Element, ParseDataTypeError};
pub use error::RuntimeError;
pub use host_arg::{HostArg, TensorView, TensorViewMut};
pub use kernel::{DimSig, HostFn, Kernel, KernelSig, ParamKind, ParamSig};
pub use tensor::{
    ALIGNMENT, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, Shape, Storage, Tensor, byte_size,
};
pub use thread_pool::{Sequential, ThreadPool, WorkerPool, parallel_for, set_thread_pool, thread_pool};
pub use value::{Adt, Closure, RefCell, Value};
