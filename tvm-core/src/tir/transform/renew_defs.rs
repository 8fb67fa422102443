//! Gives fresh identities to everything that a program binds. A copy of a program needs them, because identities are
//! unique in a module.
//!
//! Nothing else changes: the result is structurally equal to the input, and free variables and buffers stay.
//!
//! TVM counterpart: `tir::RenewDefs`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ir::{BlockId, BufferId, Var, VarId};
use crate::support::with_stack;
use crate::tir::*;

/// `func` with fresh parameters, symbolic dimensions, loops, axes, buffers and blocks.
#[must_use]
pub fn renew_defs(func: &PrimFunc) -> PrimFunc {
    let mut renew = Renew::default();
    for param in func.params.iter() {
        if let Param::Scalar(var) = param {
            renew.define(var);
        }
    }
    let params = func.params.iter().map(|param| match param {
        Param::In(buffer) => Param::In(renew.define_param(buffer)),
        Param::Out(buffer) => Param::Out(renew.define_param(buffer)),
        Param::Scalar(var) => Param::Scalar(renew.vars.get(&var.id()).unwrap_or(var).clone()),
    });
    let params = params.collect();
    let body = renew.mutate_stmt(&func.body).unwrap_or_else(|| func.body.clone());
    PrimFunc { params, body, ..func.clone() }
}

/// `stmt` with everything that it binds renewed.
#[must_use]
pub fn renew_stmt(stmt: &Stmt) -> Stmt {
    Renew::default().mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())
}

/// Replacements of old identities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renew {
    vars: FxHashMap<VarId, Var>,
    buffers: FxHashMap<BufferId, Buffer>,
}

impl Renew {
    /// Replaces `var` by a fresh variable, which is returned.
    pub(crate) fn define(&mut self, var: &Var) -> Var {
        self.define_as(var, var.renew())
    }

    /// Replaces `var` by `new`, which is returned.
    pub(crate) fn define_as(&mut self, var: &Var, new: Var) -> Var {
        self.vars.insert(var.id(), new.clone());
        new
    }

    /// The replacement of `var`.
    pub(crate) fn var(&self, var: &Var) -> Option<&Var> {
        self.vars.get(&var.id())
    }

    /// Gives a fresh replacement to the variables of `expr` that have none yet; for expressions that bind dimensions.
    pub(crate) fn define_dims(&mut self, expr: &PrimExpr) {
        any_expr(expr, &mut |expr| {
            if let PrimExpr::Var(var) = expr
                && !self.vars.contains_key(&var.id())
            {
                self.define(var);
            }
            false
        });
    }

    fn define_param(&mut self, buffer: &Buffer) -> Buffer {
        for expr in buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset) {
            self.define_dims(expr);
        }
        self.define_buffer(buffer)
    }

    /// Replaces `buffer` by a fresh one, which is returned.
    pub(crate) fn define_buffer(&mut self, buffer: &Buffer) -> Buffer {
        let shape = self.mutate_exprs(&buffer.shape);
        let strides = self.mutate_exprs(&buffer.strides);
        let elem_offset = buffer.elem_offset.as_ref().and_then(|offset| self.mutate_expr(offset));
        let new = buffer.renew(|node| {
            node.shape = shape.unwrap_or_else(|| node.shape.clone());
            node.strides = strides.unwrap_or_else(|| node.strides.clone());
            node.elem_offset = elem_offset.or_else(|| node.elem_offset.take());
        });
        self.buffers.insert(buffer.id, new.clone());
        new
    }

    fn expr(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        self.mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())
    }

    fn region(&mut self, region: &BufferRegion) -> BufferRegion {
        region.mutate(self).unwrap_or_else(|| region.clone())
    }
}

/// The variables that occur in `expr`.
fn variables(expr: &PrimExpr) -> impl Iterator<Item = Var> {
    let mut found = Vec::new();
    any_expr(expr, &mut |it| {
        found.extend(it.as_var().cloned());
        false
    });
    found.into_iter()
}

/// Rebuilds nodes without their folding constructors, so that the structure stays the same.
impl Mutator for Renew {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        with_stack(|| match expr {
            PrimExpr::Var(var) => self.vars.get(&var.id()).map(PrimExpr::from),
            PrimExpr::Let(it) => {
                let value = self.expr(&it.value);
                let var = self.define(&it.var);
                Some(PrimExpr::Let(Arc::new(Let { var, value, body: self.expr(&it.body) })))
            }
            PrimExpr::Cast(it) => {
                let value = self.mutate_expr(&it.value)?;
                Some(PrimExpr::Cast(Arc::new(Cast { dtype: it.dtype, value })))
            }
            PrimExpr::Not(it) => {
                let value = self.mutate_expr(&it.value)?;
                Some(PrimExpr::Not(Arc::new(Not { value })))
            }
            PrimExpr::Binary(it) => {
                let (a, b) = (self.mutate_expr(&it.a), self.mutate_expr(&it.b));
                (a.is_some() || b.is_some()).then(|| {
                    let (a, b) = (a.unwrap_or_else(|| it.a.clone()), b.unwrap_or_else(|| it.b.clone()));
                    PrimExpr::Binary(Arc::new(Binary { op: it.op, a, b }))
                })
            }
            PrimExpr::Select(it) => Some(PrimExpr::Select(Arc::new(Select {
                condition: self.expr(&it.condition),
                true_value: self.expr(&it.true_value),
                false_value: self.expr(&it.false_value),
            }))),
            PrimExpr::Ramp(it) => Some(PrimExpr::Ramp(Arc::new(Ramp {
                base: self.expr(&it.base),
                stride: self.expr(&it.stride),
                lanes: it.lanes,
            }))),
            PrimExpr::Broadcast(it) => {
                let value = self.mutate_expr(&it.value)?;
                Some(PrimExpr::Broadcast(Arc::new(Broadcast { value, lanes: it.lanes })))
            }
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Call(_) => self.walk_expr(expr),
        })
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(it) => {
                let (min, extent) = (self.expr(&it.min), self.expr(&it.extent));
                let loop_var = self.define(&it.loop_var);
                let body = self.stmt(&it.body);
                Some(For { loop_var, min, extent, body, ..(**it).clone() }.into())
            }
            Stmt::Bind(it) => {
                let value = self.expr(&it.value);
                Some(Bind { var: self.define(&it.var), value }.into())
            }
            Stmt::AllocBuffer(it) => {
                Some(AllocBuffer { buffer: self.define_buffer(&it.buffer), ..(**it).clone() }.into())
            }
            Stmt::DeclBuffer(it) => {
                let data = self.expr(&it.data);
                Some(DeclBuffer { buffer: self.define_buffer(&it.buffer), data }.into())
            }
            Stmt::SeqStmt(it) => Some(Stmt::SeqStmt(it.iter().map(|stmt| self.stmt(stmt)).collect())),
            Stmt::IfThenElse(it) => Some(Stmt::IfThenElse(Arc::new(IfThenElse {
                condition: self.expr(&it.condition),
                then_case: self.stmt(&it.then_case),
                else_case: it.else_case.as_ref().map(|stmt| self.stmt(stmt)),
                span: it.span.clone(),
            }))),
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::While(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.walk_stmt(stmt),
        }
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let doms: Vec<Range> = block
            .iter_vars
            .iter()
            .map(|iter| iter.dom.mutate(self).unwrap_or_else(|| iter.dom.clone()))
            .collect();
        let iter_vars = block.iter_vars.iter().zip(doms);
        let iter_vars = iter_vars
            .map(|(iter, dom)| IterVar { var: self.define(&iter.var), dom, kind: iter.kind })
            .collect();
        let alloc_buffers = block.alloc_buffers.iter().map(|buffer| self.define_buffer(buffer)).collect();
        let around = (!block.match_buffers.is_empty()).then(|| self.vars.clone());
        // What a source mentions is bound outside; a matched buffer binds the other variables of its shape, in the block.
        let sources = block.match_buffers.iter().flat_map(|it| it.source.region.iter());
        let bound: Vec<Var> =
            sources.flat_map(|range| variables(&range.min).chain(variables(&range.extent))).collect();
        let match_buffers = block
            .match_buffers
            .iter()
            .map(|it| {
                let source = self.region(&it.source);
                for var in &bound {
                    self.vars.entry(var.id()).or_insert_with(|| var.clone());
                }
                MatchBufferRegion { buffer: self.define_param(&it.buffer), source }
            })
            .collect();
        let new = Block {
            id: BlockId::fresh(),
            name: block.name.clone(),
            iter_vars,
            reads: block.reads.iter().map(|region| self.region(region)).collect(),
            writes: block.writes.iter().map(|region| self.region(region)).collect(),
            alloc_buffers,
            match_buffers,
            annotations: block.annotations.clone(),
            init: block.init.as_ref().map(|stmt| self.stmt(stmt)),
            body: self.stmt(&block.body),
            span: block.span.clone(),
        };
        if let Some(around) = around {
            self.vars = around;
        }
        Some(new)
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.buffers.get(&buffer.id).cloned()
    }
}
