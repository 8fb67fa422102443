//! The JSON form of a module, for tools:
//! `{"tvm_ir": 1, "nodes": [...], "types": [...], "functions": [[NAME, INDEX], ...], "attrs": {...}}`.
//!
//! All nodes are in one flat table. A node refers to its children, and to the variables and buffers that it uses, by
//! table index, which is always smaller than its own. Reading therefore needs no recursion, however deep the program.
//! Kinds and field names are those of [`structural`](super::structural). Identities are not stored: a loaded module has
//! fresh ones. Floats are strings (`"0.5"`, `"inf"`, `"nan:7ff8000000000000"`); tensor data is hexadecimal.
//!
//! Reading validates its input: malformed text is an error, and so is a module that is not well-formed.
//!
//! TVM counterpart: `SaveJSON`, `LoadJSON`.

mod read;
mod read_graph;
mod read_tensor_program;
#[cfg(test)]
mod tests;
mod write;

pub use read::from_json;
pub(crate) use read::{FromBuilt, Node as NodeReader};
pub use write::to_json;

/// Version of the format.
const VERSION: u64 = 1;

/// Maximum depth of a program, in nodes; reading rejects deeper ones.
const MAX_DEPTH: u32 = 10_240;

/// Maximum size of a program, in nodes; a shared node counts once per use. Reading rejects larger programs.
const MAX_SIZE: u64 = 5_000_000;
