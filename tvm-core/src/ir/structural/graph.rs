//! Kinds of the nodes of graph functions, and fields of types, arguments, expressions and patterns.

use super::{Field, Fields};
use crate::ir::graph::*;
use crate::ir::node::Fielded;
use crate::ir::{TensorShape, Type};

pub(super) fn type_kind(ty: &Type) -> &'static str {
    match ty {
        Type::Prim(_) => "PrimType",
        Type::Tensor(_) => "TensorType",
        Type::Shape(_) => "ShapeType",
        Type::Tuple(_) => "TupleType",
        Type::Func(_) => "FuncType",
        Type::Adt(_) => "AdtType",
        Type::Ref(_) => "RefType",
        Type::Param(_) => "TypeParam",
        Type::Object => "ObjectType",
    }
}

pub(super) fn arg_kind(arg: &Arg) -> &'static str {
    match arg {
        Arg::Var(_) => "ArgVar",
        Arg::Const(_) => "Constant",
        Arg::Global(_) => "GlobalVar",
        Arg::Tuple(_) => "Tuple",
        Arg::Shape(_) => "ShapeExpr",
        Arg::Prim(_) => "PrimValue",
        Arg::DType(_) => "DataTypeImm",
        Arg::Str(_) => "ArgString",
    }
}

pub(super) fn expr_kind(expr: &Expr) -> &'static str {
    match expr {
        Expr::Arg(_) => "Arg",
        Expr::Call(it) => match it.callee {
            Callee::Op(_) => "CallOp",
            Callee::Global(_) => "CallGlobal",
            Callee::Var(_) => "CallVar",
            Callee::Tir(_) => "CallTir",
            Callee::TirInplace(_) => "CallTirInplace",
            Callee::DpsPacked(_) => "CallDpsPacked",
            Callee::Packed(_) => "CallPacked",
            Callee::Constructor(_) => "CallConstructor",
        },
        Expr::TupleGetItem(..) => "TupleGetItem",
        Expr::If(_) => "If",
        Expr::Match(_) => "Match",
        Expr::Function(_) => "FunctionExpr",
        Expr::RefCreate(_) => "RefCreate",
        Expr::RefRead(_) => "RefRead",
        Expr::RefWrite(..) => "RefWrite",
    }
}

pub(super) fn pattern_kind(pattern: &Pattern) -> &'static str {
    match pattern {
        Pattern::Wildcard => "PatternWildcard",
        Pattern::Var(_) => "PatternVar",
        Pattern::Constructor(..) => "PatternConstructor",
        Pattern::Tuple(_) => "PatternTuple",
    }
}

impl<'a> Fields<'a> {
    pub(super) fn ty(&mut self, ty: &'a Type) {
        match ty {
            Type::Prim(dtype) => self.field("dtype", Field::DType(*dtype)),
            Type::Tensor(it) => {
                self.field("known", Field::Int(it.known_shape().is_some().into()));
                match &it.shape {
                    TensorShape::Known(shape) => self.list("shape", shape),
                    TensorShape::Rank(ndim) => self.field("ndim", Field::Int(*ndim as i64)),
                    TensorShape::Unknown => {}
                }
                if let Some(dtype) = it.dtype {
                    self.field("dtype", Field::DType(dtype));
                }
                if let Some(device) = it.vdevice {
                    self.field("vdevice", Field::Device(device));
                }
            }
            Type::Shape(it) => {
                self.field("known", Field::Int(it.values.is_some().into()));
                if let Some(values) = &it.values {
                    self.list("values", values);
                }
                if let Some(ndim) = it.ndim {
                    self.field("ndim", Field::Int(ndim as i64));
                }
            }
            Type::Tuple(fields) => self.list("fields", fields),
            Type::Func(it) => it.collect_fields(self),
            Type::Adt(it) => it.collect_fields(self),
            Type::Ref(it) => self.node("value", &**it),
            Type::Param(it) => self.field("name", Field::Str(&it.0)),
            Type::Object => {}
        }
    }

    pub(super) fn arg(&mut self, arg: &'a Arg) {
        match arg {
            Arg::Var(it) => self.field("var", Field::UseVar(it)),
            Arg::Const(it) => self.field("data", Field::Tensor(it)),
            Arg::Global(it) => self.field("name", Field::Global(it)),
            Arg::Tuple(it) => self.list("fields", it),
            Arg::Shape(it) => self.list("values", it),
            Arg::Prim(it) => self.node("value", it),
            Arg::DType(it) => self.field("value", Field::DType(*it)),
            Arg::Str(it) => self.field("value", Field::Str(it)),
        }
    }

    pub(super) fn relax_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Arg(it) => self.node("value", it),
            Expr::Call(it) => it.collect_fields(self),
            Expr::TupleGetItem(tuple, index) => {
                self.node("tuple", tuple);
                self.field("index", Field::Int(*index as i64));
            }
            Expr::If(it) => it.collect_fields(self),
            Expr::Match(it) => it.collect_fields(self),
            Expr::Function(it) => it.collect_fields(self),
            Expr::RefCreate(value) => self.node("value", value),
            Expr::RefRead(cell) => self.node("cell", cell),
            Expr::RefWrite(cell, value) => {
                self.node("cell", cell);
                self.node("value", value);
            }
        }
    }

    pub(super) fn pattern(&mut self, pattern: &'a Pattern) {
        match pattern {
            Pattern::Wildcard => {}
            Pattern::Var(it) => self.node("var", it),
            Pattern::Constructor(constructor, fields) => {
                constructor.collect_fields(self);
                self.list("fields", fields);
            }
            Pattern::Tuple(fields) => self.list("fields", fields),
        }
    }
}
