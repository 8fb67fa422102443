//! Expressions in LLVM IR.

use inkwell::types::{BasicTypeEnum, VectorType};
use inkwell::values::BasicValueEnum;
use tvm_core::support::with_stack;
use tvm_core::tir::{BinaryOp, PrimCallee, PrimExpr};
use tvm_runtime::DataType;

use super::LlvmError;
use super::error::unsupported;
use super::function::{Function, Value};
use super::memory::CallResult;

impl<'ctx> Function<'ctx, '_> {
    pub(super) fn expr(&mut self, expr: &PrimExpr) -> Result<Value<'ctx>, LlvmError> {
        with_stack(|| self.expr_inner(expr))
    }

    fn expr_inner(&mut self, expr: &PrimExpr) -> Result<Value<'ctx>, LlvmError> {
        match expr {
            PrimExpr::IntImm(it) => self.splat_int(it.value, it.dtype),
            PrimExpr::FloatImm(it) if it.dtype == DataType::BF16 => {
                self.splat_int(i64::from(half::bf16::from_f64(it.value).to_bits()), DataType::U16)
            }
            PrimExpr::FloatImm(it) => match self.ty(it.dtype)? {
                BasicTypeEnum::FloatType(ty) => Ok(ty.const_float(it.value).into()),
                _ => unsupported(format!("a float constant of type {}", it.dtype)),
            },
            PrimExpr::StringImm(text) => {
                Ok(self.builder.build_global_string_ptr(text, "text")?.as_pointer_value().into())
            }
            PrimExpr::Var(var) => self.var(var),
            PrimExpr::Cast(it) => {
                let value = self.expr(&it.value)?;
                self.cast(value, it.value.dtype(), it.dtype)
            }
            PrimExpr::Not(it) => match self.expr(&it.value)? {
                BasicValueEnum::IntValue(value) => Ok(self.builder.build_not(value, "")?.into()),
                BasicValueEnum::VectorValue(value) => Ok(self.builder.build_not(value, "")?.into()),
                _ => unsupported("negation of something that is not a bool"),
            },
            PrimExpr::Binary(it) => {
                let (a, b) = (self.expr(&it.a)?, self.expr(&it.b)?);
                self.binary(it.op, a, b, it.a.dtype())
            }
            PrimExpr::Select(it) => {
                let condition = self.expr(&it.condition)?;
                let (a, b) = (self.expr(&it.true_value)?, self.expr(&it.false_value)?);
                self.select(condition, a, b)
            }
            PrimExpr::BufferLoad(it) => match &it.predicate {
                Some(predicate) => self.masked_load(it, predicate),
                None => self.load(&it.buffer, &it.indices),
            },
            PrimExpr::Ramp(it) => {
                let dtype = it.base.dtype().with_lanes(it.lanes);
                let (base, stride) = (self.expr(&it.base)?, self.expr(&it.stride)?);
                let (base, stride) = (self.splat(base, it.lanes)?, self.splat(stride, it.lanes)?);
                let steps: Vec<Value<'ctx>> = (0..it.lanes)
                    .map(|lane| self.splat_int(i64::from(lane), dtype.scalar()))
                    .collect::<Result<_, _>>()?;
                let steps = self.vector(&steps)?;
                let offset = self.binary(BinaryOp::Mul, stride, steps, dtype)?;
                self.binary(BinaryOp::Add, base, offset, dtype)
            }
            PrimExpr::Broadcast(it) => {
                let value = self.expr(&it.value)?;
                self.splat(value, it.lanes)
            }
            PrimExpr::Shuffle(it) if it.of_two() => {
                let (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) =
                    (self.expr(&it.vectors[0])?, self.expr(&it.vectors[1])?)
                else {
                    return unsupported("a shuffle of what is no vector");
                };
                let mask =
                    it.indices.iter().map(|&lane| self.context().i32_type().const_int(lane.into(), false));
                let mask = VectorType::const_vector(&mask.collect::<Vec<_>>());
                Ok(self.builder.build_shuffle_vector(a, b, mask, "")?.into())
            }
            PrimExpr::Shuffle(it) => {
                let mut lanes = Vec::new();
                for vector in it.vectors.iter() {
                    let value = self.expr(vector)?;
                    for lane in 0..vector.dtype().lanes() {
                        lanes.push(self.lane(value, lane)?);
                    }
                }
                let picked: Option<Vec<Value<'ctx>>> =
                    it.indices.iter().map(|&i| lanes.get(usize::from(i)).copied()).collect();
                match picked {
                    Some(picked) => self.vector(&picked),
                    None => unsupported("a shuffle of a lane that does not exist"),
                }
            }
            PrimExpr::Let(it) => {
                let value = self.expr(&it.value)?;
                self.vars.insert(it.var.id(), value);
                self.expr(&it.body)
            }
            PrimExpr::Call(it) => match &it.callee {
                PrimCallee::Intrinsic(intrinsic) => self.intrinsic(*intrinsic, &it.args, it.dtype),
                PrimCallee::PureExtern(symbol) => {
                    let args = it.args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
                    self.extern_call(symbol, &args, self.ty(it.dtype)?)
                }
            },
        }
    }

    /// Generates a call of the C function `symbol` on scalars.
    pub(super) fn extern_call(
        &self,
        symbol: &str,
        args: &[Value<'ctx>],
        ret: BasicTypeEnum<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        use inkwell::types::BasicType;
        let function = self.unit.module.get_function(symbol).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
            self.unit.module.add_function(symbol, ret.fn_type(&params, false), None)
        });
        let args: Vec<_> = args.iter().map(|&arg| arg.into()).collect();
        self.builder.build_call(function, &args, "")?.try_as_basic_value().left_or_invalid()
    }
}
