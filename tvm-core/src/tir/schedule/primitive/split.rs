//! `split`: one loop becomes several nested ones.
//!
//! `for i in 0..n` with factors `[None, Some(f)]` becomes `for i_0 in 0..ceil(n / f) { for i_1 in 0..f }` and `i`
//! becomes `i_0 * f + i_1`. If `n` is not known to be a multiple of `f`, the blocks inside run only while `i < n`. A factor
//! is an integer, or a symbolic dimension that its bounds make positive.

use rustc_hash::FxHashMap;

use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::{Var, VarId};
use crate::tir::analysis::conjuncts;
use crate::tir::schedule::state::LoopChange;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis, rewrite};
use crate::tir::{For, ForKind, Param, PrimExpr, Range, Stmt, substitute_expr, uses_var};

const NAME: &str = "split";

/// The largest product of factors for a symbolic extent.
pub(super) const MAX_SYMBOLIC: i64 = 1 << 32;

/// The largest index allowed when all dimensions are 1. A call allows 2^62; the margin is for what rounding up adds.
const MAX_INDEX: i128 = 1 << 56;

/// Splits the loop `var`; at most one factor is inferred. Returns the new loops, outermost first.
pub(in crate::tir::schedule) fn split(
    state: &mut ScheduleState,
    var: VarId,
    factors: &[Option<PrimExpr>],
) -> Result<Vec<VarId>, ScheduleError> {
    let node = state.get_for(var)?;
    check_divisible(NAME, state, node)?;
    let (extents, exact) = extents(state, node, factors)?;
    let vars: Vec<Var> =
        (0..factors.len()).map(|i| Var::index(format!("{}_{i}", node.loop_var.name()))).collect();
    let whole = vars
        .iter()
        .zip(&extents)
        .skip(1)
        .fold(value(&vars[0], &extents[0]), |index, (var, extent)| index * extent + value(var, extent));
    if !exact {
        let bounds = vars.iter().zip(&extents).map(|(var, extent)| (var, Range::from_extent(extent.clone())));
        check_indices(state, node, bounds, &whole)?;
    }
    let condition = (!exact).then(|| whole.clone().less(node.extent.clone()));
    let (kind, span) = (node.kind, node.span.clone());
    let heads = vars.iter().zip(extents);
    let new = heads.map(|(var, extent)| For {
        kind,
        span: span.clone(),
        ..For::serial(var.clone(), extent, Stmt::nop())
    });
    let (new, vars_of) = (new.collect(), FxHashMap::from_iter([(var, whole)]));
    state.change_loops(LoopChange { old: vec![var], new, vars: vars_of, condition })?;
    Ok(vars.iter().map(Var::id).collect())
}

/// Checks that `node` may be divided into several loops: it starts at 0, and is neither bound nor annotated.
pub(super) fn check_divisible(
    name: &'static str,
    state: &ScheduleState,
    node: &For,
) -> Result<(), ScheduleError> {
    let marked = [StmtSRef::Loop(node.loop_var.id())];
    if !node.min.is_const(0) {
        return Err(ScheduleError::illegal(name, "the loop does not start at 0").show(state, &marked));
    }
    if matches!(node.kind, ForKind::ThreadBinding(_)) || !node.annotations.is_empty() {
        let message = "the loop is bound to a thread or annotated already";
        return Err(ScheduleError::illegal(name, message)
            .help("divide the loop first, bind after")
            .show(state, &marked));
    }
    Ok(())
}

/// Checks that indices fit an `i64`, although iterations beyond the extent make them larger than the program's own.
/// What dimensions add to them is checked when the kernel is called.
fn check_indices<'a>(
    state: &ScheduleState,
    node: &For,
    bounds: impl Iterator<Item = (&'a Var, Range)>,
    whole: &PrimExpr,
) -> Result<(), ScheduleError> {
    let mut smallest = Analyzer::new();
    let dims = state.func().symbolic_dims();
    for dim in &dims {
        // A dimension that may be a factor is not 0.
        let least = dim.bound().map_or(0, |bound| bound.min().clamp(0, 1));
        smallest.bind_bound(dim, ConstIntBound::new(least.into(), 1));
    }
    // Extents that are functions of scalars are checked by the call as well.
    for scalar in scalars_of_shapes(state) {
        smallest.bind_bound(&scalar, ConstIntBound::new(0, 1));
    }
    bounds.for_each(|(var, range)| smallest.bind_range(var, &range));
    let vars = FxHashMap::from_iter([(node.loop_var.id(), whole.clone())]);
    for realize in analysis::child_blocks(&node.body) {
        let block = StmtSRef::Block(realize.block.id);
        let mut analyzer = smallest.clone();
        for outer in state.enclosing_loops(block)?.iter().filter(|it| it.loop_var != node.loop_var) {
            rewrite::bind_loop(&mut analyzer, outer);
        }
        let limits = conjuncts(&realize.predicate);
        let limits = limits.iter().flat_map(|it| match it {
            PrimExpr::Binary(it) => vec![&it.a, &it.b],
            _ => vec![],
        });
        let indices = realize.iter_values.iter().chain(limits).map(|it| substitute_expr(it, &vars));
        for index in indices.chain([whole.clone()]) {
            let bound = analyzer.const_int_bound(&index);
            let too_large = |size: i128| size != ConstIntBound::POS_INF && size > MAX_INDEX;
            if too_large(bound.max) || bound.min != ConstIntBound::NEG_INF && too_large(-bound.min) {
                let message = format!(
                    "with these factors an index of block `{}` may not fit an i64",
                    realize.block.name
                );
                return Err(ScheduleError::illegal(NAME, message)
                    .help("use factors whose product is near the extent of the loop")
                    .show(state, &[StmtSRef::Loop(node.loop_var.id()), block]));
            }
        }
    }
    Ok(())
}

/// The scalar parameters that extents of parameters are functions of.
fn scalars_of_shapes(state: &ScheduleState) -> Vec<Var> {
    let params = &state.func().params;
    let buffers = || params.iter().filter_map(Param::buffer);
    let is_in_shape = |var: &Var| buffers().any(|it| it.shape.iter().any(|extent| uses_var(extent, var)));
    let scalars = params.iter().filter_map(|it| if let Param::Scalar(var) = it { Some(var) } else { None });
    scalars.filter(|var| is_in_shape(var)).cloned().collect()
}

/// The value of a new loop variable: 0 if the loop has one iteration.
fn value(var: &Var, extent: &PrimExpr) -> PrimExpr {
    if extent.is_const(1) { PrimExpr::index(0) } else { var.into() }
}

/// The extents of the new loops, and whether their product is the old extent.
fn extents(
    state: &ScheduleState,
    node: &For,
    factors: &[Option<PrimExpr>],
) -> Result<(Vec<PrimExpr>, bool), ScheduleError> {
    let extent = &node.extent;
    let refuse = |why: String| Err(ScheduleError::argument(NAME, why));
    if factors.is_empty() {
        return refuse("expected at least one factor, got none".into());
    }
    let given = || factors.iter().flatten();
    if let Some(bad) = given().find(|it| it.as_int().is_some_and(|factor| factor <= 0)) {
        return refuse(format!("a factor must be positive, got {bad}"));
    }
    let dims = rewrite::dims_analyzer(state);
    if let Some(dim) = given().find(|it| !dims.can_prove(&(*it).clone().greater(0))) {
        return Err(ScheduleError::illegal(NAME, format!("factor `{dim}` is not known to be positive"))
            .help(format!("give the dimension a bound: `dims({dim} = 1..)`"))
            .show(state, &[StmtSRef::Loop(node.loop_var.id())]));
    }
    let inferred = factors.iter().filter(|factor| factor.is_none()).count();
    if inferred > 1 {
        return refuse(format!("at most one factor can be inferred, got {inferred}"));
    }
    let constant = given()
        .filter_map(PrimExpr::as_int)
        .try_fold(1i64, |a, b| a.checked_mul(b))
        .ok_or_else(|| ScheduleError::argument(NAME, "the product of the factors does not fit an i64"))?;
    let product = given()
        .filter(|it| it.as_int().is_none())
        .fold(PrimExpr::index(constant), |product, dim| dim * product);
    // Extents are indices, whose sums and products do not overflow.
    let mut analyzer = Analyzer::of_indices([extent, &product]);
    state.func().symbolic_dims().iter().for_each(|dim| analyzer.bind_dim(dim));
    let exact = match (inferred, extent.as_int(), product.as_int()) {
        (0, Some(n), Some(product)) if product < n => {
            return refuse(format!("the factors cover {product} of {n} iterations"));
        }
        (0, Some(n), Some(product)) => product == n,
        (0, ..) => {
            let exact = analyzer.can_prove_equal(extent, &product);
            if !exact && !analyzer.can_prove_less_equal(extent, &product) {
                let symbolic = "the loop's extent or a factor is symbolic";
                return refuse(format!("{symbolic}: None must stand for one of the factors"));
            }
            exact
        }
        _ => analyzer.can_prove_equal(&extent.clone().floormod(&product), &PrimExpr::index(0)),
    };
    let outer = match product.as_int() {
        Some(product) => ceil_div(extent, product),
        None if exact => analyzer.simplify(&extent.clone().floordiv(product)),
        None => analyzer.simplify(&(extent + product.clone() - 1).floordiv(product)),
    };
    let covered = match (extent.as_int(), outer.as_int()) {
        (Some(_), Some(n)) => n.checked_mul(constant).is_some(),
        _ => constant <= MAX_SYMBOLIC,
    };
    if !covered && (inferred == 1 || extent.as_int().is_none()) {
        return refuse(format!(
            "the factors multiply to {constant}: indices of the new loops may not fit an i64"
        ));
    }
    let extents = factors.iter().map(|factor| factor.clone().unwrap_or_else(|| outer.clone()));
    Ok((extents.collect(), exact))
}

fn ceil_div(extent: &PrimExpr, divisor: i64) -> PrimExpr {
    match extent.as_int() {
        Some(n) => PrimExpr::index(n.max(0) / divisor + i64::from(n.max(0) % divisor != 0)),
        None => (extent + (divisor - 1)).floordiv(divisor),
    }
}
