/* Functions that kernels call. Compile with --fmad=false: each operation rounds its result. */
#ifndef TVM_EMULATED
#if defined(__CUDACC_RTC__) || defined(__NVCC__)
/* Functions and indices that no kernel uses. */
#pragma nv_diag_suppress 177
#endif
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ull
#define TVM_INLINE static __device__ __forceinline__
#define TVM_PRAGMA(x) _Pragma(#x)
#define TVM_UNROLL(n) TVM_PRAGMA(unroll n)
#define TVM_REMAINDER TVM_PRAGMA(unroll 1)
/* The shared memory whose size the launch gives. */
#define TVM_DYNAMIC_SHARED(name) extern __shared__ __align__(16) uint8_t name[];
TVM_INLINE void tvm_barrier() { __syncthreads(); }
/* Numbers of so many bytes. */
template <int BYTES>
struct tvm_word;
template <>
struct tvm_word<2> { typedef uint16_t type; };
template <>
struct tvm_word<4> { typedef uint32_t type; };
template <>
struct tvm_word<8> { typedef uint2 type; };
template <>
struct tvm_word<16> { typedef uint4 type; };
/* Copies N neighbours, 2 to 16 bytes, between addresses that are multiples of these bytes. */
template <int N, class T>
TVM_INLINE void tvm_copy(T *to, const T *from) {
  typedef typename tvm_word<N * sizeof(T)>::type word;
  *(word *)to = *(const word *)from;
}
/* The same where `valid`; elsewhere the copy is 0. */
template <int N, class T>
TVM_INLINE void tvm_copy(T *to, const T *from, bool valid) {
  typedef typename tvm_word<N * sizeof(T)>::type word;
  *(word *)to = valid ? *(const word *)from : word{};
}
/* Copies neighbours, 4 to 16 bytes, from memory of the GPU to shared memory, at the latest when the thread waits at
 * tvm_async_barrier. */
template <int N, class T>
TVM_INLINE void tvm_async_copy(T *to, const T *from) {
#if __CUDA_ARCH__ >= 800
  uint32_t place = (uint32_t)__cvta_generic_to_shared(to);
  if (N * sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(N * sizeof(T)) : "memory");
  }
#else
  tvm_copy<N>(to, from);
#endif
}
template <int N, class T>
TVM_INLINE void tvm_async_copy(T *to, const T *from, bool valid) {
#if __CUDA_ARCH__ >= 800
  uint32_t place = (uint32_t)__cvta_generic_to_shared(to);
  int bytes = valid ? N * sizeof(T) : 0;
  if (N * sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(N * sizeof(T)), "r"(bytes)
                 : "memory");
  }
#else
  tvm_copy<N>(to, from, valid);
#endif
}
TVM_INLINE void tvm_async_barrier() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}
/* The value of the thread of the warp whose number differs in `bits`; all threads of a warp call it together. */
TVM_INLINE int tvm_exchange(int x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
TVM_INLINE unsigned tvm_exchange(unsigned x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
TVM_INLINE int64_t tvm_exchange(int64_t x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
TVM_INLINE uint64_t tvm_exchange(uint64_t x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
TVM_INLINE float tvm_exchange(float x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
TVM_INLINE double tvm_exchange(double x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
template <class T>
TVM_INLINE T tvm_shuffle_xor(T x, int bits) {
  return (T)tvm_exchange(+x, bits);
}
TVM_INLINE int tvm_ones(uint64_t x) { return __popcll(x); }
TVM_INLINE int tvm_leading_zeros(uint64_t x) { return __clzll((int64_t)x); }
TVM_INLINE bool tvm_first(int64_t *at, int64_t value) {
  return atomicCAS((unsigned long long *)at, 0ull, (unsigned long long)value) == 0;
}
TVM_INLINE float tvm_cvt_f16_f32(uint16_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
TVM_INLINE uint16_t tvm_cvt_f32_f16(float x) {
  uint16_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif

/* The first failed assertion of a call: its number, what was expected, what was found. */
TVM_INLINE bool tvm_failed(const int64_t *error) { return *(const volatile int64_t *)error != 0; }
TVM_INLINE void tvm_fail(int64_t *error, int64_t site, int64_t expected, int64_t got) {
  if (tvm_first(error, site)) {
    error[1] = expected;
    error[2] = got;
  }
}

#define TVM_MINMAX(T, N) \
  TVM_INLINE T tvm_min_##N(T a, T b) { return a < b ? a : b; } \
  TVM_INLINE T tvm_max_##N(T a, T b) { return a > b ? a : b; }
/* NaN where either is; the first of equals. */
#define TVM_MINMAX_FLOAT(T, N) \
  TVM_INLINE T tvm_min_##N(T a, T b) { return b < a || b != b ? b : a; } \
  TVM_INLINE T tvm_max_##N(T a, T b) { return b > a || b != b ? b : a; }
#define TVM_ABS(T, N) TVM_INLINE T tvm_abs_##N(T a) { return a < 0 ? (T)(0 - (uint64_t)a) : a; }

#define TVM_MATH(N) \
  TVM_INLINE float tvm_##N##_f32(float x) { return N##f(x); } \
  TVM_INLINE double tvm_##N##_f64(double x) { return N(x); }
#define TVM_MATH2(N) \
  TVM_INLINE float tvm_##N##_f32(float x, float y) { return N##f(x, y); } \
  TVM_INLINE double tvm_##N##_f64(double x, double y) { return N(x, y); }
TVM_MATH(exp) TVM_MATH(exp2) TVM_MATH(log) TVM_MATH(log2) TVM_MATH(log10) TVM_MATH(log1p) TVM_MATH(sqrt)
TVM_MATH(sin) TVM_MATH(cos) TVM_MATH(tan) TVM_MATH(asin) TVM_MATH(acos) TVM_MATH(atan)
TVM_MATH(sinh) TVM_MATH(cosh) TVM_MATH(tanh) TVM_MATH(asinh) TVM_MATH(acosh) TVM_MATH(atanh)
TVM_MATH(erf) TVM_MATH(fabs) TVM_MATH(floor) TVM_MATH(ceil) TVM_MATH(trunc) TVM_MATH(rint)
TVM_MATH2(pow) TVM_MATH2(atan2) TVM_MATH2(copysign) TVM_MATH2(fmod)
TVM_INLINE float tvm_fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
TVM_INLINE double tvm_fma_f64(double a, double b, double c) { return fma(a, b, c); }
TVM_INLINE float tvm_fmuladd_f32(float a, float b, float c) { return fmaf(a, b, c); }
TVM_INLINE double tvm_fmuladd_f64(double a, double b, double c) { return fma(a, b, c); }
TVM_INLINE float tvm_ldexp_f32(float x, int n) { return ldexpf(x, n); }
TVM_INLINE double tvm_ldexp_f64(double x, int n) { return ldexp(x, n); }
TVM_INLINE uint8_t tvm_isnan_f32(float x) { return x != x; }
TVM_INLINE uint8_t tvm_isnan_f64(double x) { return x != x; }
/* `c` plus the products of the unsigned bytes of `a` and the signed bytes of `b`, wrapping. */
TVM_INLINE int32_t tvm_dot4_i32(int32_t a, int32_t b, int32_t c) {
  uint32_t r = (uint32_t)c;
  for (int i = 0; i < 32; i += 8) {
    r += (uint32_t)((int32_t)((uint32_t)a >> i & 255) * (int8_t)((uint32_t)b >> i));
  }
  return (int32_t)r;
}

