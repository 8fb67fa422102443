//! Lets the threads of a block divide the terms of a reduction among them.
//!
//! ```text
//! for k {                                     for t in threadIdx.x {
//!     for t in threadIdx.x {                      part[0] = 0
//!         block { c[i] += x[i, 64 * k + t] }      for k { part[0] += x[i, 64 * k + t] }
//!     }                                           other[0] = warp_shuffle_xor(part[0], 16); part[0] += other[0]; ..
//! }                                               staged[t] = part[0]
//!                                             }
//!                                             for t in threadIdx.x { if t == 0 { c[i] = staged[0] + staged[32] } }
//! ```
//!
//! Each thread combines its terms in memory of its own. The threads of a warp then combine their results by shuffles, in
//! halves: afterwards each of them has the result of the warp. The results of the warps go through shared memory, and the first
//! thread combines them. Where the number of threads is no multiple of the warp, or they follow each other along another index than
//! threadIdx.x, all results go through shared memory and are combined there in halves. Threads that read `c` wait for the first one, if it is in shared memory
//! ([`thread_sync`](super::thread_sync)).
//!
//! TVM counterpart: `LowerCrossThreadReduction` and `LowerThreadAllreduce`.
//! Requires: loops over threads that may have their kind ([`check_loop_kinds`](super::check_loop_kinds)), and blocks with their
//! inits. Ensures: no loop over threads drives a reduction.

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::util::BlockNames;
use crate::arith::same;
use crate::ir::{BlockId, IrError, Span, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::{conjunction, with_access_regions};
use crate::tir::schedule::analysis::CrossThread;
use crate::tir::{
    AllocBuffer, Block, BlockRealize, Buffer, BufferStore, For, ForKind, Intrinsic, IterKind, IterVar,
    Mutator, PrimExpr, PrimFunc, Range, Scope, Stmt, ThreadTag, binary, substitute_expr,
};

/// Threads that exchange values by shuffles, on every GPU of NVIDIA.
const WARP: i64 = 32;

/// Gives each thread a partial result, and combines these.
pub fn lower_cross_thread_reduction() -> Pass {
    prim_func_pass("LowerCrossThreadReduction", |func, _, _| {
        let names = BlockNames::of(&func.body);
        let mut lower = Lower { names, threads: Vec::new(), staged: Vec::new(), error: None };
        let body = lower.mutate_stmt(&func.body);
        match lower.error {
            Some(message) => Err(IrError::new(message, &func.span)),
            None => Ok(body.map(|body| PrimFunc { body, ..func.clone() })),
        }
    })
}

struct Lower {
    names: BlockNames,
    /// The loops over threads around the current statement.
    threads: Vec<(Var, PrimExpr)>,
    /// Shared memory that the block around the kernel is to allocate.
    staged: Vec<Buffer>,
    error: Option<String>,
}

impl Mutator for Lower {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                match CrossThread::of(node) {
                    Ok(Some(found)) => return Some(self.reduction(&found)),
                    Ok(None) => {}
                    Err(message) => {
                        self.error.get_or_insert(message);
                        return None;
                    }
                }
                let depth = self.threads.len();
                if is_thread(node.kind) {
                    self.threads.push((node.loop_var.clone(), node.extent.clone()));
                }
                let new = self.walk_stmt(stmt);
                self.threads.truncate(depth);
                new
            }
            Stmt::BlockRealize(_) if self.threads.is_empty() => {
                let outer = std::mem::take(&mut self.staged);
                let new = self.walk_stmt(stmt);
                let staged = std::mem::replace(&mut self.staged, outer);
                match new {
                    Some(Stmt::BlockRealize(realize)) if !staged.is_empty() => {
                        let block = &realize.block;
                        let alloc_buffers = block.alloc_buffers.iter().chain(&staged).cloned().collect();
                        let block = Block { alloc_buffers, ..(**block).clone() }.into();
                        Some(BlockRealize { block, ..(*realize).clone() }.into())
                    }
                    new => new,
                }
            }
            _ => self.walk_stmt(stmt),
        }
    }
}

/// True for loops over the threads of a block.
fn is_thread(kind: ForKind) -> bool {
    matches!(
        kind,
        ForKind::ThreadBinding(ThreadTag::ThreadIdxX | ThreadTag::ThreadIdxY | ThreadTag::ThreadIdxZ)
    )
}

/// A loop over `threadIdx.x` as the one of `of`, with a variable of its own.
fn each_thread(of: &For, body: impl FnOnce(PrimExpr) -> Stmt) -> Stmt {
    let var = of.loop_var.renew();
    let body = body(PrimExpr::from(&var));
    For { loop_var: var, body, ..of.clone() }.into()
}

impl Lower {
    /// The loops over threads that compute what `it` does.
    fn reduction(&mut self, it: &CrossThread<'_>) -> Stmt {
        let dtype = it.reducer.store.buffer.dtype;
        let name = it.reducer.store.buffer.name.clone();
        let own = |what: &str, dtype: DataType| {
            Buffer::with_scope(format!("{name}_{what}"), [PrimExpr::index(1)], dtype, Scope::Local)
        };
        // Narrow floats are computed with in `f32`, and exchanged as well.
        let wide = if dtype.is_float() && dtype.bits() < 32 { DataType::F32 } else { dtype };
        let (part, other) = (own("part", dtype), own("other", wide));
        // Threads of a warp follow each other along x.
        let along_x = it.tag == ThreadTag::ThreadIdxX;
        let shuffles = along_x && it.threads % WARP == 0;
        let mut own = vec![self.partial(it, &part)];
        if shuffles {
            let mut mask = WARP / 2;
            while mask > 0 {
                own.extend(exchange(it, &part, &other, mask));
                mask /= 2;
            }
        }
        let allocate = [&part, &other].into_iter().take(if shuffles { 2 } else { 1 });
        let allocate: Vec<Stmt> = allocate.map(|it| AllocBuffer::new(it.clone()).into()).collect();
        let total = part.load([PrimExpr::index(0)]);
        let whole = if shuffles { WARP } else { 1 };
        if it.threads == whole {
            return each_thread(it.thread, |thread| {
                let store = self.result(it, thread.clone(), total);
                let body = Stmt::seq(allocate.into_iter().chain(own).chain([store]));
                with_thread(it.thread, &thread, body)
            });
        }
        // Neighbours along x have neighbours in memory, which are in different banks.
        let in_order = |others: Vec<PrimExpr>, own: PrimExpr| -> Vec<PrimExpr> {
            if along_x { [others, vec![own]].concat() } else { [vec![own], others].concat() }
        };
        let extents = self.threads.iter().map(|(_, extent)| extent.clone()).collect();
        let shape = in_order(extents, it.threads.into());
        let staged = Buffer::with_scope(format!("{name}_staged"), shape, dtype, Scope::Shared);
        self.staged.push(staged.clone());
        let rows: Vec<PrimExpr> = self.threads.iter().map(|(var, _)| PrimExpr::from(var)).collect();
        let at = |place: PrimExpr| in_order(rows.clone(), place);
        let mut loops = vec![each_thread(it.thread, |thread| {
            let keep = Stmt::store(&staged, at(thread.clone()), total);
            let body = Stmt::seq(allocate.into_iter().chain(own).chain([keep]));
            with_thread(it.thread, &thread, body)
        })];
        let mut left = it.threads;
        while !shuffles && left > 1 {
            let half = left - left / 2;
            loops.push(each_thread(it.thread, |thread| {
                let [a, b] = [thread.clone(), thread.clone() + half].map(|place| staged.load(at(place)));
                let combine = Stmt::store(&staged, at(thread.clone()), binary(it.reducer.op, a, b));
                Stmt::if_then_else(thread.less(left / 2), combine, None)
            }));
            left = half;
        }
        let warps = if shuffles { it.threads / WARP } else { 1 };
        let results = (0..warps).map(|warp| staged.load(at(PrimExpr::index(warp * WARP))));
        let total = results.reduce(|a, b| binary(it.reducer.op, a, b));
        let total = total.unwrap_or_else(|| it.reducer.identity.clone());
        loops.push(each_thread(it.thread, |thread| self.result(it, thread, total)));
        Stmt::seq(loops)
    }

    /// The terms of one thread, combined in `part`.
    fn partial(&mut self, it: &CrossThread<'_>, part: &Buffer) -> Stmt {
        let (block, first) = (&it.realize.block, PrimExpr::index(0));
        let value = binary(it.reducer.op, part.load([first.clone()]), it.reducer.term.clone());
        let body = BufferStore { span: it.reducer.store.span.clone(), ..store_of(part, value) };
        let block = Block {
            name: self.names.fresh(&format!("{}_part", block.name)).into(),
            init: None,
            body: body.into(),
            ..(**block).clone()
        };
        let predicate = conjunction(it.on_result.iter().chain(&it.on_terms).cloned());
        let block = with_access_regions(block).into();
        let realize = BlockRealize { block, predicate, ..it.realize.clone() };
        let nest = it
            .terms
            .iter()
            .rev()
            .fold(Stmt::from(realize), |body, node| For { body, ..(*node).clone() }.into());
        Stmt::seq([Stmt::store(part, [first], it.reducer.identity.clone()), nest])
    }

    /// The store of the result `total` by the first thread.
    fn result(&mut self, it: &CrossThread<'_>, thread: PrimExpr, total: PrimExpr) -> Stmt {
        let (block, reducer) = (&it.realize.block, &it.reducer);
        let mut axes = Vec::new();
        let mut values = Vec::new();
        let mut renewed = FxHashMap::default();
        for (axis, value) in block.iter_vars.iter().zip(it.realize.iter_values.iter()) {
            if axis.kind != IterKind::Reduce {
                let var = axis.var.renew();
                renewed.insert(axis.var.id(), PrimExpr::from(&var));
                let dom = Range {
                    min: substitute_expr(&axis.dom.min, &renewed),
                    extent: substitute_expr(&axis.dom.extent, &renewed),
                };
                axes.push(IterVar { var, dom, ..axis.clone() });
                values.push(value.clone());
            }
        }
        let value = if same(reducer.init, &reducer.identity) {
            total
        } else {
            binary(reducer.op, substitute_expr(reducer.init, &renewed), total)
        };
        let indices = reducer.store.indices.iter().map(|index| substitute_expr(index, &renewed)).collect();
        let store = BufferStore { value, indices, ..reducer.store.clone() };
        let (id, iter_vars) = (BlockId::fresh(), axes.into());
        let block = Block { id, iter_vars, init: None, body: store.into(), ..(**block).clone() };
        let first = thread.equal(PrimExpr::index(0));
        let predicate = conjunction(it.on_result.iter().cloned().chain([first]));
        let block = with_access_regions(block).into();
        BlockRealize { block, predicate, iter_values: values.into() }.into()
    }
}

fn store_of(buffer: &Buffer, value: PrimExpr) -> BufferStore {
    let (buffer, indices, span) = (buffer.clone(), [PrimExpr::index(0)].into(), Span::none());
    BufferStore { buffer, indices, value, predicate: None, span }
}

/// Combines `part` with that of the thread of the warp whose number differs in the bit `mask`.
fn exchange(it: &CrossThread<'_>, part: &Buffer, other: &Buffer, mask: i64) -> [Stmt; 2] {
    let at = || [PrimExpr::index(0)];
    let args = [part.load(at()).cast(other.dtype), PrimExpr::int(mask, DataType::I32)];
    let received = PrimExpr::call(Intrinsic::WarpShuffleXor, args, other.dtype);
    let both = binary(it.reducer.op, part.load(at()), other.load(at()).cast(part.dtype));
    [Stmt::store(other, at(), received), Stmt::store(part, at(), both)]
}

/// `body` for the thread `thread`, of what is written for the loop `of`.
fn with_thread(of: &For, thread: &PrimExpr, body: Stmt) -> Stmt {
    super::util::DeepSubstitute::stmt(FxHashMap::from_iter([(of.loop_var.id(), thread.clone())]), &body)
}
