//! Division of the axes of a block by some of the loops around it: what the outer loops choose, and what the inner ones do.
//!
//! An axis whose value is `base + digits`, where `base` depends on the outer loops and `digits` takes each of `0..n` once in
//! the inner ones, is `outer * n + inner` if `n` divides `base`. Different iterations of the inner loops give the inner parts
//! different values.
//!
//! TVM counterpart: `SubspaceDivide`, `DeriveBlockBinding` (`blockize_tensorize.cc`).

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::arith::{Analyzer, IterMapLevel, detect_iter_map};
use crate::ir::{Var, VarId};
use crate::tir::schedule::rewrite::add_vars;
use crate::tir::{BlockRealize, For, IterKind, IterVar, PrimExpr, Range};

/// An axis in two parts.
pub(in crate::tir::schedule) struct Divided {
    /// The axis that the outer loops drive, with its value.
    pub(in crate::tir::schedule) outer: Option<(IterVar, PrimExpr)>,
    /// The axis that the inner loops drive, with its value.
    pub(in crate::tir::schedule) inner: Option<(IterVar, PrimExpr)>,
    /// The value of the whole axis over the two axes.
    pub(in crate::tir::schedule) whole: PrimExpr,
    /// The value of the whole axis over the outer axis and the inner loops.
    pub(in crate::tir::schedule) at_loops: PrimExpr,
}

/// Divides the axes of `realize` between the loops `inner`, the innermost ones around it, and `outer`, those around these in
/// the same block. `analyzer` knows what is outside of `inner`. A reduction axis that no inner loop drives has an inner axis
/// of one value. The error is a sentence.
pub(in crate::tir::schedule) fn divide_axes(
    realize: &BlockRealize,
    outer: &[Arc<For>],
    inner: &[Arc<For>],
    analyzer: &Analyzer,
) -> Result<Vec<Divided>, String> {
    let iters: Vec<(Var, Range)> = inner.iter().map(|node| (node.loop_var.clone(), node.range())).collect();
    let always = PrimExpr::bool(true);
    let level = IterMapLevel::Bijective;
    let sums = detect_iter_map(&realize.iter_values, &iters, &always, level, analyzer)
        .map_err(|err| format!("the axes of block `{}` cannot be divided: {err}", realize.block.name))?;
    let outside: FxHashSet<VarId> = outer.iter().map(|node| node.loop_var.id()).collect();
    let mut divided = Vec::new();
    for (iter, sum) in realize.block.iter_vars.iter().zip(&sums) {
        let name = iter.var.name();
        let ([] | [_]) = sum.args[..] else { return Err(format!("axis `{name}` has several inner parts")) };
        let base = analyzer.simplify(&sum.base);
        let new = |suffix: &str, dom: Range| IterVar {
            var: Var::index(format!("{name}{suffix}")),
            dom,
            kind: iter.kind,
        };
        let Some(split) = sum.args.first() else {
            let axis = IterVar { var: iter.var.renew(), ..iter.clone() };
            let whole = PrimExpr::from(&axis.var);
            let unit = (iter.kind == IterKind::Reduce)
                .then(|| (new("_i", Range::from_extent(1)), PrimExpr::index(0)));
            let at_loops = whole.clone();
            divided.push(Divided { outer: Some((axis, base)), inner: unit, whole, at_loops });
            continue;
        };
        if !split.scale.is_const(1) {
            return Err(format!(
                "the inner loops move axis `{name}` in steps of `{}`: they must drive its last part",
                split.scale
            ));
        }
        let (extent, digits) = (split.extent.clone(), split.to_expr());
        let axis = new("_i", Range::from_extent(extent.clone()));
        let part = PrimExpr::from(&axis.var);
        let mut used = FxHashSet::default();
        add_vars(&base, &mut used);
        if used.is_disjoint(&outside) {
            let [whole, at_loops] = [&part, &digits].map(|it| analyzer.simplify(&(base.clone() + it)));
            divided.push(Divided { outer: None, inner: Some((axis, digits)), whole, at_loops });
            continue;
        }
        let divides = |number: &PrimExpr| analyzer.can_prove(&number.clone().floormod(&extent).equal(0));
        if !analyzer.can_prove(&extent.clone().greater_equal(1)) || !divides(&base) {
            return Err(format!("`{extent}` does not divide the outer part `{base}` of axis `{name}`"));
        }
        if !iter.dom.min.is_const(0) || !divides(&iter.dom.extent) {
            let Range { min, extent: whole } = &iter.dom;
            return Err(format!(
                "`{extent}` does not divide the domain of axis `{name}`, from {min}, of {whole} values"
            ));
        }
        let quotient = |number: &PrimExpr| analyzer.simplify(&number.clone().floordiv(&extent));
        let coarse = new("_o", Range::from_extent(quotient(&iter.dom.extent)));
        let start = PrimExpr::from(&coarse.var) * &extent;
        let (whole, at_loops) = (start.clone() + part, start + &digits);
        let outer = Some((coarse, quotient(&base)));
        divided.push(Divided { outer, inner: Some((axis, digits)), whole, at_loops });
    }
    Ok(divided)
}
