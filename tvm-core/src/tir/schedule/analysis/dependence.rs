//! Buffer regions that a block touches in one iteration of a loop, and dependences between iterations.

use std::sync::Arc;

use super::injective::bindings;
use crate::arith::{Analyzer, DomMap, IntervalSet};
use crate::ir::{Var, VarId};
use crate::tir::analysis::{conjuncts, reads_memory};
use crate::tir::schedule::rewrite::{self, bind_loop};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::transform::{is_covered_in, may_enter};
use crate::tir::{
    BlockRealize, Buffer, BufferRegion, For, PrimExpr, Range, Stmt, any_expr, substitute_expr, uses_var,
};

/// One iteration of a loop, for a block inside it: the loop and the loops around it are fixed, the loops inside it
/// range over all their values.
pub(in crate::tir::schedule) struct Iteration {
    pub(in crate::tir::schedule) analyzer: Analyzer,
    dom: DomMap,
    inner: Vec<Arc<For>>,
}

impl Iteration {
    /// One iteration of the loop `var`, for block `realize`; `None` stands for one run of the whole block scope.
    pub(in crate::tir::schedule) fn of(
        state: &ScheduleState,
        var: Option<VarId>,
        realize: &BlockRealize,
    ) -> Result<Iteration, ScheduleError> {
        let loops = state.loops_above(StmtSRef::Block(realize.block.id));
        let outer =
            var.map_or(0, |var| loops.iter().position(|&it| it == var).map_or(loops.len(), |at| at + 1));
        let analyzer = rewrite::analyzer_outside(state, StmtSRef::Block(realize.block.id))?;
        let mut iteration = Iteration { analyzer, dom: DomMap::default(), inner: Vec::new() };
        for (i, &it) in loops.iter().enumerate() {
            let node = state.get_for(it)?;
            bind_loop(&mut iteration.analyzer, node);
            if i >= outer {
                let set = iteration.range(&node.range());
                iteration.dom.insert(it, set);
                iteration.inner.push(node.clone());
            }
        }
        Ok(iteration)
    }

    fn range(&self, range: &Range) -> IntervalSet {
        self.analyzer.range_set(range, &self.dom)
    }

    /// The box that the block touches of `region`, whose ranges are over the axes of `realize`: one interval per
    /// dimension, with `None` for an end that is not bounded.
    pub(in crate::tir::schedule) fn touched(
        &self,
        realize: &BlockRealize,
        region: &BufferRegion,
    ) -> Vec<IntervalSet> {
        let map = bindings(realize);
        let at_loops = |range: &Range| Range {
            min: substitute_expr(&range.min, &map),
            extent: substitute_expr(&range.extent, &map),
        };
        region.region.iter().map(|range| self.range(&at_loops(range))).collect()
    }

    /// True when the iterations visit each point of the box that [`touched`](Self::touched) gives for the bindings `values`
    /// exactly once, except where values are outside of the domains of their axes. `given` is asked for conditions on other
    /// loops than those that move the box.
    pub(in crate::tir::schedule) fn is_exact(
        &self,
        realize: &BlockRealize,
        values: &[&PrimExpr],
        given: &dyn Fn(&PrimExpr) -> bool,
    ) -> bool {
        let mut used: Vec<VarId> = Vec::new();
        let as_many = values.iter().all(|value| {
            let drivers: Vec<&Arc<For>> =
                self.inner.iter().filter(|node| uses_var(value, &node.loop_var)).collect();
            let fresh = drivers.iter().all(|node| !used.contains(&node.loop_var.id()));
            used.extend(drivers.iter().map(|node| node.loop_var.id()));
            let points = drivers.iter().fold(PrimExpr::index(1), |product, node| product * &node.extent);
            let set = self.analyzer.int_set(value, &self.dom);
            let range = set.to_range(&self.analyzer);
            fresh && range.is_some_and(|range| self.analyzer.can_prove_equal(&range.extent, &points))
        });
        let mut in_domain = self.analyzer.clone();
        for (iter, value) in realize.block.iter_vars.iter().zip(realize.iter_values.iter()) {
            in_domain.enter_constraint(&value.clone().greater_equal(&iter.dom.min));
            in_domain.enter_constraint(&value.clone().less(&iter.dom.min + &iter.dom.extent));
        }
        let drives = |it: &PrimExpr| it.as_var().is_some_and(|it| used.contains(&it.id()));
        let runs = |condition: &PrimExpr| {
            in_domain.can_prove(condition) || (!any_expr(condition, &mut |it| drives(it)) && given(condition))
        };
        as_many && conjuncts(&realize.predicate).iter().all(runs)
    }
}

/// The box of `buffer` that `readers` read in one iteration of the loop `var` (`None`: of the block around them); `None` if
/// none of them reads it.
pub(in crate::tir::schedule) fn box_read(
    state: &ScheduleState,
    var: Option<VarId>,
    readers: &[Arc<BlockRealize>],
    buffer: &Buffer,
) -> Result<Option<Vec<IntervalSet>>, ScheduleError> {
    let mut needed: Option<Vec<IntervalSet>> = None;
    for reader in readers {
        let iteration = Iteration::of(state, var, reader)?;
        for region in reader.block.reads.iter().filter(|region| region.buffer == *buffer) {
            let touched = iteration.touched(reader, region);
            needed = Some(match needed {
                None => touched,
                Some(old) => old.iter().zip(&touched).map(|(a, b)| a.union(b, &iteration.analyzer)).collect(),
            });
        }
    }
    Ok(needed)
}

/// The bindings of the axes in `axes`.
pub(in crate::tir::schedule) fn bindings_of<'a>(
    realize: &'a BlockRealize,
    axes: &[Option<Var>],
) -> Vec<&'a PrimExpr> {
    let named = |var: &Var| axes.iter().flatten().any(|it| it == var);
    let pairs = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    pairs.filter(|(iter, _)| named(&iter.var)).map(|(_, value)| value).collect()
}

/// Checks that no block under `node` uses elements that another block writes in another iteration, so that these blocks
/// allow the iterations to run side by side. Every block uses only elements that an earlier block of the same iteration
/// has written, and different iterations write different elements, or the buffer is used nowhere else.
pub(in crate::tir::schedule) fn check_no_carried_dependence(
    name: &'static str,
    state: &ScheduleState,
    node: &For,
    blocks: &[Arc<BlockRealize>],
) -> Result<(), ScheduleError> {
    for (i, writer) in blocks.iter().enumerate() {
        for write in writer.block.writes.iter() {
            for (j, other) in blocks.iter().enumerate().filter(|(j, _)| *j != i) {
                let regions = other.block.reads.iter().chain(other.block.writes.iter());
                for region in regions.filter(|region| region.buffer == write.buffer) {
                    // A pair of writers is checked once, from the first of them.
                    let earlier_writer =
                        j < i && other.block.writes.iter().any(|it| it.buffer == write.buffer);
                    let fine =
                        earlier_writer || (i < j && hands_over(state, node, writer, write, other, region)?);
                    if !fine {
                        let message = format!(
                            "iterations of loop `{}` depend on each other: block `{}` uses elements of `{}` that block `{}` \
                             writes in another iteration",
                            state.loop_name(node.loop_var.id()),
                            other.block.name,
                            write.buffer.name,
                            writer.block.name
                        );
                        return Err(ScheduleError::illegal(name, message));
                    }
                }
            }
        }
    }
    Ok(())
}

/// True when `reader` uses no element of `region` that `writer` writes in another iteration of `node`.
fn hands_over(
    state: &ScheduleState,
    node: &For,
    writer: &BlockRealize,
    write: &BufferRegion,
    reader: &BlockRealize,
    region: &BufferRegion,
) -> Result<bool, ScheduleError> {
    if super::same_iteration(state, node, (writer, write), (reader, region))? {
        return Ok(true);
    }
    let var = Some(node.loop_var.id());
    let (made, used) = (Iteration::of(state, var, writer)?, Iteration::of(state, var, reader)?);
    let indices: Vec<PrimExpr> = write.region.iter().map(|range| range.min.clone()).collect();
    let points = write.region.iter().all(|range| range.extent.is_const(1));
    let Some(axes) = super::distinct_axes(&writer.block, &indices, &write.buffer.shape).filter(|_| points)
    else {
        return Ok(false);
    };
    let values = bindings_of(writer, &axes);
    // Where the reader runs, a condition holds that the predicate of the writer has on the loops around both.
    let [over_writer, over_reader] =
        [writer, reader].map(|it| state.loops_above(StmtSRef::Block(it.block.id)));
    let own: Vec<&VarId> = over_writer.iter().filter(|var| !over_reader.contains(var)).collect();
    let mut at_reader = used.analyzer.clone();
    at_reader.enter_constraint(&reader.predicate);
    let shared = |condition: &PrimExpr| {
        let uses_own = any_expr(condition, &mut |it| it.as_var().is_some_and(|it| own.contains(&&it.id())));
        !uses_own && !reads_memory(condition) && at_reader.can_prove(condition)
    };
    let exact = made.is_exact(writer, &values, &shared);
    let disjoint = exact && values.iter().any(|value| uses_var(value, &node.loop_var));
    let private = exact && is_private(state, node, &write.buffer);
    let made = made.touched(writer, write);
    // No access leaves its buffer: a writer that covers a whole dimension covers all that the reader uses of it.
    let within = used.touched(reader, region).iter().zip(&made).zip(write.buffer.shape.iter()).all(
        |((used_set, made_set), extent)| {
            let whole = IntervalSet::new(PrimExpr::index(0), extent.clone() - 1);
            [used_set, &whole].into_iter().any(|set| set.is_subset_of(made_set, &used.analyzer))
        },
    );
    Ok(within && (disjoint || private))
}

/// True when `buffer` is an intermediate buffer that is used only inside `node`, and each iteration reads only what it
/// wrote itself: lowering gives each iteration its own buffer.
pub(in crate::tir::schedule) fn is_private(state: &ScheduleState, node: &For, buffer: &Buffer) -> bool {
    if !may_enter(buffer.scope, node.kind) {
        return false;
    }
    let blocks = state.blocks();
    let Some(owner) = blocks.iter().find(|it| it.block.alloc_buffers.contains(buffer)) else { return false };
    // A buffer that is allocated inside the loop exists once per iteration; so does any buffer if there is one
    // iteration.
    let own = node.extent.is_const(1) || rewrite::holds(&node.body, StmtSRef::Block(owner.block.id));
    let inside = state.count_accesses(&Stmt::from(node.clone()), buffer);
    // Lowering moves the allocation inwards from its block, through all loops between.
    let enters = |outer: StmtSRef| match outer {
        StmtSRef::Loop(var) => state.get_for(var).is_ok_and(|outer| may_enter(buffer.scope, outer.kind)),
        StmtSRef::Block(_) => true,
    };
    let outer = state.ancestors(StmtSRef::Loop(node.loop_var.id()));
    let mut between = outer.take_while(|it| *it != StmtSRef::Block(owner.block.id));
    inside == state.count_accesses(&state.func().body, buffer)
        && (own || between.all(enters) && is_covered_in(state.func(), Some(node.loop_var.id()), buffer))
}
