//! A program for a device: a call copies arguments that are on the host, launches the kernels, and copies outputs back.
#![allow(unsafe_code, reason = "reads raw kernel arguments; each block says why it is sound")]

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::plans::Plans;
use super::{Argument, KernelFailure, LaunchArg, LaunchError, LaunchPlan, Step};
use crate::abi::{DLTensor, KernelArg};
use crate::device::{Device, DeviceKind, LoadedCode, Order, RawMemory, records};
use crate::error::RuntimeError;
use crate::kernel::{KernelSig, ParamKind, ParamSig};
use crate::tensor::{byte_size, is_compact};

/// Format of the code of a [`DeviceImage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CodeFormat {
    /// PTX, which the driver translates for its GPU.
    Ptx,
    /// Machine code of one architecture (a cubin).
    Cubin,
}

/// Code for a device. It is loaded when one of its kernels is first called on a device, once for each device.
pub struct DeviceImage {
    format: CodeFormat,
    /// What the code was compiled for, as text for errors: `sm_80`.
    arch: String,
    /// The code, and a zero, which ends PTX.
    bytes: Vec<u8>,
    /// Names of the kernels.
    symbols: Vec<String>,
    loaded: Mutex<Vec<(Device, Arc<LoadedCode>)>>,
}

impl DeviceImage {
    /// Code in `format`, which was compiled for the architecture `arch` (`sm_80`) and has the kernels `symbols`.
    pub fn new(
        format: CodeFormat,
        arch: impl Into<String>,
        mut bytes: Vec<u8>,
        symbols: Vec<String>,
    ) -> DeviceImage {
        bytes.push(0);
        DeviceImage { format, arch: arch.into(), bytes, symbols, loaded: Mutex::default() }
    }

    /// Format of the code.
    pub fn format(&self) -> CodeFormat {
        self.format
    }

    /// The architecture that the code was compiled for.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// The code, followed by a zero.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only a device reads it"))]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Names of the kernels.
    pub fn symbols(&self) -> &[String] {
        &self.symbols
    }

    /// The code on `device`.
    pub(crate) fn on(&self, device: Device) -> Result<Arc<LoadedCode>, RuntimeError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, code)) = loaded.iter().find(|it| it.0 == device) {
            return Ok(code.clone());
        }
        let code = Arc::new(LoadedCode::load(device, self)?);
        loaded.push((device, code.clone()));
        Ok(code)
    }
}

impl fmt::Debug for DeviceImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceImage({:?} for {}, {:?})", self.format, self.arch, self.symbols)
    }
}

type Plan = dyn Fn(&[LaunchArg<'_>]) -> Result<LaunchPlan, LaunchError> + Send + Sync;

/// A tensor program whose kernels run on a device of the kind [`DeviceKind::Cuda`].
pub struct DeviceProgram {
    /// One for each code that a GPU of this machine takes; at least one.
    versions: Vec<Version>,
    /// Which version each GPU takes, by its ordinal; all others take the first.
    choice: Arc<[Choice]>,
}

/// The number of the code that a GPU takes, or why there is none for it.
pub(crate) type Choice = Result<usize, RuntimeError>;

/// A program in one code.
struct Version {
    image: Arc<DeviceImage>,
    kernels: Vec<usize>,
    failures: Arc<[KernelFailure]>,
    plan: Box<Plan>,
    plans: Plans,
}

/// An argument of a call.
struct Operand<'a> {
    /// The tensor; `None` for a scalar.
    tensor: Option<&'a DLTensor>,
    bytes: usize,
    written: bool,
}

impl DeviceProgram {
    /// Makes a program from code, the numbers of its kernels among [`DeviceImage::symbols`], what the numbers of failed
    /// assertions mean (the first is number 1), and a function that plans a call. A plan is kept for calls with the
    /// same arguments.
    pub fn new(
        image: Arc<DeviceImage>,
        kernels: Vec<usize>,
        failures: Arc<[KernelFailure]>,
        plan: impl Fn(&[LaunchArg<'_>]) -> Result<LaunchPlan, LaunchError> + Send + Sync + 'static,
    ) -> DeviceProgram {
        let version = Version { image, kernels, failures, plan: Box::new(plan), plans: Plans::default() };
        DeviceProgram { versions: vec![version], choice: Arc::new([]) }
    }

    /// The same program for all GPUs of the machine: the one of `programs` that `choice` names. `None` if there is none.
    pub(crate) fn for_all(
        programs: impl IntoIterator<Item = DeviceProgram>,
        choice: Arc<[Choice]>,
    ) -> Option<DeviceProgram> {
        let versions: Vec<Version> = programs.into_iter().flat_map(|it| it.versions).collect();
        (!versions.is_empty()).then_some(DeviceProgram { versions, choice })
    }

    /// The code for the device of calls whose tensors are all on the host.
    pub fn image(&self) -> &Arc<DeviceImage> {
        let version = self.version(self.home()).unwrap_or(&self.versions[0]);
        &version.image
    }

    /// The code for `device`.
    ///
    /// # Errors
    /// When the program has none for it.
    pub fn image_on(&self, device: Device) -> Result<&Arc<DeviceImage>, RuntimeError> {
        self.version(device).map(|it| &it.image)
    }

    /// The first GPU that there is code for.
    fn home(&self) -> Device {
        let first = self.choice.iter().position(Result::is_ok).unwrap_or_default();
        Device::cuda(i32::try_from(first).unwrap_or_default())
    }

    fn version(&self, device: Device) -> Result<&Version, RuntimeError> {
        let choice = usize::try_from(device.id).ok().and_then(|id| self.choice.get(id));
        let number = match choice {
            None => 0,
            Some(Ok(number)) => *number,
            Some(Err(err)) => return Err(err.clone()),
        };
        Ok(self.versions.get(number).unwrap_or(&self.versions[0]))
    }

    /// Calls the program. Tensors on the host are copied to the device, which is that of the other tensors or the first one that there
    /// is code for, and outputs are copied back; so are, on the device, tensors that do not begin at a multiple of 16 bytes. If all tensors are on
    /// the device, the call may return before the kernels have ended.
    ///
    /// # Safety
    /// As for [`Kernel::call_raw`](crate::Kernel::call_raw). With [`Order::Marked`], the memory of the tensors on the device is marked.
    pub(crate) unsafe fn call(
        &self,
        sig: &KernelSig,
        raw: &[KernelArg],
        order: Order,
    ) -> Result<(), RuntimeError> {
        let func = || Arc::from(sig.name.as_str());
        if raw.len() != sig.params.len() {
            return Err(RuntimeError::ArgCount { func: func(), expected: sig.params.len(), got: raw.len() });
        }
        let mut device = None;
        let mut operands: SmallVec<[Operand<'_>; 8]> = SmallVec::new();
        let mut args: SmallVec<[LaunchArg<'_>; 8]> = SmallVec::new();
        for (param, arg) in sig.params.iter().zip(raw) {
            // SAFETY: the caller promises arguments of the kinds of the signature, and valid tensors.
            let (operand, arg) = unsafe { operand(sig, param, *arg)? };
            if let Some(got) = operand.tensor.map(device_of).filter(|it| *it != Device::cpu()) {
                let expected = *device.get_or_insert(got);
                if got != expected || got.kind != DeviceKind::Cuda {
                    let expected = if got == expected { Device::cuda(0) } else { expected };
                    let arg = param.name.as_str().into();
                    return Err(RuntimeError::ArgDevice { func: func(), arg, expected, got });
                }
            }
            operands.push(operand);
            args.push(arg);
        }
        let device = device.unwrap_or_else(|| self.home());
        let version = self.version(device)?;
        let plan = version.plans.get(&args, &*version.plan).map_err(|err| err.error(sig))?;
        if plan.steps.is_empty() {
            return Ok(());
        }
        // SAFETY: the operands are the valid tensors of the caller.
        unsafe { version.run(sig, &plan, &operands, (device, order)) }
    }
}

impl Version {
    /// # Safety
    /// The tensors of `operands` are valid for this call: readable, and those that are written are writable. With [`Order::Marked`], those
    /// on the device are marked.
    unsafe fn run(
        &self,
        sig: &KernelSig,
        plan: &LaunchPlan,
        operands: &[Operand<'_>],
        (device, order): (Device, Order),
    ) -> Result<(), RuntimeError> {
        let code = self.image.on(device)?;
        // The memories by number, those that only this call has, and which argument each of these is a copy of.
        let mut memories: SmallVec<[u64; 12]> = SmallVec::new();
        let mut own: SmallVec<[RawMemory; 4]> = SmallVec::new();
        let mut copies: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        // The same of those whose tensors are on the device, at addresses with which no kernel is launched.
        let mut moved: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (i, operand) in operands.iter().enumerate() {
            memories.push(match operand.tensor {
                Some(tensor) if device_of(tensor) == Device::cpu() && operand.bytes > 0 => {
                    let memory = RawMemory::alloc(device, operand.bytes)?;
                    // SAFETY: a valid tensor on the host; what is written may be read as well.
                    let bytes = unsafe { std::slice::from_raw_parts(start(tensor), operand.bytes) };
                    memory.copy_from_host(0, bytes)?;
                    copies.push((own.len(), i));
                    own.push(memory);
                    own[own.len() - 1].address()
                }
                Some(tensor) if operand.bytes > 0 && !start(tensor).addr().is_multiple_of(ALIGNMENT) => {
                    let memory = RawMemory::alloc(device, operand.bytes)?;
                    // SAFETY: a valid tensor on this device.
                    unsafe { memory.copy_from_device(order, start(tensor).addr() as u64)? };
                    moved.push((own.len(), i));
                    own.push(memory);
                    own[own.len() - 1].address()
                }
                Some(tensor) => start(tensor).addr() as u64,
                None => 0,
            });
        }
        let (offsets, bytes) = plan.places();
        let oom = RuntimeError::OutOfMemory { bytes, device };
        let bytes = usize::try_from(bytes).map_err(|_| oom)?;
        // Held until everything is launched.
        let scratch = if bytes > 0 { Some(code.scratch(order, bytes)?) } else { None };
        let address = scratch.as_ref().map_or(0, |it| it.address());
        memories.extend(offsets.into_iter().map(|offset| address + offset));
        let is_failure = |it: &Argument| matches!(it, Argument::Failure);
        let checked = plan.steps.iter().any(|Step::Launch { args, .. }| args.iter().any(is_failure));
        let mut record = None;
        if checked && records(device)? {
            let reason = format!(
                "the host waits for the checks in the kernel `{}`\n  help: a kernel has none where indices are proven to be in bounds; \
                 otherwise call it without capturing it",
                sig.name
            );
            return Err(RuntimeError::Capture { reason });
        }
        if checked {
            let memory = RawMemory::alloc(device, RECORD)?;
            memory.copy_from_host(0, &[0; RECORD])?;
            record = Some(memory);
        }
        for Step::Launch { kernel, grid, block, shared, args } in &plan.steps {
            let missing = || RuntimeError::Launch { func: sig.name.as_str().into(), message: MISSING.into() };
            let symbol = *self.kernels.get(*kernel).ok_or_else(missing)?;
            let value = |arg: &Argument| match arg {
                Argument::Memory(number) => memories.get(*number).copied().ok_or_else(missing),
                Argument::Scalar(bits, _) => Ok(*bits),
                Argument::Failure => Ok(record.as_ref().map_or(0, RawMemory::address)),
            };
            let values = args.iter().map(value).collect::<Result<SmallVec<[u64; 16]>, _>>()?;
            // SAFETY: whoever made the program promised that its kernels take what its plan passes, and access what they are
            // given within the bounds that the plan checked. The memories live until the work that was launched has ended:
            // the device frees memory after what uses it.
            unsafe { code.launch(order, (&sig.name, symbol), (*grid, *block, *shared), &values)? };
        }
        for (memory, i) in moved {
            let operand = &operands[i];
            if let Some(tensor) = operand.tensor.filter(|_| operand.written) {
                // SAFETY: a valid tensor on this device that this call may write to, of as many bytes as its copy.
                unsafe { own[memory].copy_to_device(order, start(tensor).addr() as u64)? };
            }
        }
        if let Some(record) = record {
            let mut bytes = [0u8; RECORD];
            record.copy_to_host(0, &mut bytes)?;
            let [site, expected, got] = [0, 8, 16].map(|at| {
                let word: [u8; 8] = std::array::from_fn(|i| bytes[at + i]);
                i64::from_le_bytes(word)
            });
            if site != 0 {
                let failure = usize::try_from(site - 1).ok().and_then(|at| self.failures.get(at));
                return Err(match failure {
                    Some(failure) => failure.error(sig, expected, got),
                    None => {
                        RuntimeError::UnknownStatus { func: sig.name.as_str().into(), status: site as i32 }
                    }
                });
            }
        }
        for (memory, i) in copies {
            let operand = &operands[i];
            if let Some(tensor) = operand.tensor.filter(|_| operand.written) {
                // SAFETY: a valid tensor that this call may write to, and that nobody else accesses during the call.
                let bytes = unsafe { std::slice::from_raw_parts_mut(start(tensor), operand.bytes) };
                own[memory].copy_to_host(0, bytes)?;
            }
        }
        Ok(())
    }
}

/// Kernels access up to so many bytes at once, and rely on it that memory begins at a multiple of them. A tensor that does not, as a
/// view of a part of another one, is copied for the call.
const ALIGNMENT: usize = 16;

/// Bytes of the record of a failed assertion.
const RECORD: usize = 24;

const MISSING: &str = "the plan of the call names something that the program does not have";

/// Address of the first element.
fn start(tensor: &DLTensor) -> *mut u8 {
    tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize)
}

fn device_of(tensor: &DLTensor) -> Device {
    let kind = if tensor.device.kind == DeviceKind::Cuda as i32 { DeviceKind::Cuda } else { DeviceKind::Cpu };
    Device { kind, id: tensor.device.id }
}

/// Describes one argument.
///
/// # Safety
/// The argument is of the kind of the parameter; a tensor is null or valid, and stays valid while the result is used.
unsafe fn operand<'a>(
    sig: &KernelSig,
    param: &ParamSig,
    arg: KernelArg,
) -> Result<(Operand<'a>, LaunchArg<'a>), RuntimeError> {
    let names = || (Arc::<str>::from(sig.name.as_str()), Arc::<str>::from(param.name.as_str()));
    if param.kind == ParamKind::Scalar {
        let none = Operand { tensor: None, bytes: 0, written: false };
        // SAFETY: the caller's promise.
        let value = unsafe {
            if param.dtype.is_float() { LaunchArg::Float(arg.float) } else { LaunchArg::Int(arg.int) }
        };
        return Ok((none, value));
    }
    let null = || {
        let (func, arg) = names();
        RuntimeError::ArgNull { func, arg }
    };
    // SAFETY: the caller's promise.
    let tensor = unsafe { arg.tensor.as_ref() }.ok_or_else(null)?;
    let list = |ptr: *const i64| match usize::try_from(tensor.ndim) {
        // SAFETY: a valid tensor has `ndim` extents, and as many strides or none.
        Ok(rank @ 1..) if !ptr.is_null() => unsafe { std::slice::from_raw_parts(ptr, rank) },
        _ => &[],
    };
    let (shape, strides) = (list(tensor.shape), list(tensor.strides));
    if !strides.is_empty() && !is_compact(shape, strides) {
        let (func, arg) = names();
        let (axis, got) = (shape.len() as i64 - 1, strides[strides.len() - 1]);
        return Err(RuntimeError::ArgStrides { func, arg, axis, expected: 1, got });
    }
    let dtype = tensor.dtype;
    let bad_shape = || RuntimeError::BadShape { shape: shape.to_vec(), dtype };
    let bytes = byte_size(shape, dtype).ok_or_else(bad_shape)?;
    if tensor.data.is_null() && bytes > 0 {
        return Err(null());
    }
    let operand = Operand { tensor: Some(tensor), bytes, written: param.kind == ParamKind::Out };
    Ok((operand, LaunchArg::Tensor { shape, dtype }))
}

impl fmt::Debug for DeviceProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.versions.iter().map(|it| &it.image)).finish()
    }
}
