
TVM_INLINE float tvm_nan_f32() { return tvm_bits_u32_f32(0x7fc00000u); }
TVM_INLINE double tvm_nan_f64() { return tvm_bits_u64_f64(0x7ff8000000000000ull); }
TVM_INLINE float tvm_inf_f32() { return tvm_bits_u32_f32(0x7f800000u); }
TVM_INLINE double tvm_inf_f64() { return tvm_bits_u64_f64(0x7ff0000000000000ull); }
TVM_INLINE uint8_t tvm_isinf_f32(float x) { return fabsf(x) == tvm_inf_f32(); }
TVM_INLINE uint8_t tvm_isinf_f64(double x) { return fabs(x) == tvm_inf_f64(); }
/* `c` plus the products of the upper halves of `a` and `b` and of the lower ones, which are bf16. */
TVM_INLINE float tvm_dot2_f32(int32_t a, int32_t b, float c) {
  float upper = fmaf(tvm_bits_u32_f32((uint32_t)a & 0xffff0000u), tvm_bits_u32_f32((uint32_t)b & 0xffff0000u), c);
  return fmaf(tvm_bits_u32_f32((uint32_t)a << 16), tvm_bits_u32_f32((uint32_t)b << 16), upper);
}
TVM_INLINE float tvm_cvt_bf16_f32(uint16_t x) { return tvm_bits_u32_f32((uint32_t)x << 16); }
TVM_INLINE uint16_t tvm_cvt_f32_bf16(float x) {
  uint32_t u = tvm_bits_f32_u32(x);
  return x != x ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

