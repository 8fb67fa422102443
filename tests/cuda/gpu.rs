//! Tests on a GPU: a fake one, whose driver and kernels run on the CPU, or that of the machine.

use std::sync::Arc;

use tvm::Device;
use tvm::codegen::cuda::set_image_compiler;
use tvm::target::Target;

#[path = "emulated.rs"]
mod emulated;

/// Environment variable of a run on the fake GPU, whose driver is on the path of shared libraries.
const FAKE_GPU: &str = "TVM_TEST_FAKE_GPU";

/// Environment variable of a run on the GPU of the machine, whose kernels NVRTC compiles.
const MACHINE: &str = "TVM_TEST_MACHINE_GPU";

/// The GPU that this run is to check, if it is to check one.
pub(crate) fn target() -> Option<Target> {
    if std::env::var_os(MACHINE).is_none() {
        std::env::var_os(FAKE_GPU)?;
        set_image_compiler(Some(Arc::new(emulated::Emulated)));
    }
    assert!(Device::cuda(0).exists(), "{:?}", Device::cuda(0).properties());
    Some(Target::cuda())
}
