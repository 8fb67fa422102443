//! Where a tensor lives: a kind of device and its ordinal.
//!
//! TVM counterpart: `DLDevice`, `runtime::Device`.

mod cuda;

use std::fmt;

pub(crate) use cuda::DeviceBuffer;
use serde::{Deserialize, Serialize};

/// Kind of device; values are DLPack's `DLDeviceType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(i32)]
pub enum DeviceKind {
    /// Host memory.
    #[default]
    Cpu = 1,
    /// Memory of an NVIDIA GPU.
    Cuda = 2,
}

/// One device: kind and ordinal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Device {
    /// Kind of device.
    pub kind: DeviceKind,
    /// Ordinal among the devices of that kind.
    pub id: i32,
}

impl Device {
    /// The host.
    pub const fn cpu() -> Device {
        Device { kind: DeviceKind::Cpu, id: 0 }
    }

    /// The `id`-th CUDA device.
    pub const fn cuda(id: i32) -> Device {
        Device { kind: DeviceKind::Cuda, id }
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
