//! Utilities that the tests of the workspace share: seeded random numbers, the budget of a fuzz run, and a GPU that is none. It
//! uses the standard library only, and no library depends on it.

mod budget;
pub mod fake_gpu;
mod rng;

pub use budget::Budget;
pub use rng::Rng;

/// True if a test checks `executor`, the text of a target, in a build that has the feature `llvm` or not.
pub fn checks(executor: &str, llvm: bool) -> bool {
    llvm || !executor.starts_with("llvm")
}
