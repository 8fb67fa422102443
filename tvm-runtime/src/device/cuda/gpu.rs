//! One GPU: its context, its streams, and the fault that ended it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUmemPool_attribute, CUresult, is_culib_present};
use cudarc::driver::{CudaContext, DriverError, result};
use smallvec::SmallVec;

use super::Device;
use super::stream::{Stream, Streams};
use crate::device::Order;
use crate::error::RuntimeError;
use crate::thread_pool::panic_message;

/// A GPU that this process uses.
pub(super) struct Gpu {
    pub(super) device: Device,
    /// The primary context of the device.
    pub(super) context: Arc<CudaContext>,
    pub(super) streams: Streams,
    /// What ended the use of the device.
    fault: Mutex<Option<RuntimeError>>,
}

impl Gpu {
    /// The GPU `device`, whose context is made current for this thread.
    ///
    /// # Errors
    /// When there is no driver or no such device, or a kernel failed on it.
    pub(super) fn of(device: Device) -> Result<Arc<Gpu>, RuntimeError> {
        static GPUS: Mutex<BTreeMap<i32, Arc<Gpu>>> = Mutex::new(BTreeMap::new());
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        let gpu = match gpus.get(&device.id) {
            Some(gpu) => gpu.clone(),
            None => {
                let gpu = Arc::new(Gpu::open(device)?);
                gpus.insert(device.id, gpu.clone());
                gpu
            }
        };
        drop(gpus);
        if let Some(fault) = &*gpu.fault() {
            return Err(fault.clone());
        }
        gpu.call(|| gpu.context.bind_to_thread())?;
        Ok(gpu)
    }

    fn open(device: Device) -> Result<Gpu, RuntimeError> {
        let fail = |message: String| RuntimeError::DeviceFailure { device, message };
        let ordinal = usize::try_from(device.id).map_err(|_| fail("a negative ordinal".into()))?;
        find_driver(device)?;
        let made = guarded(|| {
            let context = CudaContext::new(ordinal)?;
            if context.has_async_alloc() {
                keep_memory(&context)?;
            }
            Ok(context)
        });
        let context = made.map_err(|err| fail(err.text()))?;
        let streams = Streams::new().map_err(|err| fail(err.text()))?;
        Ok(Gpu { device, context, streams, fault: Mutex::default() })
    }

    fn fault(&self) -> MutexGuard<'_, Option<RuntimeError>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream for work that this thread gives now.
    pub(super) fn stream(self: &Arc<Gpu>, order: Order) -> &Stream {
        match order {
            Order::Marked => self.streams.get(self.current()),
            Order::Everything => &self.streams.default,
        }
    }

    /// Calls the driver. An error of the driver, or a panic because one of its functions is missing, becomes an error of the
    /// device.
    pub(super) fn call<T>(&self, call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, RuntimeError> {
        self.try_call(call).map_err(|err| self.failed(err))
    }

    /// As [`Gpu::call`], with the error of the driver. Unless it is a fault, nothing is recorded.
    pub(super) fn try_call<T>(&self, call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, Failure> {
        guarded(call)
    }

    /// The error for `failure`; a fault ends the use of the device.
    pub(super) fn failed(&self, failure: Failure) -> RuntimeError {
        let (device, message) = (self.device, failure.text());
        if !failure.is_fault() {
            return RuntimeError::DeviceFailure { device, message };
        }
        let mut kernels: Vec<Arc<str>> = Vec::new();
        for stream in self.streams.all() {
            for name in stream.launched().names() {
                if !kernels.contains(name) {
                    kernels.push(name.clone());
                }
            }
        }
        let fault = RuntimeError::DeviceFault { device, kernels, message };
        self.fault().get_or_insert(fault).clone()
    }

    /// Calls functions of the driver that give work to `stream` and wait for it.
    pub(super) fn waits<T>(
        &self,
        stream: &Stream,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, RuntimeError> {
        // What was done in the default stream before has ended as well.
        self.waits_for([stream, &self.streams.default].into_iter(), call)
    }

    /// Calls a function of the driver that waits for everything that was launched before, in whatever stream.
    pub(super) fn waits_for_all<T>(
        &self,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, RuntimeError> {
        self.waits_for(self.streams.all(), call)
    }

    fn waits_for<'a, T>(
        &self,
        streams: impl Iterator<Item = &'a Stream>,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, RuntimeError> {
        let before: SmallVec<[_; 4]> = streams.map(|it| (it, it.launched().count)).collect();
        let res = self.call(call)?;
        before.into_iter().for_each(|(stream, count)| stream.launched().ended(count));
        Ok(res)
    }

    /// Waits until the device has done everything that this process gave it, in whatever stream.
    pub(super) fn synchronize(&self) -> Result<(), RuntimeError> {
        self.waits_for_all(|| self.context.synchronize())
    }
}

/// Loads the driver's library, for `device`.
fn find_driver(device: Device) -> Result<(), RuntimeError> {
    // SAFETY: loads the library, or reports that it is missing.
    if unsafe { is_culib_present() } {
        return Ok(());
    }
    let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    let message = format!("{name} was not found\n  help: install NVIDIA's driver");
    Err(RuntimeError::DeviceFailure { device, message })
}

/// The compute capability of each GPU, without a context on them.
pub(super) fn capabilities() -> Result<Vec<(i32, i32)>, RuntimeError> {
    let device = Device::cuda(0);
    find_driver(device)?;
    let all = guarded(|| {
        result::init()?;
        let capability = |id| {
            let gpu = result::device::get(id)?;
            // SAFETY: the driver has just named this device.
            let number = |attribute| unsafe { result::device::get_attribute(gpu, attribute) };
            Ok((
                number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ))
        };
        (0..result::device::get_count()?).map(capability).collect()
    });
    all.map_err(|err| RuntimeError::DeviceFailure { device, message: err.text() })
}

/// Lets the driver keep what is freed for later allocations, instead of giving it back whenever somebody waits for the device.
fn keep_memory(context: &CudaContext) -> Result<(), DriverError> {
    let mut most = u64::MAX;
    let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device is that of the context.
    let pool = unsafe { result::device::get_default_mem_pool(context.cu_device()) }?;
    // SAFETY: the value of this attribute is a `u64`.
    unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut most).cast()) }
}

/// Why a call of the driver failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// What the driver returned.
    Driver(DriverError),
    /// A function of the driver is missing.
    Missing(String),
}

impl Failure {
    /// What to say about it.
    fn text(&self) -> String {
        let help = match self {
            Failure::Driver(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => {
                "\n  help: the driver finds no GPU; `nvidia-smi` lists those that it has, CUDA_VISIBLE_DEVICES may hide some"
            }
            Failure::Missing(_)
            | Failure::Driver(DriverError(CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH))
            | Failure::Driver(DriverError(CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)) => {
                "\n  help: update NVIDIA's driver: this program was built for CUDA 13"
            }
            Failure::Driver(_) => "",
        };
        match self {
            Failure::Missing(message) => format!("the driver is too old: {message}{help}"),
            Failure::Driver(err) => match err.error_string() {
                Ok(text) => format!("{:?} ({}){help}", err.0, text.to_string_lossy()),
                Err(_) => format!("{:?}{help}", err.0),
            },
        }
    }

    /// True for an error after which every further call of the driver fails.
    fn is_fault(&self) -> bool {
        let Failure::Driver(DriverError(code)) = self else { return false };
        matches!(
            code,
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
                | CUresult::CUDA_ERROR_LAUNCH_FAILED
                | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
                | CUresult::CUDA_ERROR_ASSERT
                | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
                | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUresult::CUDA_ERROR_INVALID_PC
                | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        )
    }

    /// The code that the driver returned.
    pub(super) fn code(&self) -> Option<CUresult> {
        if let Failure::Driver(DriverError(code)) = self { Some(*code) } else { None }
    }
}

/// Calls the driver, whose functions are loaded when they are first called: cudarc panics where one is missing.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(res) => res.map_err(Failure::Driver),
        Err(panic) => Err(Failure::Missing(panic_message(&*panic))),
    }
}
