//! Reading types and the nodes of graph functions.

use std::sync::Arc;

use super::read::{Built, Node};
use crate::ir::graph::*;
use crate::ir::node::Fielded;
use crate::ir::{
    AdtType, BaseFunc, ConstructorDef, FuncType, IrError, ShapeType, TensorShape, TensorType, Type, TypeDef,
    TypeParam,
};

impl Node<'_> {
    /// Builds the node, if `kind` is a type or a node of graph functions.
    pub(super) fn graph(&self, kind: &str) -> Result<Option<Built>, IrError> {
        if let Some(ty) = self.ty(kind)? {
            return Ok(Some(ty.into()));
        }
        if let Some(arg) = self.arg(kind)? {
            return Ok(Some(arg.into()));
        }
        if let Some(expr) = self.relax_expr(kind)? {
            return Ok(Some(expr.into()));
        }
        Ok(Some(match kind {
            "TypeDef" => Arc::new(TypeDef::read_fields(self)?).into(),
            "ConstructorDef" => ConstructorDef::read_fields(self)?.into(),
            "Body" => Body::read_fields(self)?.into(),
            "BindingBlock" => BindingBlock::read_fields(self)?.into(),
            "Binding" => Binding::read_fields(self)?.into(),
            "Clause" => Clause::read_fields(self)?.into(),
            "PatternWildcard" => Pattern::Wildcard.into(),
            "PatternVar" => Pattern::Var(self.child("var")?).into(),
            "PatternConstructor" => {
                Pattern::Constructor(Constructor::read_fields(self)?, self.list("fields")?).into()
            }
            "PatternTuple" => Pattern::Tuple(self.list("fields")?).into(),
            "Function" => BaseFunc::Relax(Function::read_fields(self)?.into()).into(),
            _ => return Ok(None),
        }))
    }

    fn ty(&self, kind: &str) -> Result<Option<Type>, IrError> {
        let ndim = || if self.has("ndim") { self.int("ndim").map(Some) } else { Ok(None) };
        Ok(Some(match kind {
            "PrimType" => Type::Prim(self.dtype("dtype")?),
            "TensorType" => Type::Tensor(TensorType {
                shape: match ndim()? {
                    Some(ndim) => TensorShape::Rank(ndim),
                    None if self.flag("known")? => TensorShape::Known(self.list("shape")?),
                    None => TensorShape::Unknown,
                },
                dtype: if self.has("dtype") { Some(self.dtype("dtype")?) } else { None },
                vdevice: if self.has("vdevice") { Some(self.device("vdevice")?) } else { None },
            }),
            "ShapeType" => {
                let values = if self.flag("known")? { Some(self.list("values")?) } else { None };
                Type::Shape(ShapeType { values, ndim: ndim()? })
            }
            "TupleType" => Type::Tuple(self.list("fields")?),
            "FuncType" => Type::Func(Arc::new(FuncType::read_fields(self)?)),
            "AdtType" => Type::Adt(AdtType::read_fields(self)?),
            "RefType" => Type::Ref(Arc::new(self.child("value")?)),
            "TypeParam" => Type::Param(TypeParam(self.str("name")?.into())),
            "ObjectType" => Type::Object,
            _ => return Ok(None),
        }))
    }

    fn arg(&self, kind: &str) -> Result<Option<Arg>, IrError> {
        Ok(Some(match kind {
            "ArgVar" => Arg::Var(self.child("var")?),
            "Constant" => Arg::Const(self.tensor("data")?),
            "GlobalVar" => Arg::Global(self.global("name")?),
            "Tuple" => Arg::Tuple(self.list("fields")?),
            "ShapeExpr" => Arg::Shape(self.list("values")?),
            "PrimValue" => Arg::Prim(self.child("value")?),
            "DataTypeImm" => Arg::DType(self.dtype("value")?),
            "ArgString" => Arg::Str(self.str("value")?.into()),
            _ => return Ok(None),
        }))
    }

    fn relax_expr(&self, kind: &str) -> Result<Option<Expr>, IrError> {
        Ok(Some(match kind {
            _ if kind.starts_with("Call") => Call::read_fields(self)?.into(),
            "Arg" => Expr::Arg(self.child("value")?),
            "TupleGetItem" => Expr::TupleGetItem(self.child("tuple")?, self.int("index")?),
            "If" => Expr::If(Arc::new(If::read_fields(self)?)),
            "Match" => Expr::Match(Arc::new(Match::read_fields(self)?)),
            "FunctionExpr" => Expr::Function(Function::read_fields(self)?.into()),
            "RefCreate" => Expr::RefCreate(self.child("value")?),
            "RefRead" => Expr::RefRead(self.child("cell")?),
            "RefWrite" => Expr::RefWrite(self.child("cell")?, self.child("value")?),
            _ => return Ok(None),
        }))
    }
}
