//! Code generation for symbolic shapes: checks that bind dimensions, and arithmetic on dimensions.
//!
//! TVM counterpart: `VMShapeLower`, `ComputePrimValue`.

use tvm_runtime::vm::{DimCheck, Instruction, IntOpKind, IntOperand, Reg};

use super::codegen::FunctionCodegen;
use crate::ir::{IrError, Span, Type, Var, VarId};
use crate::tir::{BinaryOp, Intrinsic, PrimCallee, PrimExpr, any_expr};

/// The check of an extent that can be computed only after later checks have bound its dimensions.
pub(super) struct Deferred {
    src: Reg,
    ndim: usize,
    axis: usize,
    extent: PrimExpr,
    context: Box<str>,
    shape: bool,
}

impl FunctionCodegen<'_, '_> {
    /// Emits checks that the value in `src` has the type `ty`, and binds the dimensions that are new in it. Extents that use
    /// dimensions which are not bound yet are left to [`check_deferred`](Self::check_deferred).
    pub(super) fn check(
        &mut self,
        ty: &Type,
        src: Reg,
        context: &str,
        deferred: &mut Vec<Deferred>,
    ) -> Result<(), IrError> {
        match ty {
            Type::Tensor(tensor) => {
                let dims = match tensor.known_shape() {
                    Some(shape) => Some(self.dim_checks(shape, src, context, false, deferred)?),
                    None => tensor.ndim().map(|ndim| vec![DimCheck::Any; ndim].into()),
                };
                let context = context.into();
                self.code.emit(Instruction::CheckTensor { src, dtype: tensor.dtype, dims, context });
            }
            Type::Shape(shape) => {
                let dims = match (&shape.values, shape.ndim) {
                    (Some(values), _) => self.dim_checks(values, src, context, true, deferred)?,
                    (None, Some(ndim)) => vec![DimCheck::Any; ndim].into(),
                    (None, None) => return Ok(()),
                };
                self.code.emit(Instruction::CheckShape { src, dims, context: context.into() });
            }
            Type::Tuple(fields) => {
                for (i, field) in fields.iter().enumerate() {
                    if matches!(field, Type::Tensor(_) | Type::Shape(_) | Type::Tuple(_)) {
                        let index = i as u32;
                        let value = self.code.emit_to(|dst| Instruction::GetField { dst, src, index });
                        self.check(field, value, &format!("{context}, field {i}"), deferred)?;
                    }
                }
            }
            Type::Prim(_) | Type::Func(_) | Type::Adt(_) | Type::Ref(_) | Type::Param(_) | Type::Object => {}
        }
        Ok(())
    }

    fn dim_checks(
        &mut self,
        shape: &[PrimExpr],
        src: Reg,
        context: &str,
        is_shape: bool,
        deferred: &mut Vec<Deferred>,
    ) -> Result<Box<[DimCheck]>, IrError> {
        let mut bound_here: Vec<VarId> = Vec::new();
        let mut checks = Vec::with_capacity(shape.len());
        for (axis, extent) in shape.iter().enumerate() {
            checks.push(if let Some(value) = extent.as_int() {
                DimCheck::Const(value)
            } else if let Some(var) = extent.as_var() {
                match self.regs.get(&var.id()) {
                    Some(&reg) => DimCheck::Reg(reg),
                    None => {
                        bound_here.push(var.id());
                        DimCheck::Bind(self.define(var))
                    }
                }
            } else if uses(extent, |var| !self.regs.contains_key(&var.id()) || bound_here.contains(&var.id()))
            {
                deferred.push(Deferred {
                    src,
                    ndim: shape.len(),
                    axis,
                    extent: extent.clone(),
                    context: context.into(),
                    shape: is_shape,
                });
                DimCheck::Any
            } else {
                match self.int(extent)? {
                    IntOperand::Const(value) => DimCheck::Const(value),
                    IntOperand::Reg(reg) => DimCheck::Reg(reg),
                }
            });
        }
        Ok(checks.into())
    }

    /// Emits the checks of the deferred extents.
    pub(super) fn check_deferred(&mut self, deferred: Vec<Deferred>) -> Result<(), IrError> {
        for it in deferred {
            let check = match self.int(&it.extent)? {
                IntOperand::Const(value) => DimCheck::Const(value),
                IntOperand::Reg(reg) => DimCheck::Reg(reg),
            };
            let mut dims = vec![DimCheck::Any; it.ndim];
            dims[it.axis] = check;
            let (src, dims, context) = (it.src, dims.into(), it.context);
            self.code.emit(if it.shape {
                Instruction::CheckShape { src, dims, context }
            } else {
                Instruction::CheckTensor { src, dtype: None, dims: Some(dims), context }
            });
        }
        Ok(())
    }

    /// A register that holds the shape `values`.
    pub(super) fn shape(&mut self, values: &[PrimExpr]) -> Result<Reg, IrError> {
        let dims = values.iter().map(|value| self.int(value)).collect::<Result<_, _>>()?;
        Ok(self.code.emit_to(|dst| Instruction::MakeShape { dst, dims }))
    }

    /// A register that holds the scalar `value`.
    pub(super) fn scalar(&mut self, value: &PrimExpr) -> Result<Reg, IrError> {
        if let PrimExpr::FloatImm(it) = value {
            let index = self.tables.float(it.value);
            return Ok(self.code.emit_to(|dst| Instruction::LoadConst { dst, index }));
        }
        let operand = if let Some(var) = value.as_var() { self.var(var)?.into() } else { self.int(value)? };
        Ok(self.operand_reg(operand))
    }

    /// A register that holds the integer operand.
    pub(super) fn operand_reg(&mut self, operand: IntOperand) -> Reg {
        match operand {
            IntOperand::Reg(reg) => reg,
            IntOperand::Const(value) => self.code.emit_to(|dst| Instruction::LoadConsti { dst, value }),
        }
    }

    /// An operand that holds the integer (or bool) `expr`.
    pub(super) fn int(&mut self, expr: &PrimExpr) -> Result<IntOperand, IrError> {
        crate::support::with_stack(|| self.int_inner(expr))
    }

    fn int_inner(&mut self, expr: &PrimExpr) -> Result<IntOperand, IrError> {
        let unsupported = || {
            let message = format!(
                "`{}` cannot be computed outside a tensor program",
                crate::relax::analysis::show_dim(expr)
            );
            Err(IrError::new(message, &Span::none()))
        };
        if !(expr.dtype().is_integer() || expr.dtype().is_bool()) {
            return unsupported();
        }
        match expr {
            PrimExpr::IntImm(it) => Ok(it.value.into()),
            PrimExpr::Var(var) => Ok(self.var(var)?.into()),
            PrimExpr::Cast(it) if it.dtype.bits() >= it.value.dtype().bits() => self.int(&it.value),
            PrimExpr::Not(it) => {
                let lhs = self.int(&it.value)?;
                Ok(self.code.int_op(IntOpKind::Eq, lhs, 0.into()).into())
            }
            PrimExpr::Binary(it) => {
                let (lhs, rhs) = (self.int(&it.a)?, self.int(&it.b)?);
                Ok(self.code.int_op(int_op(it.op), lhs, rhs).into())
            }
            PrimExpr::Select(it) => self.select(&it.condition, &it.true_value, &it.false_value),
            PrimExpr::Call(it)
                if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) && it.args.len() == 3 =>
            {
                self.select(&it.args[0], &it.args[1], &it.args[2])
            }
            PrimExpr::Let(it) => {
                let value = self.int(&it.value)?;
                let reg = self.operand_reg(value);
                self.regs.insert(it.var.id(), reg);
                self.int(&it.body)
            }
            PrimExpr::Cast(_)
            | PrimExpr::Call(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => unsupported(),
        }
    }

    fn select(&mut self, cond: &PrimExpr, a: &PrimExpr, b: &PrimExpr) -> Result<IntOperand, IrError> {
        let cond = self.int(cond)?;
        let test = self.operand_reg(cond);
        let dst = self.code.reg();
        let otherwise = self.code.unless_true(test);
        let value = self.int(a)?;
        let src = self.operand_reg(value);
        self.code.emit(Instruction::Move { dst, src });
        let done = self.code.goto();
        self.code.land(otherwise);
        let value = self.int(b)?;
        let src = self.operand_reg(value);
        self.code.emit(Instruction::Move { dst, src });
        self.code.land(done);
        Ok(dst.into())
    }
}

fn uses(expr: &PrimExpr, pred: impl Fn(&Var) -> bool) -> bool {
    any_expr(expr, &mut |it| it.as_var().is_some_and(&pred))
}

/// The instruction that computes `op`.
pub(super) const fn int_op(op: BinaryOp) -> IntOpKind {
    match op {
        BinaryOp::Add => IntOpKind::Add,
        BinaryOp::Sub => IntOpKind::Sub,
        BinaryOp::Mul => IntOpKind::Mul,
        BinaryOp::Div => IntOpKind::TruncDiv,
        BinaryOp::Mod => IntOpKind::TruncMod,
        BinaryOp::FloorDiv => IntOpKind::FloorDiv,
        BinaryOp::FloorMod => IntOpKind::FloorMod,
        BinaryOp::Min => IntOpKind::Min,
        BinaryOp::Max => IntOpKind::Max,
        BinaryOp::Eq => IntOpKind::Eq,
        BinaryOp::Ne => IntOpKind::Ne,
        BinaryOp::Lt => IntOpKind::Lt,
        BinaryOp::Le => IntOpKind::Le,
        BinaryOp::Gt => IntOpKind::Gt,
        BinaryOp::Ge => IntOpKind::Ge,
        BinaryOp::And => IntOpKind::And,
        BinaryOp::Or => IntOpKind::Or,
        BinaryOp::BitAnd => IntOpKind::BitAnd,
        BinaryOp::BitOr => IntOpKind::BitOr,
        BinaryOp::BitXor => IntOpKind::BitXor,
        BinaryOp::Shl => IntOpKind::Shl,
        BinaryOp::Shr => IntOpKind::Shr,
    }
}
