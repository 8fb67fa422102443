//! Interval sets with symbolic ends, and the evaluation of expressions over them.
//!
//! TVM counterpart: `IntSet`, `IntervalSet`, `IntervalSetEvaluator` (`int_set.cc`).

use rustc_hash::FxHashMap;

use super::{Analyzer, ConstIntBound};
use crate::ir::VarId;
use crate::ir::tensor_program::{
    Binary, BinaryOp, Intrinsic, PrimCallee, PrimExpr, Range, bitwise, comparison, logical, wrap_int,
};
use crate::support::with_stack;

/// The sets that variables range over.
pub type DomMap = FxHashMap<VarId, IntervalSet>;

/// The integers from `min` to `max`, both included; `None` means unbounded. The interval may be empty.
#[derive(Clone, Debug)]
pub struct IntervalSet {
    /// Smallest value.
    pub min: Option<PrimExpr>,
    /// Largest value.
    pub max: Option<PrimExpr>,
}

impl IntervalSet {
    /// All integers.
    pub const fn everything() -> IntervalSet {
        IntervalSet { min: None, max: None }
    }

    /// The one value `value`.
    pub fn point(value: PrimExpr) -> IntervalSet {
        IntervalSet { min: Some(value.clone()), max: Some(value) }
    }

    /// `min..=max`.
    pub fn new(min: impl Into<PrimExpr>, max: impl Into<PrimExpr>) -> IntervalSet {
        IntervalSet { min: Some(min.into()), max: Some(max.into()) }
    }

    /// The values of `range`.
    pub fn from_range(range: &Range) -> IntervalSet {
        if range.extent.is_const(1) {
            return IntervalSet::point(range.min.clone());
        }
        IntervalSet::new(range.min.clone(), &range.min + &range.extent - 1)
    }

    /// The value, if both ends are the same expression.
    pub fn as_point(&self) -> Option<&PrimExpr> {
        match (&self.min, &self.max) {
            (Some(min), Some(max)) if super::same(min, max) => Some(min),
            _ => None,
        }
    }

    /// The set as a range; `None` when it is unbounded, or may have more values than an extent can express.
    pub fn to_range(&self, analyzer: &Analyzer) -> Option<Range> {
        if let Some(value) = self.single() {
            return Some(Range { min: analyzer.simplify(value), extent: PrimExpr::int(1, value.dtype()) });
        }
        let (min, max) = (self.min.as_ref()?, self.max.as_ref()?);
        let bound = |end: &PrimExpr| analyzer.const_int_bound(end);
        let distance = bound(max).add(bound(min).neg()).add(ConstIntBound::point(1));
        if !distance.fits(min.dtype()) {
            return None;
        }
        Some(Range { min: analyzer.simplify(min), extent: analyzer.simplify(&(max - min + 1)) })
    }

    /// The smallest interval that contains both.
    #[must_use]
    pub fn union(&self, other: &IntervalSet, analyzer: &Analyzer) -> IntervalSet {
        if let (Some(a), Some(b)) = (self.single(), other.single()) {
            let [min, max] = extremes(analyzer, a, b);
            return IntervalSet { min: Some(min), max: Some(max) };
        }
        let end = |a: &Option<PrimExpr>, b: &Option<PrimExpr>, op| match (a, b) {
            (Some(a), Some(b)) => Some(extreme(analyzer, op, a, b)),
            _ => None,
        };
        IntervalSet {
            min: end(&self.min, &other.min, BinaryOp::Min),
            max: end(&self.max, &other.max, BinaryOp::Max),
        }
    }

    /// The only value, if both ends are the same expression.
    fn single(&self) -> Option<&PrimExpr> {
        self.min.as_ref().filter(|min| self.max.as_ref().is_some_and(|max| super::same(min, max)))
    }

    /// The values that are in both.
    #[must_use]
    pub fn intersect(&self, other: &IntervalSet, analyzer: &Analyzer) -> IntervalSet {
        let end = |a: &Option<PrimExpr>, b: &Option<PrimExpr>, op| match (a, b) {
            (Some(a), Some(b)) => Some(extreme(analyzer, op, a, b)),
            (Some(end), None) | (None, Some(end)) => Some(end.clone()),
            (None, None) => None,
        };
        IntervalSet {
            min: end(&self.min, &other.min, BinaryOp::Max),
            max: end(&self.max, &other.max, BinaryOp::Min),
        }
    }

    /// True only if every value of `self` is in `other`.
    pub fn is_subset_of(&self, other: &IntervalSet, analyzer: &Analyzer) -> bool {
        let within = |small: &Option<PrimExpr>, large: &Option<PrimExpr>| match (small, large) {
            (Some(small), Some(large)) => analyzer.can_prove_less_equal(small, large),
            _ => false,
        };
        (other.min.is_none() || within(&other.min, &self.min))
            && (other.max.is_none() || within(&self.max, &other.max))
    }
}

/// The smaller or the larger of `a` and `b` (`op` is `Min` or `Max`), chosen where the order can be proved.
fn extreme(analyzer: &Analyzer, op: BinaryOp, a: &PrimExpr, b: &PrimExpr) -> PrimExpr {
    match in_order(analyzer, a, b) {
        Some([small, large]) => if op == BinaryOp::Min { small } else { large }.clone(),
        None => unordered(analyzer, op, a, b),
    }
}

/// The smaller and the larger of `a` and `b`, as [`extreme`] gives them.
fn extremes(analyzer: &Analyzer, a: &PrimExpr, b: &PrimExpr) -> [PrimExpr; 2] {
    match in_order(analyzer, a, b) {
        Some(ends) => ends.map(Clone::clone),
        None => [BinaryOp::Min, BinaryOp::Max].map(|op| unordered(analyzer, op, a, b)),
    }
}

/// `a` and `b`, the smaller one first, if their order can be proved.
fn in_order<'a>(analyzer: &Analyzer, a: &'a PrimExpr, b: &'a PrimExpr) -> Option<[&'a PrimExpr; 2]> {
    if super::same(a, b) || analyzer.can_prove_less_equal(a, b) {
        Some([a, b])
    } else {
        analyzer.can_prove_less_equal(b, a).then_some([b, a])
    }
}

fn unordered(analyzer: &Analyzer, op: BinaryOp, a: &PrimExpr, b: &PrimExpr) -> PrimExpr {
    analyzer.simplify(&crate::ir::tensor_program::binary(op, a.clone(), b.clone()))
}

/// One evaluation of an expression over `dom`.
pub(super) struct SetEval<'a> {
    analyzer: &'a Analyzer,
    dom: &'a DomMap,
    lets: DomMap,
}

impl<'a> SetEval<'a> {
    pub(super) fn new(analyzer: &'a Analyzer, dom: &'a DomMap) -> SetEval<'a> {
        SetEval { analyzer, dom, lets: DomMap::default() }
    }

    /// An interval that contains every value of `expr`; its ends are simplified.
    pub(super) fn of(&mut self, expr: &PrimExpr) -> IntervalSet {
        let expr = self.analyzer.simplify(expr);
        let set = self.eval(&expr);
        let simplify = |end: Option<PrimExpr>| end.map(|end| self.analyzer.simplify(&end));
        IntervalSet { min: simplify(set.min), max: simplify(set.max) }
    }

    fn eval(&mut self, expr: &PrimExpr) -> IntervalSet {
        with_stack(|| match expr {
            PrimExpr::Var(var) => {
                let known = self.lets.get(&var.id()).or_else(|| self.dom.get(&var.id()));
                known.cloned().unwrap_or_else(|| IntervalSet::point(expr.clone()))
            }
            PrimExpr::Binary(it) => self.binary(expr, it),
            PrimExpr::Select(it) => {
                let (a, b) = (self.eval(&it.true_value), self.eval(&it.false_value));
                a.union(&b, self.analyzer)
            }
            PrimExpr::Broadcast(it) => self.eval(&it.value),
            PrimExpr::Ramp(it) => {
                let last = &it.base + &it.stride * i64::from(it.lanes - 1);
                let (a, b) = (self.eval(&it.base), self.eval(&last));
                a.union(&b, self.analyzer)
            }
            PrimExpr::Let(it) => {
                let value = self.eval(&it.value);
                self.lets.insert(it.var.id(), value);
                self.eval(&it.body)
            }
            PrimExpr::Call(it) => match it.callee {
                PrimCallee::Intrinsic(Intrinsic::Likely) => self.eval(&it.args[0]),
                PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                    let (a, b) = (self.eval(&it.args[1]), self.eval(&it.args[2]));
                    a.union(&b, self.analyzer)
                }
                PrimCallee::Intrinsic(_) | PrimCallee::PureExtern(_) => self.opaque(expr),
            },
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) => {
                IntervalSet::point(expr.clone())
            }
            PrimExpr::Cast(_) | PrimExpr::Not(_) | PrimExpr::BufferLoad(_) | PrimExpr::Shuffle(_) => {
                self.opaque(expr)
            }
        })
    }

    /// The set of an expression whose parts are not evaluated: the expression itself where it depends on no domain,
    /// else its constant bounds.
    fn opaque(&mut self, expr: &PrimExpr) -> IntervalSet {
        let depends = super::same::any_node(expr, &mut |it| {
            it.as_var()
                .is_some_and(|var| self.dom.contains_key(&var.id()) || self.lets.contains_key(&var.id()))
        });
        if depends { self.constant(expr) } else { IntervalSet::point(expr.clone()) }
    }

    /// The interval between the constant bounds of `expr`, whose variables are bounded by their domains too.
    fn constant(&self, expr: &PrimExpr) -> IntervalSet {
        let mut inner = self.analyzer.clone();
        let vars = collect_vars(expr);
        for var in &vars {
            if let Some(set) = self.lets.get(&var.id()).or_else(|| self.dom.get(&var.id())) {
                inner.bind_bound(var, self.bound_of(set));
            }
        }
        let bound = inner.const_int_bound(expr);
        let dtype = expr.dtype().scalar();
        let range = ConstIntBound::of_dtype(dtype);
        // A limit of the type carries no information.
        let end = |value: i128| {
            (range.min < value && value < range.max).then(|| PrimExpr::int(wrap_int(value, dtype), dtype))
        };
        IntervalSet { min: end(bound.min), max: end(bound.max) }
    }

    /// Constant bounds of the values in `set`.
    fn bound_of(&self, set: &IntervalSet) -> ConstIntBound {
        let bound = |end: &Option<PrimExpr>| {
            end.as_ref().map_or(ConstIntBound::EVERYTHING, |end| self.analyzer.const_int_bound(end))
        };
        ConstIntBound::new(bound(&set.min).min, bound(&set.max).max)
    }

    fn binary(&mut self, expr: &PrimExpr, it: &Binary) -> IntervalSet {
        let (a, b) = (self.eval(&it.a), self.eval(&it.b));
        if let (Some(x), Some(y)) = (a.as_point(), b.as_point()) {
            return IntervalSet::point(crate::ir::tensor_program::binary(it.op, x.clone(), y.clone()));
        }
        // An operation that may overflow has no symbolic ends.
        let exact = super::bounds::operation(it.op, self.bound_of(&a), self.bound_of(&b), it.a.dtype());
        if !exact.is_some_and(|bound| bound.fits(it.a.dtype())) {
            return self.constant(expr);
        }
        let zip = |x: &Option<PrimExpr>, y: &Option<PrimExpr>, op| {
            Some(crate::ir::tensor_program::binary(op, x.as_ref()?.clone(), y.as_ref()?.clone()))
        };
        match it.op {
            BinaryOp::Add => IntervalSet {
                min: zip(&a.min, &b.min, BinaryOp::Add),
                max: zip(&a.max, &b.max, BinaryOp::Add),
            },
            BinaryOp::Sub => IntervalSet {
                min: zip(&a.min, &b.max, BinaryOp::Sub),
                max: zip(&a.max, &b.min, BinaryOp::Sub),
            },
            BinaryOp::Min | BinaryOp::Max => IntervalSet {
                min: self.end_of(it.op, &a.min, &b.min, it.op == BinaryOp::Min),
                max: self.end_of(it.op, &a.max, &b.max, it.op == BinaryOp::Max),
            },
            BinaryOp::Mul => match (a.as_point(), b.as_point()) {
                (_, Some(factor)) => self.scaled(expr, BinaryOp::Mul, &a, factor),
                (Some(factor), _) => self.scaled(expr, BinaryOp::Mul, &b, factor),
                (None, None) => self.constant(expr),
            },
            BinaryOp::FloorDiv => match b.as_point() {
                Some(divisor) => self.scaled(expr, BinaryOp::FloorDiv, &a, divisor),
                None => self.constant(expr),
            },
            BinaryOp::FloorMod => match b.as_point() {
                Some(divisor) => self.remainder(expr, &a, divisor),
                None => self.constant(expr),
            },
            BinaryOp::Div | BinaryOp::Mod | comparison!() | logical!() | bitwise!() => self.constant(expr),
        }
    }

    /// One end of a minimum or maximum. If one side is unbounded, the other one is the end, unless `both` must be
    /// bounded.
    fn end_of(
        &self,
        op: BinaryOp,
        a: &Option<PrimExpr>,
        b: &Option<PrimExpr>,
        both: bool,
    ) -> Option<PrimExpr> {
        match (a, b) {
            (Some(a), Some(b)) => Some(extreme(self.analyzer, op, a, b)),
            (Some(end), None) | (None, Some(end)) if !both => Some(end.clone()),
            _ => None,
        }
    }

    /// `set op by`; `op` is monotone in `set` when the sign of `by` is known.
    fn scaled(&self, expr: &PrimExpr, op: BinaryOp, set: &IntervalSet, by: &PrimExpr) -> IntervalSet {
        let sign = self.analyzer.const_int_bound(by);
        let end = |it: &Option<PrimExpr>| {
            it.as_ref().map(|it| crate::ir::tensor_program::binary(op, it.clone(), by.clone()))
        };
        let least = i128::from(op == BinaryOp::FloorDiv);
        if sign.min >= least {
            IntervalSet { min: end(&set.min), max: end(&set.max) }
        } else if sign.max <= -least {
            IntervalSet { min: end(&set.max), max: end(&set.min) }
        } else {
            self.constant(expr)
        }
    }

    fn remainder(&self, expr: &PrimExpr, set: &IntervalSet, divisor: &PrimExpr) -> IntervalSet {
        if self.analyzer.const_int_bound(divisor).min <= 0 {
            return self.constant(expr);
        }
        let of = |end: &PrimExpr, op| crate::ir::tensor_program::binary(op, end.clone(), divisor.clone());
        if let (Some(min), Some(max)) = (&set.min, &set.max)
            && self.analyzer.can_prove_equal(&of(min, BinaryOp::FloorDiv), &of(max, BinaryOp::FloorDiv))
        {
            return IntervalSet::new(of(min, BinaryOp::FloorMod), of(max, BinaryOp::FloorMod));
        }
        IntervalSet::new(PrimExpr::int(0, divisor.dtype()), divisor - 1i64)
    }
}

/// The variables of `expr`, each once.
fn collect_vars(expr: &PrimExpr) -> Vec<crate::ir::Var> {
    let mut vars: Vec<crate::ir::Var> = Vec::new();
    super::same::any_node(expr, &mut |it| {
        if let Some(var) = it.as_var()
            && !vars.contains(var)
        {
            vars.push(var.clone());
        }
        false
    });
    vars
}
