//! Import of ONNX models as graph functions, and the related file formats of tensors.
//!
//! Models are untrusted. Every malformed model ends in a typed error; no number of the file determines an allocation
//! before it was checked; only [`import_file`] and external data read files.
//!
//! Elements of the format's 2-, 4- and 8-bit types are stored one per byte: integers as `i8` or `u8`, floats as `u8` with
//! the bits of the float. Tensors of strings have one more axis at the end, for their bytes ([`encode_strings`]). The attribute `output_elements` of the function names these types, or `string`, for the outputs that have them.
//!
//! TVM counterpart: `tvm.relax.frontend.onnx`.
#![forbid(unsafe_code)]

mod data;
mod emit;
mod error;
mod external;
mod file;
mod fold;
mod graph;
mod importer;
mod inline;
mod inputs;
mod iterate;
mod lean;
mod names;
mod narrow;
mod node;
mod nodes;
mod npy;
mod ops;
mod options;
mod places;
pub mod proto;
mod split;
mod strings;
mod tensor;
mod value;

pub use data::DataValue;
pub use error::{OnnxError, UnsupportedItem, UnsupportedReport};
pub use file::ModelFile;
pub use importer::{import, import_file, import_proto, is_standard, read_model};
pub use npy::{read_npy, write_npy, write_npy_strings};
pub use ops::{supported_extension_ops, supported_ops};
pub use options::{DimOption, ImportOptions};
pub use prost::bytes::Bytes;
pub use strings::{decode_strings, encode_strings};
pub use tensor::{MAX_TENSOR_BYTES, dtype_from_onnx, dtype_to_onnx, read_tensor, write_tensor};
