//! Types in registers and in memory; loads, stores, and scratch memory.
//!
//! A bool is an `i1` in a register and a byte 0 or 1 in memory. A `bf16` is an `i16`: its arithmetic is legalised to
//! `f32` before code generation, and only conversions remain.

use std::mem::offset_of;

use inkwell::IntPredicate;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{BasicValue, BasicValueEnum, PointerValue};
use tvm_core::tir::{Buffer, Failure, PrimExpr, Ramp, Scope};
use tvm_runtime::abi::{CallContext, Status};
use tvm_runtime::{DTypeCode, DataType};

use super::LlvmError;
use super::error::unsupported;
use super::function::{Function, Value};

impl<'ctx> Function<'ctx, '_> {
    /// Type of one lane in memory.
    fn memory_scalar(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>, LlvmError> {
        if dtype.is_bool() { Ok(self.context().i8_type().into()) } else { self.register_scalar(dtype) }
    }

    fn register_scalar(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>, LlvmError> {
        let context = self.context();
        Ok(match (dtype.code(), dtype.bits()) {
            (DTypeCode::Bool, _) => context.bool_type().into(),
            (DTypeCode::Int | DTypeCode::UInt, 8) => context.i8_type().into(),
            (DTypeCode::Int | DTypeCode::UInt, 16) | (DTypeCode::BFloat, 16) => context.i16_type().into(),
            (DTypeCode::Int | DTypeCode::UInt, 32) => context.i32_type().into(),
            (DTypeCode::Int | DTypeCode::UInt, 64) => context.i64_type().into(),
            (DTypeCode::Float, 16) => context.f16_type().into(),
            (DTypeCode::Float, 32) => context.f32_type().into(),
            (DTypeCode::Float, 64) => context.f64_type().into(),
            (DTypeCode::Handle, _) => self.ptr().into(),
            _ => return unsupported(format!("data type {dtype}")),
        })
    }

    /// Type of a value of `dtype` in a register.
    pub(super) fn ty(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>, LlvmError> {
        vector_of(self.register_scalar(dtype.scalar())?, dtype)
    }

    /// Type of a value of `dtype` in memory.
    pub(super) fn memory_ty(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>, LlvmError> {
        vector_of(self.memory_scalar(dtype.scalar())?, dtype)
    }

    /// Generates a read of `buffer[index]`.
    pub(super) fn load(&mut self, buffer: &Buffer, indices: &[PrimExpr]) -> Result<Value<'ctx>, LlvmError> {
        let index = self.flat_index(buffer, indices)?;
        let dtype = buffer.dtype.with_lanes(index.dtype().lanes() * buffer.dtype.lanes());
        let base = self.buffer(buffer)?;
        if let Some(first) = contiguous(index) {
            let first = self.expr(first)?;
            return self.load_at(base, first, buffer.dtype, dtype);
        }
        let index = self.expr(unwidened(index))?;
        if dtype.is_scalar() {
            return self.load_at(base, index, buffer.dtype, dtype);
        }
        let mut lanes = Vec::new();
        for lane in 0..dtype.lanes() {
            let at = self.lane(index, lane)?;
            lanes.push(self.load_at(base, at, buffer.dtype, buffer.dtype)?);
        }
        self.vector(&lanes)
    }

    /// Generates `buffer[index] = value`.
    pub(super) fn store(
        &mut self,
        buffer: &Buffer,
        indices: &[PrimExpr],
        value: &PrimExpr,
    ) -> Result<(), LlvmError> {
        let index = self.flat_index(buffer, indices)?;
        let dtype = value.dtype();
        let value = self.expr(value)?;
        let base = self.buffer(buffer)?;
        if let Some(first) = contiguous(index) {
            let first = self.expr(first)?;
            let streamed = self.streamed && buffer.scope == Scope::Global;
            return self.store_at(base, first, buffer.dtype, dtype, value, streamed);
        }
        let index = self.expr(unwidened(index))?;
        if dtype.is_scalar() {
            return self.store_at(base, index, buffer.dtype, dtype, value, false);
        }
        for lane in 0..dtype.lanes() {
            let (at, value) = (self.lane(index, lane)?, self.lane(value, lane)?);
            self.store_at(base, at, buffer.dtype, buffer.dtype, value, false)?;
        }
        Ok(())
    }

    pub(super) fn flat_index<'e>(
        &self,
        buffer: &Buffer,
        indices: &'e [PrimExpr],
    ) -> Result<&'e PrimExpr, LlvmError> {
        match indices {
            [index] => Ok(index),
            _ => unsupported(format!(
                "buffer `{}` is not flat: it is accessed with {} indices",
                buffer.name,
                indices.len()
            )),
        }
    }

    fn element(
        &self,
        base: PointerValue<'ctx>,
        index: Value<'ctx>,
        dtype: DataType,
    ) -> Result<PointerValue<'ctx>, LlvmError> {
        let ty = self.memory_ty(dtype)?;
        let index = index.into_int_value();
        // SAFETY: the lowered program accesses its buffers in bounds (ensured by the pass `CheckBounds` and the
        // argument checks).
        Ok(unsafe { self.builder.build_in_bounds_gep(ty, base, &[index], "")? })
    }

    fn load_at(
        &mut self,
        base: PointerValue<'ctx>,
        index: Value<'ctx>,
        element: DataType,
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let address = self.element(base, index, element)?;
        let value = self.builder.build_load(self.memory_ty(dtype)?, address, "")?;
        if let Some(load) = value.as_instruction_value() {
            load.set_alignment(element.scalar().bytes() as u32)
                .map_err(|err| LlvmError::Invalid(err.to_string()))?;
        }
        if dtype.is_bool() { self.is_nonzero(value) } else { Ok(value) }
    }

    fn store_at(
        &mut self,
        base: PointerValue<'ctx>,
        index: Value<'ctx>,
        element: DataType,
        dtype: DataType,
        value: Value<'ctx>,
        streamed: bool,
    ) -> Result<(), LlvmError> {
        let address = self.element(base, index, element)?;
        let value = if dtype.is_bool() { self.zero_extend(value, self.memory_ty(dtype)?)? } else { value };
        if streamed && !dtype.is_bool() {
            return self.stream(address, value, dtype);
        }
        let store = self.builder.build_store(address, value)?;
        store
            .set_alignment(element.scalar().bytes() as u32)
            .map_err(|err| LlvmError::Invalid(err.to_string()))?;
        Ok(())
    }

    /// Extracts one lane of a vector; a scalar is returned unchanged.
    pub(super) fn lane(&self, value: Value<'ctx>, lane: u16) -> Result<Value<'ctx>, LlvmError> {
        match value {
            BasicValueEnum::VectorValue(vector) => {
                let at = self.context().i32_type().const_int(u64::from(lane), false);
                Ok(self.builder.build_extract_element(vector, at, "")?)
            }
            _ => Ok(value),
        }
    }

    /// Builds a vector from these lanes.
    pub(super) fn vector(&self, lanes: &[Value<'ctx>]) -> Result<Value<'ctx>, LlvmError> {
        let Some(first) = lanes.first() else { return unsupported("a vector of no lanes") };
        let mut vector = match vector_of(first.get_type(), DataType::F32.with_lanes(lanes.len() as u16))? {
            BasicTypeEnum::VectorType(ty) => ty.get_undef(),
            _ => return Ok(*first),
        };
        for (i, lane) in lanes.iter().enumerate() {
            let at = self.context().i32_type().const_int(i as u64, false);
            vector = self.builder.build_insert_element(vector, *lane, at, "")?;
        }
        Ok(vector.into())
    }

    /// Allocates `buffer` for the rest of the enclosing sequence.
    pub(super) fn alloc(&mut self, buffer: &Buffer) -> Result<(), LlvmError> {
        let [extent] = &*buffer.shape else {
            return unsupported(format!("buffer `{}` is not flat", buffer.name));
        };
        let element = self.memory_ty(buffer.dtype)?;
        let pointer = match (buffer.scope, extent.as_int()) {
            (Scope::Local, Some(n)) => self.stack(element, n, &buffer.name)?,
            (Scope::Global | Scope::Local, _) => {
                let extent = self.expr(extent)?.into_int_value();
                let bytes = self.builder.build_int_mul(
                    extent,
                    self.const_i64(buffer.dtype.bytes() as i64),
                    "bytes",
                )?;
                self.scratch(bytes.into(), &buffer.name)?
            }
            (Scope::Shared | Scope::SharedDyn | Scope::Warp, _) => {
                return unsupported(format!(
                    "buffer `{}` in {} memory of a GPU",
                    buffer.name,
                    buffer.scope.name()
                ));
            }
        };
        self.buffers.insert(buffer.id, pointer);
        Ok(())
    }

    /// Allocates `n` elements on the stack, aligned to 64 bytes.
    pub(super) fn stack(
        &self,
        element: BasicTypeEnum<'ctx>,
        n: i64,
        name: &str,
    ) -> Result<PointerValue<'ctx>, LlvmError> {
        let Ok(n) = u32::try_from(n.max(1)) else {
            return unsupported(format!("buffer `{name}` of {n} elements on the stack"));
        };
        // Allocate in the entry block, so that a loop does not allocate repeatedly.
        let entry = self
            .function
            .get_first_basic_block()
            .ok_or_else(|| LlvmError::Invalid("no entry block".into()))?;
        let builder = self.context().create_builder();
        match entry.get_first_instruction() {
            Some(first) => builder.position_before(&first),
            None => builder.position_at_end(entry),
        }
        let pointer = builder.build_alloca(element.array_type(n), name)?;
        if let Some(alloca) = pointer.as_instruction_value() {
            alloca.set_alignment(64).map_err(|err| LlvmError::Invalid(err.to_string()))?;
        }
        Ok(pointer)
    }

    fn scratch(&mut self, bytes: Value<'ctx>, name: &str) -> Result<PointerValue<'ctx>, LlvmError> {
        let ty = self.ptr().fn_type(&[self.ptr().into(), self.i64().into()], false);
        let alloc = self
            .field(self.ctx, offset_of!(CallContext, alloc), self.ptr().into(), "alloc")?
            .into_pointer_value();
        let call = self.builder.build_indirect_call(ty, alloc, &[self.ctx.into(), bytes.into()], name)?;
        let pointer = call.try_as_basic_value().left_or_invalid()?.into_pointer_value();
        let missing = self.builder.build_is_null(pointer, "")?;
        let zero = PrimExpr::index(0);
        let failure = Failure::new(Status::OutOfMemory as i32, -1, -1, zero.clone(), zero);
        self.fail_if(missing, &failure, [bytes, self.const_i64(0).into()])?;
        self.scratch.push(pointer);
        Ok(pointer)
    }

    /// Generates code that frees the scratch memory allocated after the first `keep` blocks. The list itself is unchanged.
    pub(super) fn free_scratch(&self, keep: usize) -> Result<(), LlvmError> {
        let ty = self.context().void_type().fn_type(&[self.ptr().into(), self.ptr().into()], false);
        for pointer in self.scratch[keep..].iter().rev() {
            let free = self
                .field(self.ctx, offset_of!(CallContext, free), self.ptr().into(), "free")?
                .into_pointer_value();
            self.builder.build_indirect_call(ty, free, &[self.ctx.into(), (*pointer).into()], "")?;
        }
        Ok(())
    }

    /// Converts to bool: true for all values but 0.
    pub(super) fn is_nonzero(&self, value: Value<'ctx>) -> Result<Value<'ctx>, LlvmError> {
        Ok(match value {
            BasicValueEnum::IntValue(it) => {
                self.builder.build_int_compare(IntPredicate::NE, it, it.get_type().const_zero(), "")?.into()
            }
            BasicValueEnum::VectorValue(it) => {
                self.builder.build_int_compare(IntPredicate::NE, it, it.get_type().const_zero(), "")?.into()
            }
            _ => return unsupported("a bool that is neither an integer nor a vector"),
        })
    }

    /// Widens an unsigned integer (or bool) to `ty`.
    pub(super) fn zero_extend(
        &self,
        value: Value<'ctx>,
        ty: BasicTypeEnum<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        Ok(match (value, ty) {
            (BasicValueEnum::IntValue(it), BasicTypeEnum::IntType(ty)) => {
                self.builder.build_int_z_extend(it, ty, "")?.into()
            }
            (BasicValueEnum::VectorValue(it), BasicTypeEnum::VectorType(ty)) => {
                self.builder.build_int_z_extend(it, ty, "")?.into()
            }
            _ => return unsupported("extension of a value that is not an integer"),
        })
    }
}

/// The index of a gather before it was widened from `i32`: an address takes signed integers of any width.
fn unwidened(index: &PrimExpr) -> &PrimExpr {
    match index {
        PrimExpr::Cast(it) if it.dtype.lanes() > 1 && it.value.dtype().scalar() == DataType::I32 => &it.value,
        _ => index,
    }
}

/// The first index of a contiguous access; `None` for other accesses.
pub(super) fn contiguous(index: &PrimExpr) -> Option<&PrimExpr> {
    match index {
        PrimExpr::Ramp(ramp) => {
            let Ramp { base, stride, .. } = &**ramp;
            stride.is_const(1).then_some(base)
        }
        _ => None,
    }
}

/// The type `ty` with the number of lanes of `dtype`.
pub(super) fn vector_of<'ctx>(
    ty: BasicTypeEnum<'ctx>,
    dtype: DataType,
) -> Result<BasicTypeEnum<'ctx>, LlvmError> {
    let lanes = u32::from(dtype.lanes());
    if lanes == 1 {
        return Ok(ty);
    }
    Ok(match ty {
        BasicTypeEnum::IntType(ty) => ty.vec_type(lanes).into(),
        BasicTypeEnum::FloatType(ty) => ty.vec_type(lanes).into(),
        BasicTypeEnum::PointerType(ty) => ty.vec_type(lanes).into(),
        _ => return unsupported("a vector of vectors"),
    })
}

/// The value that a call returns.
pub(super) trait CallResult<'ctx> {
    /// The value; an error for a call that returns none.
    fn left_or_invalid(self) -> Result<Value<'ctx>, LlvmError>;
}

impl<'ctx> CallResult<'ctx> for inkwell::values::ValueKind<'ctx> {
    fn left_or_invalid(self) -> Result<Value<'ctx>, LlvmError> {
        match self {
            inkwell::values::ValueKind::Basic(value) => Ok(value),
            inkwell::values::ValueKind::Instruction(_) => {
                Err(LlvmError::Invalid("a call without a result is used".into()))
            }
        }
    }
}
