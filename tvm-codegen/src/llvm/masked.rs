//! Loads and stores of the lanes of a vector in which a predicate holds: LLVM's masked intrinsics, which are one
//! instruction with AVX-512, and branches on CPUs without such instructions.

use inkwell::types::BasicType;
use inkwell::values::PointerValue;
use tvm_core::tir::{Buffer, BufferLoad, BufferStore, PrimExpr};
use tvm_runtime::DataType;

use super::LlvmError;
use super::error::unsupported;
use super::function::{Function, Value};
use super::memory::contiguous;

impl<'ctx> Function<'ctx, '_> {
    /// Generates a read of the lanes of `load` in which `predicate` holds.
    pub(super) fn masked_load(
        &mut self,
        load: &BufferLoad,
        predicate: &PrimExpr,
    ) -> Result<Value<'ctx>, LlvmError> {
        let (address, dtype) = self.masked_address(&load.buffer, &load.indices)?;
        let mask = self.expr(predicate)?;
        let (ty, align) = (self.memory_ty(dtype)?, self.alignment(dtype));
        let zero = ty.as_basic_type_enum().const_zero();
        let types = [ty, address.get_type().into()];
        let value = self.llvm_overloaded("llvm.masked.load", &types, &[address.into(), align, mask, zero])?;
        if dtype.is_bool() { self.is_nonzero(value) } else { Ok(value) }
    }

    /// Generates a write of the lanes of `store` in which `predicate` holds.
    pub(super) fn masked_store(
        &mut self,
        store: &BufferStore,
        predicate: &PrimExpr,
    ) -> Result<(), LlvmError> {
        let value = self.expr(&store.value)?;
        let (address, dtype) = self.masked_address(&store.buffer, &store.indices)?;
        let mask = self.expr(predicate)?;
        let (ty, align) = (self.memory_ty(dtype)?, self.alignment(dtype));
        let value = if dtype.is_bool() { self.zero_extend(value, ty)? } else { value };
        let types = [ty, address.get_type().into()];
        self.call_llvm("llvm.masked.store", &types, &[value, address.into(), align, mask])?;
        Ok(())
    }

    /// The address of the first lane, and the type of the vector.
    fn masked_address(
        &mut self,
        buffer: &Buffer,
        indices: &[PrimExpr],
    ) -> Result<(PointerValue<'ctx>, DataType), LlvmError> {
        let index = self.flat_index(buffer, indices)?;
        let Some(first) = contiguous(index) else {
            return unsupported(format!("a masked access to `{}` that is not contiguous", buffer.name));
        };
        let first = self.expr(first)?;
        let base = self.buffer(buffer)?;
        let address = self.address(base, first, buffer.dtype)?;
        Ok((address, buffer.dtype.with_lanes(index.dtype().lanes())))
    }

    fn alignment(&self, dtype: DataType) -> Value<'ctx> {
        self.context().i32_type().const_int(dtype.scalar().bytes() as u64, false).into()
    }

    /// The address of an element that need not exist: lane 0 may be outside of the buffer.
    fn address(
        &self,
        base: PointerValue<'ctx>,
        index: Value<'ctx>,
        element: DataType,
    ) -> Result<PointerValue<'ctx>, LlvmError> {
        let bytes = self.const_i64(element.scalar().bytes() as i64);
        let offset = self.builder.build_int_mul(index.into_int_value(), bytes, "")?;
        self.offset(base, offset)
    }
}
