//! Arithmetic on scalars and vectors: LLVM's builder has one method for both, but the Rust types of inkwell differ.

use inkwell::types::{BasicTypeEnum, VectorType};
use inkwell::values::{BasicValue, BasicValueEnum, FastMathFlags};
use inkwell::{FloatPredicate, IntPredicate};
use tvm_core::tir::BinaryOp;
use tvm_runtime::DataType;

use super::LlvmError;
use super::error::unsupported;
use super::function::{Function, Value};

/// Calls a builder method on two scalars (`$scalar`) or two vectors.
macro_rules! builder_op {
    ($scalar:ident, $what:literal, $self:expr, $method:ident, $a:expr, $b:expr $(, $pre:expr)?) => {
        match ($a, $b) {
            (BasicValueEnum::$scalar(a), BasicValueEnum::$scalar(b)) => Value::from($self.builder.$method($($pre,)? a, b, "")?),
            (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) => {
                Value::from($self.builder.$method($($pre,)? a, b, "")?)
            }
            _ => return unsupported(concat!("operands of ", stringify!($method), " are not ", $what, " of one shape")),
        }
    };
}

macro_rules! int_op {
    ($($args:tt)*) => { builder_op!(IntValue, "integers", $($args)*) };
}

macro_rules! float_op {
    ($($args:tt)*) => { builder_op!(FloatValue, "floats", $($args)*) };
}

macro_rules! convert {
    ($self:expr, $method:ident, $value:expr, $ty:expr, $from:ident -> $to:ident) => {
        match ($value, $ty) {
            (BasicValueEnum::$from(it), BasicTypeEnum::$to(ty)) => {
                Value::from($self.builder.$method(it, ty, "")?)
            }
            (BasicValueEnum::VectorValue(it), BasicTypeEnum::VectorType(ty)) => {
                Value::from($self.builder.$method(it, ty, "")?)
            }
            _ => return unsupported(concat!("conversion ", stringify!($method), " between different shapes")),
        }
    };
}

impl<'ctx> Function<'ctx, '_> {
    /// Generates `a op b` on values of type `dtype`.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: Value<'ctx>,
        b: Value<'ctx>,
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        if op.is_comparison() {
            self.compare(op, a, b, dtype)
        } else if dtype.is_float() {
            self.float_binary(op, a, b, dtype)
        } else {
            self.int_binary(op, a, b, dtype)
        }
    }

    fn compare(
        &self,
        op: BinaryOp,
        a: Value<'ctx>,
        b: Value<'ctx>,
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        if dtype.is_float() {
            let predicate = match op {
                BinaryOp::Eq => FloatPredicate::OEQ,
                BinaryOp::Ne => FloatPredicate::UNE,
                BinaryOp::Lt => FloatPredicate::OLT,
                BinaryOp::Le => FloatPredicate::OLE,
                BinaryOp::Gt => FloatPredicate::OGT,
                _ => FloatPredicate::OGE,
            };
            return Ok(float_op!(self, build_float_compare, a, b, predicate));
        }
        let signed = dtype.is_int();
        let predicate = match op {
            BinaryOp::Eq => IntPredicate::EQ,
            BinaryOp::Ne => IntPredicate::NE,
            BinaryOp::Lt if signed => IntPredicate::SLT,
            BinaryOp::Lt => IntPredicate::ULT,
            BinaryOp::Le if signed => IntPredicate::SLE,
            BinaryOp::Le => IntPredicate::ULE,
            BinaryOp::Gt if signed => IntPredicate::SGT,
            BinaryOp::Gt => IntPredicate::UGT,
            _ if signed => IntPredicate::SGE,
            _ => IntPredicate::UGE,
        };
        Ok(int_op!(self, build_int_compare, a, b, predicate))
    }

    fn float_binary(
        &mut self,
        op: BinaryOp,
        a: Value<'ctx>,
        b: Value<'ctx>,
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let value = match op {
            BinaryOp::Add => float_op!(self, build_float_add, a, b),
            BinaryOp::Sub => float_op!(self, build_float_sub, a, b),
            BinaryOp::Mul => float_op!(self, build_float_mul, a, b),
            BinaryOp::Div => float_op!(self, build_float_div, a, b),
            BinaryOp::Mod => float_op!(self, build_float_rem, a, b),
            BinaryOp::FloorDiv => {
                let quotient = float_op!(self, build_float_div, a, b);
                self.llvm_intrinsic("llvm.floor", &[quotient])?
            }
            BinaryOp::FloorMod => {
                let floor = self.float_binary(BinaryOp::FloorDiv, a, b, dtype)?;
                let product = float_op!(self, build_float_mul, floor, b);
                float_op!(self, build_float_sub, a, product)
            }
            BinaryOp::Min => self.float_extreme(FloatPredicate::OLT, a, b)?,
            BinaryOp::Max => self.float_extreme(FloatPredicate::OGT, a, b)?,
            _ => return unsupported(format!("{op:?} on {dtype}")),
        };
        Ok(self.with_fast_math(value))
    }

    /// Selects `b` if `b predicate a` holds, otherwise `a`, and NaN if `b` is NaN; of equal values, it selects the first.
    /// (`llvm.maximum` is slower, because it orders zeros, and LLVM 19 loses NaNs where it narrows it to `f16`. The NaN is a
    /// constant, because LLVM joins selections of `b` under two conditions, and then finds no instruction for the first.)
    fn float_extreme(
        &self,
        predicate: FloatPredicate,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let takes = float_op!(self, build_float_compare, b, a, predicate);
        let nan = float_op!(self, build_float_compare, b, b, FloatPredicate::UNO);
        let extreme = self.select(takes, b, a)?;
        let constant: Value<'ctx> = match b.get_type() {
            BasicTypeEnum::FloatType(ty) => ty.const_float(f64::NAN).into(),
            BasicTypeEnum::VectorType(ty) => match ty.get_element_type() {
                BasicTypeEnum::FloatType(lane) => {
                    let lanes = vec![lane.const_float(f64::NAN); ty.get_size() as usize];
                    VectorType::const_vector(&lanes).into()
                }
                _ => b,
            },
            _ => b,
        };
        self.select(nan, constant, extreme)
    }

    fn int_binary(
        &mut self,
        op: BinaryOp,
        a: Value<'ctx>,
        b: Value<'ctx>,
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let signed = dtype.is_int();
        Ok(match op {
            BinaryOp::Add => int_op!(self, build_int_add, a, b),
            BinaryOp::Sub => int_op!(self, build_int_sub, a, b),
            BinaryOp::Mul => int_op!(self, build_int_mul, a, b),
            // `LowerIntrin` guarded the divisors against traps and expanded floored division.
            BinaryOp::Div if signed => int_op!(self, build_int_signed_div, a, b),
            BinaryOp::Mod if signed => int_op!(self, build_int_signed_rem, a, b),
            BinaryOp::Div => int_op!(self, build_int_unsigned_div, a, b),
            BinaryOp::Mod => int_op!(self, build_int_unsigned_rem, a, b),
            BinaryOp::FloorDiv | BinaryOp::FloorMod => return unsupported(format!("{op:?} on {dtype}")),
            BinaryOp::Min => self.llvm_intrinsic(if signed { "llvm.smin" } else { "llvm.umin" }, &[a, b])?,
            BinaryOp::Max => self.llvm_intrinsic(if signed { "llvm.smax" } else { "llvm.umax" }, &[a, b])?,
            BinaryOp::And | BinaryOp::BitAnd => int_op!(self, build_and, a, b),
            BinaryOp::Or | BinaryOp::BitOr => int_op!(self, build_or, a, b),
            BinaryOp::BitXor => int_op!(self, build_xor, a, b),
            BinaryOp::Shl => int_op!(self, build_left_shift, a, b),
            BinaryOp::Shr => match (a, b) {
                (BasicValueEnum::IntValue(a), BasicValueEnum::IntValue(b)) => {
                    self.builder.build_right_shift(a, b, signed, "")?.into()
                }
                (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) => {
                    self.builder.build_right_shift(a, b, signed, "")?.into()
                }
                _ => return unsupported("a shift of something that is not an integer"),
            },
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                return self.compare(op, a, b, dtype);
            }
        })
    }

    /// Generates `condition ? a : b`.
    pub(super) fn select(
        &self,
        condition: Value<'ctx>,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        Ok(match condition {
            BasicValueEnum::IntValue(condition) => self.builder.build_select(condition, a, b, "")?,
            BasicValueEnum::VectorValue(condition) => self.builder.build_select(condition, a, b, "")?,
            _ => return unsupported("a condition that is not a bool"),
        })
    }

    /// The value of type `dtype` with all bits 0.
    pub(super) fn zero(&self, dtype: DataType) -> Result<Value<'ctx>, LlvmError> {
        Ok(match self.ty(dtype)? {
            BasicTypeEnum::IntType(ty) => ty.const_zero().into(),
            BasicTypeEnum::FloatType(ty) => ty.const_zero().into(),
            BasicTypeEnum::VectorType(ty) => ty.const_zero().into(),
            BasicTypeEnum::PointerType(ty) => ty.const_null().into(),
            _ => return unsupported(format!("a zero of type {dtype}")),
        })
    }

    /// Converts `value` from type `from` to type `to`, with the semantics of `tir::Cast`.
    pub(super) fn cast(
        &mut self,
        value: Value<'ctx>,
        from: DataType,
        to: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let f32_type = DataType::F32.with_lanes(from.lanes());
        if from.scalar() == DataType::BF16 {
            let wide = self.bf16_to_f32(value, from)?;
            return self.cast(wide, f32_type, to);
        }
        if to.scalar() == DataType::BF16 {
            let narrow = self.cast(value, from, f32_type)?;
            return self.f32_to_bf16(narrow, f32_type);
        }
        let ty = self.ty(to)?;
        Ok(match (from.is_float(), to.is_float()) {
            (true, true) => match from.bits().cmp(&to.bits()) {
                std::cmp::Ordering::Less => {
                    convert!(self, build_float_ext, value, ty, FloatValue -> FloatType)
                }
                std::cmp::Ordering::Equal => value,
                std::cmp::Ordering::Greater => {
                    convert!(self, build_float_trunc, value, ty, FloatValue -> FloatType)
                }
            },
            (true, false) if to.is_bool() => {
                let zero = self.zero(from)?;
                float_op!(self, build_float_compare, value, zero, FloatPredicate::UNE)
            }
            (true, false) => {
                let name = if to.is_int() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
                self.llvm_overloaded(name, &[ty, value.get_type()], &[value])?
            }
            (false, true) if from.is_int() => {
                convert!(self, build_signed_int_to_float, value, ty, IntValue -> FloatType)
            }
            (false, true) => convert!(self, build_unsigned_int_to_float, value, ty, IntValue -> FloatType),
            (false, false) if from.is_handle() || to.is_handle() => {
                if from.is_handle() && to.is_handle() {
                    value
                } else {
                    return unsupported(format!("cast of {from} to {to}"));
                }
            }
            (false, false) if to.is_bool() => self.is_nonzero(value)?,
            (false, false) if from.is_bool() => self.zero_extend(value, ty)?,
            (false, false) => match from.bits().cmp(&to.bits()) {
                std::cmp::Ordering::Less if from.is_int() => {
                    convert!(self, build_int_s_extend, value, ty, IntValue -> IntType)
                }
                std::cmp::Ordering::Less => self.zero_extend(value, ty)?,
                std::cmp::Ordering::Equal => value,
                std::cmp::Ordering::Greater => {
                    convert!(self, build_int_truncate, value, ty, IntValue -> IntType)
                }
            },
        })
    }

    fn bf16_to_f32(&mut self, value: Value<'ctx>, from: DataType) -> Result<Value<'ctx>, LlvmError> {
        let u32_type = DataType::U32.with_lanes(from.lanes());
        let wide = self.zero_extend(value, self.ty(u32_type)?)?;
        let high = self.binary(BinaryOp::Shl, wide, self.splat_int(16, u32_type)?, u32_type)?;
        Ok(self.builder.build_bit_cast(high, self.ty(DataType::F32.with_lanes(from.lanes()))?, "")?)
    }

    /// Rounds to nearest even; a NaN becomes a quiet NaN.
    fn f32_to_bf16(&mut self, value: Value<'ctx>, from: DataType) -> Result<Value<'ctx>, LlvmError> {
        let u32_type = DataType::U32.with_lanes(from.lanes());
        let u16_type = DataType::U16.with_lanes(from.lanes());
        let bits = self.builder.build_bit_cast(value, self.ty(u32_type)?, "")?;
        let splat = |value| self.splat_int(value, u32_type);
        let (sixteen, one, half, quiet) = (splat(16)?, splat(1)?, splat(0x7fff)?, splat(0x40)?);
        let high = self.binary(BinaryOp::Shr, bits, sixteen, u32_type)?;
        let odd = self.binary(BinaryOp::BitAnd, high, one, u32_type)?;
        let bias = self.binary(BinaryOp::Add, odd, half, u32_type)?;
        let rounded = self.binary(BinaryOp::Add, bits, bias, u32_type)?;
        let rounded = self.binary(BinaryOp::Shr, rounded, sixteen, u32_type)?;
        let nan = self.binary(BinaryOp::BitOr, high, quiet, u32_type)?;
        let is_nan = self.binary(BinaryOp::Ne, value, value, from)?;
        let result = self.select(is_nan, nan, rounded)?;
        self.cast(result, u32_type, u16_type)
    }

    /// The integer constant `value` in each lane.
    pub(super) fn splat_int(&self, value: i64, dtype: DataType) -> Result<Value<'ctx>, LlvmError> {
        match self.ty(dtype.scalar())? {
            BasicTypeEnum::IntType(ty) => self.splat(ty.const_int(value as u64, true).into(), dtype.lanes()),
            _ => unsupported(format!("an integer constant of type {dtype}")),
        }
    }

    /// Broadcasts `value` to `lanes` lanes.
    pub(super) fn splat(&self, value: Value<'ctx>, lanes: u16) -> Result<Value<'ctx>, LlvmError> {
        if lanes == 1 {
            return Ok(value);
        }
        let one = self.vector(&[value, value])?.into_vector_value();
        let zero = self.context().i32_type().const_zero();
        let mask = inkwell::types::VectorType::const_vector(&vec![zero; usize::from(lanes)]);
        Ok(self.builder.build_shuffle_vector(one, one.get_type().get_undef(), mask, "")?.into())
    }

    /// Sets all fast-math flags on a float instruction if `fast_math` is on; otherwise the instruction keeps IEEE 754
    /// semantics.
    pub(super) fn with_fast_math(&self, value: Value<'ctx>) -> Value<'ctx> {
        if self.unit.options.fast_math { with_flags(value, FastMathFlags::all()) } else { value }
    }
}

fn with_flags(value: Value<'_>, flags: FastMathFlags) -> Value<'_> {
    if let Some(instruction) = value.as_instruction_value()
        && instruction.can_use_fast_math_flags()
    {
        // This cannot fail: the instruction was checked above.
        let _ = instruction.set_fast_math_flags(flags);
    }
    value
}
