//! Checks that kernels fit the GPU of the target: threads, blocks, memory; and that the host touches no memory of the GPU.
//!
//! TVM counterpart: `VerifyGPUCode`, `VerifyMemory`.
//! Requires: the form that [`split_host_device`](super::split_host_device) makes. Ensures: a launch is within the limits of the
//! target; programs are unchanged. Extents that are symbolic are checked at the call instead.

use crate::ir::{IrError, Span, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::target::{GpuArch, Target};
use crate::tir::analysis::{DeviceKernel, reads_memory};
use crate::tir::{
    AllocBuffer, For, ForKind, Intrinsic, PrimCallee, PrimExpr, PrimFunc, Scope, Stmt, Visitor, any_expr,
    walk_expr, walk_stmt,
};

/// Rejects kernels that the GPU cannot run.
pub fn verify_gpu_code() -> Pass {
    prim_func_pass("VerifyGPUCode", |func, _, ctx| {
        let mut verify = Verify { func, target: &ctx.target, error: None };
        verify.visit_stmt(&func.body);
        verify.error.map_or(Ok(None), Err)
    })
}

struct Verify<'a> {
    func: &'a PrimFunc,
    target: &'a Target,
    error: Option<IrError>,
}

impl Verify<'_> {
    fn fail(&mut self, message: String, help: &str, span: &Span) {
        let span = if span.is_none() { &self.func.span } else { span };
        self.error.get_or_insert_with(|| IrError::new(message, span).help(help));
    }

    fn kernel(&mut self, node: &For, kernel: &DeviceKernel) {
        let arch = self.target.gpu_arch().unwrap_or(GpuArch::DEFAULT);
        let limits = *arch.limits();
        let extents = kernel.threads.iter().map(|(tag, _, extent)| (tag.name(), extent.as_int()));
        let of = |tag: &str| match tag.split_once('.') {
            Some(("blockIdx", axis)) => limits.grid[axis_of(axis)],
            Some((_, axis)) => limits.block[axis_of(axis)],
            None => i64::MAX,
        };
        let constant: Vec<(&str, i64)> = extents.filter_map(|(tag, extent)| Some((tag, extent?))).collect();
        for &(tag, extent) in constant.iter().filter(|(tag, extent)| *extent > of(tag)) {
            let most = of(tag);
            let message = format!("{tag} has {extent} values in this kernel, {arch} has at most {most}");
            self.fail(message, "split the loop and bind its parts to a block and a thread", &node.span);
        }
        let threads = constant.iter().filter(|(tag, _)| tag.starts_with("threadIdx"));
        let threads = threads.fold(1i64, |count, (_, extent)| count.saturating_mul(*extent));
        if threads > limits.threads_per_block {
            let most = limits.threads_per_block;
            let message = format!("a block has {threads} threads in this kernel, {arch} runs at most {most}");
            self.fail(message, "split the loops over threads with smaller factors", &node.span);
        }
        let mut fixed = 0i64;
        for alloc in &kernel.shared {
            // Of what is symbolic, the call says how large it is.
            let of_launch = alloc.buffer.scope == Scope::SharedDyn && is_of_launch(kernel, alloc);
            let Some(bytes) = bytes(alloc) else {
                if !of_launch {
                    let message =
                        format!("the size of `{}` in shared memory is no constant", alloc.buffer.name);
                    self.fail(message, SHARE, &alloc.buffer.span);
                }
                continue;
            };
            if alloc.buffer.scope == Scope::Shared {
                fixed = fixed.saturating_add(bytes);
            }
        }
        let all = fixed.saturating_add(kernel.dynamic().bytes.as_int().unwrap_or(0));
        for (bytes, most, what) in [
            (fixed, limits.static_shared_bytes, "in the scope `shared`"),
            (all, limits.shared_bytes, "of shared memory"),
        ] {
            if bytes > most {
                let message =
                    format!("a block has {bytes} bytes {what} in this kernel, {arch} has at most {most}");
                self.fail(message, "share smaller tiles", &node.span);
            }
        }
        let mut inside = Inside { local: 0, warp: None, exchanges: false };
        inside.visit_stmt(&kernel.body);
        if inside.local > limits.local_bytes {
            let (bytes, most) = (inside.local, limits.local_bytes);
            let message =
                format!("a thread has {bytes} bytes of its own in this kernel, {arch} has at most {most}");
            self.fail(message, "compute smaller parts in a thread", &node.span);
        }
        let of_warps = kernel.block()[0].as_int().is_some_and(|count| count % limits.warp_size == 0);
        if inside.exchanges && !of_warps {
            let warp = limits.warp_size;
            let message = format!(
                "threads of a warp exchange values in this kernel, whose extent of threadIdx.x is {}",
                kernel.block()[0]
            );
            self.fail(
                message,
                &format!("bind loops to threadIdx.x whose extent is a multiple of {warp}"),
                &node.span,
            );
        }
        if let Some(name) = inside.warp {
            let message =
                format!("buffer `{name}` is in the scope `warp`, for which no code is generated yet");
            self.fail(message, "use the scope `shared` or `local`", &node.span);
        }
    }
}

/// The remedy for a size that is not known.
const SHARE: &str = "share a tile of a constant size, or use the scope `shared.dyn` with extents that depend on those of parameters alone";

/// True if the size of a shared buffer is known when the kernel is launched.
fn is_of_launch(kernel: &DeviceKernel, alloc: &AllocBuffer) -> bool {
    let own = |var: &Var| kernel.threads.iter().any(|it| it.1 == *var);
    alloc
        .buffer
        .shape
        .iter()
        .all(|extent| !reads_memory(extent) && !any_expr(extent, &mut |it| it.as_var().is_some_and(own)))
}

fn axis_of(name: &str) -> usize {
    match name {
        "x" => 0,
        "y" => 1,
        _ => 2,
    }
}

fn bytes(alloc: &AllocBuffer) -> Option<i64> {
    let start = alloc.buffer.dtype.bytes() as i64;
    alloc.buffer.shape.iter().try_fold(start, |bytes, extent| bytes.checked_mul(extent.as_int()?))
}

impl Visitor for Verify<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if reads_memory(expr) {
            let message = "the host reads memory of the GPU here".to_string();
            self.fail(message, "read it in a kernel", &Span::none());
        }
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) if matches!(node.kind, ForKind::ThreadBinding(_)) => {
                if let Some(kernel) = DeviceKernel::of(node) {
                    self.kernel(node, &kernel);
                }
            }
            Stmt::BufferStore(node) => {
                let message =
                    format!("the host writes `{}`, which is in memory of the GPU", node.buffer.name);
                self.fail(message, "write it in a kernel", &node.span);
            }
            // The handle of a parameter is no access.
            Stmt::DeclBuffer(_) => {}
            _ => walk_stmt(self, stmt),
        }
    }
}

/// What a thread allocates, and whether it exchanges values with others.
struct Inside {
    local: i64,
    warp: Option<String>,
    exchanges: bool,
}

impl Visitor for Inside {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        self.exchanges |= matches!(expr, PrimExpr::Call(call)
            if call.callee == PrimCallee::Intrinsic(Intrinsic::WarpShuffleXor));
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::AllocBuffer(alloc) = stmt {
            match alloc.buffer.scope {
                Scope::Warp => self.warp = Some(alloc.buffer.name.to_string()),
                Scope::Global | Scope::Local | Scope::Shared | Scope::SharedDyn => {
                    self.local = self.local.saturating_add(bytes(alloc).unwrap_or(i64::MAX));
                }
            }
        }
        walk_stmt(self, stmt);
    }
}
