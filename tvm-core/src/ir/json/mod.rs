//! The JSON form of a module, for tools: `{"tvm_ir": 1, "nodes": [...], "functions": {...}}`.
//!
//! Nodes stand in one flat table; a node refers to its children, and to the variables and buffers that it uses, by
//! their place in the table, which is always an earlier one. So reading needs no recursion, however deep the program.
//! Kinds and field names are those of [`structural`](super::structural). Identities are not stored: a loaded module has
//! fresh ones. Floats are strings (`"0.5"`, `"inf"`, `"nan:7ff8000000000000"`), data of tensors is hexadecimal.
//!
//! Reading checks everything: a malformed text is an error, and so is a module that is not well-formed.
//!
//! TVM counterpart: `SaveJSON`, `LoadJSON`.

mod read;
mod read_graph;
mod read_tensor_program;
#[cfg(test)]
mod tests;
mod write;

pub use read::from_json;
pub use write::to_json;

/// Version of the format.
const VERSION: u64 = 1;

/// Deepest program that is read.
const MAX_DEPTH: u32 = 10_240;

/// Largest program that is read, in nodes, shared ones counted at each use.
const MAX_SIZE: u64 = 5_000_000;
