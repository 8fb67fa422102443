//! Stores past the caches, inside of loops with the annotation [`STREAMED`].
//!
//! As in `llvm/stream.rs`: a whole aligned vector on x86-64 is stored so, others as usual, and a fence follows the loop.

use tvm_core::tir::For;
use tvm_core::tir::transform::STREAMED;
use tvm_runtime::DataType;

use super::function::Function;
use crate::CodegenError;

/// Bytes of vectors that have such a store, the macro of CPUs that have it, and gcc's function for it.
const SIZES: [(usize, &str, &str); 3] = [
    (16, "__SSE2__", "__builtin_ia32_movntps"),
    (32, "__AVX__", "__builtin_ia32_movntps256"),
    (64, "__AVX512F__", "__builtin_ia32_movntps512"),
];

impl Function<'_> {
    /// Writes the loop `it` by `write`, and the fence after the outermost loop of a thread that is streamed.
    pub(super) fn streamed_loop(
        &mut self,
        it: &For,
        write: impl FnOnce(&mut Self) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        let outer = self.streamed;
        self.streamed |= it.annotations.get(STREAMED).is_some();
        write(self)?;
        if self.streamed && !outer {
            self.line("TVM_STREAM_BARRIER;");
        }
        self.streamed = outer;
        Ok(())
    }

    /// Returns the helper that stores a vector of type `dtype` past the caches, if there is one of this size.
    pub(super) fn stream_helper(&mut self, dtype: DataType) -> Option<String> {
        let (bytes, has_store, store) = SIZES.into_iter().find(|size| size.0 == dtype.bytes())?;
        let ty = self.ty(dtype);
        let helper = format!("tvm_stream_{dtype}");
        let body = format!(
            "#if defined(__x86_64__) && defined({has_store})\n  \
             typedef float floats __attribute__((vector_size({bytes})));\n  \
             if (((uintptr_t)p & {}) == 0) {{\n\
             #ifdef __clang__\n    \
             __builtin_nontemporal_store(v, ({ty} *)p);\n\
             #else\n    \
             {store}((float *)p, (floats)v);\n\
             #endif\n    return;\n  }}\n\
             #endif\n  *({ty}_u *)p = v;\n",
            bytes - 1
        );
        let entry = self.unit.helpers.entry(helper.clone());
        entry.or_insert_with(|| format!("TVM_INLINE void {helper}(void *p, {ty} v) {{\n{body}}}\n"));
        Some(helper)
    }
}
