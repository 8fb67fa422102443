//! Iteration maps: expressions over loop variables as splits and fusions of loops.
//!
//! A *split* is `source // lower_factor % extent * scale`; a *sum* adds splits; a sum whose splits fit together like
//! the digits of a number is *fused* into one source. Expressions are an iteration map when each is one split, and no
//! two use the same digits.
//!
//! TVM counterpart: `DetectIterMap`, `InverseAffineIterMap` (`iter_affine_map.cc`).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Analyzer;
use super::linear::mentions;
use super::same;
use super::sum::{LinearSum, Products};
use crate::ir::tensor_program::{
    Binary, BinaryOp, BlockRealize, Intrinsic, PrimCallee, PrimExpr, Range, binary,
};
use crate::ir::{Var, VarId};

/// The source of splits: a loop variable counted from 0, or a fusion.
#[derive(Clone, Debug)]
pub enum IterSource {
    /// `var - min`
    Var(Var, PrimExpr),
    /// A sum whose splits fit together, without its base.
    Fused(Arc<IterSum>),
}

/// A source and the number of its values.
#[derive(Clone, Debug)]
pub struct IterMark {
    /// The loop variable or fusion.
    pub source: IterSource,
    /// Number of values; they count from 0.
    pub extent: PrimExpr,
}

/// `mark // lower_factor % extent * scale`
#[derive(Clone, Debug)]
pub struct IterSplit {
    /// The mark that is split.
    pub mark: Arc<IterMark>,
    /// Number of values of the digits below.
    pub lower_factor: PrimExpr,
    /// Number of values.
    pub extent: PrimExpr,
    /// Factor that the digit is multiplied with.
    pub scale: PrimExpr,
}

/// `args[0] + args[1] + … + base`
#[derive(Clone, Debug)]
pub struct IterSum {
    /// The splits.
    pub args: Vec<IterSplit>,
    /// The part without loop variables.
    pub base: PrimExpr,
}

/// How much of the loops the expressions must use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterMapLevel {
    /// Different iterations give different values: the loops are used up.
    Bijective,
    /// The expressions are independent of each other; parts of loops may be unused.
    Surjective,
}

/// Why expressions are not an iteration map.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IterMapError {
    /// An expression is not made of splits and fusions.
    #[error("`{0}` is not a split or fusion of loops")]
    NotAffine(PrimExpr),
    /// Two expressions depend on the same part of a loop.
    #[error("values of loop `{0}` are used twice, or overlap")]
    Overlap(String),
    /// Part of a loop is not used.
    #[error("values of loop `{0}` are not used up")]
    NotCovered(String),
    /// The predicate restricts something that is not a loop or fusion of the map.
    #[error("the predicate `{0}` restricts no loop or fusion of loops")]
    Predicate(PrimExpr),
}

/// Expresses `bindings` as an iteration map of `iters`, restricted to the iterations for which `predicate`, a
/// conjunction of `sum < bound`, holds. Each result has at most one split.
pub fn detect_iter_map(
    bindings: &[PrimExpr],
    iters: &[(Var, Range)],
    predicate: &PrimExpr,
    level: IterMapLevel,
    analyzer: &Analyzer,
) -> Result<Vec<IterSum>, IterMapError> {
    let mut analyzer = analyzer.clone();
    for (var, range) in iters {
        // A range of one value would replace the variable, which is looked up below.
        if !range.extent.is_const(1) {
            analyzer.bind_range(var, range);
        }
    }
    let mut detector = Detector {
        vars: iters.iter().map(|(var, _)| var.clone()).collect(),
        marks: FxHashMap::default(),
        limits: Vec::new(),
        fused: Vec::new(),
        analyzer,
    };
    for (var, range) in iters {
        let source = IterSource::Var(var.clone(), range.min.clone());
        let extent = detector.analyzer.simplify(&range.extent);
        detector.marks.insert(var.id(), Arc::new(IterMark { source, extent }));
    }
    detector.limit(predicate)?;
    let sums = bindings.iter().map(|binding| detector.binding(binding)).collect::<Result<Vec<_>, _>>()?;
    detector.check(&sums, level)?;
    Ok(sums)
}

/// True when the axes of a block are bound to independent splits and fusions of `loops`.
pub fn is_affine_binding(realize: &BlockRealize, loops: &[(Var, Range)], analyzer: &Analyzer) -> bool {
    let level = IterMapLevel::Surjective;
    detect_iter_map(&realize.iter_values, loops, &realize.predicate, level, analyzer).is_ok()
}

/// The values of the loop variables for which the map's expressions have the values `outputs`; unused digits are 0.
pub fn inverse_affine_iter_map(
    map: &[IterSum],
    outputs: &[PrimExpr],
    analyzer: &Analyzer,
) -> FxHashMap<VarId, PrimExpr> {
    let mut res = FxHashMap::default();
    let mut fused: Vec<(Arc<IterSum>, PrimExpr)> = Vec::new();
    for (sum, output) in map.iter().zip(outputs) {
        spread(sum, output - &sum.base, analyzer, &mut res, &mut fused);
    }
    while let Some((sum, value)) = fused.pop() {
        spread(&sum, value, analyzer, &mut res, &mut fused);
    }
    res.values_mut().for_each(|value| *value = analyzer.simplify(value));
    res
}

/// Adds to the values of the sources of `sum` the digits that make the sum equal `value`.
fn spread(
    sum: &IterSum,
    value: PrimExpr,
    analyzer: &Analyzer,
    res: &mut FxHashMap<VarId, PrimExpr>,
    fused: &mut Vec<(Arc<IterSum>, PrimExpr)>,
) {
    for (k, split) in sum.args.iter().enumerate() {
        let digit = value.clone().floordiv(&split.scale);
        // The digit with the largest scale comes last and has nothing above it.
        let digit = if k + 1 == sum.args.len() { digit } else { digit.floormod(&split.extent) };
        let part = digit * &split.lower_factor;
        match &split.mark.source {
            IterSource::Var(var, min) => {
                let known = res.remove(&var.id()).unwrap_or_else(|| min.clone());
                res.insert(var.id(), known + part);
            }
            IterSource::Fused(inner) => match fused.iter_mut().find(|(it, _)| Arc::ptr_eq(it, inner)) {
                Some((_, known)) => *known = analyzer.simplify(&(known.clone() + part)),
                None => fused.push((inner.clone(), part)),
            },
        }
    }
}

/// An upper bound of a sum, from the predicate.
struct Limit {
    sum: LinearSum,
    /// The sum is less than this.
    bound: PrimExpr,
    condition: PrimExpr,
    /// The loop or fusions that it limits.
    marks: Vec<Arc<IterMark>>,
}

struct Detector {
    vars: Vec<Var>,
    marks: FxHashMap<VarId, Arc<IterMark>>,
    limits: Vec<Limit>,
    /// The fusions so far, so that equal ones share a mark.
    fused: Vec<(LinearSum, Arc<IterMark>)>,
    analyzer: Analyzer,
}

impl Detector {
    fn limit(&mut self, predicate: &PrimExpr) -> Result<(), IterMapError> {
        let simple = self.analyzer.simplify(predicate);
        let fail = || Err(IterMapError::Predicate(predicate.clone()));
        match &simple {
            PrimExpr::IntImm(it) if it.value != 0 => Ok(()),
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                self.limit(&it.args[0])
            }
            PrimExpr::Binary(it) if it.op == BinaryOp::And => {
                self.limit(&it.a)?;
                self.limit(&it.b)
            }
            PrimExpr::Binary(it) if matches!(it.op, BinaryOp::Lt | BinaryOp::Le) => {
                if mentions(&it.b, &self.vars) {
                    return fail();
                }
                let bound = if it.op == BinaryOp::Lt { it.b.clone() } else { &it.b + 1i64 };
                if !self.analyzer.is_exact(&bound) || !self.analyzer.is_exact(&it.a) {
                    return fail();
                }
                let mut marks = Vec::new();
                if let Some(mark) = it.a.as_var().and_then(|var| self.marks.get_mut(&var.id())) {
                    let IterSource::Var(_, min) = &mark.source else { return fail() };
                    let count = &bound - min;
                    if !self.analyzer.is_exact(&count) {
                        return fail();
                    }
                    let extent = self.analyzer.simplify(&mark.extent.clone().min(count));
                    *mark = Arc::new(IterMark { source: mark.source.clone(), extent });
                    marks.push(mark.clone());
                }
                let sum = LinearSum::of(&it.a, Products::Expand);
                self.limits.push(Limit { sum, bound, condition: simple.clone(), marks });
                Ok(())
            }
            _ => fail(),
        }
    }

    fn binding(&mut self, expr: &PrimExpr) -> Result<IterSum, IterMapError> {
        // Some maps are recognised only in the expression as written, some only in the simplified one.
        let exact = |expr: &PrimExpr| match self.analyzer.is_exact(expr) {
            true => Ok(()),
            false => Err(IterMapError::NotAffine(expr.clone())),
        };
        let simple = self.analyzer.simplify(expr);
        let (written, simplified) = (exact(expr), exact(&simple));
        let sum = written
            .and_then(|()| self.parse(expr))
            .or_else(|_| simplified.and_then(|()| self.parse(&simple)))?;
        self.fuse(sum).ok_or_else(|| IterMapError::NotAffine(expr.clone()))
    }

    /// `expr` as a sum of splits.
    fn parse(&mut self, expr: &PrimExpr) -> Result<IterSum, IterMapError> {
        let fail = || IterMapError::NotAffine(expr.clone());
        if !mentions(expr, &self.vars) {
            return Ok(IterSum { args: vec![], base: expr.clone() });
        }
        if let Some(var) = expr.as_var() {
            let mark = self.marks[&var.id()].clone();
            let IterSource::Var(_, min) = &mark.source else { return Err(fail()) };
            let (base, extent, one) = (min.clone(), mark.extent.clone(), PrimExpr::index(1));
            let split = IterSplit { mark, lower_factor: one.clone(), extent, scale: one };
            let args = if split.extent.is_const(1) { vec![] } else { vec![split] };
            return Ok(IterSum { args, base });
        }
        let PrimExpr::Binary(it) = expr else { return Err(fail()) };
        match it.op {
            BinaryOp::Add | BinaryOp::Sub => {
                let (mut sum, other) = (self.parse(&it.a)?, self.parse(&it.b)?);
                let sign = if it.op == BinaryOp::Add { 1 } else { -1 };
                sum.args.extend(
                    other
                        .args
                        .into_iter()
                        .map(|split| IterSplit { scale: split.scale.clone() * sign, ..split }),
                );
                sum.base = self.analyzer.simplify(&(sum.base + other.base * sign));
                Ok(sum)
            }
            BinaryOp::Mul => {
                let (iter, factor) =
                    if mentions(&it.b, &self.vars) { (&it.b, &it.a) } else { (&it.a, &it.b) };
                if mentions(factor, &self.vars) {
                    return Err(fail());
                }
                let mut sum = self.parse(iter)?;
                for split in &mut sum.args {
                    split.scale = self.analyzer.simplify(&(&split.scale * factor));
                }
                sum.base = self.analyzer.simplify(&(sum.base * factor));
                Ok(sum)
            }
            BinaryOp::FloorDiv | BinaryOp::FloorMod => self.divide(it).ok_or_else(fail),
            _ => Err(fail()),
        }
    }

    fn divides(&self, divisor: &PrimExpr, number: &PrimExpr) -> bool {
        self.analyzer.can_prove_equal(&number.clone().floormod(divisor), &PrimExpr::index(0))
    }

    fn quotient(&self, number: &PrimExpr, divisor: &PrimExpr) -> PrimExpr {
        self.analyzer.simplify(&number.clone().floordiv(divisor))
    }

    /// The quotient or remainder of a sum: the sum is fused into one split, which is then split again.
    fn divide(&mut self, it: &Binary) -> Option<IterSum> {
        if mentions(&it.b, &self.vars) || self.analyzer.const_int_bound(&it.b).min < 1 {
            return None;
        }
        let sum = self.parse(&it.a).ok()?;
        let mut sum = self.fuse(sum)?;
        let Some(split) = sum.args.pop() else {
            return Some(IterSum { args: vec![], base: binary(it.op, sum.base, it.b.clone()) });
        };
        let is_div = it.op == BinaryOp::FloorDiv;
        if !self.divides(&it.b, &sum.base) {
            return None;
        }
        let base = if is_div { self.quotient(&sum.base, &it.b) } else { PrimExpr::index(0) };
        if self.divides(&it.b, &split.scale) {
            let args = if is_div {
                vec![IterSplit { scale: self.quotient(&split.scale, &it.b), ..split }]
            } else {
                vec![]
            };
            return Some(IterSum { args, base });
        }
        // A split that counts down has other digits.
        if self.analyzer.const_int_bound(&split.scale).min < 0 || !self.divides(&split.scale, &it.b) {
            return None;
        }
        let by = self.quotient(&it.b, &split.scale);
        if !self.divides(&by, &split.extent) {
            return None;
        }
        let one = PrimExpr::index(1);
        let split = if is_div {
            let lower_factor = self.analyzer.exact_product(&split.lower_factor, &by)?;
            IterSplit { lower_factor, extent: self.quotient(&split.extent, &by), scale: one, ..split }
        } else {
            IterSplit { extent: by, ..split }
        };
        let args = if split.extent.is_const(1) { vec![] } else { vec![split] };
        Some(IterSum { args, base })
    }

    /// `sum` with at most one split: several splits that fit together become a split of their fusion.
    fn fuse(&mut self, mut sum: IterSum) -> Option<IterSum> {
        if sum.args.len() <= 1 {
            return Some(sum);
        }
        let mut rest = std::mem::take(&mut sum.args);
        // The lowest digit has scale 1, or else the smallest positive constant.
        let start = rest.iter().position(|it| it.scale.is_const(1)).or_else(|| {
            let consts = rest.iter().enumerate().filter_map(|(k, it)| Some((it.scale.as_int()?, k)));
            consts.filter(|&(scale, _)| scale > 0).min().map(|(_, k)| k)
        })?;
        let mut digits = vec![rest.swap_remove(start)];
        let unit = digits[0].scale.clone();
        while let Some(last) = digits.last()
            && !rest.is_empty()
        {
            let next = self.analyzer.exact_product(&last.scale, &last.extent)?;
            let found = rest.iter().position(|it| self.analyzer.can_prove_equal(&it.scale, &next))?;
            digits.push(rest.swap_remove(found));
        }
        for digit in &mut digits {
            digit.scale = self.quotient(&digit.scale, &unit);
        }
        let last = digits.last()?;
        let extent = self.analyzer.exact_product(&last.scale, &last.extent)?;
        let value = digits.iter().map(IterSplit::to_expr).reduce(|a, b| a + b)?;
        let key = LinearSum::of(&self.analyzer.simplify(&value), Products::Expand);
        let mark = self.mark(key, digits, extent, &unit);
        let (extent, lower_factor) = (mark.extent.clone(), PrimExpr::index(1));
        sum.args.push(IterSplit { mark, lower_factor, extent, scale: unit });
        Some(sum)
    }

    /// The mark of the fusion of `digits`, with its extent limited by the predicate. If an equal fusion exists, its
    /// mark is returned.
    fn mark(
        &mut self,
        key: LinearSum,
        digits: Vec<IterSplit>,
        extent: PrimExpr,
        unit: &PrimExpr,
    ) -> Arc<IterMark> {
        let same_sum = |it: &LinearSum| it.minus(&key).as_constant();
        if let Some((_, mark)) = self.fused.iter().find(|(it, _)| same_sum(it) == Some(0)) {
            return mark.clone();
        }
        let mut extent = extent;
        let mut limits = Vec::new();
        for (i, limit) in self.limits.iter().enumerate() {
            if let Some(distance) = same_sum(&limit.sum).and_then(|it| i64::try_from(it).ok())
                && unit.is_const(1)
            {
                let limited = &limit.bound - distance;
                extent = match self.analyzer.can_prove_less_equal(&limited, &extent) {
                    true => self.analyzer.simplify(&limited),
                    false => self.analyzer.simplify(&extent.min(limited)),
                };
                limits.push(i);
            }
        }
        let sum = IterSum { args: digits, base: PrimExpr::index(0) };
        let mark = Arc::new(IterMark { source: IterSource::Fused(Arc::new(sum)), extent });
        limits.into_iter().for_each(|i| self.limits[i].marks.push(mark.clone()));
        self.fused.push((key, mark.clone()));
        mark
    }

    /// Checks that no digit of a source is used twice, and for a bijection that all are used. Each limit must be on a
    /// loop or fusion that is used: a limit on others does not affect the extents, but decides whether there is an
    /// iteration.
    fn check(&self, sums: &[IterSum], level: IterMapLevel) -> Result<(), IterMapError> {
        let mut uses: Vec<(Arc<IterMark>, Vec<IterSplit>)> = Vec::new();
        let mut todo: Vec<IterSplit> = sums.iter().flat_map(|sum| sum.args.iter().cloned()).collect();
        while let Some(split) = todo.pop() {
            match uses.iter_mut().find(|(mark, _)| mark.is(&split.mark)) {
                Some((_, splits)) => splits.push(split),
                None => {
                    if let IterSource::Fused(sum) = &split.mark.source {
                        todo.extend(sum.args.iter().cloned());
                    }
                    uses.push((split.mark.clone(), vec![split]));
                }
            }
        }
        let is_used = |mark: &Arc<IterMark>| uses.iter().any(|(used, _)| used.is(mark));
        if let Some(limit) = self.limits.iter().find(|limit| !limit.marks.iter().any(is_used)) {
            return Err(IterMapError::Predicate(limit.condition.clone()));
        }
        for (mark, splits) in &uses {
            let covered = self.check_digits(mark, splits.clone(), level)?;
            // If only some digits are used, the results do not show that a limit leaves no iteration.
            let empty = || self.analyzer.const_int_bound(&mark.extent).min < 1;
            let limit = self.limits.iter().find(|limit| limit.marks.iter().any(|it| it.is(mark)));
            if let Some(limit) = limit.filter(|_| !covered && empty()) {
                return Err(IterMapError::Predicate(limit.condition.clone()));
            }
        }
        if level == IterMapLevel::Bijective {
            let unused = self.marks.values().filter(|mark| !mark.extent.is_const(1));
            let unused = unused.filter(|mark| !uses.iter().any(|(used, _)| used.is(mark)));
            // The first in the order of the loops, so that the message is always the same.
            let names: Vec<String> = unused.map(|mark| mark.name()).collect();
            if let Some(var) = self.vars.iter().find(|var| names.iter().any(|name| name == var.name())) {
                return Err(IterMapError::NotCovered(var.name().to_string()));
            }
        }
        Ok(())
    }

    /// Checks that the digits `splits` of `mark` do not overlap; returns whether they are all of its digits.
    fn check_digits(
        &self,
        mark: &IterMark,
        mut splits: Vec<IterSplit>,
        level: IterMapLevel,
    ) -> Result<bool, IterMapError> {
        let mut expected = PrimExpr::index(1);
        while !splits.is_empty() {
            let exact =
                splits.iter().position(|it| self.analyzer.can_prove_equal(&it.lower_factor, &expected));
            let gap = || splits.iter().position(|it| self.divides(&expected, &it.lower_factor));
            let found = match (exact, level) {
                (Some(found), _) => found,
                (None, IterMapLevel::Surjective) => {
                    // The lowest split above the gap: the lower factors of the others are multiples of its own.
                    let lowest = |&k: &usize| {
                        splits.iter().all(|it| self.divides(&splits[k].lower_factor, &it.lower_factor))
                    };
                    let above = (0..splits.len()).find(lowest).filter(|_| gap().is_some());
                    above.ok_or_else(|| IterMapError::Overlap(mark.name()))?
                }
                (None, IterMapLevel::Bijective) => return Err(IterMapError::Overlap(mark.name())),
            };
            let split = splits.swap_remove(found);
            if !self.divides(&expected, &split.lower_factor) {
                return Err(IterMapError::Overlap(mark.name()));
            }
            let next = self.analyzer.exact_product(&split.lower_factor, &split.extent);
            expected = next.ok_or_else(|| IterMapError::Overlap(mark.name()))?;
        }
        match self.analyzer.can_prove_equal(&expected, &mark.extent) {
            false if level == IterMapLevel::Bijective => Err(IterMapError::NotCovered(mark.name())),
            covered => Ok(covered),
        }
    }
}

impl IterMark {
    fn is(&self, other: &IterMark) -> bool {
        match (&self.source, &other.source) {
            (IterSource::Var(a, _), IterSource::Var(b, _)) => a == b,
            (IterSource::Fused(a), IterSource::Fused(b)) => Arc::ptr_eq(a, b),
            (IterSource::Var(..), IterSource::Fused(_)) | (IterSource::Fused(_), IterSource::Var(..)) => {
                false
            }
        }
    }

    fn name(&self) -> String {
        match &self.source {
            IterSource::Var(var, _) => var.name().to_string(),
            IterSource::Fused(sum) => sum.args.iter().map(|it| it.mark.name()).collect::<Vec<_>>().join(", "),
        }
    }

    /// The value as an expression.
    pub fn to_expr(&self) -> PrimExpr {
        match &self.source {
            IterSource::Var(var, min) => var - min,
            IterSource::Fused(sum) => sum.to_expr(),
        }
    }
}

impl IterSplit {
    /// The value as an expression.
    pub fn to_expr(&self) -> PrimExpr {
        let value = self.mark.to_expr().floordiv(&self.lower_factor);
        let whole = self.lower_factor.is_const(1) && same(&self.extent, &self.mark.extent);
        if whole { value * &self.scale } else { value.floormod(&self.extent) * &self.scale }
    }
}

impl IterSum {
    /// The value as an expression.
    pub fn to_expr(&self) -> PrimExpr {
        self.args.iter().fold(self.base.clone(), |sum, split| sum + split.to_expr())
    }
}
