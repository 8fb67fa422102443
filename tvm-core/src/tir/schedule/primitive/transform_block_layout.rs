//! `transform_block_layout`: a block iterates over other axes, and the loops around it over these axes in their order.
//!
//! `for i in 0..64 { for j in 0..n { y[i, j] = x[i, j] } }` with `|i, j| [j, i / 8, i % 8]` becomes
//!
//! ```text
//! for a in 0..n { for b in 0..8 { for c in 0..8 { y[b * 8 + c, a] = x[b * 8 + c, a] } } }
//! ```
//!
//! Legal for a complete block or a reduction that runs once for each point of its domain and is alone in its loops, which
//! are serial. The map is bijective over the axes, and no new axis mixes spatial and reduction axes. Sums of floats over
//! several reduction axes may be rounded in another way.
//!
//! TVM counterpart: `transform_block_layout`.

use std::sync::Arc;

use crate::arith::Analyzer;
use crate::ir::{BlockId, Var};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis, rewrite};
use crate::tir::transform::IN_ORDER;
use crate::tir::{
    Block, BlockRealize, For, IndexMap, IndexMapError, IterKind, IterVar, Mutator, PrimExpr, Range, Stmt,
    Substitute, uses_var,
};

const NAME: &str = "transform_block_layout";

/// Gives block `id` the axes that `map` makes of its axes, and loops over them in place of its loops.
pub(in crate::tir::schedule) fn transform_block_layout(
    state: &mut ScheduleState,
    id: BlockId,
    map: &IndexMap,
) -> Result<(), ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let at = StmtSRef::Block(id);
    let illegal = |why: String| ScheduleError::illegal(NAME, why).show(state, &[at]);
    let unfit = |err: IndexMapError| match err {
        IndexMapError::Count { .. } => ScheduleError::argument(NAME, err.to_string()),
        other => illegal(other.to_string()),
    };
    if state.scope_block(at).is_none() {
        return Err(ScheduleError::argument(NAME, "the root block has no axes"));
    }
    let nest = analysis::own_nest(NAME, state, &realize).map_err(|err| err.show(state, &[at]))?;
    analysis::check_reorderable(NAME, state, &realize)?;
    if block.annotations.get(IN_ORDER).is_some() || analysis::reduces_with_outer(state, &realize) {
        let why = format!("block `{}` keeps the order of its sum, or goes on with another one", block.name);
        return Err(illegal(why));
    }
    if !analysis::covers_domain(state, &realize)? || !analysis::visits_once(state, &realize, &nest)? {
        let why = format!("block `{}` is not known to run once for each value of its axes", block.name);
        return Err(illegal(why).help("transform the block before `compute_at` and splits with a remainder"));
    }
    let mut analyzer = rewrite::analyzer_outside(state, at)?;
    let domain: Vec<Range> = block.iter_vars.iter().map(|iter| iter.dom.clone()).collect();
    let ranges = map.map_ranges(&domain, &analyzer).map_err(unfit)?;
    let kinds = kinds(block, map).map_err(illegal)?;
    let vars: Vec<Var> = (0..ranges.len()).map(|i| Var::index(format!("v{i}"))).collect();
    let inverse = map.inverse_indices(&domain, &vars, &analyzer).map_err(unfit)?;
    vars.iter().zip(&ranges).for_each(|(var, range)| analyzer.bind_range(var, range));
    let old = block.iter_vars.iter().map(|iter| iter.var.id());
    let mut substitute = Substitute { vars: old.zip(inverse).collect(), ..Substitute::default() };
    let inside = Arc::new(Block { iter_vars: [].into(), ..(**block).clone() });
    let inside = substitute.mutate_block(&inside).map_or(inside, Arc::new);
    let inside = Simplify(analyzer).mutate_block(&inside).map_or(inside, Arc::new);
    let axes = vars.iter().zip(&ranges).zip(kinds);
    let axes = axes.map(|((var, dom), kind)| IterVar { var: var.clone(), dom: dom.clone(), kind });
    let loops: Vec<Var> = (0..ranges.len()).map(|i| Var::index(format!("ax{i}"))).collect();
    let inside = BlockRealize {
        iter_values: loops.iter().zip(&ranges).map(|(var, range)| &range.min + PrimExpr::from(var)).collect(),
        predicate: PrimExpr::bool(true),
        block: Block { iter_vars: axes.collect(), ..(*inside).clone() }.into(),
    };
    let new = loops.iter().zip(&ranges).rev().fold(Stmt::from(inside), |body, (var, range)| {
        For::serial(var.clone(), range.extent.clone(), body).into()
    });
    let outermost = nest.first().map_or(at, |node| StmtSRef::Loop(node.loop_var.id()));
    state.replace(outermost, new)
}

/// The kinds of the new axes. Each old axis must occur in a new one.
fn kinds(block: &Block, map: &IndexMap) -> Result<Vec<IterKind>, String> {
    let axes = || map.initial().iter().zip(block.iter_vars.iter());
    if let Some((_, iter)) = axes().find(|(var, _)| !map.output().iter().any(|expr| uses_var(expr, var))) {
        return Err(format!("`{map}` does not use the axis `{}`", iter.var.name()));
    }
    let kind = |expr: &PrimExpr| {
        let mut used = axes().filter(|(var, _)| uses_var(expr, var)).map(|(_, iter)| iter.kind);
        let first = used.next().unwrap_or(IterKind::Spatial);
        match used.all(|kind| kind == first) {
            true => Ok(first),
            false => Err(format!("an index of `{map}` mixes spatial and reduction axes")),
        }
    };
    map.output().iter().map(kind).collect()
}

/// Simplifies the scalar expressions in a block.
struct Simplify(Analyzer);

impl Mutator for Simplify {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if !expr.dtype().is_scalar() {
            return self.walk_expr(expr);
        }
        let new = self.0.simplify(expr);
        (!new.ptr_eq(expr)).then_some(new)
    }
}
