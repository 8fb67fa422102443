//! The README and the chapters of the guide (`docs/guide`), whose examples are tests of this crate. `tests/guide` checks that
//! no chapter is missing here.

/// Makes the examples of each file tests, which bear the name before it.
macro_rules! examples {
    ($($name:ident $file:literal)*) => {
        $(#[doc = include_str!(concat!("../", $file))] struct $name;)*
    };
}

examples! {
    Readme "README.md"
    Introduction "docs/guide/src/introduction.md"
    FirstKernel "docs/guide/src/first_kernel.md"
    KernelLanguage "docs/guide/src/kernel_language.md"
    Tir "docs/guide/src/tir.md"
    Schedules "docs/guide/src/schedules.md"
    Graphs "docs/guide/src/graphs.md"
    Relax "docs/guide/src/relax.md"
    Passes "docs/guide/src/passes.md"
    Serving "docs/guide/src/serving.md"
    Vm "docs/guide/src/vm.md"
    Targets "docs/guide/src/targets.md"
    Debugging "docs/guide/src/debugging.md"
    ComingFrom "docs/guide/src/coming_from.md"
    BuildRs "docs/build_rs.md"
    Model "docs/model.md"
}
