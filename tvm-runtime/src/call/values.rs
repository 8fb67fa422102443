//! Calls of kernels with [`Value`]s, for the virtual machine.
//!
//! Invariant: an output lies in memory that the current run allocated and that nobody else can see (`Storage::writer`).
//! So bytecode, whoever made it, cannot write to constants, to arguments or to results of other runs.
#![allow(unsafe_code, reason = "builds raw kernel arguments; each block says why it is sound")]

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::abi::{DLTensor, KernelArg};
use crate::device::{Device, DeviceKind};
use crate::error::RuntimeError;
use crate::kernel::{Backend, Kernel, ParamKind, ParamSig};
use crate::tensor::Tensor;
use crate::thread_pool::ThreadPool;
use crate::value::Value;

impl Kernel {
    /// Runs the kernel for run number `writer` of a virtual machine. Inputs and outputs are tensors; scalars are
    /// integers, floats or tensors of one element.
    pub(crate) fn call_values<'a>(
        &self,
        args: impl ExactSizeIterator<Item = &'a Value>,
        writer: u64,
        pool: Option<&dyn ThreadPool>,
    ) -> Result<(), RuntimeError> {
        let params = &self.signature().params;
        if args.len() != params.len() {
            let func = self.name().into();
            return Err(RuntimeError::ArgCount { func, expected: params.len(), got: args.len() });
        }
        let mut tensors: SmallVec<[DLTensor; 12]> = SmallVec::new();
        let mut raw: SmallVec<[KernelArg; 12]> = SmallVec::new();
        let mut spans: SmallVec<[Range<usize>; 12]> = SmallVec::new();
        let mut device = None;
        for (param, value) in params.iter().zip(args) {
            raw.push(match (param.kind, value) {
                (ParamKind::Scalar, value) => {
                    scalar(param, value).ok_or_else(|| self.bad_kind(param, value))?
                }
                (kind, Value::Tensor(tensor)) => {
                    self.check_device(param, tensor, *device.get_or_insert(tensor.device()))?;
                    if kind == ParamKind::Out {
                        self.check_access(param, tensor, writer)?;
                    }
                    let start = tensor.data_ptr().addr();
                    spans.push(start..start.wrapping_add(tensor.byte_len()));
                    // To a kernel, a virtual device is the host.
                    tensors.push(DLTensor { device: Device::cpu().to_dlpack(), ..tensor.to_dltensor() });
                    KernelArg { int: 0 }
                }
                (_, value) => return Err(self.bad_kind(param, value)),
            });
        }
        if self.backend() == Backend::Native {
            self.check_overlap(&spans)?;
        }
        // The pointers are taken only now, when `tensors` no longer moves.
        let mut described = tensors.iter();
        for (param, arg) in params.iter().zip(&mut raw) {
            if param.kind != ParamKind::Scalar {
                *arg = KernelArg { tensor: described.next().map_or(std::ptr::null(), |it| it) };
            }
        }
        // SAFETY: the kinds are the signature's; the values outlive the call, and the outputs belong to this run alone
        // (see the file header).
        unsafe { self.call_raw(&raw, pool) }
    }

    /// Checks that no output overlaps another argument. Machine code relies on this: a write could otherwise invalidate
    /// a check that it already made.
    fn check_overlap(&self, spans: &[Range<usize>]) -> Result<(), RuntimeError> {
        let params = self.signature().params.iter().filter(|param| param.kind != ParamKind::Scalar);
        let tensors = params.zip(spans).filter(|(_, span)| !span.is_empty());
        let tensors: SmallVec<[(&ParamSig, &Range<usize>); 12]> = tensors.collect();
        for (i, (param, span)) in tensors.iter().enumerate().filter(|(_, (it, _))| it.kind == ParamKind::Out)
        {
            let overlaps = |other: &Range<usize>| span.start < other.end && other.start < span.end;
            let other = tensors.iter().enumerate().find(|(j, (_, other))| *j != i && overlaps(other));
            if let Some((_, (other, _))) = other {
                let name = |param: &ParamSig| param.name.as_str().into();
                let func = self.name().into();
                return Err(RuntimeError::ArgOverlap { func, arg: name(param), other: name(other) });
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
    fn check_device(&self, param: &ParamSig, tensor: &Tensor, expected: Device) -> Result<(), RuntimeError> {
        let got = tensor.device();
        if got.kind != DeviceKind::Cpu {
            return Err(RuntimeError::NotOnHost { device: got });
        }
        if got != expected {
            let (func, arg) = (self.name().into(), param.name.as_str().into());
            return Err(RuntimeError::ArgDevice { func, arg, expected, got });
        }
        Ok(())
    }

    fn check_access(&self, param: &ParamSig, tensor: &Tensor, writer: u64) -> Result<(), RuntimeError> {
        if tensor.storage().writer() != writer || !tensor.storage().is_writable() {
            let (func, arg): (Arc<str>, Arc<str>) = (self.name().into(), param.name.as_str().into());
            let reason = "its memory was not allocated by this run, or was handed out";
            return Err(RuntimeError::ArgReadOnly { func, arg, reason });
        }
        Ok(())
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
