
/* Elementary functions of f32, within about 2 ulp, without branches: compilers vectorise loops over them. */
TVM_INLINE float tvm_exp_f32(float x) {
  /* NaN, which has no integer part, becomes a number here. */
  float c = x > -104.0f ? x : -104.0f;
  c = c < 89.0f ? c : 89.0f;
  float n = __builtin_rintf(c * 1.44269504088896341f);
  float r = tvm_fmuladd_f32(n, -0.693359375f, c);
  r = tvm_fmuladd_f32(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = tvm_fmuladd_f32(p, r, 1.3981999507e-3f);
  p = tvm_fmuladd_f32(p, r, 8.3334519073e-3f);
  p = tvm_fmuladd_f32(p, r, 4.1665795894e-2f);
  p = tvm_fmuladd_f32(p, r, 1.6666665459e-1f);
  p = tvm_fmuladd_f32(p, r, 5.0000001201e-1f);
  p = tvm_fmuladd_f32(p, r * r, r) + 1.0f;
  /* 2^n in two steps: it may be subnormal or beyond the range where the product is not. */
  int32_t i = (int32_t)n, half = i >> 1;
  float y = p * tvm_bits_i32_f32((half + 127) << 23) * tvm_bits_i32_f32((i - half + 127) << 23);
  return x != x ? x : y;
}
/* Of -|x|: the exponential does not overflow, and small results keep their digits. */
TVM_INLINE float tvm_sigmoid_f32(float x) {
  float e = tvm_exp_f32(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
TVM_INLINE float tvm_log_f32(float x) {
  int32_t small = x < 1.17549435e-38f;
  int32_t i = tvm_bits_f32_i32(small ? x * 8388608.0f : x);
  int32_t e = (i - 0x3f3504f3) >> 23;
  float f = tvm_bits_i32_f32(i - (e << 23)) - 1.0f;
  float n = (float)(e - (small ? 23 : 0)), z = f * f;
  float p = 7.0376836292e-2f;
  p = tvm_fmuladd_f32(p, f, -1.1514610310e-1f);
  p = tvm_fmuladd_f32(p, f, 1.1676998740e-1f);
  p = tvm_fmuladd_f32(p, f, -1.2420140846e-1f);
  p = tvm_fmuladd_f32(p, f, 1.4249322787e-1f);
  p = tvm_fmuladd_f32(p, f, -1.6668057665e-1f);
  p = tvm_fmuladd_f32(p, f, 2.0000714765e-1f);
  p = tvm_fmuladd_f32(p, f, -2.4999993993e-1f);
  p = tvm_fmuladd_f32(p, f, 3.3333331174e-1f);
  p = tvm_fmuladd_f32(z, -0.5f, tvm_fmuladd_f32(p * f, z, n * -2.12194440e-4f));
  float y = tvm_fmuladd_f32(n, 0.693359375f, f + p);
  y = x == __builtin_inff() ? x : y;
  y = x == 0.0f ? -__builtin_inff() : y;
  return x >= 0.0f ? y : __builtin_nanf("");
}
TVM_INLINE float tvm_tanh_f32(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = tvm_fmuladd_f32(p, z, 2.06390887954e-2f);
  p = tvm_fmuladd_f32(p, z, -5.37397155531e-2f);
  p = tvm_fmuladd_f32(p, z, 1.33314422036e-1f);
  p = tvm_fmuladd_f32(p, z, -3.33332819422e-1f);
  float near = tvm_fmuladd_f32(p * z, x, x);
  float far = __builtin_copysignf(1.0f - 2.0f / (tvm_exp_f32(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : far;
}
TVM_INLINE float tvm_erf_f32(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float p = 7.853861353153693e-5f;
  p = tvm_fmuladd_f32(p, z, -8.010193625184903e-4f);
  p = tvm_fmuladd_f32(p, z, 5.188327685732524e-3f);
  p = tvm_fmuladd_f32(p, z, -2.685381193529856e-2f);
  p = tvm_fmuladd_f32(p, z, 1.128358514861418e-1f);
  p = tvm_fmuladd_f32(p, z, -3.761262582423300e-1f);
  p = tvm_fmuladd_f32(p, z, 1.128379165726710f);
  float q = 1.0f / (a < 1.0f ? 1.0f : a), y = q * q;
  float u = 2.326819970068386e-2f;
  u = tvm_fmuladd_f32(u, y, -1.387039388740657e-1f);
  u = tvm_fmuladd_f32(u, y, 3.687424674597105e-1f);
  u = tvm_fmuladd_f32(u, y, -5.824733027278666e-1f);
  u = tvm_fmuladd_f32(u, y, 6.210004621745983e-1f);
  u = tvm_fmuladd_f32(u, y, -4.944515323274145e-1f);
  u = tvm_fmuladd_f32(u, y, 3.404879937665872e-1f);
  u = tvm_fmuladd_f32(u, y, -2.741127028184656e-1f);
  u = tvm_fmuladd_f32(u, y, 5.638259427386472e-1f);
  float v = -1.047766399936249e+1f;
  v = tvm_fmuladd_f32(v, y, 1.297719955372516e+1f);
  v = tvm_fmuladd_f32(v, y, -7.495518717768503e+0f);
  v = tvm_fmuladd_f32(v, y, 2.921019019210786e+0f);
  v = tvm_fmuladd_f32(v, y, -1.015265279202700e+0f);
  v = tvm_fmuladd_f32(v, y, 4.218463358204948e-1f);
  v = tvm_fmuladd_f32(v, y, -2.820767439740514e-1f);
  v = tvm_fmuladd_f32(v, y, 5.641895067754075e-1f);
  float far = tvm_fmuladd_f32(-tvm_exp_f32(-z) * q, a < 2.0f ? u : v, 1.0f);
  far = __builtin_copysignf(far, x);
  return a < 1.0f ? p * x : x != x ? x : far;
}
