//! Makes the store of a first value the `init` of the sum that follows it.

use rustc_hash::FxHashMap;

use crate::arith::same;
use crate::ir::Var;
use crate::tir::analysis::{same_indices, update, with_access_regions};
use crate::tir::transform::IN_ORDER;
use crate::tir::{
    Block, BlockRealize, For, ForKind, IterKind, IterVar, Mutator, PrimExpr, Stmt, for_each_load,
    substitute_stmt, uses_var,
};

/// Makes stores of first values the `init` of the sums that follow.
pub(super) struct Merge;

impl Mutator for Merge {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::SeqStmt(stmts) = walked.as_ref().unwrap_or(stmt) else { return walked };
        let (mut out, mut changed): (Vec<Stmt>, bool) = (Vec::new(), false);
        for stmt in stmts.iter() {
            let merged = match out.last() {
                Some(Stmt::BlockRealize(first)) => merged(first, stmt, &mut Vec::new()),
                _ => None,
            };
            match merged {
                Some(both) => {
                    out.pop();
                    out.push(both);
                    changed = true;
                }
                None => out.push(stmt.clone()),
            }
        }
        if changed { Some(Stmt::seq(out)) } else { walked }
    }
}

/// `stmt`, loops around the block of a sum, with the store of `first` as its `init`.
fn merged(first: &BlockRealize, stmt: &Stmt, loops: &mut Vec<Var>) -> Option<Stmt> {
    match stmt {
        Stmt::For(node) if node.kind == ForKind::Serial && node.annotations.is_empty() => {
            loops.push(node.loop_var.clone());
            Some(For { body: merged(first, &node.body, loops)?, ..(**node).clone() }.into())
        }
        Stmt::BlockRealize(sum) if !loops.is_empty() => with_init(first, sum, loops).map(Stmt::from),
        _ => None,
    }
}

fn with_init(first: &BlockRealize, sum: &BlockRealize, loops: &[Var]) -> Option<BlockRealize> {
    let (start, stored) = (first.block.body.as_buffer_store()?, sum.block.body.as_buffer_store()?);
    update(stored)?;
    let inside = |value: &PrimExpr| loops.iter().any(|var| uses_var(value, var));
    let axes = || sum.block.iter_vars.iter().zip(sum.iter_values.iter());
    let fits = axes().all(|(axis, value)| match axis.kind {
        IterKind::Spatial => !inside(value),
        IterKind::Reduce => true,
        _ => false,
    });
    let always = first.predicate.is_const(1) && sum.predicate.is_const(1);
    if !fits || !always || start.buffer != stored.buffer || sum.block.init.is_some() {
        return None;
    }
    let mut vars = FxHashMap::default();
    for (axis, value) in first.block.iter_vars.iter().zip(first.iter_values.iter()) {
        let is_same = |it: &(&IterVar, &PrimExpr)| {
            let (a, b) = (&it.0.dom, &axis.dom);
            it.0.kind == IterKind::Spatial
                && same(it.1, value)
                && same(&a.min, &b.min)
                && same(&a.extent, &b.extent)
        };
        vars.insert(axis.var.id(), PrimExpr::from(&axes().find(is_same)?.0.var));
    }
    let init = substitute_stmt(&first.block.body, &vars);
    let mut reads_itself = false;
    for_each_load(&init, &mut |load| reads_itself |= load.buffer == stored.buffer);
    if reads_itself || !same_indices(&init.as_buffer_store()?.indices, &stored.indices) {
        return None;
    }
    let annotations = sum.block.annotations.clone().with(IN_ORDER, true);
    let block = Block { init: Some(init), annotations, ..(*sum.block).clone() };
    Some(BlockRealize { block: with_access_regions(block).into(), ..sum.clone() })
}
