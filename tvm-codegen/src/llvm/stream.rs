//! Stores past the caches, inside of loops with the annotation [`STREAMED`](tvm_core::tir::transform::STREAMED).
//!
//! On x86-64, such a store writes a whole aligned vector, and orders itself with no other store: a fence at the end of the
//! loop does this for all of them. A vector at another address is stored as usual; the choice is made when the kernel runs.

use inkwell::IntPredicate;
use inkwell::values::PointerValue;
use tvm_runtime::DataType;

use super::LlvmError;
use super::function::{Function, Value};

/// Bytes of vectors that have such a store.
const BYTES: std::ops::RangeInclusive<usize> = 16..=64;

impl<'ctx> Function<'ctx, '_> {
    /// True if the target has such stores, and the fence for them.
    pub(super) fn can_stream(&self) -> bool {
        let triple = self.unit.module.get_triple();
        triple.as_str().to_bytes().starts_with(b"x86_64")
    }

    /// Generates a store of `value`, of type `dtype`, at `address`; past the caches if it
    /// is the address of a whole aligned vector.
    pub(super) fn stream(
        &mut self,
        address: PointerValue<'ctx>,
        value: Value<'ctx>,
        dtype: DataType,
    ) -> Result<(), LlvmError> {
        let bytes = dtype.bytes();
        let plain = |f: &Self| -> Result<(), LlvmError> {
            let store = f.builder.build_store(address, value)?;
            store.set_alignment(dtype.scalar().bytes() as u32).map_err(invalid)
        };
        if !bytes.is_power_of_two() || !BYTES.contains(&bytes) || dtype.is_scalar() {
            return plain(self);
        }
        let place = self.builder.build_ptr_to_int(address, self.i64(), "place")?;
        let rest = self.builder.build_and(place, self.i64().const_int(bytes as u64 - 1, false), "")?;
        let aligned = self.builder.build_int_compare(IntPredicate::EQ, rest, self.i64().const_zero(), "")?;
        let (past, usual, end) = (self.block("past"), self.block("usual"), self.block("stored"));
        self.builder.build_conditional_branch(aligned, past, usual)?;
        self.builder.position_at_end(past);
        let store = self.builder.build_store(address, value)?;
        store.set_alignment(bytes as u32).map_err(invalid)?;
        let one = self.context().i32_type().const_int(1, false);
        let node = self.context().metadata_node(&[one.into()]);
        store.set_metadata(node, self.context().get_kind_id("nontemporal")).map_err(invalid)?;
        self.builder.build_unconditional_branch(end)?;
        self.builder.position_at_end(usual);
        plain(self)?;
        self.builder.build_unconditional_branch(end)?;
        self.builder.position_at_end(end);
        Ok(())
    }

    /// Generates the fence after such stores.
    pub(super) fn stream_barrier(&self) -> Result<(), LlvmError> {
        self.call_llvm("llvm.x86.sse.sfence", &[], &[]).map(|_| ())
    }
}

fn invalid(err: impl std::fmt::Display) -> LlvmError {
    LlvmError::Invalid(err.to_string())
}
