//! Fields of the nodes of tensor programs.

use super::{Field, Fields, buffer_extents};
use crate::ir::tensor_program::*;
use tvm_runtime::abi::Status;

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
            Callee::Intrinsic(_) => "Call",
            Callee::PureExtern(_) => "CallPureExtern",
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
            PrimExpr::IntImm(it) => {
                self.field("value", Field::Int(it.value));
                self.field("dtype", Field::DType(it.dtype));
            }
            PrimExpr::FloatImm(it) => {
                self.field("value", Field::Float(it.value));
                self.field("dtype", Field::DType(it.dtype));
            }
            PrimExpr::StringImm(it) => self.field("value", Field::Str(it)),
            PrimExpr::Var(it) => self.field("var", Field::UseVar(it)),
            PrimExpr::Cast(it) => {
                self.field("dtype", Field::DType(it.dtype));
                self.node("value", &it.value);
            }
            PrimExpr::Not(it) => self.node("value", &it.value),
            PrimExpr::Binary(it) => {
                self.node("a", &it.a);
                self.node("b", &it.b);
            }
            PrimExpr::Select(it) => {
                self.node("condition", &it.condition);
                self.node("true_value", &it.true_value);
                self.node("false_value", &it.false_value);
            }
            PrimExpr::BufferLoad(it) => {
                self.field("span", Field::Span(&it.span));
                self.field("buffer", Field::UseBuffer(&it.buffer));
                self.list("indices", &it.indices);
            }
            PrimExpr::Ramp(it) => {
                self.node("base", &it.base);
                self.node("stride", &it.stride);
                self.field("lanes", Field::Int(it.lanes.into()));
            }
            PrimExpr::Broadcast(it) => {
                self.node("value", &it.value);
                self.field("lanes", Field::Int(it.lanes.into()));
            }
            PrimExpr::Shuffle(it) => {
                self.list("vectors", &it.vectors);
                self.items("indices", it.indices.iter().map(|&index| Field::Int(index.into())));
            }
            PrimExpr::Let(it) => {
                self.node("value", &it.value);
                self.scope(|f| {
                    f.node("var", &it.var);
                    f.node("body", &it.body);
                });
            }
            PrimExpr::Call(it) => {
                self.field("span", Field::Span(&it.span));
                let callee = match &it.callee {
                    Callee::Intrinsic(intrinsic) => intrinsic.name(),
                    Callee::PureExtern(symbol) => symbol,
                };
                self.field("callee", Field::Str(callee));
                self.field("dtype", Field::DType(it.dtype));
                self.list("args", &it.args);
            }
        }
    }

    pub(super) fn stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::BufferStore(it) => {
                self.field("span", Field::Span(&it.span));
                self.field("buffer", Field::UseBuffer(&it.buffer));
                self.list("indices", &it.indices);
                self.node("value", &it.value);
            }
            Stmt::For(it) => {
                self.field("span", Field::Span(&it.span));
                self.field("loop", Field::Str(it.kind.name()));
                self.node("min", &it.min);
                self.node("extent", &it.extent);
                self.field("annotations", Field::Attrs(&it.annotations));
                self.scope(|f| {
                    f.node("loop_var", &it.loop_var);
                    f.node("body", &it.body);
                });
            }
            Stmt::BlockRealize(it) => {
                self.list("iter_values", &it.iter_values);
                self.node("predicate", &it.predicate);
                self.node("block", &*it.block);
            }
            Stmt::SeqStmt(it) => self.scope(|f| f.list("seq", it)),
            Stmt::IfThenElse(it) => {
                self.field("span", Field::Span(&it.span));
                self.node("condition", &it.condition);
                self.scope(|f| f.node("then_case", &it.then_case));
                self.scope(|f| f.option("else_case", it.else_case.as_ref()));
            }
            Stmt::While(it) => {
                self.field("span", Field::Span(&it.span));
                self.node("condition", &it.condition);
                self.scope(|f| f.node("body", &it.body));
            }
            Stmt::Bind(it) => {
                self.node("value", &it.value);
                self.node("var", &it.var);
            }
            Stmt::AllocBuffer(it) => self.node("buffer", &it.buffer),
            Stmt::DeclBuffer(it) => {
                self.node("data", &it.data);
                self.node("buffer", &it.buffer);
            }
            Stmt::Evaluate(it) => self.node("value", &it.value),
            Stmt::AssertStmt(it) => {
                self.node("condition", &it.condition);
                self.field("status", Field::Int(it.failure.status.into()));
                self.field("arg", Field::Int(it.failure.arg.into()));
                self.field("axis", Field::Int(it.failure.axis.into()));
                self.node("expected", &it.failure.expected);
                self.node("got", &it.failure.got);
                // The message of an assertion is part of the structure; the subject of another failure is a name.
                let what = &it.failure.what;
                let is_message = it.failure.status == Status::Assert as i32;
                self.field("what", if is_message { Field::Str(what) } else { Field::Name(what) });
                self.field("span", Field::Span(&it.failure.span));
            }
        }
    }

    pub(super) fn block(&mut self, block: &'a Block) {
        self.scope(|f| {
            f.field("name", Field::Name(&block.name));
            f.field("span", Field::Span(&block.span));
            f.field("id", Field::Block(block.id));
            f.list("iter_vars", &block.iter_vars);
            f.list("alloc_buffers", &block.alloc_buffers);
            f.list("match_buffers", &block.match_buffers);
            f.list("reads", &block.reads);
            f.list("writes", &block.writes);
            f.field("annotations", Field::Attrs(&block.annotations));
            f.scope(|f| f.option("init", block.init.as_ref()));
            f.node("body", &block.body);
        });
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

    /// Scalars bind first, then dimensions, then buffers: a shape may use names that a later parameter binds.
    pub(super) fn prim_func(&mut self, func: &'a PrimFunc) {
        self.scope(|f| {
            f.field("name", Field::Name(&func.name));
            f.field("span", Field::Span(&func.span));
            f.field("attrs", Field::Attrs(&func.attrs));
            let scalars = func.params.iter().filter_map(|param| match param {
                Param::Scalar(var) => Some(Field::Node(var.into())),
                Param::In(_) | Param::Out(_) => None,
            });
            f.items("scalars", scalars);
            f.dims(func.params.iter().filter_map(Param::buffer).flat_map(buffer_extents));
            f.list("params", &func.params);
            f.node("body", &func.body);
        });
    }
}
