TVM_MINMAX(int8_t, i8) TVM_MINMAX(int16_t, i16) TVM_MINMAX(int32_t, i32) TVM_MINMAX(int64_t, i64)
TVM_MINMAX(uint8_t, u8) TVM_MINMAX(uint16_t, u16) TVM_MINMAX(uint32_t, u32) TVM_MINMAX(uint64_t, u64)
TVM_MINMAX(uint8_t, bool)
TVM_MINMAX_FLOAT(float, f32) TVM_MINMAX_FLOAT(double, f64)
TVM_ABS(int8_t, i8) TVM_ABS(int16_t, i16) TVM_ABS(int32_t, i32) TVM_ABS(int64_t, i64)

/* Float to integer: truncates and saturates, NaN gives 0. `HI` is the first float above the range. */
#define TVM_CVT(F, FN, T, TN, LO, HI, MIN, MAX) \
  TVM_INLINE T tvm_cvt_##FN##_##TN(F x) { \
    return x != x ? (T)0 : x >= (F)HI ? (T)MAX : x <= (F)LO ? (T)MIN : (T)x; \
  }
#define TVM_CVT_ALL(F, FN) \
  TVM_CVT(F, FN, int8_t, i8, -128, 128, INT8_MIN, INT8_MAX) \
  TVM_CVT(F, FN, int16_t, i16, -32768, 32768, INT16_MIN, INT16_MAX) \
  TVM_CVT(F, FN, int32_t, i32, -2147483648.0, 2147483648.0, INT32_MIN, INT32_MAX) \
  TVM_CVT(F, FN, int64_t, i64, -9223372036854775808.0, 9223372036854775808.0, INT64_MIN, INT64_MAX) \
  TVM_CVT(F, FN, uint8_t, u8, 0, 256, 0, UINT8_MAX) \
  TVM_CVT(F, FN, uint16_t, u16, 0, 65536, 0, UINT16_MAX) \
  TVM_CVT(F, FN, uint32_t, u32, 0, 4294967296.0, 0, UINT32_MAX) \
  TVM_CVT(F, FN, uint64_t, u64, 0, 18446744073709551616.0, 0, UINT64_MAX)
TVM_CVT_ALL(float, f32)
TVM_CVT_ALL(double, f64)

#define TVM_BITS(A, AN, B, BN) \
  TVM_INLINE B tvm_bits_##AN##_##BN(A x) { union { A a; B b; } u = {x}; return u.b; }
TVM_BITS(float, f32, uint32_t, u32) TVM_BITS(uint32_t, u32, float, f32)
TVM_BITS(float, f32, int32_t, i32) TVM_BITS(int32_t, i32, float, f32)
TVM_BITS(double, f64, uint64_t, u64) TVM_BITS(uint64_t, u64, double, f64)
TVM_BITS(double, f64, int64_t, i64) TVM_BITS(int64_t, i64, double, f64)
