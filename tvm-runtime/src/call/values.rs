//! Calls of kernels with [`Value`]s, for the virtual machine.
//!
//! Invariant: an output lies in memory that the current run allocated and that nobody else can see (`Storage::writer`).
//! So bytecode, whoever made it, cannot write to constants, to arguments or to results of other runs.
#![allow(unsafe_code, reason = "builds raw kernel arguments; each block says why it is sound")]

use std::sync::Arc;

use crate::abi::{DLTensor, KernelArg};
use crate::device::{Device, DeviceKind, Order};
use crate::error::RuntimeError;
use crate::kernel::{Backend, Kernel, ParamKind, ParamSig};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::vm::CallOptions;

impl Kernel {
    /// Runs the kernel for run number `writer` of a virtual machine. Inputs and outputs are tensors; scalars are
    /// integers, floats or tensors of one element.
    pub(crate) fn call_values<'a>(
        &self,
        args: impl ExactSizeIterator<Item = &'a Value>,
        writer: u64,
        options: CallOptions<'_>,
    ) -> Result<(), RuntimeError> {
        let params = &self.signature().params;
        if args.len() != params.len() {
            let func = self.name().into();
            return Err(RuntimeError::ArgCount { func, expected: params.len(), got: args.len() });
        }
        const ARG: KernelArg = KernelArg { int: 0 };
        let len = params.len();
        // Few slots are quick to clear.
        match len {
            ..=4 => self.call_in(&mut [SLOT; 4][..len], &mut [ARG; 4][..len], args, writer, options),
            5..=12 => self.call_in(&mut [SLOT; 12][..len], &mut [ARG; 12][..len], args, writer, options),
            _ => self.call_in(&mut vec![SLOT; len], &mut vec![ARG; len], args, writer, options),
        }
    }

    /// As [`Kernel::call_values`], with a place for each argument.
    fn call_in<'a>(
        &self,
        slots: &mut [Slot],
        raw: &mut [KernelArg],
        args: impl Iterator<Item = &'a Value>,
        writer: u64,
        options: CallOptions<'_>,
    ) -> Result<(), RuntimeError> {
        let mut device = None;
        let (mut outputs, mut elements) = (false, false);
        let backend = self.backend();
        let params = &self.signature().params;
        for (((param, value), slot), raw) in params.iter().zip(args).zip(&mut *slots).zip(&mut *raw) {
            match (param.kind, value) {
                (ParamKind::Scalar, value) => {
                    *raw = scalar(param, value).ok_or_else(|| self.bad_kind(param, value))?;
                }
                (kind, Value::Tensor(tensor)) => {
                    self.check_device(param, tensor, *device.get_or_insert(tensor.device()))?;
                    if kind == ParamKind::Out {
                        self.check_access(param, tensor, writer)?;
                        outputs = true;
                        elements |= tensor.byte_len() > 0;
                    }
                    if let Some(buffer) = tensor.storage().device_buffer() {
                        buffer.mark(kind == ParamKind::Out)?;
                    }
                    slot.tensor = tensor.to_dltensor();
                    if backend != Backend::Device {
                        // To a kernel, a virtual device is the host.
                        slot.tensor.device = Device::cpu().to_dlpack();
                    }
                    slot.byte_len = tensor.byte_len();
                    *raw = KernelArg { tensor: &raw const slot.tensor };
                }
                (_, value) => return Err(self.bad_kind(param, value)),
            }
        }
        // A kernel with nothing to write has nothing to do; its loops may still be long, around one that is empty.
        if outputs && !elements {
            return Ok(());
        }
        if backend != Backend::Host {
            self.check_overlap(slots)?;
        }
        // SAFETY: the kinds are the signature's; the values and the slots outlive the call, and the outputs belong to
        // this run alone (see the file header). Memory on a device is marked.
        unsafe { self.call_raw_with(raw, options, Order::Marked) }
    }

    /// Checks that no output overlaps another argument. Machine code, of a GPU as well, relies on this: a write could otherwise invalidate
    /// a check that it already made.
    #[inline]
    fn check_overlap(&self, slots: &[Slot]) -> Result<(), RuntimeError> {
        let params = &self.signature().params;
        for (i, (param, output)) in params.iter().zip(slots).enumerate() {
            let is_other = |(j, slot): &(usize, &Slot)| *j != i && output.overlaps(slot);
            if param.kind == ParamKind::Out
                && let Some((j, _)) = slots.iter().enumerate().find(is_other)
            {
                let name = |i: usize| params[i].name.as_str().into();
                let func = self.name().into();
                return Err(RuntimeError::ArgOverlap { func, arg: name(i), other: name(j) });
            }
        }
        Ok(())
    }

    #[cold]
    fn bad_kind(&self, param: &ParamSig, value: &Value) -> RuntimeError {
        let expected = match param.kind {
            ParamKind::In | ParamKind::Out => "a tensor".to_string(),
            ParamKind::Scalar => format!("a scalar of type {}", param.dtype),
        };
        let (func, arg) = (self.name().into(), param.name.as_str().into());
        RuntimeError::ArgKind { func, arg, expected: expected.into(), got: value.kind().into() }
    }

    /// Checks that `tensor` is on the device of the other arguments, and that kernels can run there.
    #[inline]
    fn check_device(&self, param: &ParamSig, tensor: &Tensor, expected: Device) -> Result<(), RuntimeError> {
        let got = tensor.device();
        // Kernels of a GPU check the kind of the device when they are called.
        if got.kind != DeviceKind::Cpu && self.backend() != Backend::Device {
            return Err(RuntimeError::NotOnHost { device: got });
        }
        if got != expected {
            let (func, arg) = (self.name().into(), param.name.as_str().into());
            return Err(RuntimeError::ArgDevice { func, arg, expected, got });
        }
        Ok(())
    }

    #[inline]
    fn check_access(&self, param: &ParamSig, tensor: &Tensor, writer: u64) -> Result<(), RuntimeError> {
        if tensor.storage().writer() != writer || !tensor.storage().is_writable() {
            let (func, arg): (Arc<str>, Arc<str>) = (self.name().into(), param.name.as_str().into());
            let reason = "its memory was not allocated by this run, or was handed out";
            return Err(RuntimeError::ArgReadOnly { func, arg, reason });
        }
        Ok(())
    }
}

/// A tensor as a kernel sees it, or nothing, for a scalar.
#[derive(Clone, Copy)]
struct Slot {
    tensor: DLTensor,
    byte_len: usize,
}

const SLOT: Slot = Slot { tensor: DLTensor::NULL, byte_len: 0 };

impl Slot {
    /// True if the memory of both tensors has a common byte.
    fn overlaps(&self, other: &Slot) -> bool {
        let (a, b) = (self.tensor.data.addr(), other.tensor.data.addr());
        // The distance from the one that starts first.
        let apart = if a <= b { b - a >= self.byte_len } else { a - b >= other.byte_len };
        !apart && self.byte_len > 0 && other.byte_len > 0
    }
}

fn scalar(param: &ParamSig, value: &Value) -> Option<KernelArg> {
    let read;
    let value = match value {
        Value::Tensor(tensor) => {
            read = tensor.read_scalar().ok()?;
            &read
        }
        value => value,
    };
    match (value, param.dtype.is_float()) {
        (Value::Int(int), false) => Some(KernelArg { int: *int }),
        (Value::Float(float), true) => Some(KernelArg { float: *float }),
        (Value::Int(int), true) => Some(KernelArg { float: *int as f64 }),
        _ => None,
    }
}
