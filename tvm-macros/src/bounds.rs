//! Bounds of dimensions, an argument of the attributes: `dims(n = 1..=64, m % 8 == 0)`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, Ident, Lit, MetaList, RangeLimits, Token, UnOp};

use crate::error::{Errors, did_you_mean};
use crate::paths;

/// The bounds of some dimensions.
#[derive(Default)]
pub(crate) struct Bounds(Vec<Bound>);

/// The bounds of one dimension: minimum, maximum (`i64::MAX` if there is none), modulus (1 if there is none), remainder.
struct Bound {
    dim: Ident,
    min: i64,
    max: i64,
    modulus: i64,
    remainder: i64,
}

const HELP: &str = "a bound is `n = 1..=64`, `n = 8`, `n % 8 == 0` or a comparison such as `n <= 64`";

impl Bounds {
    /// Reads the bounds in `dims(..)`. Several of one dimension hold together.
    pub(crate) fn read(&mut self, list: &MetaList, errors: &mut Errors) {
        match list.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            Ok(exprs) => exprs.iter().for_each(|expr| match bound(expr) {
                Some(bound) => self.add(bound, expr, errors),
                None => errors.push(expr, "this is not a bound of a dimension", HELP),
            }),
            Err(error) => errors.add(error),
        }
    }

    fn add(&mut self, bound: Bound, expr: &Expr, errors: &mut Errors) {
        let Bound { dim, min, max, modulus, remainder } = &bound;
        if *min < 0 {
            let message = format!("`{dim}` is an extent, which is not negative");
            return errors.push(expr, message, "bounds begin at 0 or above");
        }
        if !(0..*modulus).contains(remainder) {
            let message = format!("there is no remainder {remainder} modulo {modulus}");
            return errors.push(expr, message, HELP);
        }
        if min > max {
            let message = format!("`{dim}` has no value: the range is empty");
            return errors.push(expr, message, "both ends of `1..=64` are included");
        }
        let Some(known) = self.0.iter_mut().find(|it| it.dim == *dim) else { return self.0.push(bound) };
        if *modulus != 1 && known.modulus != 1 {
            let message = format!("`{dim}` has a modulus already");
            return errors.push(expr, message, "write one condition for both, such as `n % 24 == 0`");
        }
        (known.min, known.max) = (known.min.max(*min), known.max.min(*max));
        if *modulus != 1 {
            (known.modulus, known.remainder) = (*modulus, *remainder);
        }
        if known.is_empty() {
            let message = format!("`{dim}` has no value: this contradicts its other bounds");
            errors.push(expr, message, "remove one of them");
        }
    }

    /// Checks that the bounds are about dimensions that the parameters bind.
    pub(crate) fn check(&self, dims: &[&Ident], errors: &mut Errors) {
        for Bound { dim, .. } in self.0.iter().filter(|it| !dims.contains(&&it.dim)) {
            let (name, names) = (dim.to_string(), dims.iter().map(|it| it.to_string()).collect::<Vec<_>>());
            let names = names.iter().map(String::as_str);
            let help = did_you_mean(&name, names, "bound a dimension of a parameter, or an `i64`");
            errors.push(dim, format!("`{name}` is not a symbolic dimension"), &help);
        }
    }

    /// The bounds of `dim`, as an `Option<DimBound>`.
    pub(crate) fn of(&self, dim: &Ident) -> TokenStream {
        let runtime = paths::runtime(Span::call_site());
        match self.0.iter().find(|it| it.dim == *dim) {
            Some(Bound { min, max, modulus, remainder, .. }) => {
                quote!(#runtime::DimBound::new(#min, #max, #modulus, #remainder).ok())
            }
            None => quote!(::core::option::Option::None),
        }
    }

    /// The dimensions that have bounds.
    pub(crate) fn dims(&self) -> impl Iterator<Item = &Ident> {
        self.0.iter().map(|it| &it.dim)
    }
}

impl Bound {
    fn is_empty(&self) -> bool {
        let up = (self.remainder - self.min).rem_euclid(self.modulus);
        self.min.checked_add(up).is_none_or(|first| first > self.max)
    }
}

fn bound(expr: &Expr) -> Option<Bound> {
    let between = |dim, min, max| Some(Bound { dim, min, max, modulus: 1, remainder: 0 });
    match expr {
        Expr::Assign(it) => {
            let dim = ident(&it.left)?;
            let Expr::Range(range) = &*it.right else {
                let value = int(&it.right)?;
                return between(dim, value, value);
            };
            let min = range.start.as_deref().map_or(Some(0), int)?;
            let max = match (range.end.as_deref(), range.limits) {
                (None, _) => i64::MAX,
                (Some(end), RangeLimits::Closed(_)) => int(end)?,
                (Some(end), RangeLimits::HalfOpen(_)) => int(end)?.checked_sub(1)?,
            };
            between(dim, min, max)
        }
        Expr::Binary(it) => {
            let right = int(&it.right)?;
            if let (Expr::Binary(rem), BinOp::Eq(_)) = (&*it.left, it.op) {
                let modulus = int(&rem.right).filter(|_| matches!(rem.op, BinOp::Rem(_)))?;
                let dim = ident(&rem.left).filter(|_| modulus > 0)?;
                return Some(Bound { dim, min: 0, max: i64::MAX, modulus, remainder: right });
            }
            let (min, max) = match it.op {
                BinOp::Eq(_) => (right, right),
                BinOp::Le(_) => (0, right),
                BinOp::Lt(_) => (0, right.checked_sub(1)?),
                BinOp::Ge(_) => (right, i64::MAX),
                BinOp::Gt(_) => (right.checked_add(1)?, i64::MAX),
                _ => return None,
            };
            between(ident(&it.left)?, min, max)
        }
        _ => None,
    }
}

fn ident(expr: &Expr) -> Option<Ident> {
    if let Expr::Path(path) = expr { path.path.get_ident().cloned() } else { None }
}

fn int(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(it) => it.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => int(&it.expr)?.checked_neg(),
        _ => None,
    }
}
