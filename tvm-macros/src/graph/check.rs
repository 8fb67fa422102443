//! Checks of shapes and element types inside one function, before anything is built.
//!
//! Only certain errors are reported: extents that are different constants, element types that differ. The rest is
//! checked when the function is built, with the same messages.
//!
//! `softmax(x)` calls the operator only if the user has no function of that name, which a macro cannot see. An error that
//! depends on such a name becomes an assertion, so that rustc reports it only if the name is the operator's.

mod operators;

use std::collections::{HashMap, HashSet};

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{BinOp, Expr, GenericArgument, Lit, Pat, PathArguments, ReturnType, Stmt, Type};

use super::function::GraphParam;
use crate::dims::{float_limit, int_limits};
use crate::error::Errors;
use crate::paths;

/// A tensor type as far as it is known.
#[derive(Clone)]
struct Known {
    dtype: String,
    dims: Vec<Dim>,
    /// Names that are assumed to be operators.
    operators: Vec<Ident>,
}

#[derive(Clone, PartialEq)]
enum Dim {
    Const(i64),
    Name(String),
    Unknown,
}

/// Checks the body of a function against its parameters and result; returns the checks that are left to rustc.
pub(super) fn function(
    own: Option<&Ident>,
    params: &[GraphParam],
    ret: &ReturnType,
    body: &Expr,
    errors: &mut Errors,
) -> TokenStream {
    let names = params.iter().filter_map(|param| Some((param.name.to_string(), known(&param.ty)?)));
    let locals = params.iter().map(|param| &param.name).chain(own).map(ToString::to_string);
    let mut checker =
        Checker { names: names.collect(), locals: locals.collect(), errors, conditional: TokenStream::new() };
    if let Some(value) = checker.expr(body)
        && let ReturnType::Type(_, ty) = ret
        && let Some(expected) = known(ty)
    {
        checker.result(last_expr(body), &value, &expected);
    }
    checker.conditional
}

/// True for a literal, or one with a minus.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Unary(it) => matches!(it.op, syn::UnOp::Neg(_)) && matches!(&*it.expr, Expr::Lit(_)),
        _ => false,
    }
}

fn last_expr(body: &Expr) -> &Expr {
    match body {
        Expr::Block(it) => match it.block.stmts.last() {
            Some(Stmt::Expr(expr, None)) => last_expr(expr),
            _ => body,
        },
        _ => body,
    }
}

fn differ(a: &Dim, b: &Dim) -> bool {
    matches!((a, b), (Dim::Const(a), Dim::Const(b)) if a != b)
}

fn show(known: &Known) -> String {
    let dims: Vec<String> = known
        .dims
        .iter()
        .map(|dim| match dim {
            Dim::Const(value) => value.to_string(),
            Dim::Name(name) => name.clone(),
            Dim::Unknown => "?".into(),
        })
        .collect();
    format!("{} [{}]", known.dtype, dims.join(", "))
}

fn known(ty: &Type) -> Option<Known> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Tensor")?;
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    let mut args = args.args.iter();
    let GenericArgument::Type(Type::Path(dtype)) = args.next()? else { return None };
    let dims = args.map(|arg| match arg {
        GenericArgument::Type(Type::Path(path)) => {
            path.path.get_ident().map_or(Dim::Unknown, |it| Dim::Name(it.to_string()))
        }
        GenericArgument::Const(Expr::Lit(lit)) => match &lit.lit {
            Lit::Int(value) => value.base10_parse().map_or(Dim::Unknown, Dim::Const),
            _ => Dim::Unknown,
        },
        _ => Dim::Unknown,
    });
    Some(Known { dtype: dtype.path.get_ident()?.to_string(), dims: dims.collect(), operators: vec![] })
}

struct Checker<'a> {
    names: HashMap<String, Known>,
    /// Names that are certainly not operators.
    locals: HashSet<String>,
    errors: &'a mut Errors,
    /// Assertions that report errors on condition that names are operators.
    conditional: TokenStream,
}

impl Checker<'_> {
    /// Reports an error that follows from what is known of the values `of`.
    fn report(&mut self, place: &impl ToTokens, message: &str, help: &str, of: &[&Known]) {
        let operators: Vec<&Ident> = of.iter().flat_map(|known| &known.operators).collect();
        if operators.is_empty() {
            return self.errors.push(place, message, help);
        }
        self.conditional.extend(unless_users(place, message, help, &operators));
    }

    /// Checks that the element type of the other operand has the value of a literal.
    fn literal(&mut self, literal: &Expr, other: &Known) {
        let (negative, lit) = match literal {
            Expr::Unary(it) => (true, &*it.expr),
            other => (false, other),
        };
        let Expr::Lit(lit) = lit else { return };
        let dtype = &other.dtype;
        let (what, help) = match (&lit.lit, int_limits(dtype), float_limit(dtype)) {
            (Lit::Int(it), Some((min, max)), _) => {
                let Ok(value) = it.base10_parse::<i128>() else { return };
                if (min..=max).contains(&if negative { -value } else { value }) {
                    return;
                }
                (format!("is no {dtype}"), format!("{dtype} holds {min}..={max}"))
            }
            (Lit::Float(_), Some(_), _) => (
                format!("is a float where {dtype} is expected"),
                "write an integer, or convert the tensor with astype(x, f32)".to_string(),
            ),
            (Lit::Float(it), None, Some(limit)) if it.base10_parse::<f64>().is_ok_and(|it| it > limit) => {
                (format!("is too large for {dtype}"), format!("{dtype} holds numbers up to {limit:?}"))
            }
            (Lit::Int(_) | Lit::Float(_), ..) if dtype == "bool" => {
                ("is a number where a bool is expected".to_string(), "write true or false".to_string())
            }
            _ => return,
        };
        let text = literal.to_token_stream().to_string().replace(' ', "");
        self.report(literal, &format!("the literal `{text}` {what}"), &help, &[other]);
    }

    fn result(&mut self, place: &Expr, value: &Known, expected: &Known) {
        let help = if expected.dtype != value.dtype {
            format!("convert it with astype(.., {})", expected.dtype)
        } else if expected.dims.len() != value.dims.len()
            || expected.dims.iter().zip(&value.dims).any(|(a, b)| differ(a, b))
        {
            "the body and the result type must agree".to_string()
        } else {
            return;
        };
        let message = format!("the result is {}, expected {}", show(value), show(expected));
        self.report(place, &message, &help, &[value]);
    }

    /// What is known of the value of `expr`.
    fn expr(&mut self, expr: &Expr) -> Option<Known> {
        match expr {
            Expr::Path(path) => self.names.get(&path.path.get_ident()?.to_string()).cloned(),
            Expr::Paren(it) => self.expr(&it.expr),
            Expr::Block(it) => {
                let outer = (self.names.clone(), self.locals.clone());
                let mut value = None;
                for stmt in &it.block.stmts {
                    value = None;
                    match stmt {
                        Stmt::Local(local) => {
                            let init = local.init.as_ref().and_then(|init| self.expr(&init.expr));
                            self.bind(&local.pat, init);
                        }
                        Stmt::Expr(inner, None) => value = self.expr(inner),
                        Stmt::Expr(inner, Some(_)) => {
                            self.expr(inner);
                        }
                        Stmt::Item(_) | Stmt::Macro(_) => {}
                    }
                }
                (self.names, self.locals) = outer;
                value
            }
            Expr::Binary(it) => {
                let (a, b) = (self.expr(&it.left), self.expr(&it.right));
                let arithmetic =
                    matches!(it.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_));
                let compares = matches!(
                    it.op,
                    BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_)
                );
                let value = match (a, b) {
                    (Some(a), Some(b)) if arithmetic || compares => self.broadcast(expr, &a, &b)?,
                    (Some(a), None) if is_literal(&it.right) => {
                        self.literal(&it.right, &a);
                        a
                    }
                    (None, Some(b)) if is_literal(&it.left) => {
                        self.literal(&it.left, &b);
                        b
                    }
                    _ => return None,
                };
                match (arithmetic, compares) {
                    (true, _) => Some(value),
                    (_, true) => Some(value.of("bool")),
                    _ => None,
                }
            }
            Expr::Unary(it) => self.expr(&it.expr),
            Expr::MethodCall(it) => {
                let args: Vec<&Expr> = std::iter::once(&*it.receiver).chain(&it.args).collect();
                let call = self.operator_call(expr, &args, None);
                self.operator(&it.method.to_string(), &call)
            }
            Expr::Call(it) => {
                let args: Vec<&Expr> = it.args.iter().collect();
                let name = match &*it.func {
                    Expr::Path(path) => path.path.get_ident(),
                    _ => None,
                };
                // Only operators have named arguments.
                let certain = args.iter().any(|arg| matches!(arg, Expr::Assign(_)));
                let call = self.operator_call(expr, &args, name.filter(|_| !certain));
                let name = name?.to_string();
                if self.locals.contains(&name) { None } else { self.operator(&name, &call) }
            }
            Expr::If(it) => {
                let then = Expr::Block(syn::ExprBlock {
                    attrs: Vec::new(),
                    label: None,
                    block: it.then_branch.clone(),
                });
                if let Some(cond) = self.expr(&it.cond) {
                    self.condition(&it.cond, &cond);
                }
                let arms = [self.expr(&then), it.else_branch.as_ref().and_then(|(_, it)| self.expr(it))];
                let places = [&then, it.else_branch.as_ref().map_or(&then, |(_, it)| &**it)];
                self.arms("if", places.into_iter().map(last_expr).zip(arms))
            }
            Expr::Match(it) => {
                self.expr(&it.expr);
                let arms: Vec<(&Expr, Option<Known>)> = it
                    .arms
                    .iter()
                    .map(|arm| {
                        let outer = (self.names.clone(), self.locals.clone());
                        self.bind(&arm.pat, None);
                        let value = self.expr(&arm.body);
                        (self.names, self.locals) = outer;
                        (last_expr(&arm.body), value)
                    })
                    .collect();
                self.arms("match", arms.into_iter())
            }
            _ => None,
        }
    }

    /// Checks that a condition is a single bool.
    fn condition(&mut self, place: &Expr, cond: &Known) {
        let help = if cond.dtype != "bool" {
            "compare it: `sum(x) > 0.0`"
        } else if !cond.dims.is_empty() {
            "reduce it to one bool first; `select(cond, a, b)` chooses for each element"
        } else {
            return;
        };
        let message = format!("a condition is Tensor<bool> or bool, got {}", show(cond));
        self.report(place, &message, help, &[cond]);
    }

    /// Checks that the arms of a branch have one element type, with any shapes; returns what is known of the result.
    fn arms<'e>(
        &mut self,
        what: &str,
        arms: impl Iterator<Item = (&'e Expr, Option<Known>)>,
    ) -> Option<Known> {
        let arms: Vec<(&Expr, Option<Known>)> = arms.collect();
        let (_, first) = arms.iter().find(|(_, value)| value.is_some())?;
        let mut res = first.clone()?;
        for (place, value) in arms.iter().filter_map(|(place, value)| Some((place, value.as_ref()?))) {
            if value.dtype != res.dtype {
                let (a, b) = (show(&res), show(value));
                let message = format!("the arms of `{what}` have different types: {a} and {b}");
                let help = "all arms give a value of one element type and structure";
                self.report(place, &message, help, &[&res, value]);
                return None;
            }
            if value.dims.len() != res.dims.len() {
                return None;
            }
            let same = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
            let dims = res.dims.iter().zip(&value.dims).map(same).collect();
            res = res.joined(value, dims);
        }
        arms.iter().all(|(_, value)| value.is_some()).then_some(res)
    }

    /// Binds the names of `pat` to `value`, or to something unknown.
    fn bind(&mut self, pat: &Pat, value: Option<Known>) {
        if let Pat::Ident(name) = pat {
            self.locals.insert(name.ident.to_string());
        }
        match (pat, value) {
            (Pat::Ident(name), Some(known)) => {
                self.names.insert(name.ident.to_string(), known);
            }
            (Pat::Ident(name), None) => {
                self.names.remove(&name.ident.to_string());
            }
            (Pat::Type(typed), _) => self.bind(&typed.pat, known(&typed.ty)),
            (Pat::Tuple(tuple), _) => tuple.elems.iter().for_each(|field| self.bind(field, None)),
            (Pat::TupleStruct(it), _) => it.elems.iter().for_each(|field| self.bind(field, None)),
            (Pat::Or(it), _) => it.cases.iter().for_each(|case| self.bind(case, None)),
            (Pat::Paren(it), value) => self.bind(&it.pat, value),
            _ => {}
        }
    }

    fn broadcast(&mut self, place: &Expr, a: &Known, b: &Known) -> Option<Known> {
        if a.dtype != b.dtype {
            let message = format!("operands have different element types: {} and {}", show(a), show(b));
            self.report(place, &message, "convert one with astype(x, f32)", &[a, b]);
            return None;
        }
        let rank = a.dims.len().max(b.dims.len());
        let at = |known: &Known, axis: usize| {
            let missing = rank - known.dims.len();
            if axis < missing { Dim::Const(1) } else { known.dims[axis - missing].clone() }
        };
        let mut dims = Vec::new();
        for axis in 0..rank {
            dims.push(match (at(a, axis), at(b, axis)) {
                (Dim::Const(1), other) | (other, Dim::Const(1)) => other,
                (x, y) if differ(&x, &y) => {
                    let message = format!("shapes {} and {} do not broadcast", show(a), show(b));
                    self.report(place, &message, "extents must be equal, or one of them 1", &[a, b]);
                    return None;
                }
                (Dim::Const(value), _) | (_, Dim::Const(value)) => Dim::Const(value),
                (x, y) if x == y => x,
                _ => Dim::Unknown,
            });
        }
        Some(a.joined(b, dims))
    }
}

impl Known {
    /// This type, if it is known only on condition that `name` is the operator.
    fn through(mut self, name: &Ident) -> Known {
        self.operators.push(name.clone());
        self
    }

    /// This type with elements of type `dtype`.
    fn of(self, dtype: &str) -> Known {
        Known { dtype: dtype.into(), ..self }
    }

    /// This type with the extents `dims`.
    fn with(&self, dims: Vec<Dim>) -> Known {
        Known { dims, ..self.clone() }
    }

    /// The type of a value with the extents `dims` that is computed from both.
    fn joined(&self, other: &Known, dims: Vec<Dim>) -> Known {
        let operators = self.operators.iter().chain(&other.operators).cloned().collect();
        Known { dtype: self.dtype.clone(), dims, operators }
    }
}

/// An assertion that makes rustc report the error unless one of `operators` is a user's function.
fn unless_users(place: &impl ToTokens, message: &str, help: &str, operators: &[&Ident]) -> TokenStream {
    let mut names: Vec<&Ident> = Vec::new();
    operators.iter().for_each(|name| {
        if !names.contains(name) {
            names.push(name);
        }
    });
    let span = place.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span());
    let graph = paths::graph(Span::call_site());
    let escaped = |text: &str| text.replace('{', "{{").replace('}', "}}");
    let message = format!("{}\nhelp: {}", escaped(message), escaped(help));
    let calls = names.iter().map(|name| {
        let name = Ident::new(&name.to_string(), name.span().located_at(span));
        let call = crate::operators::call(&name, &quote!(args));
        quote!(#graph::is_users(&|args: #graph::Args| #call))
    });
    quote_spanned!(span=> const _: () = ::core::assert!(#(#calls)||*, #message);)
}
