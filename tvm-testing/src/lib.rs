//! What the tests of the workspace share: seeded random numbers and the budget of a fuzz run. Standard library only; no
//! library links it.

mod budget;
mod rng;

pub use budget::Budget;
pub use rng::Rng;
