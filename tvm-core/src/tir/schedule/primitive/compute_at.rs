//! `compute_at` and `reverse_compute_at`: a block moves under a loop of its consumers, or of its producers.
//!
//! In each iteration of the loop, the moved block computes what its consumers there need (`compute_at`), or consumes
//! what its producers there have made (`reverse_compute_at`). Interval analysis of their accesses finds this region. A consumer
//! of a part of what is made consumes what lies in it; a reduction goes on from iteration to iteration, over all of it.

use std::sync::Arc;

use crate::arith::{Analyzer, IntervalSet};
use crate::ir::{BlockId, Var, VarId};
use crate::tir::analysis::drives;
use crate::tir::schedule::analysis::{self, Iteration};
use crate::tir::schedule::rewrite::{self, bind_loop, holds, insert_at, simplify_bindings};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::transform::IN_ORDER;
use crate::tir::{
    BlockRealize, Buffer, BufferRegion, For, ForKind, IterKind, PrimExpr, Range, Stmt, uses_var,
};

use super::compute_inline::check_inputs_stay;

/// Moves the producer `id` under the loop `var` around all its consumers.
pub(in crate::tir::schedule) fn compute_at(
    state: &mut ScheduleState,
    id: BlockId,
    var: VarId,
) -> Result<(), ScheduleError> {
    const NAME: &str = "compute_at";
    let marked = [StmtSRef::Block(id), StmtSRef::Loop(var)];
    let realize = state.get_block(id)?.clone();
    let node = state.get_for(var)?.clone();
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    let moved = Moved::new(NAME, state, &realize, var, false)?;
    if !rewrite::is_intermediate(state, &moved.buffer) {
        return refuse(format!(
            "`{}` is a parameter of the function: all of it must be computed",
            moved.buffer.name
        ));
    }
    if holds(&Stmt::For(node.clone()), StmtSRef::Block(id)) {
        return refuse(format!("block `{}` is under the loop already", realize.block.name));
    }
    check_inputs_stay(NAME, state, id)?;
    let consumers: Vec<Arc<BlockRealize>> = (rewrite::siblings(state, StmtSRef::Block(id))?.into_iter())
        .filter(|it| it.block.id != id && it.block.reads.iter().any(|read| read.buffer == moved.buffer))
        .collect();
    if consumers.is_empty() {
        return refuse(format!(
            "nothing beside block `{}` reads `{}`",
            realize.block.name, moved.buffer.name
        ));
    }
    let scope = state.get_block(state.scope_block(StmtSRef::Block(id)).unwrap_or(id))?;
    let count = |body| state.count_accesses(body, &moved.buffer);
    if !scope.block.alloc_buffers.contains(&moved.buffer)
        && count(&scope.block.body) != count(&state.func().body)
    {
        return refuse(format!("`{}` is used outside of block `{}`", moved.buffer.name, scope.block.name));
    }
    let inside = |it: &&Arc<BlockRealize>| {
        state.ancestors(StmtSRef::Block(it.block.id)).any(|sref| sref == StmtSRef::Loop(var))
    };
    if let Some(outside) = consumers.iter().find(|it| !inside(it)) {
        return refuse(format!(
            "block `{}` reads `{}` and is not under the loop",
            outside.block.name, moved.buffer.name
        ));
    }
    if let Some(early) = consumers.iter().find(|it| init_runs_before(state, it, var, &moved.buffer)) {
        return refuse(format!(
            "the init of block `{}` reads `{}` and runs before the loop",
            early.block.name, moved.buffer.name
        ));
    }
    let needed = analysis::box_read(state, Some(var), &consumers, &moved.buffer)?;
    let nest = moved.nest(state, &realize, &needed.unwrap_or_default(), true)?;
    let first = consumers
        .iter()
        .map(|it| StmtSRef::Block(it.block.id))
        .filter_map(|it| position(&node.body, it))
        .min();
    finish(state, id, var, nest, |_| first.unwrap_or(0))
}

/// Moves the consumer `id` under the loop `var` around its producer.
pub(in crate::tir::schedule) fn reverse_compute_at(
    state: &mut ScheduleState,
    id: BlockId,
    var: VarId,
) -> Result<(), ScheduleError> {
    const NAME: &str = "reverse_compute_at";
    let marked = [StmtSRef::Block(id), StmtSRef::Loop(var)];
    let realize = state.get_block(id)?.clone();
    state.get_for(var)?;
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    let moved = Moved::new(NAME, state, &realize, var, true)?;
    let leaves = rewrite::siblings(state, StmtSRef::Block(id))?;
    let at = leaves.iter().position(|it| it.block.id == id).unwrap_or(0);
    let under = |it: &BlockRealize| {
        state.ancestors(StmtSRef::Block(it.block.id)).any(|sref| sref == StmtSRef::Loop(var))
    };
    if under(&realize) {
        return refuse(format!("block `{}` is under the loop already", realize.block.name));
    }
    let mut made: Option<(BufferRegion, Vec<IntervalSet>)> = None;
    for (i, other) in leaves.iter().enumerate().filter(|(i, _)| *i != at) {
        let touches = |regions: &[BufferRegion]| regions.iter().any(|it| it.buffer == moved.buffer);
        if touches(&other.block.writes) || (i < at && touches(&other.block.reads)) {
            return refuse(format!("block `{}` uses `{}` before", other.block.name, moved.buffer.name));
        }
        for read in realize.block.reads.iter() {
            let Some(write) = other.block.writes.iter().find(|write| write.buffer == read.buffer) else {
                continue;
            };
            if !under(other) {
                if position_in_scope(state, var, other.block.id) {
                    continue;
                }
                return refuse(format!(
                    "block `{}` makes `{}` and does not run before the loop",
                    other.block.name, read.buffer.name
                ));
            }
            if made.is_some() {
                return refuse("it reads what several blocks under the loop make".into());
            }
            let region = produced(NAME, state, other, write, var)?;
            made = Some((read.clone(), region));
        }
    }
    let Some((read, region)) = made else {
        return refuse(format!("no block under the loop makes what block `{}` reads", realize.block.name));
    };
    // Each element of the read buffer, or of a part of it, is used for exactly one combination of values of the axes that index it.
    let indices: Vec<PrimExpr> = read.region.iter().map(|range| range.min.clone()).collect();
    let points = read.region.iter().all(|range| range.extent.is_const(1));
    let axes = analysis::distinct_axes(&realize.block, &indices, &read.buffer.shape).filter(|_| points);
    let Some(axes) = axes else {
        return refuse(format!(
            "block `{}` does not read `{}` at one axis in each dimension",
            realize.block.name, read.buffer.name
        ));
    };
    let is = |var: &Var, kind: IterKind| {
        realize.block.iter_vars.iter().any(|iter| iter.var == *var && iter.kind == kind)
    };
    let reduces = axes.iter().flatten().any(|var| is(var, IterKind::Reduce));
    if reduces {
        check_goes_on(NAME, state, &realize)?;
    }
    let known = |var: &Var| is(var, IterKind::Spatial) || is(var, IterKind::Reduce);
    let all = rewrite::covers(state, &realize, &axes, &read.buffer)?;
    let fits = all || !reduces && reads_part(state, &realize, &axes, &read.buffer)?;
    if !axes.iter().flatten().all(known) || !fits {
        return refuse(format!(
            "block `{}` does not read each element of `{}` once",
            realize.block.name, read.buffer.name
        ));
    }
    let moved = Moved { axes, ..moved };
    let nest = moved.nest(state, &realize, &region, false)?;
    let mut forked = state.clone();
    finish(&mut forked, id, var, nest, |body| if let Stmt::SeqStmt(stmts) = body { stmts.len() } else { 1 })?;
    if reduces && !adds_each_term_once(&forked, id)? {
        return refuse(format!(
            "block `{}` would not add each term once, one after the other, to its result",
            realize.block.name
        ));
    }
    *state = forked;
    Ok(())
}

/// True if the block runs for every combination of values of `axes`, all of which are indices of `buffer`.
fn reads_part(
    state: &ScheduleState,
    realize: &BlockRealize,
    axes: &[Option<Var>],
    buffer: &Buffer,
) -> Result<bool, ScheduleError> {
    let iters = &realize.block.iter_vars;
    let extents = iters.iter().map(|iter| &iter.dom.extent);
    let analyzer = Analyzer::of_indices(extents.chain(buffer.shape.iter()));
    let inside = |(axis, extent): (&Option<Var>, &PrimExpr)| match axis {
        None => true,
        Some(var) => iters.iter().find(|iter| iter.var == *var).is_some_and(|iter| {
            iter.dom.min.is_const(0) && analyzer.can_prove_less_equal(&iter.dom.extent, extent)
        }),
    };
    Ok(axes.iter().zip(buffer.shape.iter()).all(inside) && analysis::covers_domain(state, realize)?)
}

/// Checks that a reduction may go on from iteration to iteration of a loop around it.
fn check_goes_on(
    name: &'static str,
    state: &ScheduleState,
    realize: &BlockRealize,
) -> Result<(), ScheduleError> {
    let marked = [StmtSRef::Block(realize.block.id)];
    let refuse = |why: &str| {
        let err = ScheduleError::illegal(name, format!("block `{}` {why}", realize.block.name));
        Err(err.show(state, &marked))
    };
    if realize.block.init.is_none() {
        return refuse("reduces what is made under the loop, and has no init");
    }
    if realize.block.annotations.get(IN_ORDER).is_some() {
        return refuse("keeps the order of its sum, which is written as a plain loop");
    }
    analysis::check_reorderable(name, state, realize)
}

/// True if the loops around the reduction `id` visit each point of its axes once, and those that drive reduced axes run one
/// iteration after the other.
fn adds_each_term_once(state: &ScheduleState, id: BlockId) -> Result<bool, ScheduleError> {
    let realize = state.get_block(id)?;
    let loops = state.loops_above(StmtSRef::Block(id));
    let loops = loops.iter().map(|&it| state.get_for(it).cloned()).collect::<Result<Vec<_>, _>>()?;
    let in_turn = |node: &Arc<For>| {
        matches!(node.kind, ForKind::Serial | ForKind::Unrolled) || !drives(realize, node, true)
    };
    Ok(loops.iter().all(in_turn) && analysis::visits_once(state, realize, &loops)?)
}

/// True when the init of block `consumer` reads `buffer` and runs before loop `var`, which drives its reduction or is
/// inside a loop that does.
fn init_runs_before(state: &ScheduleState, consumer: &BlockRealize, var: VarId, buffer: &Buffer) -> bool {
    let Some(init) = &consumer.block.init else { return false };
    let loops = state.loops_above(StmtSRef::Block(consumer.block.id));
    let outer = loops.iter().take(loops.iter().position(|&it| it == var).map_or(0, |at| at + 1));
    let reduces = |var: &VarId| state.get_for(*var).is_ok_and(|node| drives(consumer, node, true));
    state.count_accesses(init, buffer) > 0 && outer.into_iter().any(reduces)
}

/// The box of `write` that block `producer` has completely computed at the end of one iteration of `var`.
fn produced(
    name: &'static str,
    state: &ScheduleState,
    producer: &BlockRealize,
    write: &BufferRegion,
    var: VarId,
) -> Result<Vec<IntervalSet>, ScheduleError> {
    let marked = [StmtSRef::Block(producer.block.id), StmtSRef::Loop(var)];
    let refuse = |why: &str| {
        let err = ScheduleError::illegal(name, format!("block `{}` {why}", producer.block.name));
        Err(err.show(state, &marked))
    };
    if rewrite::writers(state, &write.buffer).len() != 1 {
        return refuse("is not the only one that writes what is read");
    }
    analysis::check_reorderable(name, state, producer)?;
    let loops = state.loops_above(StmtSRef::Block(producer.block.id));
    let at = loops.iter().position(|&it| it == var).unwrap_or(0);
    for &outer in &loops[..=at] {
        let outer = state.get_for(outer)?;
        let axes = producer.block.iter_vars.iter().zip(producer.iter_values.iter());
        let reduces = |(iter, value): (&crate::tir::IterVar, &PrimExpr)| {
            iter.kind == IterKind::Reduce && uses_var(value, &outer.loop_var)
        };
        if axes.into_iter().any(reduces) {
            return refuse("has not finished its reduction at the end of an iteration of the loop");
        }
    }
    let iteration = Iteration::of(state, Some(var), producer)?;
    let indices: Vec<PrimExpr> = write.region.iter().map(|range| range.min.clone()).collect();
    let points = write.region.iter().all(|range| range.extent.is_const(1));
    let axes = analysis::distinct_axes(&producer.block, &indices, &write.buffer.shape).filter(|_| points);
    let Some(axes) = axes else { return refuse("writes to a place that is not one axis in each dimension") };
    if !rewrite::covers(state, producer, &axes, &write.buffer)? {
        return refuse("does not write all of what is read");
    }
    if !iteration.is_exact(producer, &analysis::bindings_of(producer, &axes), &|_| false) {
        return refuse("does not write all of one box in each iteration of the loop");
    }
    Ok(iteration.touched(producer, write))
}

/// A block to be moved. It is complete or a reduction, and writes one buffer, indexed by one axis in each dimension.
struct Moved {
    /// The loop under which the block moves.
    target: VarId,
    buffer: Buffer,
    /// For each dimension of the buffer that decides what is computed (the written one for `compute_at`, the read one
    /// for `reverse_compute_at`), the axis that indexes it.
    axes: Vec<Option<Var>>,
}

impl Moved {
    fn new(
        name: &'static str,
        state: &ScheduleState,
        realize: &BlockRealize,
        var: VarId,
        to_producer: bool,
    ) -> Result<Moved, ScheduleError> {
        let block = &realize.block;
        let marked = [StmtSRef::Block(block.id), StmtSRef::Loop(var)];
        let refuse = |why: String| {
            Err(ScheduleError::illegal(name, format!("block `{}` {why}", block.name)).show(state, &marked))
        };
        analysis::check_reorderable(name, state, realize)?;
        if block.is_reduction() && block.init.is_none() {
            return refuse("updates values that were there before".into());
        }
        let scope = |sref| state.scope_block(sref);
        if scope(StmtSRef::Block(block.id)) != scope(StmtSRef::Loop(var))
            || state.scope_block(StmtSRef::Block(block.id)).is_none()
        {
            return refuse("is in another block than the loop".into());
        }
        let [write] = &*block.writes else { return refuse("does not write one buffer".into()) };
        if rewrite::writers(state, &write.buffer).len() != 1 {
            return refuse(format!("is not the only one that writes `{}`", write.buffer.name));
        }
        let indices: Vec<PrimExpr> = write.region.iter().map(|range| range.min.clone()).collect();
        let points = write.region.iter().all(|range| range.extent.is_const(1));
        if !analysis::covers_domain(state, realize)? {
            return refuse("is not known to run for every value of its axes".into());
        }
        match analysis::distinct_axes(block, &indices, &write.buffer.shape).filter(|_| points) {
            Some(axes) => Ok(Moved { target: var, buffer: write.buffer.clone(), axes }),
            // Which element is written when matters to readers only, and none may stand between the old and the new place.
            None if to_producer
                && !block.is_reduction()
                && analysis::shared_spatial_axis(state, block)?.is_none() =>
            {
                Ok(Moved { target: var, buffer: write.buffer.clone(), axes: Vec::new() })
            }
            None => refuse("writes to a place that is not one axis in each dimension".into()),
        }
    }

    /// An analyzer that knows the loops around the new place.
    fn analyzer(&self, state: &ScheduleState) -> Result<Analyzer, ScheduleError> {
        let sref = StmtSRef::Loop(self.target);
        let mut analyzer = rewrite::analyzer_around(state, sref)?;
        bind_loop(&mut analyzer, state.get_for(self.target)?);
        Ok(analyzer)
    }

    /// Fresh loops around the block: the axes in `self.axes` run over `region` (with `clip`, clipped to their domains),
    /// the others over their whole domains.
    fn nest(
        &self,
        state: &ScheduleState,
        realize: &BlockRealize,
        region: &[IntervalSet],
        clip: bool,
    ) -> Result<Stmt, ScheduleError> {
        let block = &realize.block;
        let analyzer = self.analyzer(state)?;
        let mut loops: Vec<(Var, PrimExpr)> = Vec::new();
        let mut values: Vec<PrimExpr> = Vec::new();
        let mut predicate = PrimExpr::bool(true);
        for (i, iter) in block.iter_vars.iter().enumerate() {
            let dim = self.axes.iter().position(|axis| axis.as_ref() == Some(&iter.var));
            let wanted = dim.and_then(|dim| region.get(dim)).and_then(|set| set.to_range(&analyzer));
            let whole = IntervalSet::from_range(&iter.dom);
            let range = match wanted {
                Some(range) if !clip => range,
                // The needed region may extend beyond the domain (padding): only the part inside is computed.
                Some(range) if IntervalSet::from_range(&range).is_subset_of(&whole, &analyzer) => range,
                Some(range) => clipped(&range, &iter.dom),
                None => iter.dom.clone(),
            };
            let var = Var::index(format!("ax{i}"));
            let value = &range.min + PrimExpr::from(&var);
            for bound in [
                value.clone().greater_equal(&iter.dom.min),
                value.clone().less(&iter.dom.min + &iter.dom.extent),
            ] {
                let mut analyzer = analyzer.clone();
                analyzer.bind_range(&var, &Range::from_extent(range.extent.clone()));
                if !analyzer.can_prove(&bound) {
                    predicate = predicate.and(bound);
                }
            }
            loops.push((var, range.extent));
            values.push(value);
        }
        let moved = BlockRealize { iter_values: values.into(), predicate, block: block.clone() };
        Ok(loops
            .into_iter()
            .rev()
            .fold(moved.into(), |body, (var, extent)| For::serial(var, extent, body).into()))
    }
}

/// The intersection of `range` and `dom`. A range of constant extent is returned unchanged: the predicate cuts the
/// rest.
fn clipped(range: &Range, dom: &Range) -> Range {
    if range.extent.as_int().is_some() {
        return range.clone();
    }
    let min = range.min.clone().max(&dom.min);
    let end = (&range.min + &range.extent).min(&dom.min + &dom.extent);
    Range { extent: end - &min, min }
}

/// Removes the block from its place and inserts `nest` into the body of the loop `var`.
fn finish(
    state: &mut ScheduleState,
    id: BlockId,
    var: VarId,
    nest: Stmt,
    at: impl FnOnce(&Stmt) -> usize,
) -> Result<(), ScheduleError> {
    let node = state.get_for(var)?;
    let nest = simplify_bindings(state, StmtSRef::of(&node.body).unwrap_or(StmtSRef::Loop(var)), &nest);
    let body = insert_at(&node.body, at(&node.body), nest);
    let body = rewrite::move_block(state, id, For { body, ..(**node).clone() });
    state.replace_body(body)
}

/// The position in the sequence `body` of the statement that holds `sref`.
fn position(body: &Stmt, sref: StmtSRef) -> Option<usize> {
    match body {
        Stmt::SeqStmt(stmts) => stmts.iter().position(|stmt| holds(stmt, sref)),
        single => holds(single, sref).then_some(0),
    }
}

/// True when block `other` runs completely before the nest of the loop `var` in their scope.
fn position_in_scope(state: &ScheduleState, var: VarId, other: BlockId) -> bool {
    let Some(scope) = state.scope_block(StmtSRef::Loop(var)) else { return false };
    let at = |sref| rewrite::top_level_index(state, scope, sref);
    match (at(StmtSRef::Block(other)), at(StmtSRef::Loop(var))) {
        (Some(before), Some(nest)) => before < nest,
        _ => false,
    }
}
