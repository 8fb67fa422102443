//! Code on a GPU: loading, and launches of its kernels.
#![allow(unsafe_code, reason = "runs code on a device; each block says why it is sound")]

use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule, CUresult, cuDriverGetVersion};
use cudarc::driver::{DriverError, result};
use smallvec::SmallVec;

use super::gpu::{Failure, Gpu};
use super::graph::{self, Extents};
use super::memory::Scratch;
use super::stream::Stream;
use super::{Device, launches_each};
use crate::device::Order;
use crate::error::RuntimeError;
use crate::launch::{CodeFormat, DeviceImage};

/// The kernels of an image on one GPU.
pub(crate) struct LoadedCode {
    gpu: Arc<Gpu>,
    module: CUmodule,
    /// In the order of the symbols of the image.
    functions: Vec<Function>,
}

/// A kernel, and the bytes of shared memory beside those that its code says with which it may be launched.
struct Function {
    handle: CUfunction,
    shared: Mutex<u32>,
}

// SAFETY: modules and functions are handles of the driver, which any thread may use once the context is current.
unsafe impl Send for LoadedCode {}
// SAFETY: as above.
unsafe impl Sync for LoadedCode {}

impl LoadedCode {
    /// Loads `image` on `device`.
    ///
    /// # Errors
    /// When the device cannot be used or cannot run the code, or the code lacks a kernel.
    pub(crate) fn load(device: Device, image: &DeviceImage) -> Result<LoadedCode, RuntimeError> {
        let gpu = Gpu::of(device)?;
        // SAFETY: the image ends with a zero, as PTX must; a cubin has its size in its header.
        let module = gpu.try_call(|| unsafe { result::module::load_data(image.bytes().as_ptr().cast()) });
        let module = module.map_err(|err| refused(&gpu, image, err))?;
        let mut code = LoadedCode { gpu, module, functions: Vec::new() };
        for symbol in image.symbols() {
            let missing = || RuntimeError::NotFound { what: "kernel", names: vec![symbol.clone()] };
            let name = CString::new(symbol.as_str()).map_err(|_| missing())?;
            // SAFETY: the module was loaded above.
            let found = code.gpu.try_call(|| unsafe { result::module::get_function(code.module, name) });
            let handle = found.map_err(|err| match err.code() {
                Some(CUresult::CUDA_ERROR_NOT_FOUND) => missing(),
                _ => code.gpu.failed(err),
            })?;
            code.functions.push(Function { handle, shared: Mutex::new(0) });
        }
        Ok(code)
    }

    pub(super) fn device(&self) -> Device {
        self.gpu.device
    }

    /// Memory for what kernels of one call give to each other.
    ///
    /// # Errors
    /// When the device does not have it, or cannot be used.
    pub(crate) fn scratch(&self, order: Order, len: usize) -> Result<Scratch<'_>, RuntimeError> {
        Scratch::of(&self.gpu, order, len)
    }

    /// Launches the kernel number `symbol` of the image; `name` is the program that it belongs to, for errors. `values` are its
    /// parameters, each in the low bytes of a number. A launch is blocks, threads of each, and the bytes of shared memory of a block
    /// beside those that the code says. The call does not wait for the kernel, which is done in the order of `order`.
    ///
    /// # Safety
    /// The kernel has these parameters, and accesses only memory that it may access, which stays allocated until the work on
    /// the device has ended.
    ///
    /// # Errors
    /// When the device refuses the launch, or reports that a kernel failed that was launched before.
    pub(crate) unsafe fn launch(
        self: &Arc<Self>,
        order: Order,
        (name, symbol): (&str, usize),
        extents: Extents,
        values: &[u64],
    ) -> Result<(), RuntimeError> {
        let (grid, block, shared) = extents;
        // The context is made current for this thread.
        let gpu = Gpu::of(self.gpu.device)?;
        let Some(function) = self.functions.get(symbol) else {
            return Err(RuntimeError::NotFound { what: "kernel", names: vec![name.to_string()] });
        };
        graph::launches(self, name, (function.handle, extents), values)?;
        let stream = gpu.stream(order);
        stream.launched().add(name);
        // SAFETY: the function is one of the loaded module, and takes these parameters (promised by the caller).
        let once = || unsafe { launch_kernel(stream, function.handle, extents, values) };
        let times = launches_each(gpu.device);
        let launched =
            function.allow(&gpu, shared).and_then(|()| gpu.try_call(|| (0..times).try_for_each(|_| once())));
        launched.map_err(|err| match (err.code(), gpu.failed(err)) {
            (
                Some(CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
                RuntimeError::DeviceFailure { device, message },
            ) => {
                let message = format!(
                    "{device}: {message}: it has {grid:?} blocks of {block:?} threads and {shared} bytes of shared memory that the launch gives\n  help: smaller blocks need fewer \
                     registers and less shared memory"
                );
                RuntimeError::Launch { func: name.into(), message }
            }
            (_, RuntimeError::DeviceFailure { device, message }) => {
                RuntimeError::Launch { func: name.into(), message: format!("{device}: {message}") }
            }
            (_, other) => other,
        })
    }
}

/// Where each parameter is, for the driver.
pub(super) fn param_addresses(values: &[u64]) -> SmallVec<[*mut c_void; 16]> {
    values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()).collect()
}

/// Launches a kernel in `stream`.
///
/// # Safety
/// The function belongs to code that is loaded, and takes these parameters, which the driver copies during the call; otherwise as for
/// [`LoadedCode::launch`].
pub(super) unsafe fn launch_kernel(
    stream: &Stream,
    function: CUfunction,
    (grid, block, shared): Extents,
    values: &[u64],
) -> Result<(), DriverError> {
    let mut params = param_addresses(values);
    // SAFETY: promised by the caller.
    unsafe { result::launch_kernel(function, grid.into(), block.into(), shared, stream.handle, &mut params) }
}

impl Function {
    /// Lets the kernel be launched with so many bytes of shared memory; the driver is asked once.
    fn allow(&self, gpu: &Gpu, shared: u32) -> Result<(), Failure> {
        if shared == 0 {
            return Ok(());
        }
        let mut allowed = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared <= *allowed {
            return Ok(());
        }
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(shared).unwrap_or(i32::MAX);
        // SAFETY: the function is one of a module that is loaded.
        gpu.try_call(|| unsafe { result::function::set_function_attribute(self.handle, attribute, bytes) })?;
        *allowed = shared;
        Ok(())
    }
}

/// Why the driver does not load `image`.
fn refused(gpu: &Gpu, image: &DeviceImage, failure: Failure) -> RuntimeError {
    let mut version = 0;
    // SAFETY: the driver writes its version there.
    let driver = gpu.call(|| unsafe { cuDriverGetVersion(&raw mut version) }.result());
    let driver =
        driver.map_or("unknown".to_string(), |()| format!("{}.{}", version / 1000, version % 1000 / 10));
    let (code, arch) = (failure.code(), image.arch());
    let has = gpu.call(|| gpu.context.compute_capability());
    let has = has.map_or("unknown".to_string(), |(major, minor)| format!("{major}.{minor}"));
    let help = match (code, image.format()) {
        (
            Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU | CUresult::CUDA_ERROR_INVALID_IMAGE),
            CodeFormat::Cubin,
        ) => "compile for the architecture of this GPU (`cuda -arch=sm_..`), or update the driver",
        (Some(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION | CUresult::CUDA_ERROR_INVALID_PTX), _) => {
            "update the driver, or compile with an NVRTC that is not newer than it"
        }
        _ => "update the driver",
    };
    match gpu.failed(failure) {
        RuntimeError::DeviceFailure { device, message } => {
            let message = format!(
                "it does not load the code for {arch}: {message}; the GPU has compute capability {has}, the driver is for CUDA \
                 {driver}\n  help: {help}"
            );
            RuntimeError::DeviceFailure { device, message }
        }
        other => other,
    }
}

impl Drop for LoadedCode {
    fn drop(&mut self) {
        // A failure leaves the code to the driver, which frees it with the process.
        let Ok(gpu) = Gpu::of(self.gpu.device) else { return };
        if gpu.synchronize().is_ok() {
            // SAFETY: loaded in `load`, unloaded once, after the kernels that were launched.
            let _ = gpu.try_call(|| unsafe { result::module::unload(self.module) });
        }
    }
}
