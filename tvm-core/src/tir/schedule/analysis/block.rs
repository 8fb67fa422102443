//! Properties of single blocks.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::ir::{Var, VarId};
use crate::support::with_stack;
use crate::tir::analysis::{pair_update, reads_memory, update};
use crate::tir::schedule::rewrite::{add_vars, binds_names, dims_analyzer};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{
    BinaryOp, Block, BlockRealize, BufferStore, For, ForKind, IterKind, IterVar, PrimExpr, Stmt, Visitor,
    any_expr, uses_var,
};

/// The outermost blocks inside `stmt`, in program order.
pub(in crate::tir::schedule) fn child_blocks(stmt: &Stmt) -> Vec<Arc<BlockRealize>> {
    fn walk(mut stmt: &Stmt, out: &mut Vec<Arc<BlockRealize>>) {
        while let Stmt::For(it) = stmt {
            stmt = &it.body;
        }
        match stmt {
            Stmt::BlockRealize(it) => out.push(it.clone()),
            other => with_stack(|| other.children().into_iter().for_each(|stmt| walk(stmt, out))),
        }
    }
    let mut out = Vec::new();
    walk(stmt, &mut out);
    out
}

/// Checks that each loop is the whole body of the loop before it.
pub(in crate::tir::schedule) fn check_perfectly_nested(
    name: &'static str,
    state: &ScheduleState,
    loops: &[Arc<For>],
) -> Result<(), ScheduleError> {
    for (outer, inner) in loops.iter().zip(loops.iter().skip(1)) {
        if outer.body.as_for().is_none_or(|it| it.loop_var != inner.loop_var) {
            let [outer, inner] = [outer, inner].map(|it| state.loop_name(it.loop_var.id()));
            return Err(ScheduleError::illegal(
                name,
                format!("loop `{inner}` is not the whole body of loop `{outer}`"),
            ));
        }
    }
    Ok(())
}

/// The loops around the block, outermost first, which hold nothing else: serial ones without annotations, whose variables
/// only the bindings and the predicate of the block use.
pub(in crate::tir::schedule) fn own_nest(
    name: &'static str,
    state: &ScheduleState,
    realize: &BlockRealize,
) -> Result<Vec<Arc<For>>, ScheduleError> {
    let block = &realize.block;
    let loops = state.loops_above(StmtSRef::Block(block.id));
    let nodes = loops.iter().map(|&var| state.get_for(var).cloned()).collect::<Result<Vec<_>, _>>()?;
    check_perfectly_nested(name, state, &nodes)?;
    let refuse = |why: String| Err(ScheduleError::illegal(name, why));
    if nodes.last().is_some_and(|node| !matches!(node.body, Stmt::BlockRealize(_))) {
        return refuse(format!("the loops hold other statements than block `{}`", block.name));
    }
    let mut used = Used(FxHashSet::default());
    used.visit_block(block);
    for node in &nodes {
        let name = state.loop_name(node.loop_var.id());
        if node.kind != ForKind::Serial || !node.annotations.is_empty() {
            let err = refuse(format!("loop `{name}` is annotated or not serial"));
            return err.map_err(|err| err.help("use this primitive first, and annotate after"));
        }
        if used.0.contains(&node.loop_var.id()) {
            return refuse(format!("block `{}` uses loop `{name}` itself, not an axis", block.name));
        }
    }
    Ok(nodes)
}

/// The variables in a block.
struct Used(FxHashSet<VarId>);

impl Visitor for Used {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        add_vars(expr, &mut self.0);
    }
}

/// Checks that the iterations of the block may run in any order. The block is complete (all axes are spatial, and it
/// reads no buffer that it writes), or a reduction (spatial and reduction axes, a commutative update, and the written
/// element does not depend on the reduction axes). Different values of the spatial axes write different elements.
pub(in crate::tir::schedule) fn check_reorderable(
    name: &'static str,
    state: &ScheduleState,
    realize: &BlockRealize,
) -> Result<(), ScheduleError> {
    let block = &realize.block;
    let refuse = |why: String| {
        let sref = StmtSRef::Block(block.id);
        Err(ScheduleError::illegal(name, format!("block `{}` {why}", block.name)).show(state, &[sref]))
    };
    if let Some(iter) =
        block.iter_vars.iter().find(|iter| matches!(iter.kind, IterKind::Ordered | IterKind::Opaque))
    {
        return refuse(format!(
            "has the {:?} axis `{}`: its iterations keep their order",
            iter.kind,
            iter.var.name()
        ));
    }
    if let Some(axis) = super::shared_spatial_axis(state, block)? {
        let name = axis.name();
        return refuse(format!(
            "is not known to write other elements in each iteration of its spatial axis `{name}`"
        ));
    }
    if !block.is_reduction() {
        let both =
            block.reads.iter().find(|read| block.writes.iter().any(|write| write.buffer == read.buffer));
        return match both {
            Some(region) => refuse(format!("reads and writes buffer `{}`", region.buffer.name)),
            None => Ok(()),
        };
    }
    if !is_associative_update(block) {
        return refuse("has a reduction axis and is no update like `c = c + x`: its order counts".into());
    }
    let reduce: Vec<&Var> =
        block.iter_vars.iter().filter(|iter| iter.kind == IterKind::Reduce).map(|iter| &iter.var).collect();
    let ranges = block.writes.iter().flat_map(|region| region.region.iter());
    match ranges
        .flat_map(|range| [&range.min, &range.extent])
        .find_map(|it| reduce.iter().find(|var| uses_var(it, var)))
    {
        Some(var) => refuse(format!("writes to a place that depends on its reduction axis `{}`", var.name())),
        None => Ok(()),
    }
}

/// True when the axis counts from 0 to an extent over dimensions that is not negative.
pub(in crate::tir::schedule) fn counts_to_dimension(state: &ScheduleState, iter: &IterVar) -> bool {
    let (dims, extent) = (state.func().symbolic_dims(), &iter.dom.extent);
    let local = |it: &PrimExpr| it.as_var().is_some_and(|var| !dims.contains(var));
    iter.dom.min.is_const(0)
        && !any_expr(extent, &mut |it| local(it))
        && dims_analyzer(state).can_prove(&extent.clone().greater_equal(0))
}

/// The axes of `block` that occur in `indices`; at least one. They count from 0 to dimensions, and `indices` depend on
/// nothing else but dimensions. The error is the end of a sentence about `indices`.
pub(in crate::tir::schedule) fn counted_axes(
    state: &ScheduleState,
    block: &Block,
    indices: &[PrimExpr],
) -> Result<Vec<IterVar>, String> {
    let plain = |index: &PrimExpr| index.dtype().is_scalar() && !reads_memory(index) && !binds_names(index);
    let mut used = FxHashSet::default();
    indices.iter().for_each(|index| add_vars(index, &mut used));
    let occurs = |iter: &&IterVar| used.contains(&iter.var.id());
    let axes: Vec<IterVar> = block.iter_vars.iter().filter(occurs).cloned().collect();
    let dims = state.func().symbolic_dims();
    let is_dim = |id: &VarId| dims.iter().any(|dim| dim.id() == *id);
    let known = |id: &VarId| is_dim(id) || axes.iter().any(|iter| iter.var.id() == *id);
    if !indices.iter().all(plain) || !used.iter().all(known) {
        return Err(format!("depend on more than the axes of block `{}`", block.name));
    }
    let outside = |iter: &&IterVar| !counts_to_dimension(state, iter);
    if let Some(iter) = axes.iter().find(outside) {
        return Err(format!(
            "use the axis `{}`, which does not count from 0 to a dimension",
            iter.var.name()
        ));
    }
    if axes.is_empty() { Err(format!("use no axis of block `{}`", block.name)) } else { Ok(axes) }
}

/// The store that is the whole body of `block`, if the body is one store.
pub(in crate::tir::schedule) fn single_store(block: &Block) -> Option<&BufferStore> {
    block.body.as_buffer_store().map(|store| &**store)
}

fn is_associative_update(block: &Block) -> bool {
    let op = single_store(block).and_then(update).map(|(op, _)| op);
    matches!(
        op,
        Some(
            BinaryOp::Add
                | BinaryOp::Mul
                | BinaryOp::Min
                | BinaryOp::Max
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor
        )
    ) || pair_update(&block.body).is_some()
}

/// The block axis that each of `indices` is, if all of them are axes and no axis occurs twice. An index 0 of a
/// dimension of extent 1 gives `None` for that dimension.
pub(in crate::tir::schedule) fn distinct_axes(
    block: &Block,
    indices: &[PrimExpr],
    shape: &[PrimExpr],
) -> Option<Vec<Option<Var>>> {
    let mut axes: Vec<Option<Var>> = Vec::new();
    for (index, extent) in indices.iter().zip(shape) {
        match index.as_var() {
            Some(var) => {
                let known = block.iter_vars.iter().any(|iter| iter.var == *var);
                if !known || axes.iter().flatten().any(|it| it == var) {
                    return None;
                }
                axes.push(Some(var.clone()));
            }
            None if index.is_const(0) && extent.is_const(1) => axes.push(None),
            None => return None,
        }
    }
    Some(axes)
}

/// The axes of the block that are not in `axes`.
pub(in crate::tir::schedule) fn trailing_axes<'a>(
    block: &'a Block,
    axes: &[Option<Var>],
) -> Vec<&'a crate::tir::IterVar> {
    block.iter_vars.iter().filter(|iter| !axes.iter().flatten().any(|var| *var == iter.var)).collect()
}
