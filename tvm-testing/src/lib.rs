//! Utilities that the tests of the workspace share: seeded random numbers, the budget of a fuzz run, and a GPU that is none. It
//! uses the standard library only, and no library depends on it.

mod budget;
pub mod fake_gpu;
mod rng;

pub use budget::Budget;
pub use rng::Rng;

/// True where `cargo xtask test` runs tests a second time, with the feature `llvm`: they leave out the executors that the first run
/// has checked, unless they compare one executor with another. It sets `TVM_TEST_LLVM_ALONE`.
pub fn llvm_alone() -> bool {
    std::env::var_os("TVM_TEST_LLVM_ALONE").is_some()
}
