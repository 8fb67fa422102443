//! Sums of products of the parts of words, in each lane of vectors.

use std::fmt::Write;

use tvm_runtime::DataType;

use super::function::Function;

impl Function<'_> {
    /// Returns the helper for `dot4` in each lane, by the CPU's instruction for it or by products of neighbouring `i16`,
    /// where there are such.
    pub(super) fn dot4_helper(&mut self, dtype: DataType) -> String {
        let (ty, lanes) = (self.ty(dtype), dtype.lanes());
        let helper = format!("tvm_dot4_{dtype}");
        let mut body = String::new();
        // The bits of a vector, the macro of the CPU for products of pairs, such a product.
        let sizes = [
            (512, "__AVX512BW__", "TVM_PMADDWD512(x, y)"),
            (256, "__AVX2__", "__builtin_ia32_pmaddwd256(x, y)"),
            (128, "__SSE2__", "__builtin_ia32_pmaddwd128(x, y)"),
        ];
        for (bits, pairs, product) in sizes {
            let (bytes, n) = (bits / 8, dtype.bytes() / (bits / 8));
            if n == 0 {
                continue;
            }
            let _ = write!(
                body,
                "#{} TVM_VNNI >= {bits} || defined({pairs})\n  \
                 typedef int32_t piece __attribute__((vector_size({bytes})));\n  \
                 typedef int16_t pairs __attribute__((vector_size({bytes})));\n  \
                 typedef uint16_t bits __attribute__((vector_size({bytes})));\n  \
                 union {{ {ty} all; piece at[{n}]; }} p = {{a}}, q = {{b}}, r = {{c}};\n  \
                 for (int l = 0; l < {n}; ++l) {{\n\
                 #if TVM_VNNI >= {bits}\n    \
                 TVM_DPBUSD(r.at[l], p.at[l], q.at[l]);\n\
                 #else\n    \
                 bits u = (bits)p.at[l];\n    \
                 pairs x = (pairs)(u & 255), y = (pairs)((bits)q.at[l] << 8) >> 8;\n    \
                 r.at[l] += (piece){product};\n    \
                 x = (pairs)(u >> 8), y = (pairs)q.at[l] >> 8;\n    \
                 r.at[l] += (piece){product};\n\
                 #endif\n  }}\n  return r.all;\n",
                if body.is_empty() { "if" } else { "elif" },
            );
        }
        let plain = format!(
            "  {ty} r;\n  for (int l = 0; l < {lanes}; ++l) r[l] = tvm_dot4_i32(a[l], b[l], c[l]);\n  return r;\n"
        );
        let body = if body.is_empty() { plain } else { format!("{body}#else\n{plain}#endif\n") };
        self.unit
            .helpers
            .entry(helper.clone())
            .or_insert_with(|| format!("TVM_INLINE {ty} {helper}({ty} a, {ty} b, {ty} c) {{\n{body}}}\n"));
        helper
    }

    /// Returns the helper for `dot2` in each lane, by the CPU's instruction for it or by two multiply-adds.
    pub(super) fn dot2_helper(&mut self, dtype: DataType) -> String {
        let (ty, words) = (self.ty(dtype), self.ty(DataType::I32.with_lanes(dtype.lanes())));
        let fma = self.mul_add_helper(dtype, false);
        let helper = format!("tvm_dot2_{dtype}");
        let mut body = String::new();
        let piece = dtype.bytes().min(64);
        if piece >= 16 {
            let n = dtype.bytes() / piece;
            let _ = write!(
                body,
                "#if defined(__AVX512BF16__) && defined(__AVX512VL__)\n  \
                 typedef float piece __attribute__((vector_size({piece})));\n  \
                 union {{ {words} all; piece at[{n}]; }} p = {{a}}, q = {{b}};\n  \
                 union {{ {ty} all; piece at[{n}]; }} r = {{c}};\n  \
                 for (int l = 0; l < {n}; ++l)\n    \
                 __asm__(\"vdpbf16ps %2, %1, %0\" : \"+v\"(r.at[l]) : \"v\"(p.at[l]), \"v\"(q.at[l]));\n  \
                 return r.all;\n#else\n"
            );
        }
        let _ = write!(
            body,
            "  {ty} u = {fma}(({ty})(a & (int32_t)0xffff0000), ({ty})(b & (int32_t)0xffff0000), c);\n  \
             return {fma}(({ty})(a << 16), ({ty})(b << 16), u);\n{}",
            if piece >= 16 { "#endif\n" } else { "" }
        );
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            format!("TVM_INLINE {ty} {helper}({words} a, {words} b, {ty} c) {{\n{body}}}\n")
        });
        helper
    }
}
