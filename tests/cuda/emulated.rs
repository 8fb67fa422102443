//! Puts the C++ compiler in the place of NVRTC: kernels for the fake GPU run on the CPU.

use tvm::codegen::CodegenError;
use tvm::codegen::cuda::{CudaSource, ImageCompiler, ImageOptions};
use tvm_testing::fake_gpu;

/// Compiles kernels for the CPU.
pub(crate) struct Emulated;

impl ImageCompiler for Emulated {
    fn version(&self) -> Result<String, CodegenError> {
        Ok("the emulator".into())
    }

    fn compile(&self, source: &CudaSource, _: &ImageOptions) -> Result<Vec<u8>, CodegenError> {
        let kernels = source.programs.iter().flat_map(|it| &it.kernels);
        let kernels: Vec<_> = kernels.map(|it| (it.name.clone(), it.has_barriers())).collect();
        let fail = |message| CodegenError::Target { target: "the emulator".into(), message };
        fake_gpu::compile(&source.text, &kernels).map_err(fail)
    }
}
