//! Arithmetic over symbolic integers: simplification, bounds, proofs, sets, iteration maps.
//!
//! [`Analyzer`] is the way in: bind what is known of variables, then ask. Every answer holds for what execution
//! computes: integers wrap, a quotient or remainder by 0 is 0. One thing is taken for granted: sums and products of
//! *index* variables do not overflow, which are those that [`Analyzer::bind_dim`] and [`Analyzer::bind_index`] bind,
//! those that [`Analyzer::bind_range`] binds to ranges between such, and what a known condition puts between such. All
//! other integers are data with the limits of their type. Floats are only touched where no bit of any result changes.
//!
//! TVM counterpart: `arith/`.

mod analyzer;
mod bounds;
mod const_int_bound;
mod exact;
mod facts;
mod int_set;
mod iter_map;
mod linear;
mod modular_set;
mod pattern;
mod prove;
mod rewrite_simplify;
mod same;
mod sum;
#[cfg(test)]
mod tests;

pub use analyzer::Analyzer;
pub use const_int_bound::ConstIntBound;
pub use int_set::{DomMap, IntervalSet};
pub use iter_map::{
    IterMapError, IterMapLevel, IterMark, IterSource, IterSplit, IterSum, detect_iter_map,
    inverse_affine_iter_map, is_affine_binding,
};
pub use linear::{LinearEquation, detect_linear_equation};
pub use modular_set::ModularSet;
pub(crate) use same::Memo;
pub use same::same;
pub use sum::{LinearSum, Monomial, Products};
