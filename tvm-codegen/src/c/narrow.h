/* `c` plus the products of the upper halves of `a` and `b` and of the lower ones, which are bf16. */
TVM_INLINE float tvm_dot2_f32(int32_t a, int32_t b, float c) {
  float upper = tvm_fmuladd_f32(tvm_bits_u32_f32((uint32_t)a & 0xffff0000), tvm_bits_u32_f32((uint32_t)b & 0xffff0000), c);
  return tvm_fmuladd_f32(tvm_bits_u32_f32((uint32_t)a << 16), tvm_bits_u32_f32((uint32_t)b << 16), upper);
}

TVM_INLINE float tvm_cvt_bf16_f32(uint16_t x) { return tvm_bits_u32_f32((uint32_t)x << 16); }
TVM_INLINE uint16_t tvm_cvt_f32_bf16(float x) {
  uint32_t u = tvm_bits_f32_u32(x);
  return x != x ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
typedef short tvm_v8hi __attribute__((vector_size(16), aligned(2), may_alias));
typedef float tvm_v8sf __attribute__((vector_size(32), aligned(4), may_alias));
#if defined(__F16C__) || defined(__ARM_FP16_FORMAT_IEEE) || defined(__AVX512FP16__)
#if defined(__ARM_FP16_FORMAT_IEEE)
typedef __fp16 tvm_half;
#else
typedef _Float16 tvm_half;
#endif
TVM_BITS(uint16_t, u16, tvm_half, half) TVM_BITS(tvm_half, half, uint16_t, u16)
TVM_INLINE float tvm_cvt_f16_f32(uint16_t x) { return (float)tvm_bits_u16_half(x); }
TVM_INLINE uint16_t tvm_cvt_f32_f16(float x) { return tvm_bits_half_u16((tvm_half)x); }
#else
TVM_INLINE float tvm_cvt_f16_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  /* Scaling by 2^112 moves the exponent and normalises subnormals in one step. */
  float f = tvm_bits_u32_f32(rest) * 0x1p112f;
  uint32_t bits = tvm_bits_f32_u32(f);
  if (rest >= 0x0f800000) bits = rest | 0x7f800000 | (rest & 0x007fffff ? 0x00400000 : 0);
  return tvm_bits_u32_f32(bits | sign);
}
TVM_INLINE uint16_t tvm_cvt_f32_f16(float x) {
  uint32_t u = tvm_bits_f32_u32(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (a < 0x38800000) {
    /* Adding 0.5 puts the rounded subnormal into the low bits. */
    float f = tvm_bits_u32_f32(a) + 0.5f;
    return (uint16_t)(sign | (tvm_bits_f32_u32(f) - 0x3f000000));
  }
  return (uint16_t)(sign | ((a + 0xc8000fff + (a >> 13 & 1)) >> 13));
}
#endif
