//! Builds graph functions: the only place that creates bindings; it infers the type of each.
//!
//! TVM counterpart: `relax::BlockBuilder`.

use std::sync::Arc;

use super::{Arg, Binding, BindingBlock, Body, Call, Callee, Expr};
use crate::ir::{Attrs, IRModule, IrError, Op, Span, Type, Var};

/// Collects bindings, in nested scopes, beside the module they belong to.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    module: IRModule,
    scopes: Vec<Vec<BindingBlock>>,
    open: Vec<Binding>,
}

impl BlockBuilder {
    /// A builder over `module`: functions that are called are looked up there.
    pub fn new(module: IRModule) -> BlockBuilder {
        BlockBuilder { module, scopes: Vec::new(), open: Vec::new() }
    }

    /// The module.
    pub fn module(&self) -> &IRModule {
        &self.module
    }

    /// The module, to add functions and types to.
    pub fn module_mut(&mut self) -> &mut IRModule {
        &mut self.module
    }

    /// The module, when building is done.
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
        self.open.push(Binding::new(var.clone(), value));
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
        self.open.push(Binding { var: var.clone(), value: Expr::Arg(value), match_cast: true });
        var
    }

    /// Adds a finished binding as it is; a pass that keeps types uses this.
    pub fn push(&mut self, binding: Binding) {
        self.open.push(binding);
    }

    /// Ends the open block; the next binding starts a new one.
    pub fn end_block(&mut self, dataflow: bool) {
        if !self.open.is_empty() {
            let bindings = std::mem::take(&mut self.open).into();
            self.current().push(BindingBlock { dataflow, bindings });
        }
    }

    /// Opens a nested scope (a branch, a clause, a local function); [`end_scope`](Self::end_scope) closes it.
    pub fn begin_scope(&mut self) {
        self.current();
        self.end_block(false);
        self.scopes.push(Vec::new());
    }

    /// Closes the innermost scope with the result `ret`.
    pub fn end_scope(&mut self, ret: Arg) -> Body {
        self.end_block(false);
        let blocks = self.scopes.pop().unwrap_or_default();
        Body { blocks: blocks.into(), ret }
    }

    fn current(&mut self) -> &mut Vec<BindingBlock> {
        if self.scopes.is_empty() {
            self.scopes.push(Vec::new());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }
}
