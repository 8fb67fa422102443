//! Sums of products of the parts of words: the CPU's instructions (`vpdpbusd`, `vdpbf16ps`), which are written as assembly, as
//! functions do not have these features (see [`machine`](super::machine)), or products of neighbouring `i16` and
//! multiply-adds.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicType, VectorType};
use inkwell::values::VectorValue;
use tvm_core::tir::BinaryOp;
use tvm_runtime::DataType;

use super::LlvmError;
use super::function::{Function, Value};
use super::memory::CallResult;

impl<'ctx> Function<'ctx, '_> {
    /// `c` plus four products of the unsigned bytes of `a` and the signed bytes of `b`, in each lane.
    pub(super) fn dot4(&mut self, args: [Value<'ctx>; 3], dtype: DataType) -> Result<Value<'ctx>, LlvmError> {
        let widest = self.unit.instructions.bytes;
        if !has_instruction(widest, dtype) {
            return self.dot4_of_pairs(args, dtype);
        }
        // Without AVX-512, only the other encoding is valid.
        let (prefix, class) = if widest == 16 { ("", 'v') } else { ("{vex} ", 'x') };
        self.instruction(&format!("{prefix}vpdpbusd"), class, widest, args, dtype)
    }

    /// `c` plus two products of the halves of `a` and `b`, which are `bf16`, in each lane.
    pub(super) fn dot2(&mut self, args: [Value<'ctx>; 3], dtype: DataType) -> Result<Value<'ctx>, LlvmError> {
        let widest = self.unit.instructions.bf16;
        if has_instruction(widest, dtype) {
            return self.instruction("vdpbf16ps", 'v', widest, args, dtype);
        }
        let ([a, b, c], words) = (args, DataType::I32.with_lanes(dtype.lanes()));
        let (upper, half) = (self.splat_int(!0xffff, words)?, self.splat_int(16, words)?);
        let mut sum = c;
        for (op, with) in [(BinaryOp::BitAnd, upper), (BinaryOp::Shl, half)] {
            let (x, y) = (self.binary(op, a, with, words)?, self.binary(op, b, with, words)?);
            let [x, y] = [x, y].map(|it| self.builder.build_bit_cast(it, sum.get_type(), ""));
            sum = self.llvm_intrinsic("llvm.fmuladd", &[x?, y?, sum])?;
        }
        Ok(sum)
    }

    /// An instruction that takes vectors of up to `widest` lanes, as often as there are such parts of the vectors.
    fn instruction(
        &mut self,
        name: &str,
        class: char,
        widest: u16,
        [a, b, c]: [Value<'ctx>; 3],
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let lanes = dtype.lanes();
        if lanes > widest {
            let mut parts = Vec::new();
            for start in [0, lanes / 2] {
                let part = |value: Value<'ctx>| self.lanes_of(value, start..start + lanes / 2);
                let args = [part(a)?, part(b)?, part(c)?];
                let half = dtype.with_lanes(lanes / 2);
                parts.push(self.instruction(name, class, widest, args, half)?.into_vector_value());
            }
            let all = self.mask(0..lanes);
            return Ok(self.builder.build_shuffle_vector(parts[0], parts[1], all, "")?.into());
        }
        let words = self.ty(DataType::I32.with_lanes(lanes))?.into();
        let ty = self.ty(dtype)?;
        let function = ty.fn_type(&[words, words, ty.into()], false);
        let text = format!("{name} $2, $1, $0");
        let operands = format!("={class},{class},{class},0");
        let asm = self.context().create_inline_asm(function, text, operands, false, false, None, false);
        let args = [a, b, c].map(Into::into);
        let call = self.builder.build_indirect_call(function, asm, &args, "")?;
        // Otherwise sums stay in memory, which the instruction might access.
        for name in ["memory", "nounwind", "willreturn"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            call.add_attribute(AttributeLoc::Function, self.context().create_enum_attribute(kind, 0));
        }
        call.try_as_basic_value().left_or_invalid()
    }

    /// `dot4` by products of `i16`: those of even bytes, and those of odd bytes.
    fn dot4_of_pairs(
        &mut self,
        [a, b, c]: [Value<'ctx>; 3],
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let lanes = dtype.lanes();
        let (unsigned, signed) = (DataType::U16.with_lanes(2 * lanes), DataType::I16.with_lanes(2 * lanes));
        let a = self.builder.build_bit_cast(a, self.ty(unsigned)?, "")?;
        let b = self.builder.build_bit_cast(b, self.ty(signed)?, "")?;
        let (byte, eight) = (self.splat_int(255, unsigned)?, self.splat_int(8, signed)?);
        let even = (
            self.binary(BinaryOp::BitAnd, a, byte, unsigned)?,
            self.binary(BinaryOp::Shl, b, eight, signed)?,
        );
        let even = (even.0, self.binary(BinaryOp::Shr, even.1, eight, signed)?);
        let odd =
            (self.binary(BinaryOp::Shr, a, eight, unsigned)?, self.binary(BinaryOp::Shr, b, eight, signed)?);
        let wide = DataType::I32.with_lanes(2 * lanes);
        let mut sum = c;
        for (x, y) in [even, odd] {
            let (x, y) = (self.cast(x, signed, wide)?, self.cast(y, signed, wide)?);
            let products = self.binary(BinaryOp::Mul, x, y, wide)?;
            let first = self.lanes_of(products, (0..2 * lanes).step_by(2))?;
            let second = self.lanes_of(products, (1..2 * lanes).step_by(2))?;
            let pairs = self.binary(BinaryOp::Add, first, second, dtype)?;
            sum = self.binary(BinaryOp::Add, sum, pairs, dtype)?;
        }
        Ok(sum)
    }

    /// These lanes of `value`; a single one as a scalar.
    pub(super) fn lanes_of(
        &self,
        value: Value<'ctx>,
        mut lanes: impl ExactSizeIterator<Item = u16>,
    ) -> Result<Value<'ctx>, LlvmError> {
        if lanes.len() == 1 {
            return self.lane(value, lanes.next().unwrap_or_default());
        }
        let vector = value.into_vector_value();
        let mask = self.mask(lanes);
        Ok(self.builder.build_shuffle_vector(vector, vector.get_type().get_undef(), mask, "")?.into())
    }

    fn mask(&self, lanes: impl Iterator<Item = u16>) -> VectorValue<'ctx> {
        let index = |lane: u16| self.context().i32_type().const_int(lane.into(), false);
        VectorType::const_vector(&lanes.map(index).collect::<Vec<_>>())
    }
}

/// True if an instruction for up to `widest` lanes takes vectors of `dtype`, or parts of them.
fn has_instruction(widest: u16, dtype: DataType) -> bool {
    widest > 0 && dtype.lanes() >= 4 && dtype.lanes().is_power_of_two()
}
