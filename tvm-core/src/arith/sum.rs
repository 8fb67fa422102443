//! Linear sums: integer expressions as `c0 + c1 * m1 + c2 * m2 + …` over monomials.
//!
//! A monomial is a product of atoms. An atom is an expression that is not itself a sum, difference or product. The
//! rewriting to a sum is exact for every integer type, because arithmetic modulo `2^bits` is a ring. A sum may also be
//! a sum of integers, where nothing wraps: then it shows which of two values is larger, and what remains after a
//! division.
//!
//! TVM counterpart: `SumExpr` of `CanonicalSimplifier`, `DetectLinearEquation`.

use std::hash::{BuildHasher, Hash, Hasher};

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::{SmallVec, smallvec};
use tvm_runtime::DataType;

use super::same::{Key, any_node, same, shared};
use crate::ir::tensor_program::{BinaryOp, PrimExpr, wrap_int};

/// A product of atoms, in any order; empty for 1.
#[derive(Clone, Debug, Default)]
pub struct Monomial(SmallVec<[Key; 2]>);

impl Monomial {
    /// The atom, if there is only one.
    pub fn as_atom(&self) -> Option<&PrimExpr> {
        if let [atom] = self.0.as_slice() { Some(&atom.0) } else { None }
    }

    /// The atoms.
    pub fn atoms(&self) -> impl Iterator<Item = &PrimExpr> {
        self.0.iter().map(|it| &it.0)
    }

    /// Number of atoms.
    pub fn degree(&self) -> usize {
        self.0.len()
    }

    /// `self / divisor`, if `self` has every atom of `divisor`.
    pub fn divide(&self, divisor: &Monomial) -> Option<Monomial> {
        let mut rest = self.0.clone();
        for atom in &divisor.0 {
            rest.remove(rest.iter().position(|it| it == atom)?);
        }
        Some(Monomial(rest))
    }

    /// The monomial with the one atom `expr`.
    pub fn atom(expr: PrimExpr) -> Monomial {
        Monomial(smallvec![Key(expr)])
    }

    /// `self * other`
    #[must_use]
    pub fn times(&self, other: &Monomial) -> Monomial {
        Monomial(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// The product as an expression.
    pub fn to_expr(&self, dtype: DataType) -> PrimExpr {
        let product = self.atoms().cloned().reduce(|a, b| a * b);
        product.unwrap_or_else(|| PrimExpr::int(1, dtype))
    }
}

impl PartialEq for Monomial {
    fn eq(&self, other: &Monomial) -> bool {
        self.0.len() == other.0.len()
            && (self.0 == other.0 || self.divide(other).is_some_and(|rest| rest.0.is_empty()))
    }
}

impl Eq for Monomial {}

impl Hash for Monomial {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sum = self.0.iter().fold(0u64, |sum, atom| sum.wrapping_add(FxBuildHasher.hash_one(atom)));
        state.write_u64(sum);
    }
}

/// A linear sum over monomials. Terms stay in the order in which they first occurred.
#[derive(Clone, Debug)]
pub struct LinearSum {
    /// The terms and their coefficients; some may be zero.
    terms: IndexMap<Monomial, i128, FxBuildHasher>,
    /// The number that is added to the terms.
    pub(super) constant: i128,
    /// Type of the terms and of the sum.
    pub(super) dtype: DataType,
    arithmetic: Arithmetic,
}

/// The kind of numbers that a sum has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    /// Numbers modulo `2^bits`, each represented by the value nearest to zero.
    Wrapping,
    /// Integers.
    Integers,
    /// Integers, some of which became too large: nothing is known about the sum.
    Lost,
}

/// Products of sums with more terms than this are not multiplied out.
const EXPAND_LIMIT: usize = 64;

/// How products of sums are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// As products of atoms, unless one side is a constant.
    Keep,
    /// Multiplied out, within limits.
    Expand,
}

impl LinearSum {
    /// The empty sum.
    pub fn zero(dtype: DataType) -> LinearSum {
        LinearSum { terms: IndexMap::default(), constant: 0, dtype, arithmetic: Arithmetic::Wrapping }
    }

    /// A constant.
    pub fn constant(value: i128, dtype: DataType) -> LinearSum {
        let mut sum = LinearSum::zero(dtype);
        sum.add_constant(value);
        sum
    }

    /// The atom `expr`, as an integer.
    pub(super) fn atom(expr: &PrimExpr) -> LinearSum {
        let mut sum = LinearSum::zero(expr.dtype()).into_integers(0);
        sum.add_term(Monomial::atom(expr.clone()), 1);
        sum
    }

    /// The empty sum, of the same kind.
    pub(super) fn empty(&self) -> LinearSum {
        LinearSum { terms: IndexMap::default(), constant: 0, dtype: self.dtype, arithmetic: self.arithmetic }
    }

    /// The sum of integers with the same numbers, plus `constant`.
    pub(super) fn into_integers(mut self, constant: i128) -> LinearSum {
        self.arithmetic = Arithmetic::Integers;
        self.add_constant(constant);
        self
    }

    /// False when some number became too large, so that nothing is known about the sum.
    pub(super) fn is_known(&self) -> bool {
        self.arithmetic != Arithmetic::Lost
    }

    /// `expr` as a sum.
    pub fn of(expr: &PrimExpr, products: Products) -> LinearSum {
        LinearSum::with_atoms(expr, products, &mut |atom| atom.clone())
    }

    /// `expr` as a sum, with every atom, and every sum that occurs twice, rewritten by `rewrite` first.
    pub(super) fn with_atoms(
        expr: &PrimExpr,
        products: Products,
        rewrite: &mut dyn FnMut(&PrimExpr) -> PrimExpr,
    ) -> LinearSum {
        let mut sum = LinearSum::zero(expr.dtype());
        let mut seen: FxHashMap<usize, PrimExpr> = FxHashMap::default();
        // The remaining work, last first, as an explicit stack: sums may be thousands of terms deep.
        let mut todo: Vec<(PrimExpr, i128)> = vec![(expr.clone(), 1)];
        while let Some((expr, scale)) = todo.pop() {
            if scale == 0 {
                continue;
            }
            if is_sum(&expr)
                && let Some(key) = shared(&expr)
                && seen.insert(key, expr.clone()).is_some()
            {
                let again = rewrite(&expr);
                sum.add_simple(&again, scale, products);
                continue;
            }
            if let Some(value) = const_int(&expr) {
                sum.add_constant(i128::from(value) * scale);
                continue;
            }
            match &expr {
                PrimExpr::Binary(it) if it.op == BinaryOp::Add => {
                    todo.push((it.b.clone(), scale));
                    todo.push((it.a.clone(), scale));
                }
                PrimExpr::Binary(it) if it.op == BinaryOp::Sub => {
                    todo.push((it.b.clone(), -scale));
                    todo.push((it.a.clone(), scale));
                }
                PrimExpr::Binary(it) if it.op == BinaryOp::Mul => {
                    match (const_int(&it.a), const_int(&it.b)) {
                        (_, Some(c)) => todo.push((it.a.clone(), sum.reduced(scale * i128::from(c)))),
                        (Some(c), _) => todo.push((it.b.clone(), sum.reduced(scale * i128::from(c)))),
                        (None, None) => {
                            let a = LinearSum::with_atoms(&it.a, products, rewrite);
                            let b = LinearSum::with_atoms(&it.b, products, rewrite);
                            sum.add(&a.times(&b, products), scale);
                        }
                    }
                }
                _ => {
                    let atom = rewrite(&expr);
                    sum.add_simple(&atom, scale, products);
                }
            }
        }
        sum
    }

    /// Adds `scale * expr`, where `expr` is simplified already.
    fn add_simple(&mut self, expr: &PrimExpr, scale: i128, products: Products) {
        if is_sum(expr) {
            self.add(&LinearSum::of(expr, products), scale);
        } else if let Some(value) = const_int(expr) {
            self.add_constant(i128::from(value) * scale);
        } else {
            self.add_term(Monomial::atom(expr.clone()), scale);
        }
    }

    /// `value` as a number of this sum; a number that wraps is reduced to the value nearest to zero.
    fn reduced(&mut self, value: impl Into<Option<i128>>) -> i128 {
        match (self.arithmetic, value.into()) {
            (Arithmetic::Wrapping, Some(value)) => {
                let unused = 128 - u32::from(self.dtype.bits());
                value << unused >> unused
            }
            (Arithmetic::Integers, Some(value)) => value,
            (_, None) | (Arithmetic::Lost, _) => {
                self.arithmetic = Arithmetic::Lost;
                0
            }
        }
    }

    /// Adds a number to the constant.
    pub(super) fn add_constant(&mut self, value: i128) {
        self.constant = self.reduced(self.constant.checked_add(value));
    }

    /// Adds `scale * monomial`.
    pub fn add_term(&mut self, monomial: Monomial, scale: i128) {
        if monomial.0.is_empty() {
            return self.add_constant(scale);
        }
        let known = self.terms.get(&monomial).copied().unwrap_or(0);
        let coefficient = self.reduced(known.checked_add(scale));
        self.terms.insert(monomial, coefficient);
    }

    /// Adds `scale * other`.
    pub fn add(&mut self, other: &LinearSum, scale: i128) {
        if !other.is_known() {
            self.arithmetic = Arithmetic::Lost;
        }
        for (monomial, coefficient) in &other.terms {
            let scaled = self.reduced(coefficient.checked_mul(scale));
            self.add_term(monomial.clone(), scaled);
        }
        let scaled = self.reduced(other.constant.checked_mul(scale));
        self.add_constant(scaled);
    }

    /// `self - other`.
    #[must_use]
    pub fn minus(&self, other: &LinearSum) -> LinearSum {
        let mut res = self.clone();
        res.add(other, -1);
        res
    }

    /// The positive multiples of `other` that have a term of `self`: without one of them, `self` loses that term.
    pub(super) fn multiples_in(&self, other: &LinearSum) -> SmallVec<[i128; 2]> {
        let mut found: SmallVec<[i128; 2]> = SmallVec::new();
        for (a, c) in self.terms() {
            for (b, d) in other.terms() {
                let scale = c.checked_div(d).filter(|scale| *scale > 0 && scale.checked_mul(d) == Some(c));
                found.extend(scale.filter(|scale| !found.contains(scale) && a == b));
            }
        }
        found
    }

    /// The terms whose coefficient is not zero.
    pub fn terms(&self) -> impl Iterator<Item = (&Monomial, i128)> {
        self.terms.iter().filter(|&(_, &c)| c != 0).map(|(m, &c)| (m, c))
    }

    /// The value, if there is no term.
    pub fn as_constant(&self) -> Option<i128> {
        (self.is_known() && self.terms().next().is_none()).then_some(self.constant)
    }

    /// `-self`.
    #[must_use]
    pub fn negated(&self) -> LinearSum {
        self.empty().minus(self)
    }

    /// `self / divisor`, where `divisor` divides every term; the quotient of the constant is rounded down.
    #[must_use]
    pub(super) fn divided_by(&self, divisor: i128) -> LinearSum {
        self.divided_by_floor(divisor, &Monomial::default())
    }

    /// `self / (divisor * monomial)`, where the divisor divides every term. The constant is divided by the number
    /// alone, and rounded down.
    #[must_use]
    pub(super) fn divided_by_floor(&self, divisor: i128, monomial: &Monomial) -> LinearSum {
        let mut res = self.empty();
        res.add_constant(self.constant.div_euclid(divisor));
        for (term, c) in self.terms() {
            res.add_term(term.divide(monomial).unwrap_or_default(), c / divisor);
        }
        res
    }

    /// `self * other`, multiplied out within limits.
    #[must_use]
    pub fn product(&self, other: &LinearSum) -> LinearSum {
        self.times(other, Products::Expand)
    }

    /// `(a, b)` such that `self = a * atom + b`, with no `atom` in either; `None` when `atom` occurs in a higher power
    /// or inside another atom.
    pub fn split_linear(&self, atom: &PrimExpr) -> Option<(LinearSum, LinearSum)> {
        let inside = |it: &PrimExpr| !same(it, atom) && any_node(it, &mut |inner| same(inner, atom));
        let hidden = self.terms().any(|(monomial, _)| monomial.atoms().any(inside));
        if hidden { None } else { self.split_at(atom) }
    }

    /// `(a, b)` such that `self = a * atom + b`, where `atom` may occur inside other atoms; `None` when it occurs in a
    /// higher power.
    pub(super) fn split_at(&self, atom: &PrimExpr) -> Option<(LinearSum, LinearSum)> {
        let (mut slope, mut rest) = (self.empty(), self.empty());
        rest.add_constant(self.constant);
        for (monomial, c) in self.terms() {
            let (found, others): (SmallVec<[Key; 2]>, SmallVec<[Key; 2]>) =
                monomial.0.iter().cloned().partition(|it| same(&it.0, atom));
            match found.len() {
                0 => rest.add_term(monomial.clone(), c),
                1 => slope.add_term(Monomial(others), c),
                _ => return None,
            }
        }
        Some((slope, rest))
    }

    fn times(&self, other: &LinearSum, products: Products) -> LinearSum {
        let mut res = self.empty();
        if !other.is_known() {
            res.arithmetic = Arithmetic::Lost;
        }
        let (n, k) = (self.terms().count() + 1, other.terms().count() + 1);
        let single = |sum: &LinearSum| sum.constant == 0 && sum.terms().count() == 1;
        let simple = |sum: &LinearSum| sum.as_constant().is_some() || single(sum);
        let expand = products == Products::Expand && n * k <= EXPAND_LIMIT
            || self.as_constant().is_some()
            || other.as_constant().is_some()
            || simple(self) && simple(other);
        if !expand {
            // A constant factor of a single term is separated from it; a sum becomes one atom.
            let factor = |sum: &LinearSum| match sum.terms().next() {
                Some((monomial, c)) if single(sum) => (monomial.clone(), c),
                _ => (Monomial::atom(sum.to_expr()), 1),
            };
            let ((a, c), (b, d)) = (factor(self), factor(other));
            res.add_product(a.times(&b), c, d);
            return res;
        }
        for (a, c) in self.terms() {
            for (b, d) in other.terms() {
                res.add_product(a.times(b), c, d);
            }
            res.add_product(a.clone(), c, other.constant);
        }
        for (b, d) in other.terms() {
            res.add_product(b.clone(), d, self.constant);
        }
        res.add_product(Monomial::default(), self.constant, other.constant);
        res
    }

    /// Adds `a * b * monomial`.
    fn add_product(&mut self, monomial: Monomial, a: i128, b: i128) {
        let scale = self.reduced(a.checked_mul(b));
        self.add_term(monomial, scale);
    }

    /// The sum as an expression. The first term with a positive coefficient comes first, then the other terms in order,
    /// then the constant.
    pub fn to_expr(&self) -> PrimExpr {
        let (dtype, lanes) = (self.dtype.scalar(), self.dtype.lanes());
        let number = |value: i128| PrimExpr::int(wrap_int(value, dtype), dtype).broadcast(lanes);
        let first = self.terms().position(|(_, c)| c > 0).unwrap_or(0);
        let order = self.terms().skip(first).take(1);
        let rest = self.terms().take(first).chain(self.terms().skip(first + 1));
        let mut res: Option<PrimExpr> = None;
        for (monomial, c) in order.chain(rest) {
            let product = monomial.to_expr(self.dtype);
            let subtract = c < 0 && res.is_some();
            let c = if subtract { -c } else { c };
            let term = if c == 1 { product } else { product * number(c) };
            res = Some(match res {
                None => term,
                Some(sum) if subtract => sum - term,
                Some(sum) => sum + term,
            });
        }
        match res {
            None => number(self.constant),
            Some(sum) if self.constant < 0 => sum - number(-self.constant),
            Some(sum) => sum + number(self.constant),
        }
    }
}

/// The value of an integer constant, or of a vector of equal constants.
pub(super) fn const_int(expr: &PrimExpr) -> Option<i64> {
    match expr {
        PrimExpr::IntImm(it) => Some(it.value),
        PrimExpr::Broadcast(it) => it.value.as_int(),
        _ => None,
    }
}

/// True for sums, differences and products of integers.
pub(super) fn is_sum(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::Binary(it)
        if matches!(it.op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul) && it.a.dtype().is_integer())
}
