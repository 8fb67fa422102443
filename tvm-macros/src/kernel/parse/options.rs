//! The arguments of the attribute: `#[prim_func(dims(n = 1..=64, m % 8 == 0))]`.

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, Ident, Lit, Meta, RangeLimits, Token};

use super::Parser;
use crate::error::Errors;
use crate::kernel::ast::{Bound, BoundKind};

/// The arguments of the attribute.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) bounds: Vec<Bound>,
    /// Name in the module and attributes.
    pub(crate) func: crate::options::Options,
}

/// Reads the arguments of the attribute.
pub(crate) fn options(attr: TokenStream, errors: &mut Errors) -> Options {
    let mut res = Options::default();
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    let metas = match syn::parse::Parser::parse2(parser, attr) {
        Ok(metas) => metas,
        Err(error) => {
            errors.add(error);
            return res;
        }
    };
    for meta in metas {
        match &meta {
            Meta::List(list) if list.path.is_ident("dims") => {
                match list.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
                    Ok(exprs) => res.bounds.extend(exprs.iter().filter_map(|it| bound(it, errors))),
                    Err(error) => errors.add(error),
                }
            }
            meta if ["name", "attrs", "root"].iter().any(|name| meta.path().is_ident(name)) => {
                res.func.meta(meta, &["name", "attrs", "root"], errors);
            }
            _ => errors.push(
                meta.path(),
                "unknown argument of `prim_func`",
                "`dims(n = 1..=64, m % 8 == 0)` is what it takes",
            ),
        }
    }
    res
}

const HELP: &str = "a bound is `n = 1..=64`, `n = 8`, `n % 8 == 0` or a comparison such as `n <= 64`";

fn bound(expr: &Expr, errors: &mut Errors) -> Option<Bound> {
    let res = parse_bound(expr);
    if res.is_none() {
        errors.push(expr, "this is not a bound of a dimension", HELP);
    }
    res
}

fn parse_bound(expr: &Expr) -> Option<Bound> {
    let make = |dim: Ident, kind| Some(Bound { dim, kind });
    match expr {
        Expr::Assign(it) => {
            let dim = ident(&it.left)?;
            match &*it.right {
                Expr::Range(range) => {
                    let min = range.start.as_deref().map_or(Some(0), int)?;
                    let max = match (range.end.as_deref(), range.limits) {
                        (None, _) => i64::MAX,
                        (Some(end), RangeLimits::Closed(_)) => int(end)?,
                        (Some(end), RangeLimits::HalfOpen(_)) => int(end)?.checked_sub(1)?,
                    };
                    make(dim, BoundKind::Between(min, max))
                }
                value => make(dim, BoundKind::Between(int(value)?, int(value)?)),
            }
        }
        Expr::Binary(it) => {
            let right = int(&it.right)?;
            if let (Expr::Binary(rem), BinOp::Eq(_)) = (&*it.left, it.op) {
                let modulus = matches!(rem.op, BinOp::Rem(_)).then(|| int(&rem.right)).flatten()?;
                return (modulus > 0).then(|| make(ident(&rem.left)?, BoundKind::Modulo(modulus, right)))?;
            }
            let (min, max) = match it.op {
                BinOp::Eq(_) => (right, right),
                BinOp::Le(_) => (0, right),
                BinOp::Lt(_) => (0, right.checked_sub(1)?),
                BinOp::Ge(_) => (right, i64::MAX),
                BinOp::Gt(_) => (right.checked_add(1)?, i64::MAX),
                _ => return None,
            };
            make(ident(&it.left)?, BoundKind::Between(min, max))
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
        _ => None,
    }
}

impl Parser<'_> {
    /// Checks that the bounds are about dimensions of the signature.
    pub(super) fn bounds(&mut self, options: &Options, dims: &[Ident]) {
        for bound in &options.bounds {
            if !dims.contains(&bound.dim) {
                let names: Vec<String> = dims.iter().map(Ident::to_string).collect();
                let names = names.iter().map(String::as_str);
                let name = bound.dim.to_string();
                let help = crate::error::did_you_mean(&name, names, "bound a dimension of a parameter");
                self.errors.push(&bound.dim, format!("`{name}` is not a symbolic dimension"), &help);
            }
        }
    }
}
