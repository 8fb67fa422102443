//! The init of a reduction as loops of its own.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{conjunction, conjuncts, with_access_regions};
use crate::ir::{BlockId, Span, Var, VarId};
use crate::tir::{
    Block, BlockRealize, For, IterKind, IterVar, PrimExpr, Stmt, any_expr, substitute_expr, substitute_stmt,
};

/// True when `node` drives an axis of the block: a reduction axis, or another one.
pub(in crate::tir) fn drives(realize: &BlockRealize, node: &For, reduce: bool) -> bool {
    let axes = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    axes.filter(|(iter, _)| (iter.kind == IterKind::Reduce) == reduce).any(|(_, value)| uses(value, node))
}

fn uses(expr: &PrimExpr, node: &For) -> bool {
    any_var(expr, &|var| *var == node.loop_var)
}

fn any_var(expr: &PrimExpr, holds: &dyn Fn(&Var) -> bool) -> bool {
    any_expr(expr, &mut |it| it.as_var().is_some_and(holds))
}

/// `init` as a block `name`, in copies of those of `loops` (the innermost ones that lead to the block) that drive
/// spatial axes. `constants` have one value in the whole function. A condition of the block is left out where it limits
/// only the reduction: it names loops that are not copied, and constants.
///
/// # Errors
/// Why there is no such block.
pub(in crate::tir) fn init_nest(
    realize: &BlockRealize,
    init: &Stmt,
    loops: &[Arc<For>],
    constants: &[Var],
    name: String,
) -> Result<(BlockId, Stmt), String> {
    let block = &realize.block;
    let copied: Vec<(&For, Var)> = loops
        .iter()
        .filter(|node| drives(realize, node, false))
        .map(|node| (&**node, node.loop_var.renew()))
        .collect();
    if let Some((both, _)) = copied.iter().find(|(node, _)| drives(realize, node, true)) {
        return Err(format!("loop `{}` drives spatial and reduction axes at once", both.loop_var.name()));
    }
    let loop_map: FxHashMap<VarId, PrimExpr> =
        copied.iter().map(|(node, new)| (node.loop_var.id(), new.into())).collect();
    let spatial: Vec<(&IterVar, &PrimExpr)> = (block.iter_vars.iter())
        .zip(realize.iter_values.iter())
        .filter(|(iter, _)| iter.kind != IterKind::Reduce)
        .collect();
    let axes: Vec<Var> = spatial.iter().map(|(iter, _)| iter.var.renew()).collect();
    let axis_map: FxHashMap<VarId, PrimExpr> =
        spatial.iter().zip(&axes).map(|((iter, _), new)| (iter.var.id(), new.into())).collect();
    let is_left_out =
        |var: &Var| loops.iter().any(|node| node.loop_var == *var) && !loop_map.contains_key(&var.id());
    for (node, _) in &copied {
        if [&node.min, &node.extent].into_iter().any(|it| any_var(it, &is_left_out)) {
            let name = node.loop_var.name();
            return Err(format!(
                "the bounds of loop `{name}` depend on a loop that drives only the reduction"
            ));
        }
    }
    let mut kept = Vec::new();
    for conjunct in conjuncts(&realize.predicate) {
        if !any_var(&conjunct, &is_left_out) {
            kept.push(substitute_expr(&conjunct, &loop_map));
        } else if any_var(&conjunct, &|var| !is_left_out(var) && !constants.contains(var)) {
            return Err("a condition of the block mixes loops of the reduction with others".into());
        }
    }
    let iter_vars: Vec<IterVar> = (spatial.iter().zip(&axes))
        .map(|((iter, _), var)| IterVar { var: var.clone(), ..(*iter).clone() })
        .collect();
    let init_block = with_access_regions(Block {
        iter_vars: iter_vars.into(),
        span: block.span.clone(),
        ..Block::new(name, substitute_stmt(init, &axis_map))
    });
    let id = init_block.id;
    let init_realize = BlockRealize {
        iter_values: spatial.iter().map(|(_, value)| substitute_expr(value, &loop_map)).collect(),
        predicate: conjunction(kept),
        block: init_block.into(),
    };
    let nest = copied.iter().rev().fold(Stmt::from(init_realize), |body, (node, new)| {
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
    Ok((id, nest))
}
