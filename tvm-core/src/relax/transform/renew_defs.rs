//! Fresh identities for everything that a graph function binds, as a copy needs them.
//!
//! The result is structurally equal to the input; variables bound outside stay.
//!
//! TVM counterpart: `relax::CopyWithNewVars`.

use std::sync::Arc;

use crate::ir::{FuncType, ShapeType, TensorShape, TensorType, Type, Var};
use crate::relax::*;
use crate::support::with_stack;
use crate::tir::transform::Renew as Symbols;
use crate::tir::{Mutator as _, PrimExpr};

/// `func` with fresh parameters, symbolic dimensions and variables.
#[must_use]
pub fn renew_defs(func: &Function) -> Function {
    Renew::default().function(func)
}

/// Graph variables and symbolic dimensions share one table.
#[derive(Default)]
struct Renew(Symbols);

impl Renew {
    fn define(&mut self, var: &Var, dims_bind: bool) -> Var {
        let ty = self.ty(var.ty(), dims_bind);
        self.0.define_as(var, Var::with_span(var.name(), ty, var.span().clone()))
    }

    fn var(&self, var: &Var) -> Var {
        self.0.var(var).unwrap_or(var).clone()
    }

    fn dims(&mut self, dims: &Arc<[PrimExpr]>, bind: bool) -> Arc<[PrimExpr]> {
        if bind {
            dims.iter().for_each(|dim| self.0.define_dims(dim));
        }
        self.0.mutate_exprs(dims).unwrap_or_else(|| dims.clone())
    }

    fn ty(&mut self, ty: &Type, bind: bool) -> Type {
        match ty {
            Type::Tensor(it) => {
                let shape = match &it.shape {
                    TensorShape::Known(dims) => TensorShape::Known(self.dims(dims, bind)),
                    TensorShape::Rank(_) | TensorShape::Unknown => it.shape.clone(),
                };
                Type::Tensor(TensorType { shape, ..it.clone() })
            }
            Type::Shape(it) => {
                let values = it.values.as_ref().map(|values| self.dims(values, bind));
                Type::Shape(ShapeType { values, ndim: it.ndim })
            }
            Type::Tuple(fields) => Type::Tuple(fields.iter().map(|field| self.ty(field, bind)).collect()),
            Type::Func(it) => Type::Func(Arc::new(FuncType {
                type_params: it.type_params.clone(),
                params: it.params.iter().map(|param| self.ty(param, true)).collect(),
                ret: self.ty(&it.ret, bind),
                pure: it.pure,
            })),
            Type::Adt(it) => {
                let args = it.args.iter().map(|arg| self.ty(arg, false)).collect();
                Type::Adt(crate::ir::AdtType { name: it.name.clone(), args })
            }
            Type::Ref(it) => Type::Ref(Arc::new(self.ty(it, false))),
            Type::Prim(_) | Type::Param(_) | Type::Object => ty.clone(),
        }
    }

    fn function(&mut self, func: &Function) -> Function {
        // Scalars bind first: the types of other parameters may use them.
        let scalar = |param: &&Var| matches!(param.ty(), Type::Prim(_));
        func.params.iter().filter(scalar).for_each(|param| {
            self.define(param, false);
        });
        let params = func.params.iter();
        let params = params
            .map(|param| if scalar(&param) { self.var(param) } else { self.define(param, true) })
            .collect();
        Function { params, body: self.body(&func.body), ret: self.ty(&func.ret, false), ..func.clone() }
    }

    fn body(&mut self, body: &Body) -> Body {
        with_stack(|| {
            let blocks = body.blocks.iter().map(|block| BindingBlock {
                dataflow: block.dataflow,
                bindings: block.bindings.iter().map(|binding| self.binding(binding)).collect(),
            });
            Body { blocks: blocks.collect(), ret: self.arg(&body.ret) }
        })
    }

    fn binding(&mut self, binding: &Binding) -> Binding {
        let match_cast = binding.match_cast;
        if let Expr::Function(func) = &binding.value {
            // A local function may call itself.
            let var = self.define(&binding.var, match_cast);
            return Binding { var, value: Expr::Function(Arc::new(self.function(func))), match_cast };
        }
        let value = self.expr(&binding.value);
        Binding { var: self.define(&binding.var, match_cast), value, match_cast }
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Arg(arg) => Expr::Arg(self.arg(arg)),
            Expr::Call(it) => {
                let callee = match &it.callee {
                    Callee::Var(var) => Callee::Var(self.var(var)),
                    other => other.clone(),
                };
                let ret = it.ret.as_ref().map(|ty| self.ty(ty, false));
                Call { callee, args: self.args(&it.args), ret, ..(**it).clone() }.into()
            }
            Expr::TupleGetItem(arg, index) => Expr::TupleGetItem(self.arg(arg), *index),
            Expr::If(it) => Expr::If(Arc::new(If {
                cond: self.arg(&it.cond),
                then_branch: self.body(&it.then_branch),
                else_branch: self.body(&it.else_branch),
                span: it.span.clone(),
            })),
            Expr::Match(it) => {
                let value = self.arg(&it.value);
                let clauses = it.clauses.iter().map(|clause| {
                    let pattern = self.pattern(&clause.pattern);
                    Clause { pattern, body: self.body(&clause.body) }
                });
                Expr::Match(Arc::new(Match { value, clauses: clauses.collect(), span: it.span.clone() }))
            }
            Expr::Function(func) => Expr::Function(Arc::new(self.function(func))),
            Expr::RefCreate(arg) => Expr::RefCreate(self.arg(arg)),
            Expr::RefRead(arg) => Expr::RefRead(self.arg(arg)),
            Expr::RefWrite(cell, value) => Expr::RefWrite(self.arg(cell), self.arg(value)),
        }
    }

    fn pattern(&mut self, pattern: &Pattern) -> Pattern {
        match pattern {
            Pattern::Wildcard => Pattern::Wildcard,
            Pattern::Var(var) => Pattern::Var(self.define(var, false)),
            Pattern::Constructor(constructor, fields) => Pattern::Constructor(
                constructor.clone(),
                fields.iter().map(|field| self.pattern(field)).collect(),
            ),
            Pattern::Tuple(fields) => {
                Pattern::Tuple(fields.iter().map(|field| self.pattern(field)).collect())
            }
        }
    }

    fn args(&mut self, args: &[Arg]) -> Arc<[Arg]> {
        args.iter().map(|arg| self.arg(arg)).collect()
    }

    fn arg(&mut self, arg: &Arg) -> Arg {
        match arg {
            Arg::Var(var) => Arg::Var(self.var(var)),
            Arg::Tuple(fields) => Arg::Tuple(self.args(fields)),
            Arg::Shape(dims) => Arg::Shape(self.dims(dims, false)),
            Arg::Prim(value) => Arg::Prim(self.0.mutate_expr(value).unwrap_or_else(|| value.clone())),
            Arg::Const(_) | Arg::Global(_) | Arg::DType(_) | Arg::Str(_) => arg.clone(),
        }
    }
}
