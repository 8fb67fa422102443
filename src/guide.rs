//! The README, the chapters of the guide (`docs/guide`) and the documentation of the macros, whose examples are tests of this
//! crate. `tests/tidy` checks that nothing is missing here.

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
    Cuda "docs/guide/src/cuda.md"
    Debugging "docs/guide/src/debugging.md"
    ComingFrom "docs/guide/src/coming_from.md"
    BuildRs "docs/build_rs.md"
    Model "docs/model.md"
    MacroPrimFunc "tvm-macros/docs/prim_func.md"
    MacroPrimHelper "tvm-macros/docs/prim_helper.md"
    MacroSchedule "tvm-macros/docs/schedule.md"
    MacroRelaxFunc "tvm-macros/docs/relax_func.md"
    MacroRelayFunc "tvm-macros/docs/relay_func.md"
    MacroRelax "tvm-macros/docs/relax.md"
    MacroRelay "tvm-macros/docs/relay.md"
    MacroRelayAdt "tvm-macros/docs/relay_adt.md"
    MacroIrModule "tvm-macros/docs/ir_module.md"
}
