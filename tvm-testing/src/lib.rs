//! Utilities that the tests of the workspace share: seeded random numbers, and the budget of a fuzz run. It uses the
//! standard library only, and no library depends on it.

mod budget;
mod rng;

pub use budget::Budget;
pub use rng::Rng;
