//! `reorder`: changes the order of loops in one chain.
//!
//! Legal if the loops from the outermost to the innermost one are perfectly nested, and no bound depends on a loop that
//! moves inside it. In addition, the block inside is complete or a reduction (its iterations may run in any order), or
//! of every two loops that pass each other one is independent.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ir::VarId;
use crate::tir::schedule::state::LoopChange;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{BlockRealize, For, Stmt, uses_var};

const NAME: &str = "reorder";

/// Puts the loops `order` into this order, outermost first; loops of the chain that are not named stay where they are.
pub(in crate::tir::schedule) fn reorder(
    state: &mut ScheduleState,
    order: &[VarId],
) -> Result<(), ScheduleError> {
    for (i, &var) in order.iter().enumerate() {
        state.get_for(var)?;
        if order[..i].contains(&var) {
            return Err(ScheduleError::argument(
                NAME,
                format!("loop `{}` is named twice", state.loop_name(var)),
            ));
        }
    }
    let marked: Vec<StmtSRef> = order.iter().map(|&var| StmtSRef::Loop(var)).collect();
    let illegal = |message: String| ScheduleError::illegal(NAME, message).show(state, &marked);
    let chain =
        chain(state, order).ok_or_else(|| illegal("the loops are not nested in one another".into()))?;
    let Some(innermost) = chain.last().cloned() else { return Ok(()) };
    analysis::check_perfectly_nested(NAME, state, &chain).map_err(|err| err.show(state, &marked))?;
    let blocks = analysis::child_blocks(&innermost.body);
    if blocks.len() > 1 {
        return Err(illegal(format!(
            "loop `{}` holds {} blocks",
            state.loop_name(innermost.loop_var.id()),
            blocks.len()
        )));
    }
    let mut wanted = order.iter();
    let new_order: Vec<&Arc<For>> = chain
        .iter()
        .map(|node| {
            let moves = order.contains(&node.loop_var.id());
            let var = if moves { wanted.next().copied() } else { None };
            chain.iter().find(|it| Some(it.loop_var.id()) == var).unwrap_or(node)
        })
        .collect();
    for realize in &blocks {
        if let Err(err) = analysis::check_reorderable(NAME, state, realize)
            && !keeps_order(state, realize, &chain, &new_order)?
        {
            return Err(err.show(state, &marked));
        }
    }
    let order_of =
        |nodes: &[&Arc<For>]| nodes.iter().map(|node| vec![node.loop_var.id()]).collect::<Vec<_>>();
    analysis::check_inits(NAME, state, &chain, &order_of(&new_order))
        .map_err(|err| err.show(state, &marked))?;
    for (i, node) in new_order.iter().enumerate() {
        for inner in &new_order[i..] {
            if uses_var(&node.extent, &inner.loop_var) || uses_var(&node.min, &inner.loop_var) {
                let [outer, inner] = [*node, *inner].map(|it| state.loop_name(it.loop_var.id()));
                return Err(illegal(format!(
                    "the bounds of loop `{outer}` depend on loop `{inner}`, which would be inside it"
                )));
            }
        }
    }
    let new = new_order.iter().map(|node| For { body: Stmt::nop(), ..(***node).clone() }).collect();
    let old = chain.iter().map(|node| node.loop_var.id()).collect();
    drop((chain, blocks, innermost));
    state.change_loops(LoopChange { old, new, vars: FxHashMap::default(), condition: None })
}

/// True when, of every two loops that pass each other, one is independent of all that happens in the chain.
fn keeps_order(
    state: &ScheduleState,
    realize: &BlockRealize,
    old: &[Arc<For>],
    new: &[&Arc<For>],
) -> Result<bool, ScheduleError> {
    let at = |node: &Arc<For>| new.iter().position(|it| it.loop_var == node.loop_var);
    let mut bound = Vec::new();
    for node in old {
        if !analysis::is_independent(state, &old[0], node, realize)? {
            bound.push(at(node));
        }
    }
    Ok(bound.is_sorted())
}

/// All loops from the outermost to the innermost of `order`.
fn chain(state: &ScheduleState, order: &[VarId]) -> Option<Vec<Arc<For>>> {
    let Some(bottom) = order.iter().copied().max_by_key(|&var| state.ancestors(StmtSRef::Loop(var)).count())
    else {
        return Some(Vec::new());
    };
    let mut chain = vec![bottom];
    for sref in state.ancestors(StmtSRef::Loop(bottom)) {
        match sref {
            StmtSRef::Loop(var) if !order.iter().all(|it| chain.contains(it)) => chain.push(var),
            StmtSRef::Loop(_) | StmtSRef::Block(_) => break,
        }
    }
    if !order.iter().all(|it| chain.contains(it)) {
        return None;
    }
    chain.reverse();
    chain.iter().map(|&var| state.get_for(var).ok().cloned()).collect()
}
