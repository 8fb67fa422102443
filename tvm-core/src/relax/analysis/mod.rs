//! Analyses of graph functions.

mod captures;
mod infer;
mod purity;
mod well_formed;

pub use captures::{bound_dims, captures, type_dims};
pub use infer::{infer_type, type_of_arg};
pub use purity::is_pure;
pub(crate) use well_formed::{check_rules, check_types};
