//! Inference of the element types of expressions from the names in them, also for mutable scalars without a written type.

use quote::format_ident;
use syn::visit::Visit;
use syn::{Expr, Ident, Stmt};

use super::Parser;
use super::scope::Name;
use crate::kernel::ast::{DType, ExprKind};

impl Parser<'_> {
    /// Type of a parsed expression; `None` when it is not known, as for literals.
    pub(super) fn dtype_of(&self, expr: &crate::kernel::ast::Expr) -> Option<DType> {
        let of_name = |name: &Ident| match self.scopes.lookup(name)? {
            Name::Value { dtype, .. } => dtype.clone(),
            Name::Tensor { dtype, .. } | Name::Scalar { dtype } => Some(dtype.clone()),
            Name::Helper { .. } | Name::Unknown => None,
        };
        let bool = || Some(DType(format_ident!("bool")));
        match &expr.kind {
            ExprKind::Int(_, suffix) | ExprKind::Float(_, suffix) | ExprKind::FloatNear(_, _, suffix) => {
                suffix.clone().map(DType)
            }
            ExprKind::Bool(_) => bool(),
            ExprKind::Var(name) | ExprKind::Load { buffer: name, .. } => of_name(name),
            ExprKind::HostLoad(..)
            | ExprKind::Host(_)
            | ExprKind::Helper(..)
            | ExprKind::Inline(..)
            | ExprKind::CallC(..)
            | ExprKind::Error => None,
            ExprKind::Block(_, _, dtype) => dtype.clone(),
            ExprKind::Neg(a) | ExprKind::Not(a) => self.dtype_of(a),
            ExprKind::Binary(op, a, b) => {
                if is_comparison(op) {
                    bool()
                } else {
                    self.dtype_of(a).or_else(|| self.dtype_of(b))
                }
            }
            ExprKind::Cast(_, ty) => Some(DType(ty.clone())),
            ExprKind::Call("IsNan" | "IsInf", _) => bool(),
            ExprKind::Call("PopCount" | "Clz", _) => Some(DType(format_ident!("u32"))),
            ExprKind::Call(_, args) => args.iter().find_map(|arg| self.dtype_of(arg)),
            ExprKind::Extremum(_, a, b) | ExprKind::Select(_, a, b) | ExprKind::If(_, a, b) => {
                self.dtype_of(a).or_else(|| self.dtype_of(b))
            }
        }
    }

    /// Type of the mutable scalar `name`, inferred from how the statements `rest` use it.
    pub(super) fn infer_from_use(&self, name: &Ident, rest: &[Stmt]) -> Option<DType> {
        let mut find = Evidence { parser: self, name, locals: vec![], found: None };
        rest.iter().for_each(|stmt| find.visit_stmt(stmt));
        find.found
    }

    /// Type of `expr` according to the names, casts and suffixes in it; `locals` are names declared after this place.
    fn evidence(&self, expr: &Expr, locals: &[(Ident, DType)]) -> Option<DType> {
        let evidence = |it: &Expr| self.evidence(it, locals);
        if let Expr::Path(it) = expr
            && let Some(name) = it.path.get_ident()
            && let Some((_, dtype)) = locals.iter().rev().find(|(local, _)| local == name)
        {
            return Some(dtype.clone());
        }
        match expr {
            Expr::Index(it) => evidence(&it.expr),
            Expr::Path(it) => match self.scopes.lookup(it.path.get_ident()?)? {
                Name::Value { dtype, .. } => dtype.clone(),
                Name::Tensor { dtype, .. } | Name::Scalar { dtype } => Some(dtype.clone()),
                Name::Helper { .. } | Name::Unknown => None,
            },
            Expr::Cast(it) => match &*it.ty {
                syn::Type::Path(path) => path.path.get_ident().cloned().map(DType),
                _ => None,
            },
            Expr::Lit(it) => match &it.lit {
                syn::Lit::Float(it) if !it.suffix().is_empty() => {
                    Some(DType(format_ident!("{}", it.suffix())))
                }
                syn::Lit::Int(it) if !it.suffix().is_empty() => Some(DType(format_ident!("{}", it.suffix()))),
                syn::Lit::Bool(_) => Some(DType(format_ident!("bool"))),
                _ => None,
            },
            Expr::Binary(it) if is_comparison(&it.op) => Some(DType(format_ident!("bool"))),
            Expr::Binary(it) => evidence(&it.left).or_else(|| evidence(&it.right)),
            Expr::Unary(it) => evidence(&it.expr),
            Expr::Paren(it) => evidence(&it.expr),
            Expr::MethodCall(it) => evidence(&it.receiver).or_else(|| it.args.iter().find_map(evidence)),
            Expr::Call(it) => it.args.iter().find_map(evidence),
            Expr::If(it) => it.then_branch.stmts.iter().find_map(|stmt| match stmt {
                Stmt::Expr(expr, None) => evidence(expr),
                _ => None,
            }),
            _ => None,
        }
    }
}

pub(super) fn is_comparison(op: &syn::BinOp) -> bool {
    use syn::BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
    matches!(op, Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_) | And(_) | Or(_))
}

struct Evidence<'a, 'b> {
    parser: &'a Parser<'b>,
    name: &'a Ident,
    /// Names that are declared after the scalar.
    locals: Vec<(Ident, DType)>,
    found: Option<DType>,
}

impl Evidence<'_, '_> {
    fn is_it(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Path(it) if it.path.is_ident(self.name))
    }

    /// Whether the scalar occurs in `expr` as an operand or argument, and not only inside of a load.
    fn contains(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Binary(it) => self.contains(&it.left) || self.contains(&it.right),
            Expr::Unary(it) => self.contains(&it.expr),
            Expr::Paren(it) => self.contains(&it.expr),
            Expr::MethodCall(it) => {
                self.contains(&it.receiver) || it.args.iter().any(|arg| self.contains(arg))
            }
            Expr::Call(it) => it.args.iter().any(|arg| self.contains(arg)),
            other => self.is_it(other),
        }
    }
}

impl<'ast> Visit<'ast> for Evidence<'_, '_> {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        syn::visit::visit_local(self, local);
        let (pat, ty) = match &local.pat {
            syn::Pat::Type(it) => (&*it.pat, Some(&*it.ty)),
            pat => (pat, None),
        };
        let written = match ty {
            Some(syn::Type::Path(path)) => path.path.get_ident().cloned().map(DType),
            _ => None,
        };
        let value = local.init.as_ref().map(|init| &*init.expr);
        let dtype = written.or_else(|| self.parser.evidence(value?, &self.locals));
        if let (syn::Pat::Ident(pat), Some(dtype)) = (pat, dtype) {
            self.locals.push((pat.ident.clone(), dtype));
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.found.is_some() {
            return;
        }
        match expr {
            // An assignment: both sides have one type.
            Expr::Assign(it) if self.contains(&it.right) || self.is_it(&it.left) => {
                let evidence = |it: &Expr| self.parser.evidence(it, &self.locals);
                self.found = evidence(&it.right).or_else(|| evidence(&it.left));
            }
            Expr::Binary(it) if self.contains(&it.left) || self.contains(&it.right) => {
                let evidence = |it: &Expr| {
                    self.parser.evidence(it, &self.locals).filter(|ty| !is_comparison_type(it, ty))
                };
                self.found = evidence(&it.right).or_else(|| evidence(&it.left));
            }
            Expr::Index(it) => {
                if let Expr::Array(array) = &*it.index
                    && array.elems.iter().any(|index| self.contains(index))
                {
                    self.found = Some(DType(format_ident!("usize")));
                }
            }
            _ => {}
        }
        syn::visit::visit_expr(self, expr);
    }
}

/// A comparison's own type says nothing about its operands.
fn is_comparison_type(expr: &Expr, ty: &DType) -> bool {
    ty.0 == "bool" && matches!(expr, Expr::Binary(_))
}
