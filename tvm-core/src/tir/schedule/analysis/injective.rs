//! Injectivity and coverage: whether a block visits each element once, and whether it visits its whole domain.
//!
//! TVM counterpart: `IsAffineBinding`, `IsCompleteBlock`, on top of `DetectIterMap`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::arith::{Analyzer, ConstIntBound, IterMapLevel, LinearSum, Products, detect_iter_map, same};
use crate::ir::{Var, VarId};
use crate::tir::schedule::rewrite::{self, bind_loop};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{
    BinaryOp, Block, BlockRealize, BufferRegion, For, IterKind, PrimExpr, Range, any_expr, substitute_expr,
    uses_var,
};

/// An analyzer that knows the dimensions, and the loops around `sref` up to the block around it. It assumes that each
/// of these loops has an iteration.
fn analyzer_at(state: &ScheduleState, sref: StmtSRef) -> Result<Analyzer, ScheduleError> {
    let mut analyzer = rewrite::analyzer_outside(state, sref)?;
    let dims = state.func().symbolic_dims();
    let loops = state.loops_above(sref);
    for &var in &loops {
        raise(&mut analyzer, &dims, &state.get_for(var)?.extent, 1);
    }
    for &var in &loops {
        bind_loop(&mut analyzer, state.get_for(var)?);
    }
    Ok(analyzer)
}

/// Derives bounds of `dims` from `expr >= min`, where `expr` is an extent or part of one, and binds them in `analyzer`.
fn raise(analyzer: &mut Analyzer, dims: &[Var], expr: &PrimExpr, min: i64) {
    match expr {
        PrimExpr::Var(var) if dims.contains(var) => {
            analyzer.bind_bound(var, ConstIntBound::new(min.into(), ConstIntBound::POS_INF));
        }
        PrimExpr::Binary(it) => match (it.op, it.b.as_int()) {
            (BinaryOp::Add | BinaryOp::Sub, Some(b)) => {
                let sum = if it.op == BinaryOp::Add { min.checked_sub(b) } else { min.checked_add(b) };
                if let Some(min) = sum {
                    raise(analyzer, dims, &it.a, min);
                }
            }
            (BinaryOp::FloorDiv, Some(b)) if b > 0 => {
                if let Some(min) = min.checked_mul(b) {
                    raise(analyzer, dims, &it.a, min);
                }
            }
            // The product is positive, so neither factor is 0. If both are known not to be negative, both are positive.
            (BinaryOp::Mul, _) if min >= 1 => {
                let parts = [&it.a, &it.b];
                if parts.iter().all(|part| analyzer.const_int_bound(part).min >= 0) {
                    parts.into_iter().for_each(|part| raise(analyzer, dims, part, 1));
                }
            }
            _ => {}
        },
        _ => {}
    }
}

/// The variables of `iters` whose values follow from the values of `exprs`, where `predicate` holds and all other
/// variables are fixed.
fn determined(
    exprs: &[PrimExpr],
    iters: &[(Var, Range)],
    predicate: &PrimExpr,
    analyzer: &Analyzer,
) -> Vec<VarId> {
    let mut known: Vec<VarId> =
        iters.iter().filter(|(_, range)| range.extent.is_const(1)).map(|(var, _)| var.id()).collect();
    let (dividends, others) = divided(exprs, analyzer);
    let written = exprs;
    let exprs = &[exprs, &dividends].concat()[..];
    let open = |expr: &PrimExpr, known: &[VarId]| -> Vec<(Var, Range)> {
        let free = |(var, _): &&(Var, Range)| !known.contains(&var.id()) && uses_var(expr, var);
        iters.iter().filter(free).cloned().collect()
    };
    let maps = |exprs: &[PrimExpr], iters: &[(Var, Range)]| {
        let level = IterMapLevel::Bijective;
        [predicate, &PrimExpr::bool(true)]
            .into_iter()
            .any(|predicate| detect_iter_map(exprs, iters, predicate, level, analyzer).is_ok())
    };
    loop {
        let before = known.len();
        for expr in exprs {
            let free = open(expr, &known);
            let follows = match &free[..] {
                [] => continue,
                [(var, _)] => is_linear(expr, var) || maps(std::slice::from_ref(expr), &free),
                _ => maps(std::slice::from_ref(expr), &free),
            };
            if follows {
                known.extend(free.iter().map(|(var, _)| var.id()));
            }
        }
        if known.len() == before {
            break;
        }
    }
    // All that is left together; a quotient and a remainder are one number.
    for exprs in [&[dividends, others].concat()[..], written] {
        let rest: Vec<PrimExpr> = exprs.iter().filter(|it| !open(it, &known).is_empty()).cloned().collect();
        let used = |(var, _): &&(Var, Range)| {
            !known.contains(&var.id()) && rest.iter().any(|expr| uses_var(expr, var))
        };
        let free: Vec<(Var, Range)> = iters.iter().filter(used).cloned().collect();
        if !free.is_empty() && maps(&rest, &free) {
            known.extend(free.iter().map(|(var, _)| var.id()));
        }
    }
    known
}

/// The dividends whose quotient and remainder by the same divisor are both in `exprs`, or follow from them, as these two determine
/// the dividend; and the other expressions.
fn divided(exprs: &[PrimExpr], analyzer: &Analyzer) -> (Vec<PrimExpr>, Vec<PrimExpr>) {
    let (mut dividends, mut others): (Vec<PrimExpr>, Vec<PrimExpr>) = (Vec::new(), exprs.to_vec());
    let find = |all: &[&PrimExpr]| {
        let pairs = (0..all.len()).flat_map(|i| (0..all.len()).map(move |j| [i, j]));
        pairs.into_iter().find_map(|[i, j]| Some(([i, j], dividend(all[i], all[j], analyzer)?)))
    };
    loop {
        let all: Vec<&PrimExpr> = dividends.iter().chain(&others).collect();
        let Some((pair, whole)) = find(&all) else { return (dividends, others) };
        let first = dividends.len();
        let mut at = 0..;
        dividends.retain(|_| at.next().is_some_and(|i| !pair.contains(&i)));
        let mut at = first..;
        others.retain(|_| at.next().is_some_and(|i| !pair.contains(&i)));
        dividends.push(whole);
    }
}

/// `x` where the two expressions are a quotient `x / b` and the remainder `x % b`. With positive `b`, a quotient of `y / c` by `b` is also
/// one of `y` by `b * c`.
fn dividend(quotient: &PrimExpr, remainder: &PrimExpr, analyzer: &Analyzer) -> Option<PrimExpr> {
    let parts = |expr: &PrimExpr, wanted: BinaryOp| match expr {
        PrimExpr::Binary(it) if it.op == wanted => Some((it.a.clone(), it.b.clone())),
        _ => None,
    };
    let (of, by) = parts(quotient, BinaryOp::FloorDiv)?;
    let (x, b) = parts(remainder, BinaryOp::FloorMod)?;
    if same(&x, &of) && same(&b, &by) {
        return Some(x);
    }
    let (_, c) = parts(&x, BinaryOp::FloorDiv).filter(|(y, _)| same(y, &of))?;
    let positive = analyzer.const_int_bound(&b).min >= 1;
    (positive && analyzer.can_prove_equal(&by, &(b * c))).then_some(x)
}

/// True when `expr` is `c * var + rest`, with a constant `c` other than 0 and a `rest` without `var`.
fn is_linear(expr: &PrimExpr, var: &Var) -> bool {
    let mut found = false;
    for (monomial, scale) in LinearSum::of(expr, Products::Keep).terms() {
        if monomial.as_atom().and_then(PrimExpr::as_var) == Some(var) {
            found = scale != 0;
        } else if monomial.atoms().any(|atom| uses_var(atom, var)) {
            return false;
        }
    }
    found
}

fn iters(loops: &[Arc<For>]) -> Vec<(Var, Range)> {
    loops.iter().map(|node| (node.loop_var.clone(), node.range())).collect()
}

/// True when different iterations of `loops`, the innermost loops around the block, give its axes different values.
pub(in crate::tir::schedule) fn visits_once(
    state: &ScheduleState,
    realize: &BlockRealize,
    loops: &[Arc<For>],
) -> Result<bool, ScheduleError> {
    let analyzer = analyzer_at(state, StmtSRef::Block(realize.block.id))?;
    let known = determined(&realize.iter_values, &iters(loops), &realize.predicate, &analyzer);
    Ok(loops.iter().all(|node| known.contains(&node.loop_var.id())))
}

/// The indices of the elements of `region` over `axes`, one expression per dimension. Each range of more than one
/// element gets a fresh variable; the second result lists these variables with their ranges.
fn places(region: &BufferRegion, axes: &FxHashMap<VarId, PrimExpr>) -> (Vec<PrimExpr>, Vec<(Var, Range)>) {
    let mut inner = Vec::new();
    let place = |range: &Range| {
        let min = substitute_expr(&range.min, axes);
        if range.extent.is_const(1) {
            return min;
        }
        let var = Var::index("inner");
        inner.push((var.clone(), Range::from_extent(substitute_expr(&range.extent, axes))));
        min + PrimExpr::from(var)
    };
    let exprs = region.region.iter().map(place).collect();
    (exprs, inner)
}

/// Maps the axes of a block to their values over the loops around it.
pub(super) fn bindings(realize: &BlockRealize) -> FxHashMap<VarId, PrimExpr> {
    let axes = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    axes.map(|(iter, value)| (iter.var.id(), value.clone())).collect()
}

/// The loops from `node`, inclusive, inwards to the block.
fn loops_from(
    state: &ScheduleState,
    node: &For,
    realize: &BlockRealize,
) -> Result<Vec<Arc<For>>, ScheduleError> {
    let loops = state.loops_above(StmtSRef::Block(realize.block.id));
    let inner = loops.iter().skip_while(|&&var| var != node.loop_var.id());
    inner.map(|&var| state.get_for(var).cloned()).collect()
}

/// True when different iterations of `node` touch different elements of `region`, whatever the iterations of the loops
/// inside.
pub(in crate::tir::schedule) fn touches_apart(
    state: &ScheduleState,
    node: &For,
    realize: &BlockRealize,
    region: &BufferRegion,
) -> Result<bool, ScheduleError> {
    apart_under(state, node, node, realize, region)
}

/// Like [`touches_apart`], and also whatever the iterations of `top`, a loop around `node`, and of the loops inside
/// `top`.
fn apart_under(
    state: &ScheduleState,
    top: &For,
    node: &For,
    realize: &BlockRealize,
    region: &BufferRegion,
) -> Result<bool, ScheduleError> {
    let analyzer = analyzer_at(state, StmtSRef::Block(realize.block.id))?;
    let (exprs, inner) = places(region, &bindings(realize));
    let iters = [iters(&loops_from(state, top, realize)?), inner].concat();
    let follows = |exprs: &[PrimExpr]| {
        determined(exprs, &iters, &realize.predicate, &analyzer).contains(&node.loop_var.id())
    };
    Ok(follows(&exprs) || follows(&axes_of_element(realize, region, &analyzer)))
}

/// The values, over the loops, of the axes that an element of `region` determines. Axes are within their domains, where the loops
/// that drive them may be longer: of `y[g * 68 + i]`, `i` less than 68, both. A block never runs with an axis outside of its
/// domain: where that is not proved, `CheckBounds` makes it an error.
fn axes_of_element(realize: &BlockRealize, region: &BufferRegion, analyzer: &Analyzer) -> Vec<PrimExpr> {
    let block = &realize.block;
    let axes: Vec<(Var, Range)> =
        block.iter_vars.iter().map(|axis| (axis.var.clone(), axis.dom.clone())).collect();
    let (exprs, inner) = places(region, &FxHashMap::default());
    let known = determined(&exprs, &[axes, inner].concat(), &PrimExpr::bool(true), analyzer);
    let values = block.iter_vars.iter().zip(realize.iter_values.iter());
    values.filter(|(axis, _)| known.contains(&axis.var.id())).map(|(_, value)| value.clone()).collect()
}

/// True when `node` may stand anywhere among the loops from `top` inwards: it drives spatial axes only, and two
/// iterations of these loops with different values of `node` never access the same element, unless both only read it.
pub(in crate::tir::schedule) fn is_independent(
    state: &ScheduleState,
    top: &For,
    node: &For,
    realize: &BlockRealize,
) -> Result<bool, ScheduleError> {
    let analyzer = analyzer_at(state, StmtSRef::Block(realize.block.id))?;
    let (axes, iters) = (bindings(realize), iters(&loops_from(state, top, realize)?));
    let mut pairs = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    if pairs.any(|(iter, value)| iter.kind != IterKind::Spatial && uses_var(value, &node.loop_var)) {
        return Ok(false);
    }
    for write in realize.block.writes.iter() {
        if !apart_under(state, top, node, realize, write)? {
            return Ok(false);
        }
        for read in realize.block.reads.iter().filter(|read| read.buffer == write.buffer) {
            let shared = shared_indices(write, read, &axes, &analyzer);
            let known = determined(&shared, &iters, &PrimExpr::bool(true), &analyzer);
            if !known.contains(&node.loop_var.id()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The places that are the same in `a` and `b`, two regions of one block, as expressions over the loops.
fn shared_indices(
    a: &BufferRegion,
    b: &BufferRegion,
    axes: &FxHashMap<VarId, PrimExpr>,
    analyzer: &Analyzer,
) -> Vec<PrimExpr> {
    let dims = a.region.iter().zip(b.region.iter());
    let same = dims.filter(|(x, y)| is_as_long(x, y) && same(&x.min, &y.min));
    same.filter_map(|(x, _)| place(&substitute_expr(&x.min, axes), &x.extent, analyzer)).collect()
}

/// True when both ranges have the same constant number of elements.
fn is_as_long(a: &Range, b: &Range) -> bool {
    a.extent.as_int().is_some_and(|extent| extent > 0 && b.extent.is_const(extent))
}

/// The quotient by `extent` of each index in a range of `extent` elements from `min`; `None` if they are not known to be equal.
fn place(min: &PrimExpr, extent: &PrimExpr, analyzer: &Analyzer) -> Option<PrimExpr> {
    if extent.is_const(1) {
        return Some(min.clone());
    }
    let divides = analyzer.can_prove(&min.clone().floormod(extent).equal(0));
    divides.then(|| analyzer.simplify(&min.clone().floordiv(extent)))
}

/// True when no element is in `a` for one iteration of `node` and in `b` for another one: some indices are the same in
/// both and determine the iteration.
pub(in crate::tir::schedule) fn same_iteration(
    state: &ScheduleState,
    node: &For,
    (a, a_region): (&BlockRealize, &BufferRegion),
    (b, b_region): (&BlockRealize, &BufferRegion),
) -> Result<bool, ScheduleError> {
    let analyzer = analyzer_at(state, StmtSRef::Block(a.block.id))?;
    let dims = a_region.region.iter().zip(b_region.region.iter());
    let points = dims.filter(|(x, y)| is_as_long(x, y));
    let (a_axes, b_axes) = (bindings(a), bindings(b));
    let (a_loops, b_loops) = (loops_from(state, node, a)?, loops_from(state, node, b)?);
    let one_block = a.block.id == b.block.id;
    let mut shared = Vec::new();
    for (x, y) in points {
        let places = [(x, &a_axes), (y, &b_axes)]
            .map(|(it, axes)| place(&substitute_expr(&it.min, axes), &it.extent, &analyzer));
        let [Some(x_value), Some(y_value)] = places else { continue };
        if one_block && same(&x.min, &y.min) {
            shared.push(x_value);
            continue;
        }
        let alone = |expr: &PrimExpr, loops: &[Arc<For>]| {
            !loops.iter().skip(1).any(|inner| uses_var(expr, &inner.loop_var))
        };
        if alone(&x_value, &a_loops)
            && alone(&y_value, &b_loops)
            && analyzer.can_prove_equal(&x_value, &y_value)
        {
            shared.push(x_value);
        }
    }
    let known = determined(&shared, &iters(&a_loops), &PrimExpr::bool(true), &analyzer);
    Ok(known.contains(&node.loop_var.id()))
}

/// A spatial axis of `block` whose iterations are not known to write different elements.
pub(in crate::tir::schedule) fn shared_spatial_axis(
    state: &ScheduleState,
    block: &Block,
) -> Result<Option<Var>, ScheduleError> {
    let analyzer = analyzer_at(state, StmtSRef::Block(block.id))?;
    let spatial: Vec<(Var, Range)> = (block.iter_vars.iter())
        .filter(|iter| iter.kind == IterKind::Spatial)
        .map(|iter| (iter.var.clone(), iter.dom.clone()))
        .collect();
    Ok(block.writes.iter().find_map(|write| {
        let (exprs, inner) = places(write, &FxHashMap::default());
        let iters = [spatial.clone(), inner].concat();
        let known = determined(&exprs, &iters, &PrimExpr::bool(true), &analyzer);
        spatial.iter().map(|(var, _)| var).find(|var| !known.contains(&var.id())).cloned()
    }))
}

/// True when the block is known to run for every combination of values in the domains of its axes.
pub(in crate::tir::schedule) fn covers_domain(
    state: &ScheduleState,
    realize: &BlockRealize,
) -> Result<bool, ScheduleError> {
    let sref = StmtSRef::Block(realize.block.id);
    let analyzer = analyzer_at(state, sref)?;
    let mut loops = Vec::new();
    for var in state.loops_above(sref) {
        let node = state.get_for(var)?;
        if loops.iter().any(|(outer, _): &(Var, Range)| {
            [&node.min, &node.extent].into_iter().any(|it| uses_var(it, outer))
        }) {
            return Ok(false);
        }
        loops.push((node.loop_var.clone(), node.range()));
    }
    let level = IterMapLevel::Surjective;
    let Ok(sums) = detect_iter_map(&realize.iter_values, &loops, &realize.predicate, level, &analyzer) else {
        return Ok(false);
    };
    let whole = |(sum, iter): (&crate::arith::IterSum, &crate::tir::IterVar)| {
        let range = match &sum.args[..] {
            [] => Range::point(sum.base.clone()),
            [split] if split.scale.is_const(1) => {
                Range { min: sum.base.clone(), extent: split.extent.clone() }
            }
            _ => return false,
        };
        analyzer.can_prove_equal(&range.min, &iter.dom.min)
            && analyzer.can_prove_equal(&range.extent, &iter.dom.extent)
    };
    Ok(sums.iter().zip(realize.block.iter_vars.iter()).all(whole))
}

/// True when the binding of a reduction axis uses an axis of an outer block that is not spatial.
pub(in crate::tir::schedule) fn reduces_with_outer(state: &ScheduleState, realize: &BlockRealize) -> bool {
    let sref = StmtSRef::Block(realize.block.id);
    let outer: Vec<Var> = (state.ancestors(sref))
        .filter_map(|it| if let StmtSRef::Block(id) = it { state.get_block(id).ok() } else { None })
        .flat_map(|it| it.block.iter_vars.iter().filter(|iter| iter.kind != IterKind::Spatial))
        .map(|iter| iter.var.clone())
        .collect();
    let pairs = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    let mut reduced = pairs.filter(|(iter, _)| iter.kind == IterKind::Reduce).map(|(_, value)| value);
    reduced.any(|value| any_expr(value, &mut |it| it.as_var().is_some_and(|var| outer.contains(var))))
}
