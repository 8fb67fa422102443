//! Loops: their ranges, variables, kinds and attributes.

use quote::format_ident;
use syn::{Attribute, Expr as SynExpr, ExprForLoop, Ident, LitStr, Meta, Pat};

use super::Parser;
use super::expr::count;
use super::scope::{Name, ValueKind};
use super::stmt::{called, pattern_names};
use crate::error::did_you_mean;
use crate::kernel::ast::{Attrs, DType, ExprKind, LoopKind, LoopRange, Stmt};

const LOOP_ATTRIBUTES: [&str; 5] = ["parallel", "vectorize", "unroll", "bind", "attrs"];

const THREADS: [&str; 7] =
    ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread"];

impl Parser<'_> {
    pub(super) fn for_loop(&mut self, it: &ExprForLoop) -> Option<Stmt> {
        let (kind, attrs) = self.loop_kind(&it.attrs);
        let range = self.loop_range(&it.expr);
        let vars = match (&*it.pat, &range) {
            (Pat::Ident(pat), Some(LoopRange::Grid(extents))) => {
                let help = format!(
                    "write `for [{}] in grid(..)`",
                    ["i", "j", "k", "l"][..extents.len().min(4)].join(", ")
                );
                self.errors.push(pat, "`grid` gives an array of loop variables", &help);
                vec![pat.ident.clone()]
            }
            (Pat::Ident(pat), _) => vec![pat.ident.clone()],
            (Pat::Wild(pat), _) => vec![Ident::new("_i", pat.underscore_token.span)],
            (Pat::Slice(pat), _) => self.names(pat),
            (other, range) => {
                if range.is_some() {
                    self.errors.push(
                        other,
                        "a loop variable is a plain name",
                        "write `for i in 0..n` or `for [i, j] in grid([m, n])`",
                    );
                }
                pattern_names(other).iter().for_each(|name| self.scopes.declare(name, Name::Unknown));
                vec![]
            }
        };
        match &range {
            Some(LoopRange::Grid(extents))
                if vars.len() != extents.len() && matches!(&*it.pat, Pat::Slice(_)) =>
            {
                let message = format!(
                    "{}, but `grid` has {}",
                    count(vars.len(), "loop variable"),
                    count(extents.len(), "extent")
                );
                self.errors.push(&it.pat, message, "give each extent one loop variable");
            }
            Some(LoopRange::Range { .. }) if matches!(&*it.pat, Pat::Slice(_)) => {
                self.errors.push(
                    &it.pat,
                    "a range gives one loop variable",
                    "write `for i in 0..n`, or use `grid([m, n])`",
                );
            }
            _ => {}
        }
        let counts = match &range {
            Some(LoopRange::Range { min, end, .. }) => self.dtype_of(min).or_else(|| self.dtype_of(end)),
            _ => None,
        };
        let negative = matches!(&range, Some(LoopRange::Range { min, .. }) if matches!(min.kind, ExprKind::Neg(_) | ExprKind::Int(..=-1, None)));
        match &range {
            Some(LoopRange::Range { min, end, .. }) => self.expect_one_type(&[min, end]),
            Some(LoopRange::Grid(extents)) => extents.iter().for_each(|it| self.expect_index(it)),
            None => {}
        }
        let default = if negative { "i64" } else { "usize" };
        self.scopes.open();
        for var in &vars {
            let dtype = counts.clone().or_else(|| Some(DType(Ident::new(default, var.span()))));
            self.scopes.declare(var, Name::Value { dtype, kind: ValueKind::LoopVar });
        }
        let body = self.block(&it.body);
        self.scopes.close();
        // Errors about the kind of a loop are reported at its attribute.
        let attribute =
            it.attrs.iter().find(|it| LOOP_ATTRIBUTES.iter().any(|name| it.path().is_ident(name)));
        let span = attribute.map_or(it.for_token.span, |it| it.pound_token.span);
        Some(Stmt::For { vars, range: range?, kind, attrs, body, span })
    }

    /// Plain names in `[i, j]`.
    pub(super) fn names(&mut self, pat: &syn::PatSlice) -> Vec<Ident> {
        let mut res: Vec<Ident> = Vec::new();
        for elem in &pat.elems {
            match elem {
                Pat::Ident(it) if res.contains(&it.ident) => {
                    self.errors.push(it, format!("`{}` is bound twice", it.ident), "");
                }
                Pat::Ident(it) => res.push(it.ident.clone()),
                Pat::Wild(it) => res.push(format_ident!("_i{}", res.len(), span = it.underscore_token.span)),
                other => self.errors.push(other, "a loop variable is a plain name", ""),
            }
        }
        res
    }

    pub(super) fn loop_range(&mut self, expr: &SynExpr) -> Option<LoopRange> {
        const HELP: &str = "loops run over `a..b` or `grid([m, n])`";
        match expr {
            SynExpr::Range(it) => {
                let min = match it.start.as_deref() {
                    Some(start) => self.expr(start),
                    None => {
                        self.errors.push(it, "the range has no start", "write `0..n`");
                        return None;
                    }
                };
                let Some(end) = it.end.as_deref() else {
                    self.errors.push(it, "the range has no end", "write `0..n`");
                    return None;
                };
                let inclusive = matches!(it.limits, syn::RangeLimits::Closed(_));
                Some(LoopRange::Range { min, end: self.expr(end), inclusive })
            }
            SynExpr::Paren(it) => self.loop_range(&it.expr),
            SynExpr::Call(it) if called(it).as_deref() == Some("grid") => match it.args.first() {
                Some(SynExpr::Array(array)) if it.args.len() == 1 => {
                    Some(LoopRange::Grid(array.elems.iter().map(|it| self.expr(it)).collect()))
                }
                _ => {
                    self.errors.push(it, "`grid` takes an array of extents", "write `grid([m, n])`");
                    None
                }
            },
            SynExpr::MethodCall(it) => {
                let help = match it.method.to_string().as_str() {
                    "rev" => "count up, and compute the index: `n - 1 - i`",
                    "step_by" => "loop over the number of steps, and compute the index: `i * 2`",
                    _ => HELP,
                };
                let message = format!("`.{}()` of a range is not supported in a kernel", it.method);
                self.errors.push(&it.method, message, help);
                None
            }
            other => {
                self.errors.push(other, "a kernel cannot loop over this", HELP);
                None
            }
        }
    }

    fn loop_kind(&mut self, attrs: &[Attribute]) -> (LoopKind, Attrs) {
        let (mut res, mut named) = (LoopKind::Serial, Attrs::new());
        for attr in attrs.iter().filter(|attr| !attr.path().is_ident("doc")) {
            let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
            let plain = matches!(attr.meta, Meta::Path(_));
            if let ("attrs", Meta::List(list)) = (name.as_str(), &attr.meta) {
                named.extend(crate::options::entries(list, self.errors));
                continue;
            }
            let kind = match name.as_str() {
                "parallel" if plain => LoopKind::Parallel,
                "vectorize" if plain => LoopKind::Vectorized,
                "unroll" if plain => LoopKind::Unrolled,
                "bind" => match attr.parse_args::<LitStr>() {
                    Ok(tag) if THREADS.contains(&tag.value().as_str()) => LoopKind::Thread(tag.value()),
                    Ok(tag) => {
                        let help = did_you_mean(
                            &tag.value(),
                            THREADS,
                            "threads are blockIdx.x .y .z, threadIdx.x .y .z and vthread",
                        );
                        self.errors.push(&tag, format!("`{}` is not a thread", tag.value()), &help);
                        continue;
                    }
                    Err(_) => {
                        self.errors.push(attr, "`bind` names a thread", "write `#[bind(\"blockIdx.x\")]`");
                        continue;
                    }
                },
                "parallel" | "vectorize" | "unroll" => {
                    self.errors.push(
                        attr,
                        format!("`{name}` takes no arguments"),
                        &format!("write `#[{name}]`; split the loop in a schedule"),
                    );
                    continue;
                }
                _ => {
                    let help = did_you_mean(
                        &name,
                        LOOP_ATTRIBUTES,
                        "loops take #[parallel], #[vectorize], #[unroll] and #[bind(\"blockIdx.x\")]",
                    );
                    self.errors.push(attr.path(), format!("unknown loop attribute `{name}`"), &help);
                    continue;
                }
            };
            if !matches!(res, LoopKind::Serial) {
                self.errors.push(attr, "a loop has one kind", "keep one of the attributes");
            }
            res = kind;
        }
        (res, named)
    }
}
