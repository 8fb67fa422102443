//! Tests on a fake GPU, whose driver and kernels run on the CPU.

use std::sync::Arc;

use tvm::Device;
use tvm::codegen::cuda::set_image_compiler;
use tvm::target::Target;

#[path = "emulated.rs"]
mod emulated;

/// Environment variable of a run on the fake GPU, whose driver is on the path of shared libraries.
const FAKE_GPU: &str = "TVM_TEST_FAKE_GPU";

/// The fake GPU, if this run is to check it.
pub(crate) fn target() -> Option<Target> {
    std::env::var_os(FAKE_GPU)?;
    set_image_compiler(Some(Arc::new(emulated::Emulated)));
    assert!(Device::cuda(0).exists(), "{:?}", Device::cuda(0).properties());
    Some(Target::cuda())
}
