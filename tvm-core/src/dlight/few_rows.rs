//! A second schedule for programs whose products have a symbolic number of rows: one for few rows, beside the one for many.
//!
//! With few rows a product is bound by the memory that holds the matrix, with many by the arithmetic. Which of the two a
//! program with a symbolic dimension is shows when it runs, so it holds both, and chooses by the dimension. Where very few
//! rows leave room for longer pieces of the matrix, it holds three.

use std::sync::Arc;

use super::analysis::AtMost;
use super::cpu::{MAX_ROWS, SINGLE_ROWS, SKINNY};
use super::{Applied, by_rules};
use crate::ir::BlockId;
use crate::target::Machine;
use crate::tir::transform::renew_stmt;
use crate::tir::{Block, BlockRealize, Mutator, PrimExpr, PrimFunc, Stmt};

/// Symbolic dimensions that are tried.
const MAX_DIMS: usize = 4;

/// The schedule `many` of `func`, joined with one for at most [`MAX_ROWS`] rows, if that one is another, and with one for
/// at most [`SINGLE_ROWS`], if that one reads longer pieces of a matrix.
pub(super) fn with_few_rows(
    func: &PrimFunc,
    many: (PrimFunc, Vec<Applied>),
    machine: &Machine,
) -> (PrimFunc, Vec<Applied>) {
    let skinny = |applied: &[Applied]| applied.iter().filter(|it| it.rule == SKINNY).count();
    for dim in func.symbolic_dims().into_iter().take(MAX_DIMS) {
        let up_to = |most| by_rules(func.clone(), machine, Some(&AtMost { dim: dim.clone(), most }));
        let Some(few) = up_to(MAX_ROWS).filter(|few| skinny(&few.1) > skinny(&many.1)) else { continue };
        let single = up_to(SINGLE_ROWS).filter(|single| strips(&single.1).ne(strips(&few.1)));
        let levels = [Some((MAX_ROWS, few)), single.map(|single| (SINGLE_ROWS, single))];
        return levels.into_iter().flatten().fold(many, |more, (most, few)| {
            joined(&PrimExpr::from(&dim).less_equal(most), most, few, &more).unwrap_or(more)
        });
    }
    many
}

/// In which pieces the rule reads matrices: its parameters without the number of rows.
fn strips(applied: &[Applied]) -> impl Iterator<Item = &str> {
    let skinny = applied.iter().filter(|it| it.rule == SKINNY);
    skinny.filter_map(|it| it.parameters.split_once(", ").map(|(_, strips)| strips))
}

/// `few` if the condition holds, which is that there are `most` rows at most, else `many`.
fn joined(
    condition: &PrimExpr,
    most: i64,
    (few, mut applied): (PrimFunc, Vec<Applied>),
    (many, applied_many): &(PrimFunc, Vec<Applied>),
) -> Option<(PrimFunc, Vec<Applied>)> {
    let few = Rename { most }.mutate_stmt(&renew_stmt(&few.body))?;
    let (Stmt::BlockRealize(few), Stmt::BlockRealize(root)) = (few, &many.body) else { return None };
    let when = |realize: &BlockRealize, predicate| BlockRealize { predicate, ..realize.clone() }.into();
    let name = format!("{}_above_{most}", root.block.name).into();
    let inner = Block { name, id: BlockId::fresh(), ..(*root.block).clone() };
    let many_rows = BlockRealize { block: inner.into(), ..(**root).clone() };
    let cases: [Stmt; 2] = [when(&few, condition.clone()), when(&many_rows, !condition.clone())];
    let block = Block { body: Stmt::seq(cases), alloc_buffers: [].into(), ..(*root.block).clone() };
    let body = BlockRealize { block: block.into(), ..(**root).clone() }.into();
    applied.iter_mut().for_each(|it| it.block = at_most_name(&it.block, most));
    applied.extend(applied_many.iter().cloned());
    Some((PrimFunc { body, ..many.clone() }, applied))
}

fn at_most_name(name: &str, most: i64) -> Arc<str> {
    format!("{name}_at_most_{most}").into()
}

/// Gives all blocks other names.
struct Rename {
    most: i64,
}

impl Mutator for Rename {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let walked = self.walk_block(block).unwrap_or_else(|| (**block).clone());
        Some(Block { name: at_most_name(&block.name, self.most), ..walked })
    }
}
