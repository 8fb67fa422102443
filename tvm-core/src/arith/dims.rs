//! Symbolic extents: normal form, equality, products.
//!
//! The normal form of an extent is a sum of products of atoms; an atom is a variable or an expression without a normal
//! form. Two extents are equal when their difference is zero, and unequal when it is another constant. Where neither is
//! proved but an operator needs equal extents, inference assumes that they are equal ([`differ`]), and the program checks
//! this at run time ([`assumptions`]). Proofs use the bounds of dimensions.

use std::cell::RefCell;

use tvm_runtime::DimBound;

use crate::arith::{Analyzer, same};
use crate::ir::tensor_program::{BinaryOp, PrimExpr, any_expr, binary};

/// Number of terms up to which a product of sums is multiplied out; it is an atom otherwise.
const MAX_TERMS: usize = 64;

/// A sum of terms; a term is a coefficient times the product of its atoms.
#[derive(Clone, Debug, Default)]
struct Poly(Vec<(i64, Vec<PrimExpr>)>);

impl Poly {
    fn constant(value: i64) -> Poly {
        Poly(vec![(value, Vec::new())]).normal()
    }

    fn atom(expr: PrimExpr) -> Poly {
        Poly(vec![(1, vec![expr])])
    }

    /// Merges like terms and drops those with coefficient 0.
    fn normal(self) -> Poly {
        let mut terms: Vec<(i64, Vec<PrimExpr>)> = Vec::new();
        for (coeff, atoms) in self.0 {
            match terms.iter_mut().find(|(_, it)| same_atoms(it, &atoms)) {
                Some((sum, _)) => *sum = sum.wrapping_add(coeff),
                None => terms.push((coeff, atoms)),
            }
        }
        terms.retain(|(coeff, _)| *coeff != 0);
        Poly(terms)
    }

    fn plus(mut self, other: Poly, sign: i64) -> Poly {
        self.0.extend(other.0.into_iter().map(|(coeff, atoms)| (coeff.wrapping_mul(sign), atoms)));
        self.normal()
    }

    fn times(&self, other: &Poly) -> Poly {
        let mut terms = Vec::new();
        for (a, x) in &self.0 {
            terms.extend(other.0.iter().map(|(b, y)| (a.wrapping_mul(*b), [&x[..], &y[..]].concat())));
        }
        Poly(terms).normal()
    }

    /// The quotient, when `other` has one term and every term of `self` is a multiple of it.
    fn divided_by(&self, other: &Poly) -> Option<Poly> {
        let [(divisor, divided)] = &other.0[..] else { return None };
        let divide = |(coeff, atoms): &(i64, Vec<PrimExpr>)| {
            let mut rest = atoms.clone();
            for atom in divided {
                rest.remove(rest.iter().position(|it| same(it, atom))?);
            }
            (coeff % divisor == 0).then(|| (coeff / divisor, rest))
        };
        self.0.iter().map(divide).collect::<Option<Vec<_>>>().map(Poly)
    }

    /// The terms that are multiples of the positive number `other`, divided by it, and the rest, if there are both.
    fn multiples_apart(&self, other: &Poly) -> Option<(Poly, Poly)> {
        let divisor = other.as_const().filter(|divisor| *divisor > 0)?;
        let (multiples, rest): (Vec<_>, Vec<_>) =
            self.0.iter().cloned().partition(|(coeff, atoms)| !atoms.is_empty() && coeff % divisor == 0);
        let divided = multiples.into_iter().map(|(coeff, atoms)| (coeff / divisor, atoms)).collect();
        (!rest.is_empty() && rest.len() < self.0.len()).then_some((Poly(divided), Poly(rest)))
    }

    fn as_const(&self) -> Option<i64> {
        match &self.0[..] {
            [] => Some(0),
            [(value, atoms)] if atoms.is_empty() => Some(*value),
            _ => None,
        }
    }

    fn into_expr(self) -> PrimExpr {
        // The constant goes last: `n + 1`, not `1 + n`.
        let (constant, others): (Vec<_>, Vec<_>) = self.0.into_iter().partition(|(_, it)| it.is_empty());
        let mut sum: Option<PrimExpr> = None;
        for (coeff, atoms) in others {
            let product = atoms.into_iter().reduce(|a, b| a * b).unwrap_or_else(|| PrimExpr::index(1));
            sum = Some(match sum {
                Some(sum) if coeff < 0 => sum - product * coeff.wrapping_neg(),
                Some(sum) => sum + product * coeff,
                None => product * coeff,
            });
        }
        let constant = constant.first().map_or(0, |(value, _)| *value);
        match sum {
            Some(sum) if constant < 0 => sum - constant.wrapping_neg(),
            Some(sum) => sum + constant,
            None => PrimExpr::index(constant),
        }
    }
}

fn same_atoms(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    let mut rest: Vec<&PrimExpr> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|x| match rest.iter().position(|y| same(x, y)) {
            Some(i) => {
                rest.swap_remove(i);
                true
            }
            None => false,
        })
}

/// An analyzer that knows the bounds of the dimensions in `exprs`; `None` if they have none.
fn bounded(exprs: &[&PrimExpr]) -> Option<Analyzer> {
    let has_bound = |it: &PrimExpr| it.as_var().is_some_and(|var| var.bound().is_some());
    if !exprs.iter().any(|expr| any_expr(expr, &mut |it| has_bound(it))) {
        return None;
    }
    let mut analyzer = Analyzer::new();
    for expr in exprs {
        any_expr(expr, &mut |it| {
            match it.as_var() {
                Some(var) if var.bound().is_some() => analyzer.bind_dim(var),
                Some(var) => analyzer.bind_index(var),
                None => {}
            }
            false
        });
    }
    Some(analyzer)
}

fn poly(expr: &PrimExpr) -> Poly {
    normal_form(expr, true)
}

/// The normal form of a quotient, remainder, minimum or maximum: what the bounds of dimensions make of it, or an atom.
fn atom(op: BinaryOp, a: Poly, b: Poly, use_bounds: bool) -> Poly {
    let expr = binary(op, a.into_expr(), b.into_expr());
    match use_bounds.then(|| bounded(&[&expr])).flatten() {
        Some(analyzer) => normal_form(&analyzer.simplify(&expr), false),
        None => Poly::atom(expr),
    }
}

/// The quotient, rounded down, of a sum and a positive number.
fn quotient_of(sum: Poly, divisor: Poly, use_bounds: bool) -> Poly {
    match (sum.as_const(), divisor.as_const()) {
        (Some(sum), Some(divisor)) if divisor > 0 => Poly::constant(sum.div_euclid(divisor)),
        _ => atom(BinaryOp::FloorDiv, sum, divisor, use_bounds),
    }
}

fn normal_form(expr: &PrimExpr, use_bounds: bool) -> Poly {
    match expr {
        PrimExpr::IntImm(it) => Poly::constant(it.value),
        PrimExpr::Binary(it) => {
            let (a, b) = crate::support::with_stack(|| {
                (normal_form(&it.a, use_bounds), normal_form(&it.b, use_bounds))
            });
            match it.op {
                BinaryOp::Add => a.plus(b, 1),
                BinaryOp::Sub => a.plus(b, -1),
                BinaryOp::Mul if a.0.len().saturating_mul(b.0.len()) > MAX_TERMS => {
                    // As it is written: multiplied out in part, it would grow with every further factor.
                    Poly::atom(expr.clone())
                }
                BinaryOp::Mul => a.times(&b),
                BinaryOp::FloorDiv | BinaryOp::Div if b.0.is_empty() => Poly::atom(expr.clone()),
                BinaryOp::FloorDiv | BinaryOp::Div if a.divided_by(&b).is_some() => {
                    a.divided_by(&b).unwrap_or_default()
                }
                BinaryOp::FloorDiv if a.multiples_apart(&b).is_some() => {
                    // A multiple of the divisor is divided on its own, whatever the rest is.
                    let (quotient, rest) = a.multiples_apart(&b).unwrap_or_default();
                    quotient.plus(quotient_of(rest, b, use_bounds), 1)
                }
                BinaryOp::FloorMod | BinaryOp::Mod if a.divided_by(&b).is_some() => Poly::default(),
                BinaryOp::Min | BinaryOp::Max => match a.clone().plus(b.clone(), -1).as_const() {
                    Some(difference) if (difference < 0) == (it.op == BinaryOp::Min) => a,
                    Some(_) => b,
                    None => atom(it.op, a, b, use_bounds),
                },
                _ => atom(it.op, a, b, use_bounds),
            }
        }
        _ => Poly::atom(expr.clone()),
    }
}

/// `extent` in normal form.
pub fn simplify_dim(extent: &PrimExpr) -> PrimExpr {
    match extent {
        PrimExpr::IntImm(_) | PrimExpr::Var(_) => extent.clone(),
        _ => poly(extent).into_expr(),
    }
}

/// True when `a` and `b` are proved equal for all values of their variables; false also when that is not known.
pub fn prove_equal(a: &PrimExpr, b: &PrimExpr) -> bool {
    let proved = || bounded(&[a, b]).is_some_and(|analyzer| analyzer.can_prove_equal(a, b));
    difference(a, b).map_or_else(proved, |it| it == 0)
}

/// True when `a` and `b` are proved to differ for all values of their variables; false also when that is not known.
pub fn prove_unequal(a: &PrimExpr, b: &PrimExpr) -> bool {
    let proved = || bounded(&[a, b]).is_some_and(|analyzer| !analyzer.const_int_bound(&(a - b)).contains(0));
    difference(a, b).map_or_else(proved, |it| it != 0)
}

/// The condition that `value`, which is not negative, is within `bound`. `modulo` is `FloorMod`, or `Mod`, which is the
/// same for such values.
pub(crate) fn within(value: &PrimExpr, bound: DimBound, modulo: BinaryOp) -> PrimExpr {
    let (modulus, remainder) = bound.modulo();
    let conditions = [
        Some(value.clone().greater_equal(bound.min())),
        bound.max().map(|max| value.clone().less_equal(max)),
        (modulus > 1).then(|| binary(modulo, value.clone(), modulus.into()).equal(remainder)),
    ];
    conditions.into_iter().flatten().fold(PrimExpr::bool(true), |all, it| all.and(it))
}

/// True when an extent `value` is proved to be outside `bound`.
pub(crate) fn is_never_within(value: &PrimExpr, bound: DimBound) -> bool {
    match value.as_int() {
        Some(value) => !bound.contains(value),
        None => bounded(&[value])
            .is_some_and(|analyzer| analyzer.can_prove(&!within(value, bound, BinaryOp::FloorMod))),
    }
}

thread_local! {
    static ASSUMED: RefCell<Option<Vec<(PrimExpr, PrimExpr)>>> = const { RefCell::new(None) };
}

/// [`prove_unequal`] for extents that an operator requires to be equal: if neither equality nor inequality is proved,
/// their equality becomes one of the [`assumptions`] of the inference under way.
pub fn differ(a: &PrimExpr, b: &PrimExpr) -> bool {
    if prove_unequal(a, b) {
        return true;
    }
    if !prove_equal(a, b) {
        ASSUMED.with_borrow_mut(|assumed| {
            assumed.iter_mut().for_each(|list| list.push((a.clone(), b.clone())));
        });
    }
    false
}

/// The result of `infer`, and the pairs of extents that it assumed to be equal without proof.
pub fn assumptions<R>(infer: impl FnOnce() -> R) -> (R, Vec<(PrimExpr, PrimExpr)>) {
    let outer = ASSUMED.replace(Some(Vec::new()));
    let result = infer();
    (result, ASSUMED.replace(outer).unwrap_or_default())
}

fn difference(a: &PrimExpr, b: &PrimExpr) -> Option<i64> {
    if a.ptr_eq(b) {
        return Some(0);
    }
    match (a, b) {
        (PrimExpr::IntImm(a), PrimExpr::IntImm(b)) => Some(a.value.wrapping_sub(b.value)),
        _ => poly(a).plus(poly(b), -1).as_const(),
    }
}

/// Product of extents.
pub fn product(dims: &[PrimExpr]) -> PrimExpr {
    simplify_dim(&dims.iter().fold(PrimExpr::index(1), |product, dim| product * dim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Var;

    #[test]
    fn equality_of_symbolic_extents() {
        let (n, m) = (PrimExpr::from(Var::index("n")), PrimExpr::from(Var::index("m")));
        let equal = [
            ((&n * 2i64) + (&n * 3i64), &n * 5i64),
            ((&n + &m) * 2i64, (&m * 2i64) + (&n * 2i64)),
            ((&n * &m).floordiv(&m), n.clone()),
            ((&n * 6i64).floordiv(3), &n * 2i64),
            (((&n + 2i64) - 3i64).floordiv(1) + 1i64, n.clone()),
            ((&n + 1i64).min(&n + 2i64), &n + 1i64),
            ((&n * 4i64).floormod(2), PrimExpr::index(0)),
            ((&n * 4i64 - 1i64).floordiv(2).floordiv(2) + 1i64, n.clone()),
            ((&n * 4i64 + 3i64).floordiv(2) + 1i64, &n * 2i64 + 2i64),
            ((&m - &n * 4i64).floordiv(4), m.clone().floordiv(4) - &n),
        ];
        for (a, b) in equal {
            assert!(prove_equal(&a, &b), "{a:?} == {b:?}");
            assert!(!prove_unequal(&a, &b));
        }
        assert!(prove_unequal(&(&n + 1i64), &n));
        assert!(!prove_equal(&n, &m) && !prove_unequal(&n, &m));
        assert!(!prove_equal(&n.clone().floordiv(2), &n.clone().floordiv(3)));
    }

    /// A product of sums has exponentially many terms.
    #[test]
    fn products_of_many_sums_stay_products() {
        let sum = |i: usize| {
            PrimExpr::from(Var::index(format!("n{i}"))) + PrimExpr::from(Var::index(format!("m{i}")))
        };
        let product = product(&(0..40).map(sum).collect::<Vec<_>>());
        assert!(product.to_string().len() < 200_000, "{product}");
    }

    #[test]
    fn proofs_use_bounds() {
        let bound = DimBound::new(8, 64, 8, 0).unwrap();
        let n = PrimExpr::from(Var::index("n").within(Some(bound)));
        let m = PrimExpr::from(Var::index("m"));
        let equal = [
            (n.clone().max(1), n.clone()),
            (n.clone().min(64) + &m, &n + &m),
            ((&n + 7i64).floordiv(8) * 8i64, n.clone()),
            (n.clone().floormod(4) + &m, m.clone()),
            (((&n + &m).max(&m) - &m).min(100), n.clone()),
        ];
        for (a, b) in equal {
            assert!(prove_equal(&a, &b), "{a:?} == {b:?}");
            assert!(!prove_unequal(&a, &b) && !differ(&a, &b));
        }
        assert_eq!(simplify_dim(&(n.clone().max(3) + 1i64)).to_string(), "n + 1");
        assert!(prove_unequal(&n, &65.into()) && prove_unequal(&(&n + 1i64), &4.into()));
        assert!(!prove_unequal(&n, &64.into()) && !prove_equal(&n, &64.into()));
        assert!(!prove_equal(&m.clone().max(1), &m));
        for (value, never) in [(65, true), (12, true), (16, false)] {
            assert_eq!(is_never_within(&value.into(), bound), never);
        }
        assert!(is_never_within(&(&n + 64i64), bound) && !is_never_within(&m, bound));
    }
}
