//! Reading types and the nodes of graph functions.

use std::sync::Arc;

use super::read::{Built, Node};
use crate::ir::graph::*;
use crate::ir::{
    AdtType, BaseFunc, ConstructorDef, FuncType, IrError, Op, ShapeType, TensorShape, TensorType, Type,
    TypeDef, TypeParam,
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
            "TypeDef" => Arc::new(TypeDef {
                name: self.str("name")?.into(),
                params: self.type_params("params")?,
                constructors: self.list("constructors")?,
            })
            .into(),
            "ConstructorDef" => {
                ConstructorDef { name: self.str("name")?.into(), fields: self.list("fields")? }.into()
            }
            "Body" => Body { blocks: self.list("blocks")?, ret: self.child("ret")? }.into(),
            "BindingBlock" => {
                BindingBlock { dataflow: self.flag("dataflow")?, bindings: self.list("bindings")? }.into()
            }
            "Binding" => Binding {
                var: self.child("var")?,
                value: self.child("value")?,
                match_cast: self.flag("match_cast")?,
            }
            .into(),
            "Clause" => Clause { pattern: self.child("pattern")?, body: self.child("body")? }.into(),
            "PatternWildcard" => Pattern::Wildcard.into(),
            "PatternVar" => Pattern::Var(self.child("var")?).into(),
            "PatternConstructor" => Pattern::Constructor(self.constructor()?, self.list("fields")?).into(),
            "PatternTuple" => Pattern::Tuple(self.list("fields")?).into(),
            "Function" => BaseFunc::Relax(self.function()?.into()).into(),
            _ => return Ok(None),
        }))
    }

    fn type_params(&self, name: &str) -> Result<Arc<[TypeParam]>, IrError> {
        let param = |item: &serde_json::Value| item.as_str().map(|name| TypeParam(name.into()));
        let params = self.items(name)?.iter().map(param).collect::<Option<_>>();
        params.ok_or_else(|| self.error(format!("`{name}` are no names")))
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
            "FuncType" => Type::Func(Arc::new(FuncType {
                type_params: self.type_params("type_params")?,
                params: self.list("params")?,
                ret: self.child("ret")?,
                pure: self.flag("pure")?,
            })),
            "AdtType" => Type::Adt(AdtType { name: self.str("name")?.into(), args: self.list("args")? }),
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
        let callee = match kind {
            "CallOp" => Callee::Op(Op::get(self.str("callee")?)?),
            "CallGlobal" => Callee::Global(self.global("callee")?),
            "CallVar" => Callee::Var(self.child("callee")?),
            "CallTir" => Callee::Tir(self.global("callee")?),
            "CallTirInplace" => Callee::TirInplace(self.global("callee")?),
            "CallDpsPacked" => Callee::DpsPacked(self.str("callee")?.into()),
            "CallPacked" => Callee::Packed(self.str("callee")?.into()),
            "CallConstructor" => Callee::Constructor(self.constructor()?),
            _ => return self.other_expr(kind),
        };
        let call = Call {
            callee,
            args: self.list("args")?,
            attrs: self.attrs("attrs")?,
            ret: self.option("ret")?,
            span: self.span()?,
        };
        Ok(Some(call.into()))
    }

    fn other_expr(&self, kind: &str) -> Result<Option<Expr>, IrError> {
        Ok(Some(match kind {
            "Arg" => Expr::Arg(self.child("value")?),
            "TupleGetItem" => Expr::TupleGetItem(self.child("tuple")?, self.int("index")?),
            "If" => Expr::If(Arc::new(If {
                cond: self.child("cond")?,
                then_branch: self.child("then_branch")?,
                else_branch: self.child("else_branch")?,
                span: self.span()?,
            })),
            "Match" => Expr::Match(Arc::new(Match {
                value: self.child("value")?,
                clauses: self.list("clauses")?,
                span: self.span()?,
            })),
            "FunctionExpr" => Expr::Function(self.function()?.into()),
            "RefCreate" => Expr::RefCreate(self.child("value")?),
            "RefRead" => Expr::RefRead(self.child("cell")?),
            "RefWrite" => Expr::RefWrite(self.child("cell")?, self.child("value")?),
            _ => return Ok(None),
        }))
    }

    fn constructor(&self) -> Result<Constructor, IrError> {
        Ok(Constructor {
            ty: self.str("type_def")?.into(),
            name: self.str("constructor")?.into(),
            tag: self.int("tag")?,
        })
    }

    fn function(&self) -> Result<Function, IrError> {
        Ok(Function {
            name: self.str("name")?.into(),
            type_params: self.type_params("type_params")?,
            params: self.list("params")?,
            body: self.child("body")?,
            ret: self.child("ret")?,
            pure: self.flag("pure")?,
            attrs: self.attrs("attrs")?,
            span: self.span()?,
        })
    }
}
