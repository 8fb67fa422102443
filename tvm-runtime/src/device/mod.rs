//! Devices on which tensors live: a kind and an ordinal.
//!
//! TVM counterpart: `DLDevice`, `runtime::Device`, `runtime::DeviceAPI`. `cpu:0` is the host; `cpu:1` and on are virtual
//! devices, whose memory is kept apart as that of an accelerator is.

mod buffer;
#[cfg_attr(not(feature = "cuda"), path = "cuda_off.rs")]
mod cuda;
mod virtual_cpu;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::RuntimeError;

pub(crate) use buffer::DeviceBuffer;
pub(crate) use cuda::{Graph, LoadedCode, OwnStreams, PinnedMemory, RawMemory, record, records, unrecorded};

/// Kind of device; values are DLPack's `DLDeviceType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(i32)]
pub enum DeviceKind {
    /// Memory of the host, or of a virtual device.
    #[default]
    Cpu = 1,
    /// Memory of an NVIDIA GPU.
    Cuda = 2,
}

/// After what work on a device other work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// After that in the stream of the workspace in which the thread runs a call, and what this waits for: all memory is marked
    /// ([`DeviceBuffer::mark`]) before the work is given.
    Marked,
    /// After everything that was given to the device before; all that is given later waits for it.
    Everything,
}

/// One device: kind and ordinal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// Kind of device.
    pub kind: DeviceKind,
    /// Ordinal among the devices of that kind, from 0.
    pub id: i32,
}

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// Name of the model.
    pub name: String,
    /// Memory in bytes, if known.
    pub total_memory: Option<usize>,
    /// Compute capability (major, minor); `None` for the host.
    pub compute_capability: Option<(i32, i32)>,
    /// Number of multiprocessors of a GPU, or of hardware threads of the host.
    pub units: usize,
}

impl Device {
    /// The host.
    pub const fn cpu() -> Device {
        Device { kind: DeviceKind::Cpu, id: 0 }
    }

    /// The host for 0, otherwise the `id`-th virtual device.
    pub const fn virtual_cpu(id: i32) -> Device {
        Device { kind: DeviceKind::Cpu, id }
    }

    /// The `id`-th CUDA device.
    pub const fn cuda(id: i32) -> Device {
        Device { kind: DeviceKind::Cuda, id }
    }

    /// True if this machine has the device and this build can use it. Never fails and never panics.
    pub fn exists(self) -> bool {
        match self.kind {
            DeviceKind::Cpu => self.id >= 0,
            DeviceKind::Cuda => cuda::probe(self).is_ok(),
        }
    }

    /// Queries the properties of the device; the error gives the reason why the device cannot be used.
    pub fn properties(self) -> Result<DeviceProperties, RuntimeError> {
        match self.kind {
            DeviceKind::Cpu if self.id >= 0 => Ok(DeviceProperties {
                name: std::env::consts::ARCH.to_string(),
                total_memory: None,
                compute_capability: None,
                units: std::thread::available_parallelism().map_or(1, usize::from),
            }),
            DeviceKind::Cpu => Err(RuntimeError::DeviceFailure {
                device: self,
                message: "a device has no negative ordinal".into(),
            }),
            DeviceKind::Cuda => cuda::properties(self),
        }
    }

    /// The first GPU if this machine has one that this build can use, otherwise the host. Never fails and never panics.
    pub fn best() -> Device {
        let gpu = Device::cuda(0);
        if gpu.exists() { gpu } else { Device::cpu() }
    }

    /// Waits until the device has done everything that was launched on it. A kernel that failed meanwhile is an error here, or
    /// at the next copy to the host. The host does everything at once.
    pub fn synchronize(self) -> Result<(), RuntimeError> {
        match self.kind {
            DeviceKind::Cpu => Ok(()),
            DeviceKind::Cuda => cuda::synchronize(self),
        }
    }

    /// How long the device takes for what `run` launches on it, by the device's own clock: from when it has done everything that was
    /// launched before until it has done that. If the device waits for the host meanwhile, this counts. For the host, it is
    /// the time of `run`.
    ///
    /// # Errors
    /// That of `run`, or when the device cannot be used.
    pub fn timed(self, run: impl FnOnce() -> Result<(), RuntimeError>) -> Result<Duration, RuntimeError> {
        match self.kind {
            DeviceKind::Cpu => {
                let start = Instant::now();
                run()?;
                Ok(start.elapsed())
            }
            DeviceKind::Cuda => cuda::timed(self, run),
        }
    }

    /// Runs `run`, and makes each launch of this thread on the device so many times, one after the other: what the time of the host
    /// grows by is that of the driver for these launches alone. A kernel that reads what it writes computes something else then, and
    /// with 0 nothing is computed. The host has no launches.
    ///
    /// # Errors
    /// That of `run`, or when the device cannot be used.
    pub fn repeat_launches(
        self,
        times: u32,
        run: impl FnOnce() -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        match self.kind {
            DeviceKind::Cpu => run(),
            DeviceKind::Cuda => cuda::repeat_launches(self, times, run),
        }
    }

    /// All CUDA devices of this machine that this build can use.
    pub fn all_cuda() -> Vec<Device> {
        (0..).map(Device::cuda).take_while(|device| device.exists()).collect()
    }
}

/// The compute capability of each GPU of this machine, in their order. None of them is opened for it.
///
/// # Errors
/// When there is none, or the driver or the feature is missing.
pub(crate) fn gpu_capabilities() -> Result<Vec<(i32, i32)>, RuntimeError> {
    cuda::capabilities()
}

/// The text is not the name of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device; expected cpu, cpu:<ordinal>, cuda or cuda:<ordinal>")]
pub struct ParseDeviceError(pub String);

impl FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(s: &str) -> Result<Device, ParseDeviceError> {
        let err = || ParseDeviceError(s.to_string());
        let (kind, id) = s.split_once(':').unwrap_or((s, "0"));
        let id = id.parse().ok().filter(|id| *id >= 0).ok_or_else(err)?;
        match kind {
            "cpu" => Ok(Device::virtual_cpu(id)),
            "cuda" => Ok(Device::cuda(id)),
            _ => Err(err()),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::Cpu => write!(f, "cpu:{}", self.id),
            DeviceKind::Cuda => write!(f, "cuda:{}", self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Tensor};

    #[test]
    fn the_host_exists() {
        assert!(Device::cpu().exists() && Device::cpu().properties().unwrap().units > 0);
        assert!(!Device::virtual_cpu(-1).exists() && Device::virtual_cpu(-1).properties().is_err());
    }

    #[test]
    fn names_round_trip() {
        for device in [Device::cpu(), Device::virtual_cpu(3), Device::cuda(0), Device::cuda(7)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!(("cpu".parse(), "cuda".parse()), (Ok(Device::cpu()), Ok(Device::cuda(0))));
        for bad in ["", "gpu", "cpu:-1", "cuda:", "cuda:-1", "cuda:99999999999"] {
            assert!(bad.parse::<Device>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_gpu_is_an_error() {
        let device = Device::cuda(Device::all_cuda().len() as i32);
        assert!(!device.exists() && !Device::cuda(-1).exists());
        let err = device.properties().unwrap_err();
        assert_eq!(matches!(err, RuntimeError::Unsupported { .. }), cfg!(not(feature = "cuda")), "{err}");
        let tensor = Tensor::zeros(&[2], DataType::F32).unwrap();
        assert!(tensor.to_device(device).is_err());
        if cfg!(not(feature = "cuda")) {
            let expected = "cuda:0 is not supported by this build: turn on the feature `cuda` of tvm-runtime";
            assert_eq!(err.to_string(), expected);
        }
    }

    #[test]
    fn data_goes_to_each_device_and_back() {
        let tensor = Tensor::from_vec((0..1000).map(|i| i as f32).collect(), &[10, 100]).unwrap();
        for device in Device::all_cuda().into_iter().chain([1, 2].map(Device::virtual_cpu)) {
            eprintln!("{device}: {:?}", device.properties().unwrap());
            let there = tensor.to_device(device).unwrap();
            assert_eq!(there.device(), device);
            assert!(matches!(there.bytes(), Err(RuntimeError::NotOnHost { .. })));
            let copy = there.deep_copy(device).unwrap();
            drop(there);
            assert_eq!(copy.to_device(Device::cpu()).unwrap(), tensor);
            let zeros = Tensor::empty(&[3], DataType::I64, device).unwrap().to_device(Device::cpu()).unwrap();
            assert_eq!(zeros.as_slice::<i64>().unwrap(), [0; 3]);
            let empty = Tensor::empty(&[0], DataType::I64, device).unwrap().to_device(Device::cpu()).unwrap();
            assert!(empty.is_empty());
            assert!(Tensor::empty(&[1 << 50], DataType::U8, device).is_err());
        }
    }
}
