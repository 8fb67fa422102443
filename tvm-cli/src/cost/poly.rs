//! Numbers that may depend on symbolic dimensions: polynomials in extents, exact and in one form.
//!
//! TVM counterpart: none; `PrimExpr` there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use tvm_core::ir::Var;
use tvm_core::relax::analysis::{show_dim, simplify_dim};
use tvm_core::tir::{BinaryOp, PrimExpr, Visitor, substitute_expr, walk_expr};

/// Values of symbolic dimensions, by name. One that is missing counts as 1.
pub(crate) type Extents = HashMap<String, i64>;

/// A factor that is no number: a dimension, or what is computed of dimensions by divisions, minima and the like.
#[derive(Clone, Debug)]
struct Atom {
    text: String,
    expr: PrimExpr,
}

impl PartialEq for Atom {
    fn eq(&self, other: &Atom) -> bool {
        self.text == other.text
    }
}

impl Eq for Atom {}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Atom) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Atom) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

/// A sum of products: sorted factors, and the number that multiplies them, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Poly(BTreeMap<Vec<Atom>, i128>);

impl Poly {
    /// A number.
    pub(crate) fn number(value: i128) -> Poly {
        Poly(BTreeMap::from([(Vec::new(), value)]).into_iter().filter(|it| it.1 != 0).collect())
    }

    /// An extent.
    pub(crate) fn of(expr: &PrimExpr) -> Poly {
        match expr {
            PrimExpr::IntImm(it) => Poly::number(it.value.into()),
            PrimExpr::Binary(it) if it.op == BinaryOp::Add => Poly::of(&it.a).plus(&Poly::of(&it.b)),
            PrimExpr::Binary(it) if it.op == BinaryOp::Sub => {
                Poly::of(&it.a).plus(&Poly::of(&it.b).times(&Poly::number(-1)))
            }
            PrimExpr::Binary(it) if it.op == BinaryOp::Mul => Poly::of(&it.a).times(&Poly::of(&it.b)),
            PrimExpr::Var(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Cast(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Not(_)
            | PrimExpr::Select(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_)
            | PrimExpr::Call(_) => Poly::atom(expr),
        }
    }

    fn atom(expr: &PrimExpr) -> Poly {
        Poly(BTreeMap::from([(vec![Atom { text: show_dim(expr), expr: expr.clone() }], 1)]))
    }

    /// The product of extents.
    pub(crate) fn product<'a>(dims: impl IntoIterator<Item = &'a PrimExpr>) -> Poly {
        dims.into_iter().fold(Poly::number(1), |product, dim| product.times(&Poly::of(dim)))
    }

    /// The sum.
    pub(crate) fn plus(mut self, other: &Poly) -> Poly {
        self.add(other);
        self
    }

    /// Adds `other`.
    pub(crate) fn add(&mut self, other: &Poly) {
        for (factors, number) in &other.0 {
            let sum = self.0.entry(factors.clone()).or_default();
            *sum = sum.saturating_add(*number);
            if *sum == 0 {
                self.0.remove(factors);
            }
        }
    }

    /// The product.
    pub(crate) fn times(&self, other: &Poly) -> Poly {
        let mut product = Poly::default();
        for (a, m) in &self.0 {
            for (b, n) in &other.0 {
                let mut factors = [&a[..], b].concat();
                factors.sort();
                product.add(&Poly(BTreeMap::from([(factors, m.saturating_mul(*n))])));
            }
        }
        product
    }

    /// The value, if it depends on no dimension.
    pub(crate) fn constant(&self) -> Option<i128> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&[][..]).copied(),
            _ => None,
        }
    }

    /// Names of the dimensions on which it depends.
    pub(crate) fn dims(&self) -> BTreeSet<String> {
        let dims = self.0.keys().flatten().flat_map(|atom| free_dims(&atom.expr));
        dims.map(|dim| dim.name().to_string()).collect()
    }

    /// The value for these extents.
    pub(crate) fn at(&self, extents: &Extents) -> f64 {
        let product = |factors: &[Atom]| factors.iter().map(|it| value(&it.expr, extents)).product::<f64>();
        self.0.iter().fold(0.0, |sum, (factors, number)| sum + *number as f64 * product(factors))
    }
}

/// The value of an extent; what is not known counts as 1.
fn value(expr: &PrimExpr, extents: &Extents) -> f64 {
    let extent = |var: &Var| PrimExpr::index(extents.get(var.name()).copied().unwrap_or(1));
    let vars = free_dims(expr).iter().map(|var| (var.id(), extent(var))).collect();
    simplify_dim(&substitute_expr(expr, &vars)).as_int().map_or(1.0, |value| value as f64)
}

/// The dimensions in an extent.
fn free_dims(expr: &PrimExpr) -> Vec<Var> {
    struct Dims(Vec<Var>);
    impl Visitor for Dims {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::Var(var) = expr {
                self.0.push(var.clone());
            }
            walk_expr(self, expr);
        }
    }
    let mut dims = Dims(Vec::new());
    dims.visit_expr(expr);
    dims.0
}

/// The sum, its largest powers first: `64 * n * n + 10 * n + 3`.
impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<(&Vec<Atom>, &i128)> = self.0.iter().collect();
        terms.sort_by_key(|(factors, _)| std::cmp::Reverse(factors.len()));
        if terms.is_empty() {
            return f.write_str("0");
        }
        for (i, (factors, number)) in terms.into_iter().enumerate() {
            f.write_str(match (i, *number < 0) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            })?;
            let size = number.unsigned_abs();
            let is_sum = |it: &PrimExpr| matches!(it, PrimExpr::Binary(it) if !matches!(it.op, BinaryOp::Min | BinaryOp::Max));
            let atoms = factors
                .iter()
                .map(|it| if is_sum(&it.expr) { format!("({})", it.text) } else { it.text.clone() });
            let number = if size == 1 && !factors.is_empty() { None } else { Some(size.to_string()) };
            f.write_str(&number.into_iter().chain(atoms).collect::<Vec<_>>().join(" * "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_have_one_form() {
        let (n, m) = (PrimExpr::from(Var::index("n")), PrimExpr::from(Var::index("m")));
        let half = n.clone().floordiv(2);
        let cases = [
            (n.clone() * 3 + n.clone() * 2, "5 * n", 20.0),
            ((n.clone() + 1) * (n.clone() - 1), "n * n - 1", 15.0),
            (m.clone() * n.clone() - n.clone() * m.clone(), "0", 0.0),
            (half.clone() * m.clone() * 4 - half.clone(), "4 * m * (n / 2) - (n / 2)", 6.0),
            (PrimExpr::index(7) * 6, "42", 42.0),
            // Minima are written as choices, too.
            (n.clone().less(3).select(n.clone(), PrimExpr::index(3)), "select(n < 3, n, 3)", 3.0),
        ];
        let extents = Extents::from([("n".to_string(), 4)]);
        for (expr, shown, at) in cases {
            let poly = Poly::of(&expr);
            assert_eq!((poly.to_string().as_str(), poly.at(&extents)), (shown, at));
        }
        assert_eq!(Poly::of(&PrimExpr::index(0)).constant(), Some(0));
        assert_eq!(Poly::of(&n).constant(), None);
        let huge = PrimExpr::index(i64::MAX);
        assert!(Poly::product([&huge, &huge, &huge]).at(&extents) > 1e37);
    }
}
