//! The host's part of a program: from the shapes of the arguments to allocations and launches.
//!
//! The host reads no memory of the GPU, so its steps depend on the shapes and scalars of a call alone: they are computed before
//! anything runs, and whoever runs them needs neither the program nor a compiler. TVM counterpart: the host function that
//! `SplitHostDevice` leaves, which is machine code there.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_core::ir::{BufferId, VarId};
use tvm_core::tir::Param;
use tvm_core::tir::{
    Binary, BinaryOp, DeclBuffer, Failure, For, ForKind, Intrinsic, PrimCall, PrimCallee, PrimExpr, PrimFunc,
    Stmt, eval_int, float_to_int, wrap_int,
};
use tvm_runtime::abi::pack_dtype;
use tvm_runtime::{Argument, DataType, KernelFailure, LaunchArg, LaunchError, LaunchPlan, Step, Value};

use super::CudaKernel;
use crate::c::device::DeviceParam;

/// The host's part of a program.
#[derive(Clone, Debug)]
pub struct HostProgram {
    func: PrimFunc,
    /// The kernels, in program order.
    pub kernels: Vec<CudaKernel>,
}

/// Why a call is refused before it launches anything.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// An assertion of the host does not hold: an argument does not fit, or a launch is too large.
    #[error("{}: expected {expected}, got {got}", if .failure.what.is_empty() { "an argument does not fit" } else { &*.failure.what })]
    Failed {
        /// What the assertion reports.
        failure: Box<Failure>,
        /// What was expected.
        expected: i64,
        /// What was found.
        got: i64,
    },
    /// An extent cannot be launched or allocated.
    #[error("an extent of `{name}` is {extent}, expected 0 to {}", u32::MAX)]
    TooLarge {
        /// The kernel or the buffer.
        name: String,
        /// The extent.
        extent: i64,
    },
    /// The program does something that the host cannot do.
    #[error("the host cannot evaluate {0}")]
    NotSupported(String),
}

/// What `failure` reports, for the runtime.
pub(super) fn kernel_failure(failure: &Failure) -> KernelFailure {
    let text = |text: Arc<str>| Some(text).filter(|it| !it.is_empty());
    let (what, place) = (text(failure.what.clone()), text(failure.span.text()));
    KernelFailure { status: failure.status, arg: failure.arg, axis: failure.axis, what, place }
}

impl From<HostError> for LaunchError {
    fn from(error: HostError) -> LaunchError {
        match error {
            HostError::Failed { failure, expected, got } => {
                LaunchError::Failed { failure: kernel_failure(&failure), expected, got }
            }
            other @ (HostError::TooLarge { .. } | HostError::NotSupported(_)) => {
                LaunchError::Refused(other.to_string())
            }
        }
    }
}

/// A number or a place.
#[derive(Clone, Copy, Debug)]
enum Host {
    Int(i64),
    Float(f64),
    /// The memory of this number.
    Memory(usize),
}

impl HostProgram {
    pub(super) fn new(func: PrimFunc, kernels: Vec<CudaKernel>) -> HostProgram {
        HostProgram { func, kernels }
    }

    /// Evaluates the host's part of a call with these arguments, of whose tensors only shapes and types are read.
    ///
    /// # Errors
    /// When an argument does not fit, or a launch exceeds what the GPU can do.
    pub fn plan(&self, args: &[Value]) -> Result<LaunchPlan, HostError> {
        let describe = |value| match value {
            &Value::Int(value) => Ok(LaunchArg::Int(value)),
            &Value::Float(value) => Ok(LaunchArg::Float(value)),
            Value::Tensor(it) => Ok(LaunchArg::Tensor { shape: it.shape(), dtype: it.dtype() }),
            other => unsupported(format!("an argument that is {}", other.kind())),
        };
        self.plan_launch(&args.iter().map(describe).collect::<Result<Vec<_>, _>>()?)
    }

    /// As [`HostProgram::plan`], for arguments of which nothing else is known.
    ///
    /// # Errors
    /// As for [`HostProgram::plan`].
    pub fn plan_launch(&self, args: &[LaunchArg<'_>]) -> Result<LaunchPlan, HostError> {
        let mut run = Run {
            program: self,
            args,
            vars: FxHashMap::default(),
            buffers: FxHashMap::default(),
            next_kernel: 0,
            plan: LaunchPlan::default(),
        };
        let [Param::Scalar(list), Param::Scalar(count), Param::Scalar(_)] = &*self.func.params else {
            return Err(HostError::NotSupported("a program that is not lowered".into()));
        };
        run.vars.insert(list.id(), Host::Int(0));
        run.vars.insert(count.id(), Host::Int(args.len() as i64));
        run.stmt(&self.func.body)?;
        Ok(run.plan)
    }
}

struct Run<'a> {
    program: &'a HostProgram,
    args: &'a [LaunchArg<'a>],
    vars: FxHashMap<VarId, Host>,
    buffers: FxHashMap<BufferId, usize>,
    /// The number of the next kernel in program order.
    next_kernel: usize,
    plan: LaunchPlan,
}

fn unsupported<T>(what: impl Into<String>) -> Result<T, HostError> {
    Err(HostError::NotSupported(what.into()))
}

impl Run<'_> {
    fn stmt(&mut self, stmt: &Stmt) -> Result<(), HostError> {
        match stmt {
            Stmt::SeqStmt(stmts) => stmts.iter().try_for_each(|it| self.stmt(it)),
            Stmt::Bind(it) => {
                let value = self.expr(&it.value)?;
                self.vars.insert(it.var.id(), value);
                Ok(())
            }
            Stmt::AssertStmt(it) => {
                if self.int(&it.condition)? != 0 {
                    return Ok(());
                }
                let (expected, got) = (self.int(&it.failure.expected)?, self.int(&it.failure.got)?);
                Err(HostError::Failed { failure: Box::new(it.failure.clone()), expected, got })
            }
            Stmt::DeclBuffer(it) => self.declare(it),
            Stmt::AllocBuffer(it) => {
                let mut bytes = it.buffer.dtype.bytes() as u64;
                for extent in it.buffer.shape.iter() {
                    let extent = self.int(extent)?;
                    let size = u64::try_from(extent).ok().and_then(|it| bytes.checked_mul(it));
                    bytes = size.ok_or_else(|| too_large(&it.buffer.name, extent))?;
                }
                self.buffers.insert(it.buffer.id, self.args.len() + self.plan.memories.len());
                self.plan.memories.push(bytes);
                Ok(())
            }
            Stmt::IfThenElse(it) => {
                let holds = self.int(&it.condition)? != 0;
                let before = self.next_kernel;
                let then_kernels = kernels_in(&it.then_case);
                if holds {
                    self.stmt(&it.then_case)?;
                }
                self.next_kernel = before + then_kernels;
                if let Some(other) = &it.else_case {
                    let before = self.next_kernel;
                    if !holds {
                        self.stmt(other)?;
                    }
                    self.next_kernel = before + kernels_in(other);
                }
                Ok(())
            }
            Stmt::For(it) => match it.kind {
                ForKind::ThreadBinding(_) => self.launch(),
                ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => {
                    self.repeat(it)
                }
            },
            Stmt::While(_) | Stmt::BufferStore(_) | Stmt::BlockRealize(_) | Stmt::Evaluate(_) => {
                unsupported("a statement that touches memory")
            }
        }
    }

    fn repeat(&mut self, node: &For) -> Result<(), HostError> {
        let (min, extent) = (self.int(&node.min)?, self.int(&node.extent)?);
        let first = self.next_kernel;
        for i in min..min.saturating_add(extent.max(0)) {
            self.next_kernel = first;
            self.vars.insert(node.loop_var.id(), Host::Int(i));
            self.stmt(&node.body)?;
        }
        self.next_kernel = first + kernels_in(&node.body);
        Ok(())
    }

    fn declare(&mut self, it: &DeclBuffer) -> Result<(), HostError> {
        match self.expr(&it.data)? {
            Host::Memory(memory) => {
                self.buffers.insert(it.buffer.id, memory);
                Ok(())
            }
            Host::Int(_) | Host::Float(_) => unsupported(format!("the memory of `{}`", it.buffer.name)),
        }
    }

    fn launch(&mut self) -> Result<(), HostError> {
        let at = self.next_kernel;
        self.next_kernel += 1;
        let program = self.program;
        let Some(kernel) = program.kernels.get(at) else { return unsupported("a kernel without code") };
        let mut extents = [0u32; 6];
        let all = kernel.kernel.grid().into_iter().chain(kernel.kernel.block());
        for (place, extent) in extents.iter_mut().zip(all) {
            let extent = self.int(&extent)?;
            if extent <= 0 {
                // No thread at all.
                return Ok(());
            }
            *place = u32::try_from(extent).map_err(|_| too_large(&kernel.name, extent))?;
        }
        let [grid, block] = [0, 3].map(|at| [extents[at], extents[at + 1], extents[at + 2]]);
        let shared = self.int(&kernel.kernel.dynamic().bytes)?;
        let shared = u32::try_from(shared).map_err(|_| too_large(&kernel.name, shared))?;
        let mut args = Vec::new();
        for param in &kernel.params {
            args.push(match param {
                DeviceParam::Memory(id) => match self.buffers.get(id) {
                    Some(&memory) => Argument::Memory(memory),
                    None => return unsupported("a buffer that is not declared"),
                },
                DeviceParam::Scalar(var) => match self.vars.get(&var.id()) {
                    Some(&value) => Argument::Scalar(bits(value, var.dtype()), var.dtype()),
                    None => return unsupported(format!("`{}`, which has no value", var.name())),
                },
                DeviceParam::Failure => Argument::Failure,
            });
        }
        self.plan.steps.push(Step::Launch { kernel: at, grid, block, shared, args });
        Ok(())
    }

    fn int(&mut self, expr: &PrimExpr) -> Result<i64, HostError> {
        match self.expr(expr)? {
            Host::Int(value) => Ok(value),
            Host::Float(_) | Host::Memory(_) => unsupported(format!("`{expr}` as an integer")),
        }
    }

    fn float(&mut self, expr: &PrimExpr) -> Result<f64, HostError> {
        match self.expr(expr)? {
            Host::Float(value) => Ok(value),
            Host::Int(_) | Host::Memory(_) => unsupported(format!("`{expr}` as a float")),
        }
    }

    fn expr(&mut self, expr: &PrimExpr) -> Result<Host, HostError> {
        Ok(match expr {
            PrimExpr::IntImm(it) => Host::Int(it.value),
            PrimExpr::FloatImm(it) => Host::Float(it.value),
            PrimExpr::Var(var) => match self.vars.get(&var.id()) {
                Some(&value) => value,
                None => return unsupported(format!("`{}`, which has no value", var.name())),
            },
            PrimExpr::Cast(it) => match self.expr(&it.value)? {
                Host::Int(value) if it.dtype.is_bool() => Host::Int(i64::from(value != 0)),
                Host::Int(value) if it.dtype.is_integer() => {
                    Host::Int(wrap_int(tvm_core::tir::wide_int(value, it.value.dtype()), it.dtype))
                }
                Host::Int(value) if it.dtype.is_float() => {
                    let value = tvm_core::tir::wide_int(value, it.value.dtype());
                    // Rounded once.
                    let value =
                        if it.dtype == DataType::F32 { f64::from(value as f32) } else { value as f64 };
                    Host::Float(round_to(value, it.dtype))
                }
                Host::Float(value) if it.dtype.is_float() => Host::Float(round_to(value, it.dtype)),
                Host::Float(value) if it.dtype.is_integer() || it.dtype.is_bool() => {
                    Host::Int(float_to_int(value, it.dtype))
                }
                _ => return unsupported(format!("`{expr}`")),
            },
            PrimExpr::Not(it) => Host::Int(i64::from(self.int(&it.value)? == 0)),
            PrimExpr::Binary(it) => {
                if it.a.dtype().is_float() {
                    return self.floats(it, expr);
                }
                let a = self.int(&it.a)?;
                match (it.op, a) {
                    (BinaryOp::And, 0) => return Ok(Host::Int(0)),
                    (BinaryOp::Or, 1) => return Ok(Host::Int(1)),
                    _ => {}
                }
                let b = self.int(&it.b)?;
                match eval_int(it.op, a, b, it.a.dtype()) {
                    Some(value) => Host::Int(value),
                    None => return unsupported(format!("`{expr}`")),
                }
            }
            PrimExpr::Select(it) => {
                let holds = self.int(&it.condition)? != 0;
                self.expr(if holds { &it.true_value } else { &it.false_value })?
            }
            PrimExpr::Let(it) => {
                let value = self.expr(&it.value)?;
                self.vars.insert(it.var.id(), value);
                self.expr(&it.body)?
            }
            PrimExpr::Call(it) => self.call(it, expr)?,
            PrimExpr::StringImm(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => return unsupported(format!("`{expr}`")),
        })
    }

    /// An operation on floats, rounded to their type.
    fn floats(&mut self, it: &Binary, expr: &PrimExpr) -> Result<Host, HostError> {
        let (Host::Float(a), Host::Float(b)) = (self.expr(&it.a)?, self.expr(&it.b)?) else {
            return unsupported(format!("`{expr}`"));
        };
        let value = match it.op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            // NaN where either is; the first of equals.
            BinaryOp::Min => {
                if b < a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            BinaryOp::Max => {
                if b > a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            BinaryOp::Eq => return Ok(Host::Int((a == b).into())),
            BinaryOp::Ne => return Ok(Host::Int((a != b).into())),
            BinaryOp::Lt => return Ok(Host::Int((a < b).into())),
            BinaryOp::Le => return Ok(Host::Int((a <= b).into())),
            BinaryOp::Gt => return Ok(Host::Int((a > b).into())),
            BinaryOp::Ge => return Ok(Host::Int((a >= b).into())),
            _ => return unsupported(format!("`{expr}`")),
        };
        Ok(Host::Float(round_to(value, it.a.dtype())))
    }

    fn call(&mut self, it: &PrimCall, expr: &PrimExpr) -> Result<Host, HostError> {
        let PrimCallee::Intrinsic(intrinsic) = it.callee else { return unsupported(format!("`{expr}`")) };
        match (intrinsic, &*it.args) {
            (Intrinsic::Likely, [value]) => self.expr(value),
            (Intrinsic::IsNan, [value]) => Ok(Host::Int(self.float(value)?.is_nan().into())),
            (Intrinsic::IsInf, [value]) => Ok(Host::Int(self.float(value)?.is_infinite().into())),
            (Intrinsic::IfThenElse, [condition, a, b]) => {
                let holds = self.int(condition)? != 0;
                self.expr(if holds { a } else { b })
            }
            (_, [_, at, rest @ ..]) => {
                let at = usize::try_from(self.int(at)?).unwrap_or(usize::MAX);
                let Some(arg) = self.args.get(at) else { return unsupported(format!("argument {at}")) };
                let rest = rest.iter().map(|it| self.int(it)).collect::<Result<Vec<_>, _>>()?;
                Ok(match (intrinsic, *arg, &rest[..]) {
                    (Intrinsic::ArgData, LaunchArg::Tensor { .. }, []) => Host::Memory(at),
                    (Intrinsic::ArgNdim, LaunchArg::Tensor { shape, .. }, []) => {
                        Host::Int(shape.len() as i64)
                    }
                    (Intrinsic::ArgDType, LaunchArg::Tensor { dtype, .. }, []) => {
                        Host::Int(pack_dtype(dtype))
                    }
                    // Whoever calls the program has checked it.
                    (Intrinsic::ArgIsCompact, LaunchArg::Tensor { .. }, []) => Host::Int(1),
                    (Intrinsic::ArgShape, LaunchArg::Tensor { shape, .. }, [axis]) => {
                        let extent = usize::try_from(*axis).ok().and_then(|axis| shape.get(axis));
                        Host::Int(extent.copied().unwrap_or(0))
                    }
                    (Intrinsic::ArgScalar, LaunchArg::Int(value), []) if !it.dtype.is_float() => {
                        Host::Int(wrap_int(value.into(), it.dtype))
                    }
                    (Intrinsic::ArgScalar, LaunchArg::Float(value), []) if it.dtype.is_float() => {
                        Host::Float(value)
                    }
                    _ => return unsupported(format!("`{expr}` of argument {at}")),
                })
            }
            _ => unsupported(format!("`{expr}`")),
        }
    }
}

/// Number of kernels in `stmt`.
fn kernels_in(stmt: &Stmt) -> usize {
    match stmt {
        Stmt::For(it) if matches!(it.kind, ForKind::ThreadBinding(_)) => 1,
        _ => stmt.children().into_iter().map(kernels_in).sum(),
    }
}

fn too_large(name: &str, extent: i64) -> HostError {
    HostError::TooLarge { name: name.to_string(), extent }
}

/// `value` as a number of type `dtype`.
fn round_to(value: f64, dtype: DataType) -> f64 {
    match dtype {
        DataType::F32 => f64::from(value as f32),
        DataType::F16 => half::f16::from_f64(value).to_f64(),
        DataType::BF16 => half::bf16::from_f64(value).to_f64(),
        _ => value,
    }
}

/// The bits of `value` as a number of type `dtype`.
fn bits(value: Host, dtype: DataType) -> u64 {
    match value {
        Host::Float(value) if dtype == DataType::F32 => u64::from((value as f32).to_bits()),
        Host::Float(value) if dtype == DataType::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        Host::Float(value) if dtype == DataType::BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
        Host::Float(value) => value.to_bits(),
        Host::Int(value) => value as u64,
        Host::Memory(memory) => memory as u64,
    }
}
