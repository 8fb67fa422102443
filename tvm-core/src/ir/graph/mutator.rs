//! Rewriting traversal of graph functions: every method returns `None` for "unchanged".
//!
//! TVM counterpart: `relax::ExprMutator`. A binding may become any number of bindings. A mutator that renames a variable
//! where it is defined must also rename its uses, which come later ([`ExprSubstitute`] does so).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nodes::Traverse;
use super::{Arg, Binding, BindingBlock, Body, Call, Expr, Function, Pattern};
use crate::ir::tensor_program::{self, PrimExpr, mutate_slice};
use crate::ir::{AdtType, FuncType, ShapeType, TensorShape, TensorType, Type, Var, VarId};
use crate::support::with_stack;

/// Rewrites a function in evaluation order.
pub trait ExprMutator {
    /// Rewrites a variable where it is defined.
    fn mutate_var_def(&mut self, _var: &Var) -> Option<Var> {
        None
    }

    /// Rewrites a scalar expression: in a shape, an argument or a type.
    fn mutate_prim(&mut self, _expr: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    /// Rewrites a type.
    fn mutate_type(&mut self, ty: &Type) -> Option<Type> {
        walk_type(self, ty)
    }

    /// Rewrites an argument. The callee of [`Callee::Var`](super::Callee::Var) and
    /// [`Callee::Global`](super::Callee::Global) counts as one.
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        walk_arg(self, arg)
    }

    /// Rewrites a list of arguments.
    fn mutate_args(&mut self, args: &[Arg]) -> Option<Arc<[Arg]>> {
        mutate_slice(args, |arg| self.mutate_arg(arg))
    }

    /// Rewrites the right side of a binding.
    fn mutate_expr(&mut self, expr: &Expr) -> Option<Expr> {
        walk_expr(self, expr)
    }

    /// Rewrites a binding: none, one or several bindings replace it.
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        walk_binding(self, binding).map(|it| vec![it])
    }

    /// Rewrites bindings and a result.
    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        walk_body(self, body)
    }

    /// Rewrites a global or local function.
    fn mutate_function(&mut self, func: &Function) -> Option<Function> {
        walk_function(self, func)
    }
}

/// Rewrites the scalar expressions of a type.
pub fn walk_type<M: ExprMutator + ?Sized>(m: &mut M, ty: &Type) -> Option<Type> {
    Some(match ty {
        Type::Tensor(it) => {
            let shape = mutate_slice(it.known_shape()?, |dim| m.mutate_prim(dim))?;
            Type::Tensor(TensorType { shape: TensorShape::Known(shape), ..it.clone() })
        }
        Type::Shape(it) => {
            let values = mutate_slice(it.values.as_ref()?, |value| m.mutate_prim(value))?;
            Type::Shape(ShapeType { values: Some(values), ndim: it.ndim })
        }
        Type::Tuple(fields) => Type::Tuple(mutate_slice(fields, |field| m.mutate_type(field))?),
        Type::Adt(it) => Type::Adt(AdtType {
            name: it.name.clone(),
            args: mutate_slice(&it.args, |arg| m.mutate_type(arg))?,
        }),
        Type::Ref(inner) => Type::Ref(Arc::new(m.mutate_type(inner)?)),
        Type::Func(it) => {
            // The dimensions are either in scope around the type, or its own, and then no mutator maps them.
            let (params, ret) = (mutate_slice(&it.params, |ty| m.mutate_type(ty)), m.mutate_type(&it.ret));
            if params.is_none() && ret.is_none() {
                return None;
            }
            let (params, ret) =
                (params.unwrap_or_else(|| it.params.clone()), ret.unwrap_or_else(|| it.ret.clone()));
            Type::Func(Arc::new(FuncType { params, ret, ..(**it).clone() }))
        }
        Type::Prim(_) | Type::Param(_) | Type::Object => return None,
    })
}

/// Rewrites the parts of an argument.
pub fn walk_arg<M: ExprMutator + ?Sized>(m: &mut M, arg: &Arg) -> Option<Arg> {
    Some(match arg {
        Arg::Tuple(fields) => Arg::Tuple(m.mutate_args(fields)?),
        Arg::Shape(values) => Arg::Shape(mutate_slice(values, |value| m.mutate_prim(value))?),
        Arg::Prim(value) => Arg::Prim(m.mutate_prim(value)?),
        Arg::Var(_) | Arg::Const(_) | Arg::Global(_) | Arg::DType(_) | Arg::Str(_) => return None,
    })
}

/// Rewrites the callee, the arguments and the result type of a call.
pub fn walk_call<M: ExprMutator + ?Sized>(m: &mut M, call: &Call) -> Option<Call> {
    call.mutate(m)
}

/// Rewrites the parts of an expression.
pub fn walk_expr<M: ExprMutator + ?Sized>(m: &mut M, expr: &Expr) -> Option<Expr> {
    Some(match expr {
        Expr::Arg(arg) => Expr::Arg(m.mutate_arg(arg)?),
        Expr::Call(call) => walk_call(m, call)?.into(),
        Expr::TupleGetItem(arg, index) => Expr::TupleGetItem(m.mutate_arg(arg)?, *index),
        Expr::If(it) => Expr::If(Arc::new(it.mutate(m)?)),
        Expr::Match(it) => Expr::Match(Arc::new(it.mutate(m)?)),
        Expr::Function(func) => Expr::Function(Arc::new(m.mutate_function(func)?)),
        Expr::RefCreate(arg) => Expr::RefCreate(m.mutate_arg(arg)?),
        Expr::RefRead(arg) => Expr::RefRead(m.mutate_arg(arg)?),
        Expr::RefWrite(cell, value) => {
            let (new_cell, new_value) = (m.mutate_arg(cell), m.mutate_arg(value));
            if new_cell.is_none() && new_value.is_none() {
                return None;
            }
            Expr::RefWrite(
                new_cell.unwrap_or_else(|| cell.clone()),
                new_value.unwrap_or_else(|| value.clone()),
            )
        }
    })
}

/// Rewrites the variables that a pattern defines.
pub fn walk_pattern<M: ExprMutator + ?Sized>(m: &mut M, pattern: &Pattern) -> Option<Pattern> {
    Some(match pattern {
        Pattern::Wildcard => return None,
        Pattern::Var(var) => Pattern::Var(m.mutate_var_def(var)?),
        Pattern::Constructor(constructor, fields) => {
            Pattern::Constructor(constructor.clone(), mutate_slice(fields, |field| walk_pattern(m, field))?)
        }
        Pattern::Tuple(fields) => Pattern::Tuple(mutate_slice(fields, |field| walk_pattern(m, field))?),
    })
}

/// Rewrites the value of a binding, then its variable.
pub fn walk_binding<M: ExprMutator + ?Sized>(m: &mut M, binding: &Binding) -> Option<Binding> {
    binding.mutate(m)
}

/// Rewrites the bindings and the result of a body; blocks that become empty are removed.
pub fn walk_body<M: ExprMutator + ?Sized>(m: &mut M, body: &Body) -> Option<Body> {
    with_stack(|| {
        let mut changed = false;
        let mut blocks: Vec<BindingBlock> = Vec::with_capacity(body.blocks.len());
        for block in body.blocks.iter() {
            let mut bindings: Option<Vec<Binding>> = None;
            for (i, binding) in block.bindings.iter().enumerate() {
                match m.mutate_binding(binding) {
                    Some(new) => bindings.get_or_insert_with(|| block.bindings[..i].to_vec()).extend(new),
                    None => bindings.iter_mut().for_each(|it| it.push(binding.clone())),
                }
            }
            changed |= bindings.is_some();
            match bindings {
                Some(bindings) if bindings.is_empty() => {}
                Some(bindings) => {
                    blocks.push(BindingBlock { dataflow: block.dataflow, bindings: bindings.into() });
                }
                None => blocks.push(block.clone()),
            }
        }
        let ret = m.mutate_arg(&body.ret);
        (changed || ret.is_some())
            .then(|| Body { blocks: blocks.into(), ret: ret.unwrap_or_else(|| body.ret.clone()) })
    })
}

/// Rewrites the parameters, the body and the result type of a function.
pub fn walk_function<M: ExprMutator + ?Sized>(m: &mut M, func: &Function) -> Option<Function> {
    let params = mutate_slice(&func.params, |param| m.mutate_var_def(param));
    let body = m.mutate_body(&func.body);
    let ret = m.mutate_type(&func.ret);
    (params.is_some() || body.is_some() || ret.is_some()).then(|| Function {
        params: params.unwrap_or_else(|| func.params.clone()),
        body: body.unwrap_or_else(|| func.body.clone()),
        ret: ret.unwrap_or_else(|| func.ret.clone()),
        ..func.clone()
    })
}

/// Replaces variables by arguments and symbolic dimensions by expressions; a variable whose type changes is replaced by
/// a fresh one of the new type.
#[derive(Debug, Default)]
pub struct ExprSubstitute {
    /// The arguments that replace variables.
    pub args: FxHashMap<VarId, Arg>,
    /// The expressions that replace symbolic dimensions.
    pub prims: tensor_program::Substitute,
    /// True to replace every variable, where it is defined, with a fresh one.
    pub renew: bool,
}

impl ExprMutator for ExprSubstitute {
    fn mutate_var_def(&mut self, var: &Var) -> Option<Var> {
        let ty = self.mutate_type(var.ty());
        if ty.is_none() && !self.renew {
            return None;
        }
        let new = Var::with_span(var.name(), ty.unwrap_or_else(|| var.ty().clone()), var.span().clone());
        self.args.insert(var.id(), Arg::Var(new.clone()));
        if matches!(var.ty(), Type::Prim(_)) {
            self.prims.vars.insert(var.id(), PrimExpr::Var(new.clone()));
        }
        Some(new)
    }

    fn mutate_prim(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if self.prims.vars.is_empty() {
            None
        } else {
            tensor_program::Mutator::mutate_expr(&mut self.prims, expr)
        }
    }

    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        match arg.as_var() {
            Some(var) => self.args.get(&var.id()).cloned(),
            None => walk_arg(self, arg),
        }
    }
}
