//! Helpers shared by several passes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::context::{analyzer_for, enter_loop, reads};
use crate::arith::Analyzer;
use crate::ir::{BufferId, IrError, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::{
    Bind, Block, Buffer, BufferNode, BufferStore, Effect, For, ForKind, IfThenElse, Intrinsic, Mutator,
    Param, PrimCall, PrimCallee, PrimExpr, PrimFunc, Stmt, Visitor, any_expr, walk_block, walk_expr,
    walk_stmt,
};

/// A pass that rewrites bodies; `rewrite` returns `None` for "unchanged".
pub(super) fn body_pass(
    name: &'static str,
    rewrite: impl Fn(&PrimFunc) -> Option<Stmt> + Send + Sync + 'static,
) -> Pass {
    prim_func_pass(name, move |func, _, _| -> Result<_, IrError> {
        Ok(rewrite(func).map(|body| PrimFunc { body, ..func.clone() }))
    })
}

/// `node` with the parts that are `Some`; `None` if none is.
pub(super) fn with_cases(
    node: &IfThenElse,
    condition: Option<PrimExpr>,
    then_case: Option<Stmt>,
    else_case: Option<Stmt>,
) -> Option<IfThenElse> {
    let changed = condition.is_some() || then_case.is_some() || else_case.is_some();
    changed.then(|| IfThenElse {
        condition: condition.unwrap_or_else(|| node.condition.clone()),
        then_case: then_case.unwrap_or_else(|| node.then_case.clone()),
        else_case: else_case.or_else(|| node.else_case.clone()),
        span: node.span.clone(),
    })
}

/// `node` with the parts that are `Some`; `None` if none is.
pub(super) fn with_parts(
    node: &BufferStore,
    indices: Option<Arc<[PrimExpr]>>,
    value: Option<PrimExpr>,
    predicate: Option<PrimExpr>,
) -> Option<BufferStore> {
    let changed = indices.is_some() || value.is_some() || predicate.is_some();
    changed.then(|| BufferStore {
        indices: indices.unwrap_or_else(|| node.indices.clone()),
        value: value.unwrap_or_else(|| node.value.clone()),
        predicate: predicate.or_else(|| node.predicate.clone()),
        ..node.clone()
    })
}

/// Replaces variables, also inside the shapes of buffers that the rewritten program itself allocates or declares: such
/// buffers are renewed.
#[derive(Default)]
pub(in crate::tir) struct DeepSubstitute {
    pub(super) vars: FxHashMap<VarId, PrimExpr>,
    buffers: FxHashMap<BufferId, Option<Buffer>>,
}

impl DeepSubstitute {
    pub(super) fn new(vars: FxHashMap<VarId, PrimExpr>) -> DeepSubstitute {
        DeepSubstitute { vars, buffers: FxHashMap::default() }
    }

    pub(in crate::tir) fn stmt(vars: FxHashMap<VarId, PrimExpr>, stmt: &Stmt) -> Stmt {
        DeepSubstitute::new(vars).mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())
    }
}

impl Mutator for DeepSubstitute {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr.as_var() {
            Some(var) => self.vars.get(&var.id()).cloned(),
            None => self.walk_expr(expr),
        }
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        if let Some(known) = self.buffers.get(&buffer.id) {
            return known.clone();
        }
        let shape = self.mutate_exprs(&buffer.shape);
        let strides = self.mutate_exprs(&buffer.strides);
        let offset = buffer.elem_offset.as_ref().and_then(|offset| self.mutate_expr(offset));
        let changed = shape.is_some() || strides.is_some() || offset.is_some();
        let new = changed.then(|| {
            buffer.renew(|node: &mut BufferNode| {
                node.shape = shape.unwrap_or_else(|| node.shape.clone());
                node.strides = strides.unwrap_or_else(|| node.strides.clone());
                node.elem_offset = offset.or_else(|| node.elem_offset.clone());
            })
        });
        self.buffers.insert(buffer.id, new.clone());
        new
    }
}

/// `func` where the variables have these values, also in the shapes of its parameters (TVM's `specialize`).
pub(crate) fn specialized(func: &PrimFunc, vars: FxHashMap<VarId, PrimExpr>) -> PrimFunc {
    let mut substitute = DeepSubstitute::new(vars);
    let mut new = |buffer: &Buffer| substitute.mutate_buffer(buffer).unwrap_or_else(|| buffer.clone());
    let params = func.params.iter().map(|param| match param {
        Param::In(buffer) => Param::In(new(buffer)),
        Param::Out(buffer) => Param::Out(new(buffer)),
        Param::Scalar(_) => param.clone(),
    });
    let params = params.collect();
    let body = substitute.mutate_stmt(&func.body).unwrap_or_else(|| func.body.clone());
    PrimFunc { params, body, ..func.clone() }
}

/// `body` with `var` replaced by `value`; if `value` reads memory, `var` is bound to it instead (evaluated once).
pub(super) fn one_iteration(var: &Var, value: &PrimExpr, body: &Stmt) -> Stmt {
    if reads(value) {
        return Stmt::seq([Bind { var: var.clone(), value: value.clone() }.into(), body.clone()]);
    }
    DeepSubstitute::stmt(FxHashMap::from_iter([(var.id(), value.clone())]), body)
}

/// True when `stmt` reads, writes or takes the address of `buffer`.
pub(super) fn accesses(stmt: &Stmt, buffer: &Buffer) -> bool {
    struct Find<'a>(&'a Buffer, bool);
    impl Visitor for Find<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.1 |= matches!(expr, PrimExpr::BufferLoad(load) if load.buffer == *self.0);
            if !self.1 {
                walk_expr(self, expr);
            }
        }

        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.1 |= matches!(stmt, Stmt::BufferStore(store) if store.buffer == *self.0);
            if !self.1 {
                walk_stmt(self, stmt);
            }
        }
    }
    let mut find = Find(buffer, false);
    find.visit_stmt(stmt);
    find.1
}

/// Rewrites the serial and parallel loops of `func`, innermost first. `rewrite` gets a loop, its body as it is by then, and
/// whether it has an iteration in any case.
pub(super) fn rewrite_loops(
    func: &PrimFunc,
    rewrite: impl FnMut(&For, &Stmt, bool) -> Option<Stmt>,
) -> Option<Stmt> {
    struct Loops<F> {
        analyzer: Analyzer,
        rewrite: F,
    }
    impl<F: FnMut(&For, &Stmt, bool) -> Option<Stmt>> Mutator for Loops<F> {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }

        fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
            let Stmt::For(node) = stmt else { return self.walk_stmt(stmt) };
            let runs = self.analyzer.const_int_bound(&node.extent).min >= 1;
            enter_loop(&mut self.analyzer, node);
            let body = self.mutate_stmt(&node.body);
            let new = match node.kind {
                ForKind::Serial | ForKind::Parallel => {
                    (self.rewrite)(node, body.as_ref().unwrap_or(&node.body), runs)
                }
                ForKind::Vectorized | ForKind::Unrolled | ForKind::ThreadBinding(_) => None,
            };
            new.or_else(|| Some(For { body: body?, ..(**node).clone() }.into()))
        }
    }
    Loops { analyzer: analyzer_for(func), rewrite }.mutate_stmt(&func.body)
}

/// What a statement binds and changes, and whether it may end the call.
#[derive(Default)]
pub(super) struct Inside {
    pub(super) vars: FxHashSet<VarId>,
    pub(super) buffers: FxHashSet<BufferId>,
    pub(super) ends: bool,
}

impl Inside {
    pub(super) fn of(stmt: &Stmt) -> Inside {
        let mut inside = Inside::default();
        inside.visit_stmt(stmt);
        inside
    }

    /// True if the statement does not change the value of `expr`, which has no effect.
    pub(super) fn is_fixed(&self, expr: &PrimExpr) -> bool {
        !any_expr(expr, &mut |it| match it {
            PrimExpr::Var(var) => self.vars.contains(&var.id()),
            PrimExpr::BufferLoad(it) => self.buffers.contains(&it.buffer.id),
            PrimExpr::Call(it) => is_no_value(it),
            _ => false,
        })
    }
}

impl Visitor for Inside {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Let(it) = expr {
            self.vars.insert(it.var.id());
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(it) => drop(self.vars.insert(it.loop_var.id())),
            Stmt::Bind(it) => drop(self.vars.insert(it.var.id())),
            Stmt::BufferStore(it) => drop(self.buffers.insert(it.buffer.id)),
            Stmt::AllocBuffer(it) => drop(self.buffers.insert(it.buffer.id)),
            Stmt::DeclBuffer(it) => drop(self.buffers.insert(it.buffer.id)),
            Stmt::AssertStmt(_) | Stmt::While(_) => self.ends = true,
            Stmt::BlockRealize(_) | Stmt::SeqStmt(_) | Stmt::IfThenElse(_) | Stmt::Evaluate(_) => {}
        }
        walk_stmt(self, stmt);
    }
}

/// True if the call is no value: its operand is a place, or it has an effect.
pub(super) fn is_no_value(call: &PrimCall) -> bool {
    match call.callee {
        PrimCallee::Intrinsic(Intrinsic::AddressOf) => true,
        PrimCallee::Intrinsic(intrinsic) => intrinsic.effect() != Effect::Pure,
        PrimCallee::PureExtern(_) => false,
    }
}

/// The names of the blocks of a program.
#[derive(Default)]
pub(in crate::tir) struct BlockNames(FxHashSet<Arc<str>>);

impl Visitor for BlockNames {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_block(&mut self, block: &Block) {
        self.0.insert(block.name.clone());
        walk_block(self, block);
    }
}

impl BlockNames {
    /// The names in `stmt`.
    pub(in crate::tir) fn of(stmt: &Stmt) -> BlockNames {
        let mut names = BlockNames::default();
        names.visit_stmt(stmt);
        names
    }

    /// A name that no block has yet: `hint`, or `hint` with a number.
    pub(in crate::tir) fn fresh(&mut self, hint: &str) -> String {
        let mut names = std::iter::once(hint.to_string()).chain((1..).map(|i| format!("{hint}_{i}")));
        let name = names.find(|it| !self.0.contains(it.as_str())).unwrap_or_default();
        self.0.insert(name.as_str().into());
        name
    }
}
