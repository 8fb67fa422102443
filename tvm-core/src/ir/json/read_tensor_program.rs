//! Reading the nodes of tensor programs.

use tvm_runtime::DimBound;

use super::read::{Built, Node};
use crate::ir::node::Fielded;
use crate::ir::tensor_program::*;
use crate::ir::{BaseFunc, BufferId, ExternFunc, IrError, Var};

impl Node<'_> {
    /// Builds the node, if `kind` is a node of tensor programs.
    pub(super) fn tensor_program(&self, kind: &str) -> Result<Option<Built>, IrError> {
        if let Some(expr) = self.expr(kind)? {
            return Ok(Some(expr.into()));
        }
        if let Some(stmt) = self.stmt(kind)? {
            return Ok(Some(stmt.into()));
        }
        Ok(Some(match kind {
            "Block" => Built::Block(Block::read_fields(self)?.into()),
            "IterVar" => IterVar::read_fields(self)?.into(),
            "Range" => Range::read_fields(self)?.into(),
            "BufferRegion" => BufferRegion::read_fields(self)?.into(),
            "MatchBufferRegion" => MatchBufferRegion::read_fields(self)?.into(),
            "Buffer" => self.buffer()?.into(),
            "Var" => self.var()?.into(),
            "In" => Param::In(self.child("buffer")?).into(),
            "Out" => Param::Out(self.child("buffer")?).into(),
            "Scalar" => Param::Scalar(self.child("var")?).into(),
            "PrimFunc" => BaseFunc::Prim(PrimFunc::read_fields(self)?.into()).into(),
            "ExternFunc" => BaseFunc::Extern(ExternFunc::read_fields(self)?.into()).into(),
            _ => return Ok(None),
        }))
    }

    fn var(&self) -> Result<Var, IrError> {
        let var = Var::with_span(self.str("name")?, self.child("ty")?, self.span()?);
        let bound = self.items("bound")?.iter().map(|it| self.integer(it, "bound"));
        match bound.collect::<Result<Vec<i64>, _>>()?[..] {
            [] => Ok(var),
            [min, max, modulus, remainder] => match DimBound::new(min, max, modulus, remainder) {
                Ok(bound) => Ok(var.within(Some(bound))),
                Err(err) => Err(self.error(format!("`{}`: {err}", var.name()))),
            },
            _ => Err(self.error("`bound` is not minimum, maximum, modulus and remainder")),
        }
    }

    fn expr(&self, kind: &str) -> Result<Option<PrimExpr>, IrError> {
        Ok(Some(match kind {
            "IntImm" => {
                let it = IntImm::read_fields(self)?;
                PrimExpr::int(it.value, it.dtype)
            }
            "FloatImm" => PrimExpr::FloatImm(FloatImm::read_fields(self)?),
            "StringImm" => PrimExpr::StringImm(self.str("value")?.into()),
            "VarRef" => PrimExpr::Var(self.child("var")?),
            "Cast" => PrimExpr::Cast(Cast::read_fields(self)?.into()),
            "Not" => PrimExpr::Not(Not::read_fields(self)?.into()),
            "Select" => PrimExpr::Select(Select::read_fields(self)?.into()),
            "BufferLoad" => PrimExpr::BufferLoad(BufferLoad::read_fields(self)?.into()),
            "Ramp" => PrimExpr::Ramp(Ramp::read_fields(self)?.into()),
            "Broadcast" => PrimExpr::Broadcast(Broadcast::read_fields(self)?.into()),
            "Shuffle" => PrimExpr::Shuffle(Shuffle::read_fields(self)?.into()),
            "Let" => PrimExpr::Let(Let::read_fields(self)?.into()),
            "Call" | "CallPureExtern" => PrimExpr::Call(PrimCall::read_fields(self)?.into()),
            _ if BinaryOp::ALL.iter().any(|op| op.name() == kind) => {
                PrimExpr::Binary(Binary::read_fields(self)?.into())
            }
            _ => return Ok(None),
        }))
    }

    fn stmt(&self, kind: &str) -> Result<Option<Stmt>, IrError> {
        Ok(Some(match kind {
            "SeqStmt" => Stmt::SeqStmt(self.list("seq")?),
            "BufferStore" => BufferStore::read_fields(self)?.into(),
            "For" => For::read_fields(self)?.into(),
            "BlockRealize" => BlockRealize::read_fields(self)?.into(),
            "IfThenElse" => IfThenElse::read_fields(self)?.into(),
            "While" => While::read_fields(self)?.into(),
            "Bind" => Bind::read_fields(self)?.into(),
            "AllocBuffer" => AllocBuffer::read_fields(self)?.into(),
            "DeclBuffer" => DeclBuffer::read_fields(self)?.into(),
            "Evaluate" => Evaluate::read_fields(self)?.into(),
            "AssertStmt" => AssertStmt::read_fields(self)?.into(),
            _ => return Ok(None),
        }))
    }

    fn buffer(&self) -> Result<Buffer, IrError> {
        Ok(Buffer::from_node(BufferNode {
            id: BufferId::fresh(),
            name: self.str("name")?.into(),
            dtype: self.dtype("dtype")?,
            shape: self.list("shape")?,
            strides: self.list("strides")?,
            elem_offset: self.option("elem_offset")?,
            scope: Scope::from_name(self.str("scope")?).ok_or_else(|| self.error("unknown scope"))?,
            span: self.span()?,
        }))
    }
}
