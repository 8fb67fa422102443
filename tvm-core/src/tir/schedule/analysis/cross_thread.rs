//! Reductions whose terms are divided among the threads of a block: a loop over `threadIdx` that drives a reduction axis.
//!
//! Such a loop is legal although its iterations update one element, because lowering gives each thread a partial result of its
//! own and combines these ([`lower_cross_thread_reduction`](crate::tir::transform::lower_cross_thread_reduction)). The first
//! thread then writes the element.
//!
//! TVM counterpart: the conditions of `LowerCrossThreadReduction`.

use rustc_hash::FxHashSet;

use super::{Reducer, check_reorderable, reduces_with_outer};
use crate::ir::VarId;
use crate::tir::analysis::{conjuncts, drives};
use crate::tir::schedule::rewrite::add_vars;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::transform::IN_ORDER;
use crate::tir::{
    Block, BlockRealize, For, ForKind, IterKind, PrimExpr, Range, Scope, Stmt, ThreadTag, any_expr,
};

/// The most threads that combine their results: those of a block on every GPU.
const MOST_THREADS: i64 = 1024;

/// A reduction by the threads of a block.
pub(in crate::tir) struct CrossThread<'a> {
    /// The index of the threads in their block.
    pub(in crate::tir) tag: ThreadTag,
    /// The loop over them.
    pub(in crate::tir) thread: &'a For,
    /// The number of its iterations.
    pub(in crate::tir) threads: i64,
    /// The other loops over terms, outermost first. A thread runs them all.
    pub(in crate::tir) terms: Vec<&'a For>,
    pub(in crate::tir) realize: &'a BlockRealize,
    pub(in crate::tir) reducer: Reducer<'a>,
    /// The conditions of the block on the terms.
    pub(in crate::tir) on_terms: Vec<PrimExpr>,
    /// The other conditions, which say what of the result is computed.
    pub(in crate::tir) on_result: Vec<PrimExpr>,
}

/// True if `node` is a loop over `threadIdx` that holds nothing but a block with an init, and drives the reduction of it.
pub(in crate::tir) fn reduces_across(node: &For) -> bool {
    let of_block = match node.kind {
        ForKind::ThreadBinding(ThreadTag::ThreadIdxX | ThreadTag::ThreadIdxY | ThreadTag::ThreadIdxZ) => true,
        ForKind::ThreadBinding(
            ThreadTag::BlockIdxX | ThreadTag::BlockIdxY | ThreadTag::BlockIdxZ | ThreadTag::Vthread,
        )
        | ForKind::Serial
        | ForKind::Parallel
        | ForKind::Vectorized
        | ForKind::Unrolled => false,
    };
    of_block && nest(node).1.is_some_and(|it| it.block.init.is_some() && drives(it, node, true))
}

/// The loops from `outer` on that hold nothing but the next one, and the block in the last one if it holds nothing else.
fn nest(outer: &For) -> (Vec<&For>, Option<&BlockRealize>) {
    let mut loops = vec![outer];
    let mut body = &outer.body;
    while let Stmt::For(node) = body {
        loops.push(node);
        body = &node.body;
    }
    (loops, body.as_block_realize().map(|it| &**it))
}

impl<'a> CrossThread<'a> {
    /// The reduction whose outermost loop over terms is `outer`; `None` if no thread loop in it reduces.
    ///
    /// # Errors
    /// Why threads cannot divide the terms among them, as a sentence.
    pub(in crate::tir) fn of(outer: &'a For) -> Result<Option<CrossThread<'a>>, String> {
        let (loops, realize) = nest(outer);
        if !realize.is_some_and(|realize| drives(realize, outer, true)) {
            return Ok(None);
        }
        match loops.iter().find(|node| reduces_across(node)) {
            Some(node) => CrossThread::with(outer, node),
            None => Ok(None),
        }
    }

    /// As [`of`](Self::of), where the loop with the variable of `bound` has the kind of `bound`.
    fn with(outer: &'a For, bound: &For) -> Result<Option<CrossThread<'a>>, String> {
        let (loops, realize) = nest(outer);
        let thread = loops.iter().copied().find(|node| node.loop_var == bound.loop_var);
        let (Some(realize), Some(thread)) = (realize, thread) else { return Ok(None) };
        let block = &realize.block;
        let refuse = |why: String| Err(format!("block `{}` {why}", block.name));
        let ForKind::ThreadBinding(tag) = bound.kind else { return Ok(None) };
        let threads = thread.extent.as_int().filter(|count| (1..=MOST_THREADS).contains(count));
        let Some(threads) = threads.filter(|_| thread.min.is_const(0)) else {
            let count = &thread.extent;
            return refuse(format!(
                "is reduced by {count} threads; a constant number from 1 to {MOST_THREADS} is expected"
            ));
        };
        let terms: Vec<&For> =
            loops.iter().copied().filter(|node| node.loop_var != thread.loop_var).collect();
        for node in &loops {
            let name = node.loop_var.name();
            if drives(realize, node, false) {
                return refuse(format!(
                    "has the loop `{name}` over results inside of a loop over terms, which threads divide among them"
                ));
            }
            if !drives(realize, node, true) && !node.extent.is_const(1) {
                return refuse(format!("is repeated by the loop `{name}`"));
            }
        }
        if let Some(node) = terms.iter().find(|it| !matches!(it.kind, ForKind::Serial | ForKind::Unrolled)) {
            return refuse(format!(
                "has the loop `{}` over terms, which is not serial",
                node.loop_var.name()
            ));
        }
        if block.annotations.get(IN_ORDER).is_some() {
            return refuse("keeps the order of its sum, which is written as a plain loop".into());
        }
        if let Some(axis) =
            block.iter_vars.iter().find(|it| matches!(it.kind, IterKind::Ordered | IterKind::Opaque))
        {
            return refuse(format!(
                "has the {:?} axis `{}`: its iterations keep their order",
                axis.kind,
                axis.var.name()
            ));
        }
        if !block.match_buffers.is_empty() {
            return refuse("gives a buffer another name".into());
        }
        let reducer = match Reducer::of(block) {
            Ok(reducer) => reducer,
            Err(why) => return refuse(why),
        };
        for part in &reducer.parts {
            let buffer = &part.store.buffer;
            match buffer.scope {
                Scope::Global | Scope::Shared | Scope::SharedDyn => {}
                Scope::Local | Scope::Warp => {
                    return refuse(format!(
                        "keeps its result, which one thread computes, in `{}`, memory of each thread",
                        buffer.name
                    ));
                }
            }
        }
        let inner: FxHashSet<VarId> = loops.iter().map(|node| node.loop_var.id()).collect();
        let mut spatial = FxHashSet::default();
        for (axis, value) in block.iter_vars.iter().zip(realize.iter_values.iter()) {
            if axis.kind == IterKind::Spatial {
                add_vars(value, &mut spatial);
            }
        }
        let uses = |expr: &PrimExpr, vars: &FxHashSet<VarId>| {
            any_expr(expr, &mut |it| it.as_var().is_some_and(|var| vars.contains(&var.id())))
        };
        let (on_terms, on_result): (Vec<PrimExpr>, Vec<PrimExpr>) =
            conjuncts(&realize.predicate).into_iter().partition(|it| uses(it, &inner));
        let mut on_result = on_result;
        if on_terms.iter().any(|it| uses(it, &spatial)) {
            // Such a condition may be the one that keeps the axes in their domains.
            for (axis, value) in block.iter_vars.iter().zip(realize.iter_values.iter()) {
                if axis.kind == IterKind::Spatial {
                    let Range { min, extent } = &axis.dom;
                    on_result.push(value.clone().greater_equal(min));
                    on_result.push(value.clone().less(min.clone() + extent));
                }
            }
        }
        Ok(Some(CrossThread { tag, thread, threads, terms, realize, reducer, on_terms, on_result }))
    }
}

/// Checks the loop `node` over threads, which drives the reduction `realize`.
pub(in crate::tir::schedule) fn check_cross_thread(
    name: &'static str,
    state: &ScheduleState,
    node: &For,
    realize: &BlockRealize,
) -> Result<(), ScheduleError> {
    let sref = StmtSRef::Block(realize.block.id);
    let refuse = |why: String| {
        Err(ScheduleError::illegal(name, why).help(
            "bind one loop over terms to threads, inside of all loops over results, and keep the result in shared or global memory",
        ))
    };
    let loops = state.loops_above(sref);
    let outermost = loops.iter().find_map(|&var| {
        let node = state.get_for(var).ok()?;
        drives(realize, node, true).then_some(node)
    });
    let found = match outermost.map(|outer| CrossThread::with(outer, node)) {
        Some(Ok(found)) => found,
        Some(Err(why)) => return refuse(why),
        None => None,
    };
    if found.is_none() {
        return refuse(format!("block `{}` is not alone in its loops over terms", realize.block.name));
    }
    check_reorderable(name, state, realize)?;
    if reduces_with_outer(state, realize) {
        return refuse(format!(
            "block `{}` goes on with the reduction of a block around it",
            realize.block.name
        ));
    }
    let written = |block: &Block| {
        block.match_buffers.iter().any(|part| {
            realize.block.writes.iter().any(|it| it.buffer == part.buffer || it.buffer == part.source.buffer)
        })
    };
    if state.blocks().iter().any(|it| written(&it.block)) {
        return refuse(format!("the result of block `{}` has a second name", realize.block.name));
    }
    Ok(())
}
