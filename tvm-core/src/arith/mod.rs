//! Arithmetic over symbolic integers: simplification, bounds, proofs, sets, iteration maps.
//!
//! [`Analyzer`] is the entry point: bind what is known about variables, then query. Every answer holds for what
//! execution computes: integers wrap, and a quotient or remainder by 0 is 0. There is one assumption: sums and products
//! of *index* variables do not overflow. Index variables are those that [`Analyzer::bind_dim`] and
//! [`Analyzer::bind_index`] bind, those that [`Analyzer::bind_range`] binds to ranges between indices, and those that a
//! known condition bounds by indices. All other integers are data with the limits of their type. Floats are rewritten
//! only where no bit of any result changes.
//!
//! TVM counterpart: `arith/`.

mod analyzer;
mod bounds;
mod const_int_bound;
pub(crate) mod dims;
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
