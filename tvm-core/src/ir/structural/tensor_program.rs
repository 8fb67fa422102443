//! Kinds and fields of expressions, statements and buffers.

use super::{Field, Fields};
use crate::ir::node::Fielded;
use crate::ir::tensor_program::nodes::stmt_node;
use crate::ir::tensor_program::*;

pub(super) fn expr_kind(expr: &PrimExpr) -> &'static str {
    match expr {
        PrimExpr::IntImm(_) => "IntImm",
        PrimExpr::FloatImm(_) => "FloatImm",
        PrimExpr::StringImm(_) => "StringImm",
        PrimExpr::Var(_) => "VarRef",
        PrimExpr::Cast(_) => "Cast",
        PrimExpr::Not(_) => "Not",
        PrimExpr::Binary(it) => it.op.name(),
        PrimExpr::Select(_) => "Select",
        PrimExpr::BufferLoad(_) => "BufferLoad",
        PrimExpr::Ramp(_) => "Ramp",
        PrimExpr::Broadcast(_) => "Broadcast",
        PrimExpr::Shuffle(_) => "Shuffle",
        PrimExpr::Let(_) => "Let",
        PrimExpr::Call(it) => match it.callee {
            PrimCallee::Intrinsic(_) => "Call",
            PrimCallee::PureExtern(_) => "CallPureExtern",
        },
    }
}

pub(super) fn stmt_kind(stmt: &Stmt) -> &'static str {
    match stmt {
        Stmt::BufferStore(_) => "BufferStore",
        Stmt::For(_) => "For",
        Stmt::BlockRealize(_) => "BlockRealize",
        Stmt::SeqStmt(_) => "SeqStmt",
        Stmt::IfThenElse(_) => "IfThenElse",
        Stmt::While(_) => "While",
        Stmt::Bind(_) => "Bind",
        Stmt::AllocBuffer(_) => "AllocBuffer",
        Stmt::DeclBuffer(_) => "DeclBuffer",
        Stmt::Evaluate(_) => "Evaluate",
        Stmt::AssertStmt(_) => "AssertStmt",
    }
}

impl<'a> Fields<'a> {
    pub(super) fn expr(&mut self, expr: &'a PrimExpr) {
        match expr {
            PrimExpr::StringImm(it) => self.field("value", Field::Str(it)),
            PrimExpr::Var(it) => self.field("var", Field::UseVar(it)),
            PrimExpr::IntImm(it) => it.collect_fields(self),
            PrimExpr::FloatImm(it) => it.collect_fields(self),
            PrimExpr::Cast(it) => it.collect_fields(self),
            PrimExpr::Not(it) => it.collect_fields(self),
            PrimExpr::Binary(it) => it.collect_fields(self),
            PrimExpr::Select(it) => it.collect_fields(self),
            PrimExpr::BufferLoad(it) => it.collect_fields(self),
            PrimExpr::Ramp(it) => it.collect_fields(self),
            PrimExpr::Broadcast(it) => it.collect_fields(self),
            PrimExpr::Shuffle(it) => it.collect_fields(self),
            PrimExpr::Let(it) => it.collect_fields(self),
            PrimExpr::Call(it) => it.collect_fields(self),
        }
    }

    pub(super) fn stmt(&mut self, stmt: &'a Stmt) {
        stmt_node!(stmt, it => it.collect_fields(self), seq => self.scope(|f| f.list("seq", it)));
    }

    pub(super) fn buffer(&mut self, buffer: &'a Buffer) {
        self.field("name", Field::Name(&buffer.name));
        self.field("span", Field::Span(&buffer.span));
        self.field("dtype", Field::DType(buffer.dtype));
        self.field("scope", Field::Str(buffer.scope.name()));
        self.list("shape", &buffer.shape);
        self.list("strides", &buffer.strides);
        self.option("elem_offset", buffer.elem_offset.as_ref());
        self.field("id", Field::DefBuffer(buffer));
    }
}
