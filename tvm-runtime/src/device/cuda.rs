//! CUDA devices: probing, memory, copies, code, launches.
//!
//! TVM counterpart: `runtime/cuda/cuda_device_api.cc`, `cuda_module.cc`. The driver is loaded when it is first needed. cudarc
//! panics if the driver library or one of its symbols is missing; every call goes through [`Gpu::call`], which turns the panic
//! into an error.
//!
//! Invariant: all work that uses the same memory is in one order, unless it only reads. Each workspace of a virtual machine has a
//! stream of its own, in which everything is that its calls do; one more stream has the allocations and copies outside of a
//! workspace. Memory knows the streams that use it and the one that wrote to it last ([`stream::Uses`]), and is marked before work that
//! uses it is given: a stream that reads waits once for the one that wrote, a stream that writes waits for all that use it, and a free
//! comes after them. So memory that is freed is used again only after the work that used it, a copy to the host sees what was
//! written before, and calls that read the same constants do not wait for each other.
//!
//! Kernels that an application calls itself get addresses, whose memory is not known. They are in the default stream of the driver,
//! which waits for all streams, and for which all wait ([`Order::Everything`](super::Order)). Calls in one stream use the same memory
//! for what their kernels give to each other ([`memory::Scratch`]).
#![allow(unsafe_code, reason = "device memory by address; each block says why it is sound")]

mod code;
mod event;
mod gpu;
mod graph;
mod launched;
mod memory;
mod pinned;
mod stream;

pub(crate) use code::LoadedCode;
pub(crate) use graph::{Graph, record, records, unrecorded};
pub(super) use memory::CudaBuffer;
pub(crate) use memory::RawMemory;
pub(crate) use pinned::PinnedMemory;
pub(crate) use stream::OwnStreams;

use std::cell::Cell;
use std::time::Duration;

use cudarc::driver::sys::CUdevice_attribute;

use super::{Device, DeviceProperties};
use crate::error::RuntimeError;
use event::Event;
use gpu::Gpu;

thread_local! {
    /// Inside of [`repeat_launches`]: its device, and how often this thread makes each launch there.
    static REPEATED: Cell<Option<(Device, u32)>> = const { Cell::new(None) };
}

pub(super) fn probe(device: Device) -> Result<(), RuntimeError> {
    Gpu::of(device).map(drop)
}

pub(super) fn properties(device: Device) -> Result<DeviceProperties, RuntimeError> {
    let gpu = Gpu::of(device)?;
    gpu.call(|| {
        let context = &gpu.context;
        let units = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(DeviceProperties {
            name: context.name()?,
            total_memory: Some(context.total_mem()?),
            compute_capability: Some(context.compute_capability()?),
            units: usize::try_from(units).unwrap_or_default(),
        })
    })
}

pub(super) fn capabilities() -> Result<Vec<(i32, i32)>, RuntimeError> {
    let all = gpu::capabilities()?;
    // The error says why there is none.
    if all.is_empty() { properties(Device::cuda(0)).map(|_| all) } else { Ok(all) }
}

pub(super) fn synchronize(device: Device) -> Result<(), RuntimeError> {
    Gpu::of(device)?.synchronize()
}

pub(super) fn repeat_launches(
    device: Device,
    times: u32,
    run: impl FnOnce() -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    struct Restore(Option<(Device, u32)>);
    impl Drop for Restore {
        fn drop(&mut self) {
            REPEATED.set(self.0);
        }
    }
    probe(device)?;
    let _restore = Restore(REPEATED.replace(Some((device, times))));
    run()
}

/// How often this thread makes a launch on `device`.
fn launches_each(device: Device) -> u32 {
    REPEATED.get().filter(|it| it.0 == device).map_or(1, |it| it.1)
}

pub(super) fn timed(
    device: Device,
    run: impl FnOnce() -> Result<(), RuntimeError>,
) -> Result<Duration, RuntimeError> {
    let gpu = Gpu::of(device)?;
    let (start, end) = (Event::new(&gpu)?, Event::new(&gpu)?);
    start.record()?;
    run()?;
    end.record()?;
    end.since(&start)
}
