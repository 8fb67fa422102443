//! Analyses of graph functions.

mod alias;
mod captures;
mod exhaustive;
mod infer;
mod infer_call;
mod infer_match;
mod last_use;
mod op_pattern;
mod places;
mod purity;
mod unify;
mod well_formed;

pub use crate::arith::dims::{assumptions, differ, product, prove_equal, prove_unequal, simplify_dim};
pub use crate::ir::show::{show_dim, show_dims, show_type};
pub use alias::Aliases;
pub use captures::{bound_dims, captures, type_dims};
pub use infer::{infer_body, infer_type, type_of_arg};
pub use infer_match::{constructor_fields, pattern_vars};
pub use last_use::{final_uses, last_uses};
pub use op_pattern::op_pattern;
pub use places::Places;
pub use purity::is_pure;
pub use unify::{TypeMismatch, Unifier, erase_to_well_defined, join};
pub use well_formed::{FORCE_PURE, well_formed};
