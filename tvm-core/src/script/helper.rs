//! Inline helpers of kernels (`#[prim_helper]`): their bodies as expressions, each argument evaluated once.

use rustc_hash::FxHashMap;
use std::sync::Arc;

use tvm_runtime::DataType;

use super::KernelValue;
use crate::ir::Var;
use crate::tir::analysis::is_total;
use crate::tir::{Intrinsic, Let, PrimCallee, PrimExpr, Visitor, any_expr, substitute_expr, walk_expr};

/// An expression of at most this many nodes, none of them a call, replaces its name at every use.
const SMALL: usize = 8;

impl KernelValue {
    /// `{ let name = self; body }`: evaluates `self` once, however often `body` uses it. Where the result is the same, a
    /// value that is small or used once replaces its name.
    pub fn let_in(self, name: &str, body: impl FnOnce(KernelValue) -> KernelValue) -> KernelValue {
        if self.is_atom() {
            return body(self);
        }
        let var = Var::prim(name, self.dtype());
        let res = body(self.renamed(&var));
        let value = self.into_expr();
        let calls = |expr: &PrimExpr| any_expr(expr, &mut |it| matches!(it, PrimExpr::Call(_)));
        let small = || count(&value, SMALL, |_| true) && !calls(&value);
        let cheap = || count(res.expr(), 1, |it| it.as_var() == Some(&var)) || small();
        if (always_evaluates(res.expr(), &var) || is_total(&value)) && cheap() {
            let vars = FxHashMap::from_iter([(var.id(), value)]);
            return res.map(|body| substitute_expr(&body, &vars));
        }
        res.map(|body| PrimExpr::Let(Arc::new(Let { var, value, body })))
    }

    /// `{ let name = bind(self); body }`: creates a variable even if none is needed.
    pub fn named_in(self, name: &str, body: impl FnOnce(KernelValue) -> KernelValue) -> KernelValue {
        let var = Var::prim(name, self.dtype());
        let res = body(self.renamed(&var));
        let value = self.into_expr();
        res.map(|body| PrimExpr::Let(Arc::new(Let { var, value, body })))
    }

    /// The type that a type parameter of a helper stands for: that of the first of `args` that is not a literal.
    pub fn common_type(args: &[KernelValue]) -> DataType {
        let typed = args.iter().find(|it| !it.is_literal()).or(args.first());
        typed.map_or(DataType::F32, KernelValue::dtype)
    }

    /// The value of a parameter or result of a helper as its declared type `dtype`; `None` stands for an index.
    pub fn as_type(self, dtype: Option<DataType>) -> KernelValue {
        match dtype {
            Some(dtype) => KernelValue::typed(self.into_typed(dtype)),
            None => KernelValue::index(self.into_index()),
        }
    }
}

/// True when evaluating `expr` always evaluates `var`.
fn always_evaluates(expr: &PrimExpr, var: &Var) -> bool {
    struct Find<'a>(&'a Var, bool);
    impl Visitor for Find<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            match expr {
                PrimExpr::Var(it) => self.1 |= it == self.0,
                PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                    it.args.iter().take(1).for_each(|condition| self.visit_expr(condition));
                }
                _ if self.1 => {}
                _ => walk_expr(self, expr),
            }
        }
    }
    let mut find = Find(var, false);
    find.visit_expr(expr);
    find.1
}

/// True when `pred` holds for at most `limit` nodes of `expr`.
fn count(expr: &PrimExpr, limit: usize, pred: impl Fn(&PrimExpr) -> bool) -> bool {
    let mut n = 0;
    !any_expr(expr, &mut |it| {
        n += usize::from(pred(it));
        n > limit
    })
}
