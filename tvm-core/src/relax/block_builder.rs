//! Builder of graph functions: it creates bindings and infers the type of each.
//!
//! TVM counterpart: `relax::BlockBuilder`.

use std::sync::Arc;

use super::{Arg, Binding, BindingBlock, Body, Call, Callee, Expr, Function, If};
use crate::ir::{Attrs, BaseFunc, FuncType, GlobalVar, IRModule, IrError, Op, Span, Type, Var};

/// Collects bindings in nested scopes; owns the module that they belong to.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    module: IRModule,
    scopes: Vec<Scope>,
}

/// A body under construction: its finished blocks, and the bindings of the block that is open.
#[derive(Debug, Default)]
struct Scope {
    blocks: Vec<BindingBlock>,
    open: Vec<Binding>,
}

impl BlockBuilder {
    /// A builder over `module`: the callees of calls are looked up there.
    pub fn new(module: IRModule) -> BlockBuilder {
        BlockBuilder { module, scopes: Vec::new() }
    }

    /// The module.
    pub fn module(&self) -> &IRModule {
        &self.module
    }

    /// The module, to add functions and types to.
    pub fn module_mut(&mut self) -> &mut IRModule {
        &mut self.module
    }

    /// Ends building and returns the module.
    pub fn into_module(self) -> IRModule {
        self.module
    }

    /// Type of an argument.
    pub fn type_of(&self, arg: &Arg) -> Type {
        super::analysis::type_of_arg(arg, &self.module)
    }

    /// Binds `value` to a fresh variable whose type is inferred.
    ///
    /// # Errors
    /// When the value is ill-typed.
    pub fn emit(&mut self, name: &str, value: Expr, span: &Span) -> Result<Var, IrError> {
        let ty = super::analysis::infer_type(&value, &self.module).map_err(|err| err.at(span))?;
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

    /// Binds `value` under the type `ty`, to be checked at run time; `ty` may bind new symbolic dimensions.
    pub fn emit_match_cast(&mut self, name: &str, value: Arg, ty: Type, span: &Span) -> Var {
        let var = Var::with_span(name, ty, span.clone());
        self.push(Binding { var: var.clone(), value: Expr::Arg(value), match_cast: true });
        var
    }

    /// Adds a finished binding unchanged, without type inference; for passes that keep types.
    pub fn push(&mut self, binding: Binding) {
        self.current().open.push(binding);
    }

    /// If `var` is the variable of the last binding, replaces it with a variable called `name` (of type `ty`, if given) and
    /// returns that; nothing else may use `var` yet.
    pub fn rename_last(&mut self, var: &Var, name: &str, ty: Option<Type>) -> Option<Var> {
        let last = self.current().open.last_mut().filter(|last| last.var == *var)?;
        last.var = Var::with_span(name, ty.unwrap_or_else(|| var.ty().clone()), var.span().clone());
        Some(last.var.clone())
    }

    /// Ends the open block; the next binding starts a new one.
    pub fn end_block(&mut self, dataflow: bool) {
        let scope = self.current();
        if !scope.open.is_empty() {
            let bindings = std::mem::take(&mut scope.open).into();
            scope.blocks.push(BindingBlock { dataflow, bindings });
        }
    }

    /// Opens a nested scope (a branch, a clause, a local function); [`end_scope`](Self::end_scope) closes it. The open
    /// block of the scope around it stays open.
    pub fn begin_scope(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Closes the innermost scope with the result `ret`.
    pub fn end_scope(&mut self, ret: Arg) -> Body {
        self.end_block(false);
        let scope = self.scopes.pop().unwrap_or_default();
        Body { blocks: scope.blocks.into(), ret }
    }

    /// Runs `build` in a nested scope: the body has the bindings that it makes and the result that it returns.
    ///
    /// # Errors
    /// What `build` reports.
    pub fn scope(
        &mut self,
        build: impl FnOnce(&mut BlockBuilder) -> Result<Arg, IrError>,
    ) -> Result<Body, IrError> {
        self.begin_scope();
        match build(self) {
            Ok(ret) => Ok(self.end_scope(ret)),
            Err(err) => {
                self.end_scope(Arg::Tuple(Arc::new([])));
                Err(err)
            }
        }
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
        super::analysis::infer_type(&func, &self.module).map_err(|err| err.at(span))?;
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
            ret: super::analysis::infer_body(&body, &self.module),
            body,
            pure: true,
            attrs: Attrs::new(),
            span: Span::none(),
        };
        Ok(self.module.add(name, BaseFunc::Relax(Arc::new(func))))
    }

    fn current(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }
}
