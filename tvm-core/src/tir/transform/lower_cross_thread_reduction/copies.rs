//! Copies that the threads which reduce may make as they go: of the elements that each of them combines.
//!
//! A block that copies a row and one that reduces the copy, in equal loops, are one sweep if each thread reads in the second one
//! what it wrote in the same iteration of the first one. The loads of the copy are then under way while the thread combines what it
//! has, and no thread waits for another one between them.

use rustc_hash::FxHashMap;

use crate::arith::{Analyzer, same};
use crate::ir::VarId;
use crate::tir::schedule::analysis::CrossThread;
use crate::tir::transform::ASYNC_COPY;
use crate::tir::{
    BlockRealize, Buffer, BufferLoad, For, ForKind, IterKind, PrimExpr, Scope, Stmt, for_each_load,
    substitute_expr,
};

/// The copy that `first` makes of what `second` reduces, with the loops of `second` around it; `None` if the two are not one
/// sweep. The second value is the block that reduces.
pub(super) fn within<'a>(first: &Stmt, second: &'a Stmt) -> Option<(BlockRealize, &'a BlockRealize)> {
    let (mut vars, first) = without_units(first);
    let (units, second) = without_units(second);
    let (Stmt::For(outer), Stmt::For(to)) = (first, second) else { return None };
    let found = CrossThread::of(to).ok().flatten()?;
    let mut loops: Vec<(&For, &For)> = Vec::new();
    let (mut a, mut b): (&Stmt, &Stmt) = (first, second);
    while let (Stmt::For(own), Stmt::For(other)) = (a, b) {
        loops.push((&**own, &**other));
        (a, b) = (&own.body, &other.body);
    }
    let (Stmt::BlockRealize(copy), Stmt::BlockRealize(reduction)) = (a, b) else { return None };
    let equal =
        |(a, b): &(&For, &For)| a.kind == b.kind && same(&a.min, &b.min) && same(&a.extent, &b.extent);
    let by_threads = |it: &(&For, &For)| matches!(it.0.kind, ForKind::ThreadBinding(_));
    // Asynchronous copies are all under way before the first of them is read.
    let ahead = loops.iter().any(|it| it.0.annotations.get(ASYNC_COPY).is_some());
    if ahead
        || !loops.iter().all(equal)
        || loops.iter().filter(|it| by_threads(it)).count() != 1
        || outer.kind != to.kind
    {
        return None;
    }
    vars.extend(loops.iter().map(|(a, b)| (a.loop_var.id(), PrimExpr::from(&b.loop_var))));
    let store = copy.block.body.as_buffer_store()?;
    // Of short rows, several blocks of a multiprocessor are in different sweeps.
    let near = store.buffer.scope == Scope::SharedDyn;
    let complete = copy.block.iter_vars.iter().all(|axis| axis.kind == IterKind::Spatial)
        && copy.block.init.is_none()
        && copy.block.alloc_buffers.is_empty()
        && copy.block.match_buffers.is_empty()
        && store.predicate.is_none();
    let results: Vec<&Buffer> = found.reducer.parts.iter().map(|part| &part.store.buffer).collect();
    let uses = copy.block.reads.iter().chain(copy.block.writes.iter());
    if !near || !complete || uses.into_iter().any(|it| results.contains(&&it.buffer)) {
        return None;
    }
    let value = |expr: &PrimExpr, realize: &BlockRealize, loops: &FxHashMap<VarId, PrimExpr>| {
        let axes = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
        let axes = axes.map(|(axis, value)| (axis.var.id(), substitute_expr(value, loops)));
        let all: FxHashMap<VarId, PrimExpr> = axes.collect();
        Analyzer::new().simplify(&substitute_expr(expr, &all))
    };
    let written: Vec<PrimExpr> = store.indices.iter().map(|it| value(it, copy, &vars)).collect();
    let (mut reads, mut own) = (0, true);
    for_each_load(&reduction.block.body, &mut |load: &std::sync::Arc<BufferLoad>| {
        if load.buffer == store.buffer {
            reads += 1;
            let read = load.indices.iter().map(|it| value(it, reduction, &units));
            own &= read.zip(&written).all(|(a, b)| same(&a, b));
        }
    });
    let predicate = substitute_expr(&copy.predicate, &vars);
    let analyzer = Analyzer::new();
    let [a, b] = [&predicate, &reduction.predicate].map(|it| analyzer.simplify(&substitute_expr(it, &units)));
    if reads == 0 || !own || !same(&a, &b) {
        return None;
    }
    let iter_values = copy.iter_values.iter().map(|it| substitute_expr(it, &vars)).collect();
    Some((BlockRealize { iter_values, predicate, ..(**copy).clone() }, &**reduction))
}

/// The first loop of more than one iteration, and the values of the variables of those around it.
fn without_units(mut stmt: &Stmt) -> (FxHashMap<VarId, PrimExpr>, &Stmt) {
    let mut values = FxHashMap::default();
    while let Stmt::For(node) = stmt
        && node.extent.is_const(1)
        && node.kind == ForKind::Serial
    {
        values.insert(node.loop_var.id(), node.min.clone());
        stmt = &node.body;
    }
    (values, stmt)
}
