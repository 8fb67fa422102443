//! Analyses of graph functions.

mod infer;

pub use infer::{infer_type, type_of_arg};
