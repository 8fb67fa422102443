//! Analyses of tensor programs.

mod access_region;
mod conjuncts;
mod cost;
mod init_nest;
mod lowered;
#[cfg(test)]
mod tests;
mod well_formed;

pub use access_region::with_access_regions;
pub(crate) use conjuncts::{add_predicate, holds_blocks, reads_memory};
pub use conjuncts::{conjunction, conjuncts};
pub use cost::estimate_cost;
pub(in crate::tir) use init_nest::{Frame, drives, init_nest, init_variables, reduction_loop};
pub use lowered::lowered_form;
pub use well_formed::well_formed;
pub(crate) use well_formed::{check_expr, check_rules};
