//! Check for indices that certainly exceed a constant extent: in loops and axes of constant range, outside of any branch.

use syn::Ident;

use crate::error::Errors;
use crate::kernel::ast::{CallArg, Dim, Expr, ExprKind, LoopRange, ParamKind, PrimFunc, Stmt};

pub(super) fn check(func: &PrimFunc, errors: &mut Errors) {
    let extents = |dims: &[Dim]| dims.iter().map(dim_value).collect();
    let tensors = func.params.iter().filter_map(|param| match &param.kind {
        ParamKind::Tensor { dims, .. } => Some((param.name.clone(), extents(dims))),
        ParamKind::Scalar { .. } => None,
    });
    let mut checker = Checker { errors, tensors: tensors.collect(), ranges: vec![] };
    checker.stmts(&func.body);
}

struct Checker<'a> {
    errors: &'a mut Errors,
    /// Extents of buffers, where they are literals.
    tensors: Vec<(Ident, Vec<Option<i64>>)>,
    /// First and last value of loop variables and axes; `None` where not known.
    ranges: Vec<(Ident, Option<(i64, i64)>)>,
}

fn dim_value(dim: &Dim) -> Option<i64> {
    match dim {
        Dim::Host(syn::Expr::Lit(lit)) => match &lit.lit {
            syn::Lit::Int(it) => it.base10_parse().ok(),
            _ => None,
        },
        Dim::Host(_) | Dim::Var(_) | Dim::Expr(..) => None,
    }
}

impl Checker<'_> {
    /// The statements of one scope.
    fn stmts(&mut self, stmts: &[Stmt]) {
        let (ranges, tensors) = (self.ranges.len(), self.tensors.len());
        stmts.iter().for_each(|stmt| self.stmt(stmt));
        self.ranges.truncate(ranges);
        self.tensors.truncate(tensors);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { vars, range, body, .. } => {
                let outer = self.ranges.len();
                match range {
                    LoopRange::Range { min, end, inclusive } => {
                        let range = self.interval(min).zip(self.interval(end));
                        let last = i64::from(!*inclusive);
                        let range = range.map(|(min, end)| (min.0, end.1 - last));
                        self.ranges.extend(vars.iter().map(|var| (var.clone(), range)));
                    }
                    LoopRange::Grid(extents) => {
                        for (var, extent) in vars.iter().zip(extents) {
                            let range = self.interval(extent).map(|it| (0, it.1 - 1));
                            self.ranges.push((var.clone(), range));
                        }
                    }
                }
                // A loop that does not run accesses nothing.
                let runs = self.ranges[outer..].iter().all(|(_, range)| range.is_none_or(|it| it.0 <= it.1));
                if runs {
                    self.stmts(body);
                }
                self.ranges.truncate(outer);
            }
            Stmt::Block { axes, body, .. } => {
                let outer = self.ranges.len();
                let values: Vec<_> = axes.iter().map(|axis| self.interval(&axis.value)).collect();
                self.ranges.extend(axes.iter().map(|axis| axis.var.clone()).zip(values));
                self.stmts(body);
                self.ranges.truncate(outer);
            }
            Stmt::Init { body, .. } | Stmt::Scope(body) => self.stmts(body),
            Stmt::Store { buffer, indices, value, .. } => {
                self.access(buffer, indices);
                self.expr(value);
            }
            Stmt::Let { name, value, .. } => {
                self.expr(value);
                let range = self.interval(value);
                self.ranges.push((name.clone(), range));
            }
            Stmt::Alloc { name, shape, value, .. } => {
                value.iter().for_each(|it| self.expr(it));
                let extent = |it: &Expr| self.interval(it).filter(|(min, max)| min == max).map(|it| it.0);
                let shape = shape.iter().map(extent).collect();
                self.tensors.push((name.clone(), shape));
            }
            Stmt::Call { args, .. } => args.iter().for_each(|arg| match arg {
                CallArg::Tensor(_) => {}
                CallArg::Value(value) => self.expr(value),
            }),
            Stmt::Assert { condition, .. } => self.expr(condition),
            Stmt::Match { name, region, .. } => {
                let extent = |begin: &Expr, end: &Expr| {
                    let (begin, end) = (self.interval(begin)?, self.interval(end)?);
                    (begin.0 == begin.1 && end.0 == end.1).then(|| end.0 - begin.0)
                };
                let ranges = region.iter().filter_map(|(begin, end)| Some((begin, end.as_ref()?)));
                let extents = ranges.map(|(begin, end)| extent(begin, end)).collect();
                self.tensors.push((name.clone(), extents));
            }
            // Accesses under a condition may be in bounds.
            Stmt::If { .. } | Stmt::While { .. } | Stmt::Helper { .. } => {}
        }
    }

    /// Checks the loads that are evaluated whatever any condition is.
    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Load { buffer, indices } => {
                self.access(buffer, indices);
                indices.iter().for_each(|it| self.expr(it));
            }
            ExprKind::Neg(a) | ExprKind::Not(a) | ExprKind::Cast(a, _) => self.expr(a),
            ExprKind::Binary(op, a, b) => {
                self.expr(a);
                if !matches!(op, syn::BinOp::And(_) | syn::BinOp::Or(_)) {
                    self.expr(b);
                }
            }
            ExprKind::Extremum(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::HostLoad(_, args)
            | ExprKind::Call(_, args)
            | ExprKind::Helper(_, args)
            | ExprKind::Inline(_, args)
            | ExprKind::CallC(_, args) => args.iter().for_each(|it| self.expr(it)),
            ExprKind::Select(a, b, c) => {
                self.expr(a);
                self.expr(b);
                self.expr(c);
            }
            ExprKind::If(condition, _, _) => self.expr(condition),
            ExprKind::Int(..)
            | ExprKind::Float(..)
            | ExprKind::FloatNear(..)
            | ExprKind::Bool(_)
            | ExprKind::Var(_)
            | ExprKind::Host(_)
            | ExprKind::Block(..)
            | ExprKind::Error => {}
        }
    }

    fn access(&mut self, buffer: &Ident, indices: &[Expr]) {
        let Some((_, extents)) = self.tensors.iter().rev().find(|(name, _)| name == buffer) else { return };
        for (axis, (index, extent)) in indices.iter().zip(extents.clone()).enumerate() {
            let (Some((_, last)), Some(extent)) = (self.interval(index), extent) else { continue };
            if last >= extent {
                let message =
                    format!("this index reaches {last}, but axis {axis} of `{buffer}` has extent {extent}");
                let help = format!("let it run over 0..{extent}");
                self.errors.push_at(index.span, message, &help);
            }
        }
    }

    /// First and last value of an index expression.
    fn interval(&self, expr: &Expr) -> Option<(i64, i64)> {
        match &expr.kind {
            ExprKind::Int(value, _) => i64::try_from(*value).ok().map(|value| (value, value)),
            ExprKind::Var(name) => self.ranges.iter().rev().find(|(it, _)| it == name)?.1,
            ExprKind::Binary(op, a, b) => {
                let ((a_min, a_max), (b_min, b_max)) = (self.interval(a)?, self.interval(b)?);
                match op {
                    syn::BinOp::Add(_) => Some((a_min.checked_add(b_min)?, a_max.checked_add(b_max)?)),
                    syn::BinOp::Sub(_) => Some((a_min.checked_sub(b_max)?, a_max.checked_sub(b_min)?)),
                    syn::BinOp::Mul(_) if a_min >= 0 && b_min >= 0 => {
                        Some((a_min.checked_mul(b_min)?, a_max.checked_mul(b_max)?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
