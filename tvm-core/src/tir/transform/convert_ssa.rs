//! Gives every binding its own variable.
//!
//! TVM counterpart: `ConvertSSA`.
//! Ensures: no variable is bound twice, no buffer allocated or declared twice.

use rustc_hash::{FxHashMap, FxHashSet};

use super::util::body_pass;
use crate::ir::{BufferId, Var, VarId};
use crate::pass::Pass;
use crate::tir::{AllocBuffer, Bind, Buffer, DeclBuffer, For, Let, Mutator, Param, PrimExpr, PrimFunc, Stmt};

/// Renames variables and buffers that are bound more than once.
pub fn convert_ssa() -> Pass {
    body_pass("ConvertSSA", |func| convert(func, &func.body))
}

/// `body`, a body for `func`, with a separate variable for every binding; `None` when that holds already.
pub(super) fn convert(func: &PrimFunc, body: &Stmt) -> Option<Stmt> {
    let mut ssa = ConvertSsa::default();
    for param in func.params.iter() {
        match param {
            Param::Scalar(var) => drop(ssa.vars.insert(var.id())),
            Param::In(buffer) | Param::Out(buffer) => drop(ssa.buffers.insert(buffer.id)),
        }
    }
    ssa.mutate_stmt(body)
}

#[derive(Default)]
struct ConvertSsa {
    vars: FxHashSet<VarId>,
    buffers: FxHashSet<BufferId>,
    new_vars: FxHashMap<VarId, Var>,
    new_buffers: FxHashMap<BufferId, Buffer>,
}

impl ConvertSsa {
    /// The variable that replaces `var` from here on; `None` when `var` stays.
    fn define(&mut self, var: &Var) -> Option<Var> {
        if self.vars.insert(var.id()) {
            return None;
        }
        let new = var.renew();
        self.vars.insert(new.id());
        self.new_vars.insert(var.id(), new.clone());
        Some(new)
    }

    fn define_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        let shape = self.mutate_exprs(&buffer.shape);
        if self.buffers.insert(buffer.id) && shape.is_none() {
            return None;
        }
        let new = buffer.renew(|node| node.shape = shape.unwrap_or_else(|| node.shape.clone()));
        self.buffers.insert(new.id);
        self.new_buffers.insert(buffer.id, new.clone());
        Some(new)
    }
}

impl Mutator for ConvertSsa {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Var(var) => self.new_vars.get(&var.id()).map(PrimExpr::from),
            PrimExpr::Let(it) => {
                let value = self.mutate_expr(&it.value);
                let outer = self.new_vars.get(&it.var.id()).cloned();
                let var = self.define(&it.var);
                let body = self.mutate_expr(&it.body);
                if let Some(outer) = outer {
                    self.new_vars.insert(it.var.id(), outer);
                }
                (value.is_some() || var.is_some() || body.is_some()).then(|| {
                    PrimExpr::Let(
                        Let {
                            var: var.unwrap_or_else(|| it.var.clone()),
                            value: value.unwrap_or_else(|| it.value.clone()),
                            body: body.unwrap_or_else(|| it.body.clone()),
                        }
                        .into(),
                    )
                })
            }
            _ => self.walk_expr(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(it) => {
                let (min, extent) = (self.mutate_expr(&it.min), self.mutate_expr(&it.extent));
                let var = self.define(&it.loop_var);
                let body = self.mutate_stmt(&it.body);
                if min.is_none() && extent.is_none() && var.is_none() && body.is_none() {
                    return None;
                }
                let mut new: For = (**it).clone();
                new.min = min.unwrap_or(new.min);
                new.extent = extent.unwrap_or(new.extent);
                new.loop_var = var.unwrap_or(new.loop_var);
                new.body = body.unwrap_or(new.body);
                Some(new.into())
            }
            Stmt::Bind(it) => {
                let value = self.mutate_expr(&it.value);
                let var = self.define(&it.var);
                (value.is_some() || var.is_some()).then(|| {
                    let (old_var, old_value) = (it.var.clone(), it.value.clone());
                    Bind { var: var.unwrap_or(old_var), value: value.unwrap_or(old_value) }.into()
                })
            }
            Stmt::AllocBuffer(it) => {
                Some(AllocBuffer { buffer: self.define_buffer(&it.buffer)?, ..(**it).clone() }.into())
            }
            Stmt::DeclBuffer(it) => {
                let data = self.mutate_expr(&it.data);
                let buffer = self.define_buffer(&it.buffer);
                (data.is_some() || buffer.is_some()).then(|| {
                    let (old_buffer, old_data) = (it.buffer.clone(), it.data.clone());
                    DeclBuffer { buffer: buffer.unwrap_or(old_buffer), data: data.unwrap_or(old_data) }.into()
                })
            }
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.walk_stmt(stmt),
        }
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.new_buffers.get(&buffer.id).cloned()
    }
}
