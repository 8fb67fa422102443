//! ONNX models as graph functions, and the file formats of tensors around them.
//!
//! Models are untrusted: every malformed one ends in a typed error, nothing is allocated from a number in the file
//! before it was checked, and only [`import_file`] and external data touch files.
//!
//! Elements of the format's 2-, 4- and 8-bit types travel one per byte, integers as `i8` or `u8`, floats as the `u8` of
//! their bits; attribute `output_elements` of the function names the types of outputs that are such.
//!
//! TVM counterpart: `tvm.relax.frontend.onnx`.
#![forbid(unsafe_code)]

mod error;
mod external;
mod fold;
mod graph;
mod importer;
mod names;
mod narrow;
mod node;
mod npy;
mod ops;
mod options;
pub mod proto;
mod tensor;
mod value;

pub use error::{OnnxError, UnsupportedItem, UnsupportedReport};
pub use importer::{import, import_file, import_proto, is_standard, read_model};
pub use npy::{read_npy, write_npy};
pub use ops::supported_ops;
pub use options::{DimSpec, ImportOptions};
pub use tensor::{MAX_TENSOR_BYTES, dtype_from_onnx, dtype_to_onnx, read_tensor, write_tensor};
