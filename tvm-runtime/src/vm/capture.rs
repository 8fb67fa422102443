//! Captured calls: what a call does on a GPU is recorded once, and then done again as one launch.
//!
//! A call of small kernels costs the host more than the GPU, and the GPU waits between them. A captured call has neither cost: only
//! the contents of its tensors change. TVM counterpart: the pass `RewriteCUDAGraph`; PyTorch's `CUDAGraph`.

use std::fmt;
use std::sync::Arc;

use super::args::IntoArgs;
use super::indices;
use super::instruction::Instruction;
use super::interp::PLAIN;
use super::machine::Vm;
use super::workspace::Workspace;
use crate::call::Replay;
use crate::device::{Device, DeviceKind};
use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::kernel::Backend;
use crate::tensor::{Shape, Tensor};
use crate::value::{Adt, Value};

/// A call of a function of a virtual machine, for arguments of the types and shapes that it was captured with.
///
/// If the function runs on a GPU, [`CapturedCall::run`] copies the arguments to the GPU, has the driver do all that the call did there
/// when it was captured, as one launch (a CUDA graph), and copies the results. Otherwise it is a plain call that keeps its memory, so
/// that programs need no cases.
///
/// ```
/// # use std::sync::Arc;
/// # use tvm_runtime::{RuntimeError, Value, vm::Vm};
/// fn serve(vm: &Arc<Vm>, requests: &[Value]) -> Result<(), RuntimeError> {
///     let Some(first) = requests.first() else { return Ok(()) };
///     let mut call = vm.capture("main", std::slice::from_ref(first))?;
///     for request in requests {
///         let _result = call.run(std::slice::from_ref(request))?;
///     }
///     Ok(())
/// }
/// ```
pub struct CapturedCall {
    vm: Arc<Vm>,
    func: usize,
    expected: Vec<Expected>,
    /// `None` if nothing runs on a GPU.
    replay: Option<Replay>,
    /// Memory of results; that of the whole call, without a GPU.
    workspace: Workspace,
    /// The last result, whose memory is reused if nobody else has it.
    last: Option<Value>,
}

impl Vm {
    /// Calls a public function once, and captures what it does on its GPU, for [`CapturedCall::run`]. Arguments are tensors, numbers,
    /// shapes, and tuples of these. The call has memory of its own for all that it computes, as long as it exists.
    ///
    /// What the host decides and what a shape is must not depend on elements of tensors: they are those of this call in each later one.
    /// Checks of indices that are arguments are done again each time.
    ///
    /// # Errors
    /// As for [`Vm::invoke`]. [`RuntimeError::Capture`] when the call reads on the host what a GPU computes (for a branch, a shape, a
    /// check in a kernel), calls a function of the application, or uses several GPUs, and when the program has kernels for the host
    /// beside those of a GPU.
    pub fn capture(self: &Arc<Vm>, name: &str, args: impl IntoArgs) -> Result<CapturedCall, RuntimeError> {
        let mut workspace = Workspace::new();
        args.push_to(&mut workspace);
        let args = std::mem::take(&mut workspace.regs);
        let func = self.find(name, args.len())?;
        let expected = args.iter().enumerate().map(|(i, arg)| {
            let param = || self.exe.functions[func].params.get(i).map_or("", |it| &it.name);
            let other = || uncapturable(format!("argument `{}` is {}", param(), arg.kind()));
            Expected::of(arg, MAX_DEPTH).ok_or_else(other)
        });
        let expected = expected.collect::<Result<Vec<_>, _>>()?;
        let replay = match self.gpu()? {
            Some(gpu) => {
                if let Some(kernel) = self.kernels.iter().find(|it| it.backend() != Backend::Device) {
                    let name = kernel.name();
                    let reason = format!("the kernel `{name}` runs on the host\n  help: {PLAIN}");
                    return Err(uncapturable(reason));
                }
                Some(Replay::record(self, workspace.beside(), name, &args, gpu)?)
            }
            None => None,
        };
        Ok(CapturedCall { vm: self.clone(), func, expected, replay, workspace, last: None })
    }

    /// The GPU that the program uses, if it does.
    fn gpu(&self) -> Result<Option<Device>, RuntimeError> {
        let mut gpu = None;
        for instruction in self.exe.functions.iter().flat_map(|it| &it.code) {
            let device = match instruction {
                Instruction::AllocStorage { device, .. } | Instruction::DeviceCopy { device, .. } => *device,
                _ => continue,
            };
            if device.kind == DeviceKind::Cuda && *gpu.get_or_insert(device) != device {
                return Err(uncapturable("the program uses several GPUs"));
            }
        }
        Ok(gpu)
    }
}

impl CapturedCall {
    /// Calls the function with other arguments of the same types and shapes. The results are where those of a plain call are, in memory
    /// of their own: later runs do not change them. On a GPU, the call may return before they are computed.
    ///
    /// # Errors
    /// [`RuntimeError::CapturedArg`] when an argument differs in more than the elements of tensors; otherwise as for [`Vm::invoke`].
    pub fn run(&mut self, args: impl IntoArgs) -> Result<Value, RuntimeError> {
        self.call(args, None)
    }

    /// As [`CapturedCall::run`], with the results on `device`.
    ///
    /// # Errors
    /// As for [`CapturedCall::run`], and when `device` cannot be used.
    pub fn run_to(&mut self, device: Device, args: impl IntoArgs) -> Result<Value, RuntimeError> {
        self.call(args, Some(device))
    }

    /// What one launch does: the number of kernels and copies; `None` if nothing runs on a GPU.
    pub fn launches(&self) -> Option<usize> {
        self.replay.as_ref().map(Replay::len)
    }

    fn call(&mut self, args: impl IntoArgs, device: Option<Device>) -> Result<Value, RuntimeError> {
        args.push_to(&mut self.workspace);
        let args = std::mem::take(&mut self.workspace.regs);
        let checked = self.check(&args);
        if let Some(last) = self.last.take() {
            self.workspace.recycle(last);
        }
        checked?;
        let function = &self.vm.exe.functions[self.func];
        let Some(replay) = &mut self.replay else {
            let result = self.vm.invoke_in(&mut self.workspace, &function.name, args)?;
            let result = match device {
                // Other values have no tensors that move.
                Some(device) if Expected::of(&result, MAX_DEPTH).is_some() => {
                    map(&result, &mut |tensor| tensor.to_device(device))?
                }
                _ => result,
            };
            self.last = Some(result.clone());
            return Ok(result);
        };
        let _streams = self.workspace.streams.enter();
        let mut inputs = Vec::new();
        args.iter().for_each(|arg| tensors_in(arg, &mut inputs));
        let result = replay.run(&inputs)?;
        let (writer, most) = (self.workspace.new_run(), self.vm.config.max_bytes);
        let workspace = &mut self.workspace;
        let copied = map(result, &mut |tensor| {
            workspace.copy(tensor, device.unwrap_or(tensor.device()), writer, most)
        });
        self.workspace.finish(writer);
        let result = copied?;
        self.last = Some(result.clone());
        Ok(result)
    }

    /// Checks that the arguments differ from those that the call was captured with in the elements of tensors alone.
    fn check(&self, args: &[Value]) -> Result<(), RuntimeError> {
        let function = &self.vm.exe.functions[self.func];
        if args.len() != self.expected.len() {
            let (func, expected) = (function.name.clone(), self.expected.len());
            return Err(RuntimeError::ArgCount { func, expected, got: args.len() });
        }
        for (i, (expected, arg)) in self.expected.iter().zip(args).enumerate() {
            if expected.is(arg) {
                continue;
            }
            let got = Expected::of(arg, MAX_DEPTH).map_or_else(|| arg.kind().into(), |it| it.to_string());
            return Err(RuntimeError::CapturedArg {
                func: function.name.clone(),
                arg: function.params.get(i).map_or("", |it| &it.name).into(),
                expected: expected.to_string().into(),
                got: got.into(),
            });
        }
        Ok(())
    }
}

impl fmt::Debug for CapturedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.vm.exe.functions[self.func].name;
        let args: Vec<_> = self.expected.iter().map(ToString::to_string).collect();
        write!(f, "CapturedCall({name}({}))", args.join(", "))
    }
}

pub(super) fn uncapturable(reason: impl Into<String>) -> RuntimeError {
    RuntimeError::Capture { reason: reason.into() }
}

/// How deeply arguments and results of captured calls are nested at most.
const MAX_DEPTH: usize = 16;

/// What stays the same in all runs of a captured call.
enum Expected {
    Tensor(DataType, Shape),
    Int(i64),
    /// The bits of a float.
    Float(u64),
    Shape(Arc<[i64]>),
    Tuple(u32, Vec<Expected>),
}

impl Expected {
    /// That of `value`; `None` for a value of another kind, or one that is nested more than `depth` times.
    fn of(value: &Value, depth: usize) -> Option<Expected> {
        Some(match value {
            Value::Tensor(tensor) => Expected::Tensor(tensor.dtype(), tensor.shape().into()),
            Value::Int(value) => Expected::Int(*value),
            Value::Float(value) => Expected::Float(value.to_bits()),
            Value::Shape(shape) => Expected::Shape(shape.clone()),
            Value::Adt(tuple) if depth > 0 => {
                let fields = tuple.fields().iter().map(|it| Expected::of(it, depth - 1));
                Expected::Tuple(tuple.tag(), fields.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Expected::Tensor(dtype, shape), Value::Tensor(tensor)) => {
                *dtype == tensor.dtype() && shape.as_slice() == tensor.shape()
            }
            (Expected::Int(own), Value::Int(value)) => own == value,
            (Expected::Float(own), Value::Float(value)) => *own == value.to_bits(),
            (Expected::Shape(own), Value::Shape(shape)) => own == shape,
            (Expected::Tuple(tag, own), Value::Adt(tuple)) => {
                let fields = tuple.fields();
                *tag == tuple.tag()
                    && own.len() == fields.len()
                    && own.iter().zip(fields).all(|(own, field)| own.is(field))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Tensor(dtype, shape) => write!(f, "{dtype}{:?}", shape.as_slice()),
            Expected::Int(value) => write!(f, "{value}"),
            Expected::Float(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Expected::Shape(shape) => write!(f, "the shape {shape:?}"),
            Expected::Tuple(tag, fields) => {
                let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
                if *tag != 0 {
                    write!(f, "#{tag}")?;
                }
                write!(f, "({})", fields.join(", "))
            }
        }
    }
}

/// The tensors in a value, from left to right.
fn tensors_in(value: &Value, tensors: &mut Vec<Tensor>) {
    match value {
        Value::Tensor(tensor) => tensors.push(tensor.clone()),
        Value::Adt(tuple) => tuple.fields().iter().for_each(|it| tensors_in(it, tensors)),
        _ => {}
    }
}

/// A value with other tensors.
fn map(
    value: &Value,
    change: &mut impl FnMut(&Tensor) -> Result<Tensor, RuntimeError>,
) -> Result<Value, RuntimeError> {
    Ok(match value {
        Value::Tensor(tensor) => change(tensor)?.into(),
        Value::Adt(tuple) => {
            let fields = tuple.fields().iter().map(|it| map(it, change)).collect::<Result<Vec<_>, _>>()?;
            Adt::new(tuple.tag(), fields).into()
        }
        other => other.clone(),
    })
}

/// What is known of a run that is captured.
#[derive(Default)]
pub(crate) struct CaptureLog {
    /// The tensors of the arguments, each with memory of its own on the device.
    pub(crate) inputs: Vec<Tensor>,
    checks: Vec<IndexCheck>,
}

/// A check of indices that are an input.
struct IndexCheck {
    input: usize,
    extents: Shape,
    op: Arc<str>,
    func: Arc<str>,
    pc: usize,
}

impl CaptureLog {
    /// Does the checks of indices for the tensors of other arguments.
    pub(crate) fn check(&self, inputs: &[Tensor]) -> Result<(), RuntimeError> {
        for IndexCheck { input, extents, op, func, pc } in &self.checks {
            let Some(tensor) = inputs.get(*input) else { continue };
            indices::check(&tensor.to_device(Device::cpu())?, extents, op).map_err(|source| {
                RuntimeError::Vm { func: func.clone(), pc: *pc, source: Box::new(source) }
            })?;
        }
        Ok(())
    }

    /// Records a check of `indices` if they are an input, and says whether they are.
    pub(super) fn checks(
        &mut self,
        indices: &Tensor,
        extents: &[i64],
        op: &str,
        (func, pc): (Arc<str>, usize),
    ) -> bool {
        let same = |it: &Tensor| {
            it.storage().is_same(indices.storage())
                && (it.byte_offset(), it.byte_len()) == (indices.byte_offset(), indices.byte_len())
                && it.dtype() == indices.dtype()
        };
        let Some(input) = self.inputs.iter().position(same) else { return false };
        self.checks.push(IndexCheck { input, extents: extents.into(), op: op.into(), func, pc });
        true
    }
}

impl Vm {
    /// Calls a public function while its work on a device is recorded, and says in `log` what is to be checked in each run.
    pub(crate) fn invoke_captured(
        &self,
        workspace: &mut Workspace,
        log: &mut CaptureLog,
        name: &str,
        args: &[Value],
    ) -> Result<Value, RuntimeError> {
        args.push_to(workspace);
        let result = self.run_captured(workspace, log, name)?;
        match Expected::of(&result, MAX_DEPTH) {
            Some(_) => Ok(result),
            None => Err(uncapturable(format!(
                "its result is {}, or has one in it that is no tensor",
                result.kind()
            ))),
        }
    }
}
