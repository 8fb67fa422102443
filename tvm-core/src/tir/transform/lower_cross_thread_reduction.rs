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
//! thread combines them; of pairs, as a position and a value, the first warp does so, by shuffles. Where the number of threads
//! is no multiple of the warp, or they follow each other along another index than threadIdx.x, all results go through shared
//! memory and are combined there in halves. Threads that read `c` wait for the first one, if it is in shared memory
//! ([`thread_sync`](super::thread_sync)).
//!
//! A copy of what is reduced is made meanwhile, if it is in memory that is asked for at the launch ([`copies`]).
//!
//! TVM counterpart: `LowerCrossThreadReduction` and `LowerThreadAllreduce`.
//! Requires: loops over threads that may have their kind ([`check_loop_kinds`](super::check_loop_kinds)), and blocks with their
//! inits. Ensures: no loop over threads drives a reduction.

mod copies;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::util::BlockNames;
use crate::ir::{BlockId, IrError, Span, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::{conjunction, with_access_regions};
use crate::tir::schedule::analysis::{CrossThread, load_all, store_all};
use crate::tir::{
    AllocBuffer, Block, BlockRealize, Buffer, BufferStore, For, ForKind, Intrinsic, IterKind, IterVar,
    Mutator, PrimExpr, PrimFunc, Range, Scope, Stmt, ThreadTag, substitute_expr,
};

/// Threads that exchange values by shuffles, on every GPU of NVIDIA.
const WARP: i64 = 32;

/// Gives each thread a partial result, and combines these.
pub fn lower_cross_thread_reduction() -> Pass {
    prim_func_pass("LowerCrossThreadReduction", |func, _, _| {
        let names = BlockNames::of(&func.body);
        let mut lower = Lower {
            names,
            threads: Vec::new(),
            staged: Vec::new(),
            copies: FxHashMap::default(),
            error: None,
        };
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
    /// By the block that reduces it, the copy that the threads make meanwhile.
    copies: FxHashMap<BlockId, BlockRealize>,
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
            Stmt::SeqStmt(steps) => {
                let found = steps.windows(2).enumerate();
                let found = found.filter_map(|(at, it)| Some((at, copies::within(&it[0], &it[1])?)));
                let found: Vec<_> = found.map(|(at, (copy, of))| (at, copy, of.block.id)).collect();
                if found.is_empty() {
                    return self.walk_stmt(stmt);
                }
                let without = |at: &usize| found.iter().all(|it| it.0 != *at);
                let left = steps.iter().enumerate().filter(|(at, _)| without(at)).map(|it| it.1.clone());
                let left = Stmt::seq(left.collect::<Vec<_>>());
                self.copies.extend(found.into_iter().map(|(_, copy, of)| (of, copy)));
                Some(self.walk_stmt(&left).unwrap_or(left))
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
        // Threads of a warp follow each other along x.
        let along_x = it.tag == ThreadTag::ThreadIdxX;
        let shuffles = along_x && it.threads % WARP == 0;
        let own = Own::of(it);
        let mut steps = own.allocations(shuffles);
        steps.push(self.partial(it, &own.parts));
        if shuffles {
            steps.extend(own.exchanges(it, WARP));
        }
        let whole = if shuffles { WARP } else { 1 };
        if it.threads == whole {
            return each_thread(it.thread, |thread| {
                let store = self.result(it, thread.clone(), own.totals());
                let body = Stmt::seq(steps.into_iter().chain([store]));
                with_thread(it.thread, &thread, body)
            });
        }
        // Neighbours along x have neighbours in memory, which are in different banks.
        let in_order = |others: Vec<PrimExpr>, own: PrimExpr| -> Vec<PrimExpr> {
            if along_x { [others, vec![own]].concat() } else { [vec![own], others].concat() }
        };
        let extents = self.threads.iter().map(|(_, extent)| extent.clone()).collect();
        let staged = self.stage(it, &in_order(extents, it.threads.into()));
        let rows: Vec<PrimExpr> = self.threads.iter().map(|(var, _)| PrimExpr::from(var)).collect();
        let at = |place: PrimExpr| -> Vec<Place> {
            staged.iter().map(|buffer| (buffer.clone(), in_order(rows.clone(), place.clone()))).collect()
        };
        let mut loops = vec![each_thread(it.thread, |thread| {
            let keep = store_all(&at(thread.clone()), own.totals(), &Span::none());
            let body = Stmt::seq(steps.into_iter().chain(keep));
            with_thread(it.thread, &thread, body)
        })];
        let mut left = it.threads;
        while !shuffles && left > 1 {
            let half = left - left / 2;
            loops.push(each_thread(it.thread, |thread| {
                let [a, b] = [thread.clone(), thread.clone() + half].map(|place| load_all(&at(place)));
                let combine = store_all(&at(thread.clone()), it.reducer.combine(&a, &b), &Span::none());
                Stmt::if_then_else(thread.less(left / 2), Stmt::seq(combine), None)
            }));
            left = half;
        }
        let warps = if shuffles { it.threads / WARP } else { 1 };
        if warps > 1 && own.parts.len() > 1 {
            loops.push(self.of_warps(it, warps, |warp| load_all(&at(warp * WARP))));
            return Stmt::seq(loops);
        }
        let results = (0..warps).map(|warp| load_all(&at(PrimExpr::index(warp * WARP))));
        let total = results.reduce(|a, b| it.reducer.combine(&a, &b)).unwrap_or_default();
        loops.push(each_thread(it.thread, |thread| self.result(it, thread, total)));
        Stmt::seq(loops)
    }

    /// The loop in which the first warp combines the results of all warps by shuffles, which are the elements `results` of shared
    /// memory. To combine one pair after the other, as a thread does with single values, would take longer.
    fn of_warps(
        &mut self,
        it: &CrossThread<'_>,
        warps: i64,
        results: impl Fn(PrimExpr) -> Vec<PrimExpr>,
    ) -> Stmt {
        let own = Own::of(it);
        each_thread(it.thread, |thread| {
            let mut steps = own.allocations(true);
            let identities = it.reducer.parts.iter().map(|part| part.identity.clone()).collect();
            steps.extend(store_all(&own.places(), identities, &Span::none()));
            let read = store_all(&own.places(), results(thread.clone()), &Span::none());
            steps.push(Stmt::if_then_else(thread.clone().less(warps), Stmt::seq(read), None));
            steps.extend(own.exchanges(it, (warps as u64).next_power_of_two() as i64));
            steps.push(self.result(it, thread, own.totals()));
            Stmt::seq(steps)
        })
    }

    /// Shared memory of the shape `shape` for each part.
    fn stage(&mut self, it: &CrossThread<'_>, shape: &[PrimExpr]) -> Vec<Buffer> {
        let buffers = it.reducer.parts.iter().map(|part| &part.store.buffer);
        let staged = buffers.map(|buffer| {
            Buffer::with_scope(format!("{}_staged", buffer.name), shape.to_vec(), buffer.dtype, Scope::Shared)
        });
        let staged: Vec<Buffer> = staged.collect();
        self.staged.extend(staged.iter().cloned());
        staged
    }

    /// The terms of one thread, combined in `parts`.
    fn partial(&mut self, it: &CrossThread<'_>, parts: &[Buffer]) -> Stmt {
        let (block, reducer) = (&it.realize.block, &it.reducer);
        let places: Vec<Place> = parts.iter().map(first).collect();
        let terms: Vec<PrimExpr> = reducer.parts.iter().map(|part| part.term.clone()).collect();
        let values = reducer.combine(&load_all(&places), &terms);
        let span = reducer.parts.first().map_or_else(Span::none, |part| part.store.span.clone());
        let block = Block {
            name: self.names.fresh(&format!("{}_part", block.name)).into(),
            init: None,
            body: Stmt::seq(store_all(&places, values, &span)),
            ..(**block).clone()
        };
        let predicate = conjunction(it.on_result.iter().chain(&it.on_terms).cloned());
        let block = with_access_regions(block).into();
        let (realize, block_id) =
            (BlockRealize { block, predicate, ..it.realize.clone() }, it.realize.block.id);
        let copy = self.copies.remove(&block_id).map(Stmt::from);
        let nest = it
            .terms
            .iter()
            .rev()
            .fold(Stmt::seq(copy.into_iter().chain([Stmt::from(realize)])), |body, node| {
                For { body, ..(*node).clone() }.into()
            });
        let identities = reducer.parts.iter().map(|part| part.identity.clone()).collect();
        Stmt::seq(store_all(&places, identities, &Span::none()).into_iter().chain([nest]))
    }

    /// The store of the results `totals` by the first thread.
    fn result(&mut self, it: &CrossThread<'_>, thread: PrimExpr, totals: Vec<PrimExpr>) -> Stmt {
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
        let inits: Vec<PrimExpr> =
            reducer.parts.iter().map(|part| substitute_expr(part.init, &renewed)).collect();
        let totals = if reducer.starts_at_identity() { totals } else { reducer.combine(&inits, &totals) };
        let place = |store: &BufferStore| -> Place {
            let indices = store.indices.iter().map(|index| substitute_expr(index, &renewed)).collect();
            (store.buffer.clone(), indices)
        };
        let places: Vec<Place> = reducer.parts.iter().map(|part| place(part.store)).collect();
        let span = reducer.parts.first().map_or_else(Span::none, |part| part.store.span.clone());
        let body = Stmt::seq(store_all(&places, totals, &span));
        let (id, iter_vars) = (BlockId::fresh(), axes.into());
        let block = Block { id, iter_vars, init: None, body, ..(**block).clone() };
        let first = thread.equal(PrimExpr::index(0));
        let predicate = conjunction(it.on_result.iter().cloned().chain([first]));
        let block = with_access_regions(block).into();
        BlockRealize { block, predicate, iter_values: values.into() }.into()
    }
}

/// Where a part of a result is.
type Place = (Buffer, Vec<PrimExpr>);

fn first(buffer: &Buffer) -> Place {
    (buffer.clone(), vec![PrimExpr::index(0)])
}

/// The memory of a thread, with an element for each part of the result.
struct Own {
    /// What the thread has.
    parts: Vec<Buffer>,
    /// What it receives from another one.
    others: Vec<Buffer>,
}

impl Own {
    fn of(it: &CrossThread<'_>) -> Own {
        let buffers = || it.reducer.parts.iter().map(|part| &part.store.buffer);
        let own = |name: String, dtype: DataType| {
            Buffer::with_scope(name, [PrimExpr::index(1)], dtype, Scope::Local)
        };
        // Narrow floats are computed with in `f32`, and exchanged as well.
        let wide = |dtype: DataType| {
            if dtype.is_float() && dtype.bits() < 32 { DataType::F32 } else { dtype }
        };
        Own {
            parts: buffers().map(|it| own(format!("{}_part", it.name), it.dtype)).collect(),
            others: buffers().map(|it| own(format!("{}_other", it.name), wide(it.dtype))).collect(),
        }
    }

    fn allocations(&self, exchanges: bool) -> Vec<Stmt> {
        let others = self.others.iter().filter(|_| exchanges);
        self.parts.iter().chain(others).map(|it| AllocBuffer::new(it.clone()).into()).collect()
    }

    fn places(&self) -> Vec<Place> {
        self.parts.iter().map(first).collect()
    }

    /// The values of the thread.
    fn totals(&self) -> Vec<PrimExpr> {
        load_all(&self.places())
    }

    /// Combines what `lanes` neighbouring threads of a warp have, a power of two: each of them has the result afterwards.
    fn exchanges(&self, it: &CrossThread<'_>, lanes: i64) -> Vec<Stmt> {
        let mut steps = Vec::new();
        let mut mask = lanes / 2;
        while mask > 0 {
            for (part, other) in self.parts.iter().zip(&self.others) {
                let at = || [PrimExpr::index(0)];
                let args = [part.load(at()).cast(other.dtype), PrimExpr::int(mask, DataType::I32)];
                let received = PrimExpr::call(Intrinsic::WarpShuffleXor, args, other.dtype);
                steps.push(Stmt::store(other, at(), received));
            }
            let received = self.parts.iter().zip(&self.others);
            let received: Vec<PrimExpr> =
                received.map(|(part, other)| other.load([PrimExpr::index(0)]).cast(part.dtype)).collect();
            let both = it.reducer.combine(&self.totals(), &received);
            steps.extend(store_all(&self.places(), both, &Span::none()));
            mask /= 2;
        }
        steps
    }
}

/// `body` for the thread `thread`, of what is written for the loop `of`.
fn with_thread(of: &For, thread: &PrimExpr, body: Stmt) -> Stmt {
    super::util::DeepSubstitute::stmt(FxHashMap::from_iter([(of.loop_var.id(), thread.clone())]), &body)
}
