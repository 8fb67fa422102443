//! Hoists checks out of the loops and blocks around them, so that a check runs once, before them.
//!
//! A check hoisted out of a loop tests the worst iteration of the loop, under the guard that the loop has an iteration.
//! It therefore fails exactly when the check would fail in some iteration.

use rustc_hash::FxHashMap;

use super::super::context::reads;
use super::check::{Axes, Check, Side};
use super::extents::{Extents, LIMIT};
use crate::arith::{Analyzer, ConstIntBound, IterMapLevel, detect_iter_map, detect_linear_equation, same};
use crate::ir::{Var, VarId};
use crate::tir::{PrimExpr, Range, any_expr, substitute_expr, uses_var};

/// A construct around the current statement.
pub(super) enum Frame {
    /// A loop; `runs` if it is known to have an iteration.
    Loop { var: Var, range: Range, runs: bool },
    /// A block: the values of its axes, its predicate, and the ranges that its axes cover.
    Block { values: FxHashMap<VarId, PrimExpr>, predicate: PrimExpr, image: Option<Image> },
    /// A branch, whose checks may not run earlier.
    Branch,
}

/// The ranges that the axes of a block cover, independently of each other, in the loops directly around it.
pub(super) struct Image {
    /// Each axis with its range, and whether the range is known not to be empty.
    pub(super) axes: Vec<(Var, Range, bool)>,
    /// Number of these loops.
    pub(super) loops: usize,
}

/// The facts known at the place of a check.
pub(super) struct Known<'a> {
    pub(super) analyzer: &'a Analyzer,
    pub(super) extents: &'a Extents,
    /// Variables whose values are not substituted in checks, with the number of frames around their bindings.
    pub(super) opaque: &'a FxHashMap<VarId, usize>,
}

impl Known<'_> {
    /// Hoists `check` out of the innermost of `frames`, or of several: returns checks that fail exactly when `check` fails
    /// in some iteration, and the number of frames still around them. `None` when `check` cannot be hoisted.
    pub(super) fn outside(&self, check: &Check, frames: &[&Frame]) -> Option<(Vec<Check>, usize)> {
        let (frame, outer) = frames.split_last()?;
        match frame {
            Frame::Branch => None,
            Frame::Loop { var, range, runs } => {
                let res = self.outside_loop(check, var, range, *runs)?;
                Some((self.visible(res, outer.len())?, outer.len()))
            }
            Frame::Block { values, predicate, image } => {
                if let Some(image) = image
                    && let Some(res) = self.outside_image(check, image, frames)
                {
                    return Some(res);
                }
                // The block may write to what the check reads, or allocate it.
                if check.parts().any(reads) {
                    return None;
                }
                let replace = |expr: &PrimExpr| substitute_expr(expr, values);
                let mut res = check.clone();
                res.index = replace(&res.index);
                res.extent = replace(&res.extent);
                res.guards = res.guards.iter().map(replace).collect();
                if !predicate.is_const(1) {
                    res.guards.insert(0, predicate.clone());
                }
                Some((self.visible(vec![res], outer.len())?, outer.len()))
            }
        }
    }

    /// `checks`, if all variables in them are bound outside frame number `frame`.
    fn visible(&self, checks: Vec<Check>, frame: usize) -> Option<Vec<Check>> {
        let hidden = |part: &PrimExpr| {
            any_expr(part, &mut |it| {
                it.as_var().and_then(|var| self.opaque.get(&var.id())).is_some_and(|&depth| depth > frame)
            })
        };
        let hides = checks.iter().flat_map(Check::parts).any(hidden);
        (!hides).then_some(checks)
    }

    fn outside_loop(&self, check: &Check, var: &Var, range: &Range, runs: bool) -> Option<Vec<Check>> {
        if check.parts().any(reads) {
            return None;
        }
        let mut checks = self.at_worst(check, var, range)?;
        for check in &mut checks {
            guard(check, range, runs);
        }
        Some(checks)
    }

    /// Hoists `check` out of a block and the loops of its image at once.
    fn outside_image(&self, check: &Check, image: &Image, frames: &[&Frame]) -> Option<(Vec<Check>, usize)> {
        if check.parts().any(reads) {
            return None;
        }
        let level = frames.len() - 1 - image.loops;
        let mut checks = vec![check.clone()];
        for (var, range, runs) in image.axes.iter().rev() {
            let worst = checks.iter().map(|check| self.at_worst(check, var, range));
            checks = worst.collect::<Option<Vec<_>>>()?.concat();
            checks.iter_mut().for_each(|check| guard(check, range, *runs));
        }
        for frame in frames[level..].iter().rev() {
            let Frame::Loop { var, range, runs } = frame else { continue };
            if checks.iter().flat_map(Check::parts).any(|part| uses_var(part, var)) {
                return None;
            }
            checks.iter_mut().for_each(|check| guard(check, range, *runs));
        }
        Some((self.visible(checks, level)?, level))
    }

    /// `check` at the worst values of `var`: one of these checks fails if `check` fails for any value in `range`.
    fn at_worst(&self, check: &Check, var: &Var, range: &Range) -> Option<Vec<Check>> {
        if check.guards.iter().chain([&check.extent]).any(|part| uses_var(part, var)) {
            return None;
        }
        if !uses_var(&check.index, var) {
            return Some(vec![check.clone()]);
        }
        let line = detect_linear_equation(&check.index, std::slice::from_ref(var), self.analyzer)?;
        let slope = &line.coefficients[0];
        let last = &range.min + &range.extent - 1;
        let at = |value: &PrimExpr| {
            let index = self.analyzer.simplify(&(slope * value + &line.base));
            Check { index, ..check.clone() }
        };
        if self.extents.size(&check.index, self.analyzer).is_some() {
            let bound = self.analyzer.const_int_bound(slope);
            let rising = match (bound.min >= 0, bound.max <= 0) {
                (true, _) => true,
                (_, true) => false,
                _ => return None,
            };
            let worst = if rising == (check.side == Side::High) { last } else { range.min.clone() };
            return Some(vec![at(&worst)]);
        }
        // The index may wrap. It does not between two ends that are in bounds and less than 2^63 apart (2^62 is tested).
        let steps = slope.as_int().is_some_and(|slope| match slope {
            -1..=1 => true,
            _ => {
                let most = self.analyzer.const_int_bound(&range.extent).max;
                most < ConstIntBound::POS_INF
                    && i128::from(slope)
                        .checked_mul(most)
                        .is_some_and(|steps| steps.abs() < i128::from(LIMIT))
            }
        });
        steps.then(|| vec![at(&range.min), at(&last)])
    }
}

/// Adds the guard that `range` is not empty, unless that is known.
fn guard(check: &mut Check, range: &Range, runs: bool) {
    let condition = range.extent.clone().greater(0);
    if !runs && !check.guards.iter().any(|known| same(known, &condition)) {
        check.guards.push(condition);
    }
}

/// The ranges that the axes of a block cover in `loops`, those directly around it; `None` unless they are independent.
pub(super) fn image(
    axes: &[(Var, PrimExpr)],
    loops: &Axes,
    predicate: &PrimExpr,
    analyzer: &Analyzer,
) -> Option<Image> {
    let fixed = |(_, range): &(Var, Range)| {
        [&range.min, &range.extent]
            .iter()
            .all(|end| !reads(end) && !loops.iter().any(|(var, _)| uses_var(end, var)))
    };
    if !loops.iter().all(fixed) {
        return None;
    }
    let values: Vec<PrimExpr> = axes.iter().map(|(_, value)| value.clone()).collect();
    let map = detect_iter_map(&values, loops, predicate, IterMapLevel::Surjective, analyzer).ok()?;
    let range = |(axis, sum): (&(Var, PrimExpr), crate::arith::IterSum)| {
        let extent = match &sum.args[..] {
            [] => PrimExpr::index(1),
            [split] if split.scale.is_const(1) => split.extent.clone(),
            _ => return None,
        };
        let runs = analyzer.can_prove(&extent.clone().greater(0));
        Some((axis.0.clone(), Range { min: sum.base, extent }, runs))
    };
    let axes = axes.iter().zip(map).map(range).collect::<Option<Vec<_>>>()?;
    Some(Image { axes, loops: loops.len() })
}
