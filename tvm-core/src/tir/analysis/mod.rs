//! Analyses of tensor programs.

mod well_formed;

pub(crate) use well_formed::check_rules;
pub use well_formed::well_formed;
