//! The functions of one kernel for a GPU.
//!
//! Requires: the form of [`DeviceKernel`]. The name, parameters and launch of a kernel are what the host needs to know of it.

use std::fmt::Write as _;

use tvm_core::ir::{BufferId, Var};
use tvm_core::tir::analysis::{DeviceKernel, atomic_update};
use tvm_core::tir::{Buffer, BufferStore, Intrinsic, PrimCallee, PrimExpr, Scope, Stmt, Visitor};
use tvm_runtime::DataType;

use super::dialect::Dialect;
use super::function::Function;
use super::{Unit, not_supported, types};
use crate::CodegenError;

/// A parameter of a kernel, in the order of the parameters.
#[derive(Clone, Debug)]
pub(crate) enum DeviceParam {
    /// Memory of the GPU.
    Memory(BufferId),
    /// A number.
    Scalar(Var),
    /// Where the first failed assertion is recorded.
    Failure,
}

impl Unit {
    /// A unit of kernels for GPUs.
    pub(crate) fn cuda() -> Unit {
        Unit { dialect: Dialect::Cuda, ..Unit::default() }
    }

    /// Writes `kernel` as the function `name`; with `checks`, it records failures, and does nothing after one. Returns the
    /// parameters.
    pub(crate) fn device_kernel(
        &mut self,
        name: &str,
        kernel: &DeviceKernel,
        checks: bool,
    ) -> Result<Vec<DeviceParam>, CodegenError> {
        let mut f = Function::new(self, name);
        let (mut params, mut texts) = (Vec::new(), Vec::new());
        let written = kernel.written();
        for buffer in &kernel.buffers {
            let name = f.define_buffer(buffer);
            // Of two restricted pointers, NVIDIA's compilers take one load for two alternatives, and then from the cache of data
            // that no kernel writes, even if the kernel writes one of them.
            let alone = if written.contains(&buffer.id) { "" } else { "__restrict__ " };
            texts.push(format!("{} *{alone}{name}", types::scalar(buffer.dtype)));
            params.push(DeviceParam::Memory(buffer.id));
        }
        for var in &kernel.vars {
            if !var.dtype().is_scalar() || var.dtype().is_handle() {
                return not_supported(format!("`{}`, of type {}, in a kernel", var.name(), var.dtype()));
            }
            let name = f.define(var);
            texts.push(format!("const {} {name}", types::scalar(var.dtype())));
            params.push(DeviceParam::Scalar(var.clone()));
        }
        if checks {
            texts.push("int64_t *tvm_error".into());
            params.push(DeviceParam::Failure);
            f.line("if (tvm_failed(tvm_error)) return;");
        }
        for (tag, var, _) in &kernel.threads {
            // A grid has fewer than 2^31 blocks along each axis.
            let name = f.define_as(var, DataType::I32);
            f.line(&format!("const int32_t {name} = {};", tag.name()));
        }
        f.async_copies = has_async_copies(&kernel.body);
        f.shared(kernel)?;
        f.stmt(&kernel.body)?;
        let body = std::mem::take(&mut f.body);
        let threads = kernel.block().iter().try_fold(1i64, |count, it| Some(count * it.as_int()?));
        let bounds = threads
            .map(|count| format!("__launch_bounds__({count}, {}) ", least_blocks(count)))
            .unwrap_or_default();
        let params_text = texts.join(", ");
        let _ = write!(
            self.functions,
            "extern \"C\" __global__ void {bounds}{name}({params_text}) {{\n{body}}}\n\n"
        );
        Ok(params)
    }
}

impl Function<'_> {
    /// Writes the store of `value` at `index` if it is a copy of several neighbours, or one that may take place as late as at the
    /// next barrier. Where the condition of what is copied does not hold, the copy is 0, and nothing is read. False if it is another
    /// store, of one element.
    pub(super) fn store_copy(&mut self, it: &BufferStore, index: &PrimExpr) -> Result<bool, CodegenError> {
        let lanes = index.dtype().lanes();
        let (value, later) = async_copy(&it.value).map_or((&it.value, false), |value| (value, true));
        if lanes == 1 && !later {
            return Ok(false);
        }
        let (condition, value) = match value {
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                (Some(&call.args[0]), &call.args[1])
            }
            _ => (None, value),
        };
        let PrimExpr::BufferLoad(load) = value else {
            return if lanes == 1 {
                Ok(false)
            } else {
                not_supported(format!("a vector of type {}", value.dtype()))
            };
        };
        let to = self.place(&it.buffer, index)?;
        let [from_index] = &*load.indices else {
            return not_supported(format!("buffer `{}`, which is not flat", load.buffer.name));
        };
        let from = self.place(&load.buffer, from_index)?;
        let from = match condition {
            None => from,
            Some(condition) => {
                let (condition, start) = (self.expr(condition)?, self.buffer(&load.buffer)?);
                format!("{condition} ? {from} : {start}, {condition}")
            }
        };
        let name = if later { "tvm_async_copy" } else { "tvm_copy" };
        self.line(&format!("{name}<{lanes}>({to}, {from});"));
        Ok(true)
    }

    /// Writes the store at `index` if it is an atomic update of this element. False if it is another store.
    pub(super) fn store_atomic(&mut self, it: &BufferStore, index: &PrimExpr) -> Result<bool, CodegenError> {
        let Some((_, term)) = atomic_update(it) else { return Ok(false) };
        let PrimExpr::Call(call) = &it.value else { return Ok(false) };
        let PrimCallee::Intrinsic(intrinsic) = call.callee else { return Ok(false) };
        let (to, term) = (self.place(&it.buffer, index)?, self.expr(term)?);
        self.line(&format!("tvm_{}_{}({to}, {term});", intrinsic.name(), types::short(it.buffer.dtype)));
        Ok(true)
    }

    /// The address of the element, or the neighbours, at `index`.
    fn place(&mut self, buffer: &Buffer, index: &PrimExpr) -> Result<String, CodegenError> {
        let first = match index {
            PrimExpr::Ramp(ramp) if ramp.stride.is_const(1) => &ramp.base,
            index if index.dtype().is_scalar() => index,
            _ => return not_supported("elements that are no neighbours"),
        };
        Ok(format!("&{}[{}]", self.buffer(buffer)?, self.index(first)?))
    }

    /// Writes the declarations of the memory that the threads of a block share.
    fn shared(&mut self, kernel: &DeviceKernel) -> Result<(), CodegenError> {
        for alloc in kernel.shared.iter().filter(|it| it.buffer.scope == Scope::Shared) {
            let buffer = &alloc.buffer;
            let [Some(extent)] = buffer.shape.iter().map(|it| it.as_int()).collect::<Vec<_>>()[..] else {
                return not_supported(format!(
                    "buffer `{}` in shared memory without a constant size",
                    buffer.name
                ));
            };
            let ty = types::scalar(buffer.dtype);
            let name = self.define_buffer(buffer);
            // As the widest load of a thread has it.
            self.line(&format!("__shared__ __align__(16) {ty} {name}[{}];", extent.max(1)));
        }
        let dynamic = kernel.dynamic();
        if !dynamic.buffers.is_empty() {
            self.line("TVM_DYNAMIC_SHARED(tvm_dynamic)");
        }
        for (alloc, place) in dynamic.buffers {
            let place = match place.as_int() {
                Some(place) => place.to_string(),
                None => self.expr(&place)?,
            };
            let ty = types::scalar(alloc.buffer.dtype);
            let name = self.define_buffer(&alloc.buffer);
            self.line(&format!("{ty} *const {name} = ({ty} *)(tvm_dynamic + {place});"));
        }
        Ok(())
    }
}

/// True if some stores of `body` take place as late as at the next barrier.
fn has_async_copies(body: &Stmt) -> bool {
    struct Find(bool);
    impl Visitor for Find {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 |= async_copy(expr).is_some();
        }
    }
    let mut find = Find(false);
    find.visit_stmt(body);
    find.0
}

/// The copied value, if `value` is that of a store that takes place as late as at the next barrier.
fn async_copy(value: &PrimExpr) -> Option<&PrimExpr> {
    match value {
        PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AsyncCopy) => {
            call.args.first()
        }
        _ => None,
    }
}

/// Blocks of so many threads that a multiprocessor is to run at least: 512 threads, for which it has 128 registers each. Without
/// this number, ptxas guesses one for which it may spill registers. Every architecture runs 16 blocks at a time.
fn least_blocks(threads: i64) -> i64 {
    (512 / threads.max(1)).clamp(1, 16)
}
