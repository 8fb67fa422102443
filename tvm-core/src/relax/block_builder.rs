//! The methods of [`BlockBuilder`] that infer the type of what they bind.
//!
//! TVM counterpart: `relax::BlockBuilder`, its `Normalize`.

use std::sync::Arc;

use super::analysis::{infer_body, infer_type, type_of_arg};
use super::{Arg, Binding, BlockBuilder, Call, Callee, Expr, Function, If};
use crate::ir::{Attrs, BaseFunc, FuncType, GlobalVar, IrError, Op, Span, Type, Var};

impl BlockBuilder {
    /// Type of an argument.
    pub fn type_of(&self, arg: &Arg) -> Type {
        type_of_arg(arg, self.module())
    }

    /// Binds `value` to a fresh variable whose type is inferred.
    ///
    /// # Errors
    /// When the value is ill-typed.
    pub fn emit(&mut self, name: &str, value: Expr, span: &Span) -> Result<Var, IrError> {
        let ty = infer_type(&value, self.module()).map_err(|err| err.at(span))?;
        let var = Var::with_span(name, ty, span.clone());
        self.push(Binding::new(var.clone(), value));
        Ok(var)
    }

    /// Binds a call of the operator `op`.
    ///
    /// # Errors
    /// When the call is ill-typed.
    pub fn emit_op(
        &mut self,
        name: &str,
        op: Op,
        args: impl Into<Arc<[Arg]>>,
        attrs: Attrs,
        span: &Span,
    ) -> Result<Var, IrError> {
        let call = Call { callee: Callee::Op(op), args: args.into(), attrs, ret: None, span: span.clone() };
        self.emit(name, call.into(), span)
    }

    /// Binds `if cond { then_branch } else { else_branch }`.
    ///
    /// # Errors
    /// When it is ill-typed, or what the arms report.
    pub fn emit_if(
        &mut self,
        name: &str,
        cond: Arg,
        then_branch: impl FnOnce(&mut BlockBuilder) -> Result<Arg, IrError>,
        else_branch: impl FnOnce(&mut BlockBuilder) -> Result<Arg, IrError>,
        span: &Span,
    ) -> Result<Var, IrError> {
        let (then_branch, else_branch) = (self.scope(then_branch)?, self.scope(else_branch)?);
        let branch = If { cond, then_branch, else_branch, span: span.clone() };
        self.emit(name, Expr::If(Arc::new(branch)), span)
    }

    /// Binds a local function of the given signature; `body` receives the function's variable, for recursive calls.
    ///
    /// # Errors
    /// When the result of the body is not of type `ret`, or what `body` reports.
    pub fn emit_function(
        &mut self,
        name: &str,
        params: &[Var],
        ret: Type,
        body: impl FnOnce(&mut BlockBuilder, &Var) -> Result<Arg, IrError>,
        span: &Span,
    ) -> Result<Var, IrError> {
        let ty = FuncType {
            type_params: Arc::new([]),
            params: params.iter().map(|param| param.ty().clone()).collect(),
            ret: ret.clone(),
            pure: true,
        };
        let var = Var::with_span(name, Type::Func(Arc::new(ty)), span.clone());
        let body = self.scope(|builder| body(builder, &var))?;
        let func = Expr::Function(Arc::new(Function {
            name: name.into(),
            type_params: Arc::new([]),
            params: params.into(),
            body,
            ret,
            pure: true,
            attrs: Attrs::new(),
            span: span.clone(),
        }));
        infer_type(&func, self.module()).map_err(|err| err.at(span))?;
        self.push(Binding::new(var.clone(), func));
        Ok(var)
    }

    /// Adds a graph function to the module: the bindings that `body` makes over `params`. The result type is inferred.
    ///
    /// # Errors
    /// What `body` reports.
    pub fn add_function(
        &mut self,
        name: &str,
        params: &[Var],
        body: impl FnOnce(&mut BlockBuilder) -> Result<Arg, IrError>,
    ) -> Result<GlobalVar, IrError> {
        let body = self.scope(body)?;
        let func = Function {
            name: name.into(),
            type_params: Arc::new([]),
            params: params.into(),
            ret: infer_body(&body, self.module()),
            body,
            pure: true,
            attrs: Attrs::new(),
            span: Span::none(),
        };
        Ok(self.module_mut().add(name, BaseFunc::Relax(Arc::new(func))))
    }
}
