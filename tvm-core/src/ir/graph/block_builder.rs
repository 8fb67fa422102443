//! Builder of graph functions: the bindings made so far, in nested scopes. The methods that infer types are in
//! `relax/block_builder.rs`.
//!
//! TVM counterpart: `relax::BlockBuilder`.

use std::sync::Arc;

use super::{Arg, Binding, BindingBlock, Body, Expr};
use crate::ir::{IRModule, IrError, Span, Type, Var};

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

    fn current(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }
}
