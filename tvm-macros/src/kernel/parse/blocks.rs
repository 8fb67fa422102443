//! Blocks, their axes and their `init`.

use syn::spanned::Spanned;
use syn::{Expr as SynExpr, ExprCall, Ident, Lit, LitStr, Pat};

use super::Parser;
use super::expr::count;
use super::scope::{Name, ValueKind};
use super::stmt::called;
use crate::kernel::ast::{Attrs, Axis, AxisKind, DType, Expr, LoopRange, Stmt};

const BLOCK_HELP: &str = "write `block(\"name\", [S(i), R(k)], |[vi, vk]| { .. })`";

/// Kind and value of an axis, and its domain (first and end) if that is written.
type AxisParts = (AxisKind, Expr, Option<(Expr, Expr)>);

impl Parser<'_> {
    /// `block("C", [S(i), R(k)], |[vi, vk]| { .. })`
    pub(super) fn block_stmt(&mut self, call: &ExprCall) -> Option<Stmt> {
        let args: Vec<&SynExpr> = call.args.iter().collect();
        let [name, axes, body] = args.as_slice() else {
            let message =
                format!("`block` takes a name, axes and a body, but {} given", count(args.len(), "argument"));
            self.errors.push(&call.func, message, BLOCK_HELP);
            return None;
        };
        let name = match name {
            SynExpr::Lit(syn::ExprLit { lit: Lit::Str(name), .. }) => name.clone(),
            other => {
                self.errors.push(other, "the name of a block is a string literal", BLOCK_HELP);
                return None;
            }
        };
        let SynExpr::Array(axes) = axes else {
            self.errors.push(axes, "the axes of a block are an array", BLOCK_HELP);
            return None;
        };
        let SynExpr::Closure(closure) = body else {
            self.errors.push(body, "the body of a block is a closure over its axes", BLOCK_HELP);
            return None;
        };
        let attrs = self.block_attrs(&call.attrs);
        let values: Vec<Option<AxisParts>> = axes.elems.iter().map(|it| self.axis(it)).collect();
        let vars = match closure.inputs.first() {
            Some(Pat::Slice(pat)) if closure.inputs.len() == 1 => self.names(pat),
            _ => {
                let tokens = closure.inputs.first().map_or_else(
                    || quote::ToTokens::to_token_stream(closure),
                    quote::ToTokens::to_token_stream,
                );
                self.errors.push(&tokens, "the body of a block takes its axes as an array", BLOCK_HELP);
                return None;
            }
        };
        if vars.len() != values.len() {
            let message = format!(
                "block {} has {}, but its body takes {}",
                quoted(&name),
                count_axes(values.len()),
                vars.len()
            );
            self.errors.push(&closure.inputs, message, "give each axis one variable");
            return None;
        }
        self.scopes.open();
        for var in &vars {
            let dtype = Some(DType(Ident::new("usize", var.span())));
            self.scopes.declare(var, Name::Value { dtype, kind: ValueKind::Axis });
        }
        let body = self.closure_body(&closure.body);
        self.scopes.close();
        let axes = values.into_iter().zip(vars).filter_map(|(axis, var)| {
            let (kind, value, dom) = axis?;
            Some(Axis { kind, value, dom, var })
        });
        Some(Stmt::Block { name, attrs, axes: axes.collect(), body, span: call.func.span() })
    }

    /// `#[attrs(key = value)]` on a block.
    fn block_attrs(&mut self, attrs: &[syn::Attribute]) -> Attrs {
        let mut res = Attrs::new();
        for attr in attrs.iter().filter(|attr| !attr.path().is_ident("doc")) {
            match &attr.meta {
                syn::Meta::List(list) if list.path.is_ident("attrs") => {
                    res.extend(crate::options::entries(list, self.errors));
                }
                _ => self.errors.push(
                    attr.path(),
                    "unknown attribute of a block",
                    "blocks take `#[attrs(key = 1)]`",
                ),
            }
        }
        res
    }

    /// `S(i)`, or `S(i).within(0..n)`.
    fn axis(&mut self, expr: &SynExpr) -> Option<AxisParts> {
        if let SynExpr::MethodCall(it) = expr
            && it.method == "within"
        {
            let dom = match it.args.first() {
                Some(range @ SynExpr::Range(_)) if it.args.len() == 1 => self.domain(range),
                _ => None,
            };
            if dom.is_none() {
                self.errors.push(&it.args, "a domain is a range", "write `S(i).within(0..n)`");
            }
            let (kind, value, _) = self.axis(&it.receiver)?;
            return Some((kind, value, Some(dom?)));
        }
        if let SynExpr::Call(call) = expr
            && let Some(kind) = called(call)
            && call.args.len() == 1
        {
            let kind = match kind.as_str() {
                "S" => AxisKind::Spatial,
                "R" => AxisKind::Reduce,
                "O" => AxisKind::Ordered,
                "Q" => AxisKind::Opaque,
                other => {
                    self.errors.push(
                        &call.func,
                        format!("unknown kind of axis `{other}`"),
                        "axes are `S(i)` (spatial) and `R(k)` (reduction)",
                    );
                    return None;
                }
            };
            let value = self.expr(&call.args[0]);
            self.expect_index(&value);
            return Some((kind, value, None));
        }
        self.errors.push(expr, "this is not an axis", "axes are `S(i)` (spatial) and `R(k)` (reduction)");
        None
    }

    /// `min..end`
    fn domain(&mut self, range: &SynExpr) -> Option<(Expr, Expr)> {
        match self.loop_range(range)? {
            LoopRange::Range { min, end, inclusive: false } => Some((min, end)),
            LoopRange::Range { .. } | LoopRange::Grid(_) => None,
        }
    }

    /// The statements of a closure's body.
    pub(super) fn closure_body(&mut self, body: &SynExpr) -> Vec<Stmt> {
        match body {
            SynExpr::Block(it) => self.block(&it.block),
            other => self.expr_stmt(other).into_iter().collect(),
        }
    }

    /// `init(|| c[[i, j]] = 0.0);`
    pub(super) fn init(&mut self, call: &ExprCall) -> Option<Stmt> {
        match (call.args.len(), call.args.first()) {
            (1, Some(SynExpr::Closure(closure))) if closure.inputs.is_empty() => {
                Some(Stmt::Init { body: self.closure_body(&closure.body), span: call.func.span() })
            }
            _ => {
                self.errors.push(
                    call,
                    "`init` takes a closure without parameters",
                    "write `init(|| c[[vi, vj]] = 0.0);`",
                );
                None
            }
        }
    }
}

fn quoted(name: &LitStr) -> String {
    format!("`{}`", name.value())
}

fn count_axes(n: usize) -> String {
    if n == 1 { "1 axis".to_string() } else { format!("{n} axes") }
}
