//! Analyses of tensor programs.

mod access_region;
mod addresses;
mod conjuncts;
mod cost;
mod index_range;
mod init_nest;
mod kernels;
mod lowered;
#[cfg(test)]
mod tests;
mod total;
mod tuple;
mod update;
mod weight;
mod well_formed;

pub use access_region::with_access_regions;
pub(in crate::tir) use addresses::Addresses;
pub(crate) use conjuncts::{add_predicate, holds_blocks, reads_memory, slack};
pub use conjuncts::{conjunction, conjuncts};
pub use cost::estimate_cost;
pub(crate) use index_range::{extent_between, range_of};
pub(in crate::tir) use init_nest::{Frame, drives, init_nest, init_variables, reduction_loop};
pub(in crate::tir) use kernels::is_shared;
pub use kernels::{DeviceKernel, DynamicShared};
pub use lowered::lowered_form;
pub(crate) use total::is_total;
pub(crate) use tuple::{PairOp, pair_update};
pub use update::atomic_update;
pub(in crate::tir) use update::{is_own_update, loads_buffer, loads_element};
pub(crate) use update::{limit, same_indices, update};
pub(crate) use weight::{WORTH_A_NAME, own_weight};
pub use well_formed::well_formed;
pub(crate) use well_formed::{check_expr, check_rules};
