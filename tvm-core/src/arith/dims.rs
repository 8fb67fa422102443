//! Symbolic extents: normal form, equality, products.
//!
//! The normal form of an extent is a sum of products of atoms; an atom is a variable or an expression without a normal
//! form. Two extents are equal when their difference is zero, and unequal when it is another constant. Where neither is
//! proved but an operator needs equal extents, inference assumes that they are equal ([`differ`]), and the program checks
//! this at run time ([`assumptions`]).

use std::cell::RefCell;

use crate::arith::same;
use crate::ir::tensor_program::{BinaryOp, PrimExpr, binary};

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

fn poly(expr: &PrimExpr) -> Poly {
    match expr {
        PrimExpr::IntImm(it) => Poly::constant(it.value),
        PrimExpr::Binary(it) => {
            let (a, b) = crate::support::with_stack(|| (poly(&it.a), poly(&it.b)));
            match it.op {
                BinaryOp::Add => a.plus(b, 1),
                BinaryOp::Sub => a.plus(b, -1),
                BinaryOp::Mul => a.times(&b),
                BinaryOp::FloorDiv | BinaryOp::Div if b.0.is_empty() => Poly::atom(expr.clone()),
                BinaryOp::FloorDiv | BinaryOp::Div if a.divided_by(&b).is_some() => {
                    a.divided_by(&b).unwrap_or_default()
                }
                BinaryOp::FloorMod | BinaryOp::Mod if a.divided_by(&b).is_some() => Poly::default(),
                BinaryOp::Min | BinaryOp::Max => match a.clone().plus(b.clone(), -1).as_const() {
                    Some(difference) if (difference < 0) == (it.op == BinaryOp::Min) => a,
                    Some(_) => b,
                    None => Poly::atom(binary(it.op, a.into_expr(), b.into_expr())),
                },
                _ => Poly::atom(binary(it.op, a.into_expr(), b.into_expr())),
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
    difference(a, b) == Some(0)
}

/// True when `a` and `b` are proved to differ for all values of their variables; false also when that is not known.
pub fn prove_unequal(a: &PrimExpr, b: &PrimExpr) -> bool {
    difference(a, b).is_some_and(|it| it != 0)
}

thread_local! {
    static ASSUMED: RefCell<Option<Vec<(PrimExpr, PrimExpr)>>> = const { RefCell::new(None) };
}

/// [`prove_unequal`] for extents that an operator requires to be equal: if neither equality nor inequality is proved,
/// their equality becomes one of the [`assumptions`] of the inference under way.
pub fn differ(a: &PrimExpr, b: &PrimExpr) -> bool {
    match difference(a, b) {
        Some(difference) => difference != 0,
        None => {
            ASSUMED.with_borrow_mut(|assumed| {
                assumed.iter_mut().for_each(|list| list.push((a.clone(), b.clone())));
            });
            false
        }
    }
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
        ];
        for (a, b) in equal {
            assert!(prove_equal(&a, &b), "{a:?} == {b:?}");
            assert!(!prove_unequal(&a, &b));
        }
        assert!(prove_unequal(&(&n + 1i64), &n));
        assert!(!prove_equal(&n, &m) && !prove_unequal(&n, &m));
        assert!(!prove_equal(&n.clone().floordiv(2), &n.clone().floordiv(3)));
    }
}
