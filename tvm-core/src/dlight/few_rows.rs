//! A second schedule for programs whose products have a symbolic number of rows: one for few rows, beside the one for many.
//!
//! With few rows a product is bound by the memory that holds the matrix, with many by the arithmetic. Which of the two a
//! program with a symbolic dimension is shows when it runs, so it holds both, and chooses by the dimension. Where very few
//! rows leave room for longer pieces of the matrix, it holds three; and one more for one row, which needs no loop over rows.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::analysis::AtMost;
use super::cpu::{MAX_ROWS, SINGLE_ROWS, SKINNY, SPATIAL, WINDOW};
use super::{Applied, by_rules};
use crate::ir::{BlockId, Var};
use crate::target::Machine;
use crate::tir::transform::{renew_stmt, specialized};
use crate::tir::{Block, BlockRealize, Mutator, PrimExpr, PrimFunc, Stmt, Substitute};

/// Symbolic dimensions that are tried.
const MAX_DIMS: usize = 4;

/// Rules of blocks that have no product of matrices.
const WITHOUT_PRODUCTS: [&str; 2] = [SPATIAL, WINDOW];

/// The schedule `many` of `func`, joined with one for at most [`MAX_ROWS`] rows, if that one is another, and with one for
/// at most [`SINGLE_ROWS`], if that one reads longer pieces of a matrix, and with one for one row.
pub(super) fn with_few_rows(
    func: &PrimFunc,
    many: (PrimFunc, Vec<Applied>),
    machine: &Machine,
) -> (PrimFunc, Vec<Applied>) {
    let skinny = |applied: &[Applied]| applied.iter().filter(|it| it.rule == SKINNY).count();
    // Schedules of images of symbolic size take long, so those without a product are not made again.
    if many.1.iter().all(|it| WITHOUT_PRODUCTS.contains(&it.rule)) {
        return many;
    }
    for dim in func.symbolic_dims().into_iter().take(MAX_DIMS) {
        let up_to = |most| by_rules(func.clone(), machine, Some(&AtMost { dim: dim.clone(), most }));
        let Some(few) = up_to(MAX_ROWS).filter(|few| skinny(&few.1) > skinny(&many.1)) else { continue };
        let single = up_to(SINGLE_ROWS).filter(|single| strips(&single.1).ne(strips(&few.1)));
        let one = of_one(func, &dim, machine).filter(|one| skinny(&one.1) == skinny(&few.1));
        let rows = PrimExpr::from(&dim);
        let at_most =
            |most: i64| (rows.clone().less_equal(most), [format!("at_most_{most}"), format!("above_{most}")]);
        let is_one = (rows.clone().equal(1), ["one".to_string(), "not_one".to_string()]);
        let levels = [
            Some((at_most(MAX_ROWS), few)),
            single.map(|single| (at_most(SINGLE_ROWS), single)),
            one.map(|one| (is_one, one)),
        ];
        return levels.into_iter().flatten().fold(many, |more, ((condition, names), few)| {
            joined(&condition, &names, few, &more).unwrap_or(more)
        });
    }
    many
}

/// In which pieces the rule reads matrices: its parameters without the number of rows.
fn strips(applied: &[Applied]) -> impl Iterator<Item = &str> {
    let skinny = applied.iter().filter(|it| it.rule == SKINNY);
    skinny.filter_map(|it| it.parameters.split_once(", ").map(|(_, strips)| strips))
}

/// The schedule of `func` where the dimension is 1, for the buffers of `func`.
fn of_one(func: &PrimFunc, dim: &Var, machine: &Machine) -> Option<(PrimFunc, Vec<Applied>)> {
    let one = FxHashMap::from_iter([(dim.id(), PrimExpr::int(1, dim.dtype()))]);
    let (scheduled, applied) = by_rules(specialized(func, one), machine, None)?;
    let pairs = scheduled.params.iter().zip(func.params.iter());
    let buffers = pairs.filter_map(|(new, old)| Some((new.buffer()?.id, old.buffer()?.clone())));
    let mut back = Substitute { buffers: buffers.collect(), ..Substitute::default() };
    let body = back.mutate_stmt(&scheduled.body).unwrap_or_else(|| scheduled.body.clone());
    Some((PrimFunc { body, ..func.clone() }, applied))
}

/// `few` if the condition holds, else `many`; the names say which is which.
fn joined(
    condition: &PrimExpr,
    [name, other]: &[String; 2],
    (few, mut applied): (PrimFunc, Vec<Applied>),
    (many, applied_many): &(PrimFunc, Vec<Applied>),
) -> Option<(PrimFunc, Vec<Applied>)> {
    let few = Rename { name }.mutate_stmt(&renew_stmt(&few.body))?;
    let (Stmt::BlockRealize(few), Stmt::BlockRealize(root)) = (few, &many.body) else { return None };
    let when = |realize: &BlockRealize, predicate| BlockRealize { predicate, ..realize.clone() }.into();
    let other = format!("{}_{other}", root.block.name).into();
    let inner = Block { name: other, id: BlockId::fresh(), ..(*root.block).clone() };
    let many_rows = BlockRealize { block: inner.into(), ..(**root).clone() };
    let cases: [Stmt; 2] = [when(&few, condition.clone()), when(&many_rows, !condition.clone())];
    let block = Block { body: Stmt::seq(cases), alloc_buffers: [].into(), ..(*root.block).clone() };
    let body = BlockRealize { block: block.into(), ..(**root).clone() }.into();
    applied.iter_mut().for_each(|it| it.block = renamed(&it.block, name));
    applied.extend(applied_many.iter().cloned());
    Some((PrimFunc { body, ..many.clone() }, applied))
}

fn renamed(block: &str, name: &str) -> Arc<str> {
    format!("{block}_{name}").into()
}

/// Gives all blocks other names.
struct Rename<'a> {
    name: &'a str,
}

impl Mutator for Rename<'_> {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let walked = self.walk_block(block).unwrap_or_else(|| (**block).clone());
        Some(Block { name: renamed(&block.name, self.name), ..walked })
    }
}
