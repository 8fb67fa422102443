//! Read-only traversal of graph functions.
//!
//! TVM counterpart: `relax::ExprVisitor`. The children of a node are visited only if its method calls the matching `walk_*`.

use super::nodes::Traverse;
use super::{Arg, Binding, Body, Call, Expr, Function, Pattern};
use crate::ir::tensor_program::PrimExpr;
use crate::ir::{Type, Var};
use crate::support::with_stack;

/// Visits every node in evaluation order.
pub trait ExprVisitor {
    /// Visits a variable where it is defined: a parameter, the left side of a binding, a variable of a pattern.
    fn visit_var_def(&mut self, var: &Var) {
        self.visit_type(var.ty());
    }

    /// Visits a scalar expression: in a shape, an argument or a type.
    fn visit_prim(&mut self, _expr: &PrimExpr) {}

    /// Visits a type.
    fn visit_type(&mut self, ty: &Type) {
        walk_type(self, ty);
    }

    /// Visits an argument. The callee of [`Callee::Var`](super::Callee::Var) and
    /// [`Callee::Global`](super::Callee::Global) counts as one.
    fn visit_arg(&mut self, arg: &Arg) {
        walk_arg(self, arg);
    }

    /// Visits a call.
    fn visit_call(&mut self, call: &Call) {
        walk_call(self, call);
    }

    /// Visits the right side of a binding.
    fn visit_expr(&mut self, expr: &Expr) {
        walk_expr(self, expr);
    }

    /// Visits a binding: its value, then its variable.
    fn visit_binding(&mut self, binding: &Binding) {
        walk_binding(self, binding);
    }

    /// Visits bindings and a result.
    fn visit_body(&mut self, body: &Body) {
        walk_body(self, body);
    }

    /// Visits a global or local function.
    fn visit_function(&mut self, func: &Function) {
        walk_function(self, func);
    }
}

/// Visits the scalar expressions of a type.
pub fn walk_type<V: ExprVisitor + ?Sized>(v: &mut V, ty: &Type) {
    match ty {
        Type::Tensor(tensor) => {
            tensor.known_shape().iter().flat_map(|it| it.iter()).for_each(|it| v.visit_prim(it))
        }
        Type::Shape(shape) => shape.values.iter().flat_map(|it| it.iter()).for_each(|it| v.visit_prim(it)),
        Type::Tuple(fields) => fields.iter().for_each(|field| v.visit_type(field)),
        Type::Adt(adt) => adt.args.iter().for_each(|arg| v.visit_type(arg)),
        Type::Ref(inner) => v.visit_type(inner),
        // The dimensions of a function type are its own.
        Type::Func(_) | Type::Prim(_) | Type::Param(_) | Type::Object => {}
    }
}

/// Visits the parts of an argument.
pub fn walk_arg<V: ExprVisitor + ?Sized>(v: &mut V, arg: &Arg) {
    match arg {
        Arg::Tuple(fields) => fields.iter().for_each(|field| v.visit_arg(field)),
        Arg::Shape(values) => values.iter().for_each(|value| v.visit_prim(value)),
        Arg::Prim(value) => v.visit_prim(value),
        Arg::Var(_) | Arg::Const(_) | Arg::Global(_) | Arg::DType(_) | Arg::Str(_) => {}
    }
}

/// Visits the callee, the arguments and the result type of a call.
pub fn walk_call<V: ExprVisitor + ?Sized>(v: &mut V, call: &Call) {
    call.walk(v);
}

/// Visits the parts of an expression.
pub fn walk_expr<V: ExprVisitor + ?Sized>(v: &mut V, expr: &Expr) {
    match expr {
        Expr::Arg(arg) | Expr::TupleGetItem(arg, _) | Expr::RefCreate(arg) | Expr::RefRead(arg) => {
            v.visit_arg(arg)
        }
        Expr::Call(call) => v.visit_call(call),
        Expr::If(it) => it.walk(v),
        Expr::Match(it) => it.walk(v),
        Expr::Function(func) => v.visit_function(func),
        Expr::RefWrite(cell, value) => {
            v.visit_arg(cell);
            v.visit_arg(value);
        }
    }
}

/// Visits the variables that a pattern defines.
pub fn walk_pattern<V: ExprVisitor + ?Sized>(v: &mut V, pattern: &Pattern) {
    match pattern {
        Pattern::Wildcard => {}
        Pattern::Var(var) => v.visit_var_def(var),
        Pattern::Constructor(_, fields) | Pattern::Tuple(fields) => {
            fields.iter().for_each(|field| walk_pattern(v, field));
        }
    }
}

/// Visits the value of a binding, then its variable.
pub fn walk_binding<V: ExprVisitor + ?Sized>(v: &mut V, binding: &Binding) {
    binding.walk(v);
}

/// Visits the bindings and the result of a body.
pub fn walk_body<V: ExprVisitor + ?Sized>(v: &mut V, body: &Body) {
    with_stack(|| {
        body.bindings().for_each(|binding| v.visit_binding(binding));
        v.visit_arg(&body.ret);
    });
}

/// Visits the parameters, the body and the result type of a function.
pub fn walk_function<V: ExprVisitor + ?Sized>(v: &mut V, func: &Function) {
    func.params.iter().for_each(|param| v.visit_var_def(param));
    v.visit_body(&func.body);
    v.visit_type(&func.ret);
}
