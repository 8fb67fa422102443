//! Work on a GPU that is recorded while a thread gives it, and then done again as one launch: a graph of NVIDIA's driver.
//!
//! Recorded are launches, and copies to and within the device, by address: they are also done when they are recorded. Requires
//! that the host decides nothing by what the device computes, so a copy to the host is refused while a recording is made.
//! Ensures that memory which this thread frees meanwhile stays allocated as long as the recording.
//!
//! TVM counterpart: `runtime.vm.CUDAGraphExtension`, which captures the stream.
#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUdeviceptr, CUfunction, CUgraph, CUgraphExec,
    CUgraphInstantiate_flags, CUmemorytype, cuGraphAddKernelNode_v2, cuGraphAddMemcpyNode, cuGraphCreate,
};
use cudarc::driver::{DriverError, result};
use smallvec::SmallVec;

use super::code::{LoadedCode, launch_kernel, param_addresses};
use super::gpu::Gpu;
use super::memory::RawMemory;
use super::stream::Stream;
use super::{Device, launches_each};
use crate::device::Order;
use crate::error::RuntimeError;

/// The numbers of a launch: blocks, threads of each, and bytes of shared memory beside those that the code says.
pub(super) type Extents = ([u32; 3], [u32; 3], u32);

/// One piece of work.
enum Work {
    Launch {
        /// For errors.
        name: Arc<str>,
        /// Has the function.
        _code: Arc<LoadedCode>,
        function: CUfunction,
        extents: Extents,
        values: SmallVec<[u64; 16]>,
    },
    Copy {
        to: CUdeviceptr,
        from: CUdeviceptr,
        len: usize,
    },
}

/// Work on one GPU, in order, and the memory that it alone has.
pub(crate) struct Recording {
    gpu: Arc<Gpu>,
    work: Vec<Work>,
    names: Vec<Arc<str>>,
    /// Memory for what the kernels of one call give to each other: one place for all calls.
    scratch: Option<RawMemory>,
    kept: Vec<RawMemory>,
}

// SAFETY: functions are handles of the driver, which any thread may use once the context is current.
unsafe impl Send for Recording {}
// SAFETY: as above; nothing changes through a shared reference.
unsafe impl Sync for Recording {}

thread_local! {
    /// What this thread records.
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Puts back what the thread recorded before.
struct Restore(Option<Recording>);

impl Drop for Restore {
    fn drop(&mut self) {
        let last = RECORDING.replace(self.0.take());
        // Frees memory, which looks at the recording of the thread.
        drop(last);
    }
}

/// Does `run`, and records what this thread gives to `device` meanwhile.
///
/// # Errors
/// That of `run`; when the device cannot be used, or the thread already records.
pub(crate) fn record<R>(
    device: Device,
    run: impl FnOnce() -> Result<R, RuntimeError>,
) -> Result<(R, Recording), RuntimeError> {
    let gpu = Gpu::of(device)?;
    if RECORDING.with_borrow(Option::is_some) {
        return Err(uncapturable("it is part of a call that is being captured"));
    }
    let (work, names, kept) = Default::default();
    let new = Recording { gpu, work, names, scratch: None, kept };
    let restore = Restore(RECORDING.replace(Some(new)));
    let res = run()?;
    let recording = RECORDING.take();
    drop(restore);
    Ok((res, recording.ok_or_else(|| uncapturable("its recording was lost"))?))
}

/// Does `run` without recording it.
pub(crate) fn unrecorded<R>(run: impl FnOnce() -> R) -> R {
    let _restore = Restore(RECORDING.take());
    run()
}

/// The error of a call that cannot be captured.
pub(super) fn uncapturable(reason: impl Into<String>) -> RuntimeError {
    RuntimeError::Capture { reason: reason.into() }
}

/// What the thread records, if it does; the GPU is `device`.
fn recorded<R>(device: Device, change: impl FnOnce(&mut Recording) -> R) -> Result<Option<R>, RuntimeError> {
    RECORDING.with_borrow_mut(|it| match it {
        Some(it) if it.gpu.device == device => Ok(Some(change(it))),
        Some(it) => Err(uncapturable(format!(
            "it uses {} and {device}\n  help: capture a call for each of them",
            it.gpu.device
        ))),
        None => Ok(None),
    })
}

/// Records a launch of the kernel `name`.
pub(super) fn launches(
    code: &Arc<LoadedCode>,
    name: &str,
    (function, extents): (CUfunction, Extents),
    values: &[u64],
) -> Result<(), RuntimeError> {
    recorded(code.device(), |it| {
        let known = it.names.iter().find(|known| ***known == *name).cloned();
        let name = known.unwrap_or_else(|| {
            it.names.push(name.into());
            it.names[it.names.len() - 1].clone()
        });
        it.work.push(Work::Launch { name, _code: code.clone(), function, extents, values: values.into() });
    })
    .map(drop)
}

/// Records a copy within the device.
pub(super) fn copies(
    device: Device,
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
) -> Result<(), RuntimeError> {
    recorded(device, |it| it.work.push(Work::Copy { to, from, len })).map(drop)
}

/// True if the thread records what it gives to `device`.
pub(crate) fn records(device: Device) -> Result<bool, RuntimeError> {
    recorded(device, |_| ()).map(|it| it.is_some())
}

/// Keeps memory of `device` for the recording of this thread; returns it if there is none.
pub(super) fn keep(device: Device, memory: RawMemory) -> Option<RawMemory> {
    let mut memory = Some(memory);
    // A thread that ends has no recording.
    let _ = RECORDING.try_with(|it| {
        if let Ok(mut it) = it.try_borrow_mut()
            && let Some(it) = it.as_mut().filter(|it| it.gpu.device == device)
        {
            it.kept.extend(memory.take());
        }
    });
    memory
}

/// The address of `len` bytes for what kernels of one call give to each other, if the thread records.
pub(super) fn scratch(device: Device, len: usize) -> Result<Option<u64>, RuntimeError> {
    let enough =
        |it: &mut Recording| it.scratch.as_ref().filter(|it| it.len() >= len).map(RawMemory::address);
    match recorded(device, enough)? {
        Some(None) => {}
        Some(found) => return Ok(found),
        None => return Ok(None),
    }
    let more =
        RawMemory::alloc(device, len.next_power_of_two()).or_else(|_| RawMemory::alloc(device, len))?;
    let address = more.address();
    // Kernels that were recorded use the memory before.
    recorded(device, |it| it.kept.extend(it.scratch.replace(more)))?;
    Ok(Some(address))
}

/// A recording that the driver does as a whole.
pub(crate) struct Graph {
    /// `None` if there is no work.
    exec: Option<CUgraphExec>,
    recording: Recording,
    names: Arc<[Arc<str>]>,
    /// Whether the driver waits for each launch, so that an error is that of one kernel.
    apart: bool,
}

// SAFETY: a graph is a handle of the driver, which any thread may use, but not several at once: a launch borrows it mutably.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A graph that is not yet executable, destroyed when dropped.
struct Template(CUgraph);

impl Drop for Template {
    fn drop(&mut self) {
        // SAFETY: made in `Template::of`, destroyed once. Destroying it leaves what was instantiated.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

impl Template {
    /// The work of `recording`, each piece after the one before.
    fn of(recording: &Recording) -> Result<Template, DriverError> {
        let mut graph = MaybeUninit::uninit();
        // SAFETY: the driver writes the graph there.
        unsafe { cuGraphCreate(graph.as_mut_ptr(), 0) }.result()?;
        // SAFETY: written above.
        let graph = Template(unsafe { graph.assume_init() });
        let mut last = Vec::new();
        for work in &recording.work {
            let mut node = MaybeUninit::uninit();
            let before = if last.is_empty() { null() } else { last.as_ptr() };
            let status = match work {
                Work::Launch { function, extents: (grid, block, shared), values, .. } => {
                    let mut params = param_addresses(values);
                    let params = CUDA_KERNEL_NODE_PARAMS {
                        func: *function,
                        gridDimX: grid[0],
                        gridDimY: grid[1],
                        gridDimZ: grid[2],
                        blockDimX: block[0],
                        blockDimY: block[1],
                        blockDimZ: block[2],
                        sharedMemBytes: *shared,
                        kernelParams: params.as_mut_ptr(),
                        extra: null_mut(),
                        kern: null_mut(),
                        ctx: null_mut(),
                    };
                    // SAFETY: the function is one of code that the recording keeps; the driver copies its parameters.
                    unsafe {
                        cuGraphAddKernelNode_v2(
                            node.as_mut_ptr(),
                            graph.0,
                            before,
                            last.len(),
                            &raw const params,
                        )
                    }
                }
                Work::Copy { to, from, len } => {
                    let params = bytes_within_device(*to, *from, *len);
                    let context = recording.gpu.context.cu_ctx();
                    // SAFETY: a copy of bytes; the context is that of the device.
                    unsafe {
                        let (node, params) = (node.as_mut_ptr(), &raw const params);
                        cuGraphAddMemcpyNode(node, graph.0, before, last.len(), params, context)
                    }
                }
            };
            status.result()?;
            // SAFETY: written by the call that succeeded.
            last = vec![unsafe { node.assume_init() }];
        }
        Ok(graph)
    }
}

/// A copy of `len` bytes, as the driver describes copies of blocks.
fn bytes_within_device(to: CUdeviceptr, from: CUdeviceptr, len: usize) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: from,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: to,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: len,
        Height: 1,
        Depth: 1,
    }
}

impl Graph {
    /// The graph of `recording`.
    ///
    /// # Errors
    /// When the driver does not make it.
    pub(crate) fn new(recording: Recording) -> Result<Graph, RuntimeError> {
        let gpu = Gpu::of(recording.gpu.device)?;
        let mut exec = None;
        if !recording.work.is_empty() {
            exec = Some(gpu.call(|| {
                let template = Template::of(&recording)?;
                // SAFETY: the graph was made above.
                unsafe { result::graph::instantiate(template.0, CUgraphInstantiate_flags(0)) }
            })?);
        }
        let names = recording.names.as_slice().into();
        let apart = std::env::var("CUDA_LAUNCH_BLOCKING").is_ok_and(|it| it == "1");
        Ok(Graph { exec, recording, names, apart })
    }

    /// Number of launches and copies.
    pub(crate) fn len(&self) -> usize {
        self.recording.work.len()
    }

    /// Gives the work to the stream of the workspace that this thread runs a call in. The call does not wait for it.
    ///
    /// # Safety
    /// The memory that the recorded work accesses is allocated, and belongs to this work until it has ended, apart from what it only
    /// reads. What was done with it before was in the same stream or has ended, and so is what is done with it later.
    ///
    /// # Errors
    /// When the device refuses the launch, or reports that a kernel failed that was launched before.
    pub(crate) unsafe fn launch(&mut self) -> Result<(), RuntimeError> {
        // The context is made current for this thread.
        let gpu = Gpu::of(self.recording.gpu.device)?;
        let Some(exec) = self.exec else { return Ok(()) };
        let stream = gpu.stream(Order::Marked);
        if self.apart {
            // SAFETY: promised by the caller.
            return self.recording.work.iter().try_for_each(|work| unsafe { work.launch(&gpu, stream) });
        }
        stream.launched().add_all(&self.names, self.recording.work.len());
        // SAFETY: made in `new`, and the stream lives as long as the process; the memory is promised by the caller.
        let once = |_| unsafe { result::graph::launch(exec, stream.handle) };
        gpu.call(|| (0..launches_each(gpu.device)).try_for_each(once))
    }
}

impl Work {
    /// Gives this piece of work alone to the device.
    ///
    /// # Safety
    /// As for [`Graph::launch`].
    unsafe fn launch(&self, gpu: &Gpu, stream: &Stream) -> Result<(), RuntimeError> {
        match self {
            Work::Launch { name, function, extents, values, .. } => {
                stream.launched().add(name);
                // SAFETY: promised by the caller.
                gpu.call(|| unsafe { launch_kernel(stream, *function, *extents, values) })?;
                gpu.synchronize()
            }
            Work::Copy { to, from, len } => {
                // SAFETY: promised by the caller.
                gpu.call(|| unsafe { result::memcpy_dtod_async(*to, *from, *len, stream.handle) })
            }
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Some(exec) = self.exec.take() else { return };
        // A failure leaves the graph to the driver, which frees it with the process.
        let Ok(gpu) = Gpu::of(self.recording.gpu.device) else { return };
        if gpu.synchronize().is_ok() {
            // SAFETY: made in `new`, destroyed once, after the work that was launched.
            let _ = gpu.try_call(|| unsafe { result::graph::exec_destroy(exec) });
        }
    }
}
