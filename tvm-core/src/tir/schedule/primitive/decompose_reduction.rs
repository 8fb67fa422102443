//! `decompose_reduction`: the init of a reduction becomes a block of its own, before a loop.
//!
//! Legal where every loop that drives a reduction axis is that loop or inside it.

use rustc_hash::FxHashMap;

use crate::ir::{BlockId, Span, Var, VarId};
use crate::tir::analysis::with_access_regions;
use crate::tir::schedule::rewrite::unique_block_name;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    Binary, BinaryOp, Block, BlockRealize, BufferRegion, For, IterKind, IterVar, PrimExpr, Stmt,
    substitute_expr, substitute_stmt,
};

const NAME: &str = "decompose_reduction";

/// Moves the init of block `id` before the loop `var`. Gives the init block.
pub(in crate::tir::schedule) fn decompose_reduction(
    state: &mut ScheduleState,
    id: BlockId,
    var: VarId,
) -> Result<BlockId, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let marked = [StmtSRef::Block(id), StmtSRef::Loop(var)];
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    state.get_for(var)?;
    let Some(init) = &block.init else { return refuse(format!("block `{}` has no init", block.name)) };
    let loops = state.loops_above(StmtSRef::Block(id));
    let Some(at) = loops.iter().position(|&it| it == var) else {
        return refuse(format!("the loop is not around block `{}`", block.name));
    };
    let nodes = loops.iter().map(|&it| state.get_for(it).cloned()).collect::<Result<Vec<_>, _>>()?;
    let drives = |node: &For, reduce: bool| {
        let axes = block.iter_vars.iter().zip(realize.iter_values.iter());
        axes.filter(|(iter, _)| (iter.kind == IterKind::Reduce) == reduce)
            .any(|(_, value)| analysis::uses_var(value, &node.loop_var))
    };
    if let Some(outer) = nodes[..at].iter().find(|node| drives(node, true)) {
        let (outer, name) = (outer.loop_var.name(), &block.name);
        return Err(ScheduleError::illegal(
            NAME,
            format!("loop `{outer}` outside drives a reduction axis of block `{name}`"),
        )
        .help(format!("decompose at loop `{outer}` or further out"))
        .show(state, &marked));
    }
    let idle =
        |node: &&std::sync::Arc<For>| !drives(node, true) && !drives(node, false) && !node.extent.is_const(1);
    if let Some(node) = nodes[at..].iter().find(idle) {
        return refuse(format!("loop `{}` repeats block `{}`", node.loop_var.name(), block.name));
    }
    // Fresh copies of the loops that drive spatial axes, and of the axes.
    let copied: Vec<(&For, Var)> = nodes[at..]
        .iter()
        .filter(|node| drives(node, false))
        .map(|node| (&**node, node.loop_var.renew()))
        .collect();
    if let Some((both, _)) = copied.iter().find(|(node, _)| drives(node, true)) {
        return refuse(format!("loop `{}` drives spatial and reduction axes at once", both.loop_var.name()));
    }
    let loop_map: FxHashMap<VarId, PrimExpr> =
        copied.iter().map(|(node, new)| (node.loop_var.id(), new.into())).collect();
    let spatial: Vec<(&IterVar, &PrimExpr)> = block
        .iter_vars
        .iter()
        .zip(realize.iter_values.iter())
        .filter(|(iter, _)| iter.kind != IterKind::Reduce)
        .collect();
    let axes: Vec<Var> = spatial.iter().map(|(iter, _)| iter.var.renew()).collect();
    let axis_map: FxHashMap<VarId, PrimExpr> =
        spatial.iter().zip(&axes).map(|((iter, _), new)| (iter.var.id(), new.into())).collect();
    let mut predicate = PrimExpr::bool(true);
    for conjunct in conjuncts(&realize.predicate) {
        let dropped = nodes[at..]
            .iter()
            .any(|node| !drives(node, false) && analysis::uses_var(&conjunct, &node.loop_var));
        let kept = copied.iter().any(|(node, _)| analysis::uses_var(&conjunct, &node.loop_var));
        if dropped && kept {
            return refuse("a condition of the block mixes spatial and reduction loops".into());
        }
        if !dropped {
            predicate = predicate.and(substitute_expr(&conjunct, &loop_map));
        }
    }
    let iter_vars: Vec<IterVar> = spatial
        .iter()
        .zip(&axes)
        .map(|((iter, _), var)| IterVar { var: var.clone(), ..(*iter).clone() })
        .collect();
    let init_block = with_access_regions(Block {
        iter_vars: iter_vars.into(),
        span: block.span.clone(),
        ..Block::new(
            unique_block_name(state, &format!("{}_init", block.name)),
            substitute_stmt(init, &axis_map),
        )
    });
    let init_id = init_block.id;
    let init_realize = BlockRealize {
        iter_values: spatial.iter().map(|(_, value)| substitute_expr(value, &loop_map)).collect(),
        predicate,
        block: init_block.into(),
    };
    let init_nest = copied.iter().rev().fold(Stmt::from(init_realize), |body, (node, new)| {
        let bound = |it: &PrimExpr| substitute_expr(it, &loop_map);
        let (min, extent) = (bound(&node.min), bound(&node.extent));
        For {
            loop_var: new.clone(),
            min,
            extent,
            body,
            kind: node.kind,
            annotations: node.annotations.clone(),
            span: Span::none(),
        }
        .into()
    });
    let updated_reads: Vec<BufferRegion> = block.writes.iter().chain(block.reads.iter()).cloned().collect();
    let update = BlockRealize {
        block: Block { init: None, reads: updated_reads.into(), ..(**block).clone() }.into(),
        ..(*realize).clone()
    };
    let mut forked = state.clone();
    forked.replace(StmtSRef::Block(id), update.into())?;
    let old_loop = forked.get(StmtSRef::Loop(var))?.clone();
    forked.replace(StmtSRef::Loop(var), Stmt::SeqStmt([init_nest, old_loop].into()))?;
    forked.flatten()?;
    *state = forked;
    Ok(init_id)
}

fn conjuncts(expr: &PrimExpr) -> Vec<PrimExpr> {
    match expr {
        PrimExpr::Binary(it) if it.op == BinaryOp::And => {
            let Binary { a, b, .. } = &**it;
            [conjuncts(a), conjuncts(b)].concat()
        }
        _ if expr.is_const(1) => Vec::new(),
        _ => vec![expr.clone()],
    }
}
