//! Analyses of graph functions.

mod infer;
mod well_formed;

pub use infer::{infer_type, type_of_arg};
pub(crate) use well_formed::{check_rules, check_types};
