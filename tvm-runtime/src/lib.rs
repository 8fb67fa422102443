//! Runtime of tvm: data types, tensors, modules, virtual machine, artifacts. No compiler in it: this is all that a
//! deployed model links.

pub mod abi;
mod device;
mod dtype;

pub use device::{Device, DeviceKind};
pub use dtype::{DTypeCode, DataType, Element, ParseDataTypeError};
