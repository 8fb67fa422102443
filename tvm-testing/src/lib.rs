//! Utilities that the tests of the workspace share: seeded random numbers, the budget of a fuzz run, and a GPU that is none. It
//! uses the standard library only, and no library depends on it.

mod budget;
pub mod fake_gpu;
mod rng;

pub use budget::Budget;
pub use rng::Rng;

/// True if a test checks `executor`, the text of a target, in a build that has the feature `llvm` or not. `cargo xtask test` runs tests a
/// second time with this feature and sets `TVM_TEST_LLVM_ALONE`: then the executors are left out that the first run has checked.
/// Tests that compare executors with each other do not ask.
pub fn checks(executor: &str, llvm: bool) -> bool {
    if executor.starts_with("llvm") {
        llvm
    } else {
        !llvm || std::env::var_os("TVM_TEST_LLVM_ALONE").is_none()
    }
}
