//! Rules for CPUs.

mod contraction;
mod reduction;
mod skinny;
mod spatial;

use super::Rule;

/// The rules, in the order in which they are tried.
pub(super) const RULES: &[Rule] = &[skinny::RULE, contraction::RULE, reduction::RULE, spatial::RULE];
