//! A second schedule for programs whose products have a symbolic number of rows: one for few rows, beside the one for many.
//!
//! With few rows a product is bound by the memory that holds the matrix, with many by the arithmetic. Which of the two a
//! program with a symbolic dimension is shows when it runs, so it holds both, and chooses by the dimension.

use std::sync::Arc;

use super::analysis::AtMost;
use super::cpu::{MAX_ROWS, SKINNY};
use super::{Applied, by_rules};
use crate::ir::BlockId;
use crate::target::Machine;
use crate::tir::transform::renew_stmt;
use crate::tir::{Block, BlockRealize, Mutator, PrimExpr, PrimFunc, Stmt};

/// Symbolic dimensions that are tried.
const MAX_DIMS: usize = 4;

/// The schedule `many` of `func`, joined with one for at most [`MAX_ROWS`] rows, if that one is another.
pub(super) fn with_few_rows(
    func: &PrimFunc,
    many: (PrimFunc, Vec<Applied>),
    machine: &Machine,
) -> (PrimFunc, Vec<Applied>) {
    let skinny = |applied: &[Applied]| applied.iter().filter(|it| it.rule == SKINNY).count();
    for dim in func.symbolic_dims().into_iter().take(MAX_DIMS) {
        let at_most = AtMost { dim: dim.clone(), most: MAX_ROWS };
        let Some((few, mut applied)) = by_rules(func.clone(), machine, Some(&at_most)) else { continue };
        if skinny(&applied) > skinny(&many.1)
            && let Some(both) = joined(&PrimExpr::from(&dim).less_equal(MAX_ROWS), &few, &many.0)
        {
            applied.iter_mut().for_each(|it| it.block = few_name(&it.block));
            applied.extend(many.1);
            return (both, applied);
        }
    }
    many
}

/// `few` if the condition holds, else `many`.
fn joined(condition: &PrimExpr, few: &PrimFunc, many: &PrimFunc) -> Option<PrimFunc> {
    let few = Rename.mutate_stmt(&renew_stmt(&few.body))?;
    let (Stmt::BlockRealize(few), Stmt::BlockRealize(root)) = (few, &many.body) else { return None };
    let when = |realize: &BlockRealize, predicate| BlockRealize { predicate, ..realize.clone() }.into();
    let inner = Block { name: "root_many".into(), id: BlockId::fresh(), ..(*root.block).clone() };
    let many_rows = BlockRealize { block: inner.into(), ..(**root).clone() };
    let cases: [Stmt; 2] = [when(&few, condition.clone()), when(&many_rows, !condition.clone())];
    let body = Stmt::seq(cases);
    let block = Block { body, alloc_buffers: [].into(), ..(*root.block).clone() };
    Some(PrimFunc { body: BlockRealize { block: block.into(), ..(**root).clone() }.into(), ..many.clone() })
}

fn few_name(name: &str) -> Arc<str> {
    format!("{name}_few").into()
}

/// Gives all blocks other names.
struct Rename;

impl Mutator for Rename {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let walked = self.walk_block(block).unwrap_or_else(|| (**block).clone());
        Some(Block { name: few_name(&block.name), ..walked })
    }
}
