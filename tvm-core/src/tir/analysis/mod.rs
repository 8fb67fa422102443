//! Analyses of tensor programs.

mod access_region;
mod well_formed;

pub use access_region::{access_regions, with_access_regions};
pub(crate) use well_formed::check_rules;
pub use well_formed::well_formed;
