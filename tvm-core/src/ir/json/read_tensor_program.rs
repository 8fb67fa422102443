//! Reading the nodes of tensor programs.

use std::sync::Arc;

use super::read::{Built, Node};
use crate::ir::tensor_program::*;
use crate::ir::{BaseFunc, BlockId, BufferId, IrError, Var};

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
            "Block" => Built::Block(self.block()?.into()),
            "IterVar" => {
                let kind = IterKind::from_name(self.str("kind_of_axis")?);
                let kind = kind.ok_or_else(|| self.error("unknown kind of axis"))?;
                IterVar { var: self.child("var")?, dom: self.child("dom")?, kind }.into()
            }
            "Range" => Range { min: self.child("min")?, extent: self.child("extent")? }.into(),
            "BufferRegion" => {
                BufferRegion { buffer: self.child("buffer")?, region: self.list("region")? }.into()
            }
            "MatchBufferRegion" => {
                MatchBufferRegion { buffer: self.child("buffer")?, source: self.child("source")? }.into()
            }
            "Buffer" => self.buffer()?.into(),
            "Var" => Var::with_span(self.str("name")?, self.child("ty")?, self.span()?).into(),
            "In" => Param::In(self.child("buffer")?).into(),
            "Out" => Param::Out(self.child("buffer")?).into(),
            "Scalar" => Param::Scalar(self.child("var")?).into(),
            "PrimFunc" => {
                let func = PrimFunc {
                    name: self.str("name")?.into(),
                    params: self.list("params")?,
                    body: self.child("body")?,
                    attrs: self.attrs("attrs")?,
                    span: self.span()?,
                };
                BaseFunc::Prim(func.into()).into()
            }
            "ExternFunc" => self.extern_func()?,
            _ => return Ok(None),
        }))
    }

    fn expr(&self, kind: &str) -> Result<Option<PrimExpr>, IrError> {
        Ok(Some(match kind {
            "IntImm" => PrimExpr::int(self.int("value")?, self.dtype("dtype")?),
            "FloatImm" => {
                PrimExpr::FloatImm(FloatImm { value: self.float("value")?, dtype: self.dtype("dtype")? })
            }
            "StringImm" => PrimExpr::StringImm(self.str("value")?.into()),
            "VarRef" => PrimExpr::Var(self.child("var")?),
            "Cast" => {
                PrimExpr::Cast(Cast { dtype: self.dtype("dtype")?, value: self.child("value")? }.into())
            }
            "Not" => PrimExpr::Not(Not { value: self.child("value")? }.into()),
            "Select" => PrimExpr::Select(Arc::new(Select {
                condition: self.child("condition")?,
                true_value: self.child("true_value")?,
                false_value: self.child("false_value")?,
            })),
            "BufferLoad" => PrimExpr::BufferLoad(Arc::new(BufferLoad {
                buffer: self.child("buffer")?,
                indices: self.list("indices")?,
                span: self.span()?,
            })),
            "Ramp" => PrimExpr::Ramp(Arc::new(Ramp {
                base: self.child("base")?,
                stride: self.child("stride")?,
                lanes: self.lanes("lanes")?,
            })),
            "Broadcast" => PrimExpr::Broadcast(Arc::new(Broadcast {
                value: self.child("value")?,
                lanes: self.lanes("lanes")?,
            })),
            "Shuffle" => {
                let indices = self.items("indices")?;
                if indices.len() > 128 {
                    return Err(self.error("`indices` are over 128"));
                }
                let indices = indices.iter().map(|index| self.integer(index, "indices"));
                let indices = indices.collect::<Result<_, _>>()?;
                PrimExpr::Shuffle(Arc::new(Shuffle { vectors: self.list("vectors")?, indices }))
            }
            "Let" => PrimExpr::Let(Arc::new(Let {
                var: self.child("var")?,
                value: self.child("value")?,
                body: self.child("body")?,
            })),
            "Call" | "CallPureExtern" => {
                let name = self.str("callee")?;
                let callee = match kind {
                    "Call" => Callee::Intrinsic(
                        Intrinsic::from_name(name)
                            .ok_or_else(|| self.error(format!("unknown intrinsic `{name}`")))?,
                    ),
                    _ => Callee::PureExtern(name.into()),
                };
                PrimExpr::Call(Arc::new(Call {
                    callee,
                    args: self.list("args")?,
                    dtype: self.dtype("dtype")?,
                    span: self.span()?,
                }))
            }
            _ => match BinaryOp::ALL.iter().copied().find(|op| op.name() == kind) {
                Some(op) => PrimExpr::Binary(Binary { op, a: self.child("a")?, b: self.child("b")? }.into()),
                None => return Ok(None),
            },
        }))
    }

    fn stmt(&self, kind: &str) -> Result<Option<Stmt>, IrError> {
        Ok(Some(match kind {
            "BufferStore" => BufferStore {
                buffer: self.child("buffer")?,
                value: self.child("value")?,
                indices: self.list("indices")?,
                span: self.span()?,
            }
            .into(),
            "For" => For {
                loop_var: self.child("loop_var")?,
                min: self.child("min")?,
                extent: self.child("extent")?,
                kind: ForKind::from_name(self.str("loop")?)
                    .ok_or_else(|| self.error("unknown kind of loop"))?,
                annotations: self.attrs("annotations")?,
                body: self.child("body")?,
                span: self.span()?,
            }
            .into(),
            "BlockRealize" => BlockRealize {
                iter_values: self.list("iter_values")?,
                predicate: self.child("predicate")?,
                block: self.child("block")?,
            }
            .into(),
            "SeqStmt" => Stmt::SeqStmt(self.list("seq")?),
            "IfThenElse" => IfThenElse {
                condition: self.child("condition")?,
                then_case: self.child("then_case")?,
                else_case: self.option("else_case")?,
                span: self.span()?,
            }
            .into(),
            "While" => {
                While { condition: self.child("condition")?, body: self.child("body")?, span: self.span()? }
                    .into()
            }
            "Bind" => Bind { var: self.child("var")?, value: self.child("value")? }.into(),
            "AllocBuffer" => AllocBuffer { buffer: self.child("buffer")? }.into(),
            "DeclBuffer" => DeclBuffer { buffer: self.child("buffer")?, data: self.child("data")? }.into(),
            "Evaluate" => Evaluate { value: self.child("value")? }.into(),
            "AssertStmt" => AssertStmt {
                condition: self.child("condition")?,
                failure: Failure {
                    status: self.int("status")?,
                    arg: self.int("arg")?,
                    axis: self.int("axis")?,
                    expected: self.child("expected")?,
                    got: self.child("got")?,
                    what: self.str("what")?.into(),
                    span: self.span()?,
                },
            }
            .into(),
            _ => return Ok(None),
        }))
    }

    fn block(&self) -> Result<Block, IrError> {
        Ok(Block {
            id: BlockId::fresh(),
            name: self.str("name")?.into(),
            iter_vars: self.list("iter_vars")?,
            reads: self.list("reads")?,
            writes: self.list("writes")?,
            alloc_buffers: self.list("alloc_buffers")?,
            match_buffers: self.list("match_buffers")?,
            annotations: self.attrs("annotations")?,
            init: self.option("init")?,
            body: self.child("body")?,
            span: self.span()?,
        })
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
