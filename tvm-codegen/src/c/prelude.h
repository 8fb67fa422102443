#include <stdint.h>

typedef struct { int32_t kind, id; } tvm_device;
typedef struct { uint8_t code, bits; uint16_t lanes; } tvm_dtype;
typedef struct {
  void *data;
  tvm_device device;
  int32_t ndim;
  tvm_dtype dtype;
  const int64_t *shape;
  const int64_t *strides;
  uint64_t byte_offset;
} tvm_tensor;
typedef union { const tvm_tensor *tensor; int64_t i; double f; void *handle; } tvm_arg;
typedef struct {
  int32_t status, arg, axis, reserved;
  int64_t expected, got;
  const char *what, *place;
} tvm_error;
typedef struct tvm_ctx tvm_ctx;
typedef int32_t (*tvm_body)(tvm_ctx *, int64_t, int64_t, void *);
struct tvm_ctx {
  uint32_t abi_version, num_threads;
  int32_t (*parallel_for)(tvm_ctx *, tvm_body, int64_t, uint64_t, void *);
  void *(*alloc)(tvm_ctx *, uint64_t);
  void (*free)(tvm_ctx *, void *);
  void *state;
  tvm_error error;
};

#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
/* Lanes of the concatenation of two vectors; T is the type of vectors of lane numbers. */
#ifdef __clang__
#define TVM_SHUFFLE(T, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TVM_SHUFFLE(T, a, b, ...) __builtin_shuffle(a, b, (T){__VA_ARGS__})
#endif
/* Stands before a loop of few iterations. */
#ifdef __clang__
#define TVM_REMAINDER _Pragma("clang loop unroll(disable) vectorize(disable)")
#else
#define TVM_REMAINDER _Pragma("GCC unroll 1")
#endif
/* Orders stores past the caches with other ones. */
#ifdef __SSE2__
#define TVM_STREAM_BARRIER __builtin_ia32_sfence()
#else
#define TVM_STREAM_BARRIER (void)0
#endif
/* The address of p[i], also where no such element exists. */
#define TVM_PLACE(p, i) ((uintptr_t)(p) + (uintptr_t)(i) * sizeof *(p))
/* Stands before a loop that is compiled to `n` copies of its body. */
#define TVM_PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define TVM_UNROLL(n) TVM_PRAGMA(clang loop unroll_count(n))
#else
#define TVM_UNROLL(n) TVM_PRAGMA(GCC unroll n)
#endif
#define TVM_INLINE static inline __attribute__((always_inline, unused))

static __attribute__((noinline, cold, unused)) int32_t tvm_fail(
    tvm_ctx *ctx, int32_t status, int32_t arg, int32_t axis, int64_t expected, int64_t got, const char *what,
    const char *place) {
  ctx->error = (tvm_error){status, arg, axis, 0, expected, got, what, place};
  return status;
}
/* The bits of the lanes whose number is less than `n`. */
TVM_INLINE uint64_t tvm_first_lanes(int64_t n) {
  return n <= 0 ? 0 : n >= 64 ? ~0ull : (1ull << n) - 1;
}

static __attribute__((noinline, malloc, unused)) void *tvm_alloc(tvm_ctx *ctx, int64_t bytes) {
  return ctx->alloc(ctx, bytes > 0 ? (uint64_t)bytes : 1);
}
TVM_INLINE void *tvm_arg_data(const tvm_tensor *t) { return (char *)t->data + t->byte_offset; }
TVM_INLINE int64_t tvm_arg_dtype(const tvm_tensor *t) {
  return (int64_t)t->dtype.code | (int64_t)t->dtype.bits << 8 | (int64_t)t->dtype.lanes << 16;
}
static __attribute__((unused)) int64_t tvm_arg_is_compact(const tvm_tensor *t) {
  int64_t expected = 1;
  if (!t->strides) return 1;
  for (int32_t k = t->ndim - 1; k >= 0; --k) {
    if (t->shape[k] == 0) return 1;
    if (t->shape[k] != 1 && t->strides[k] != expected) return 0;
    expected *= t->shape[k];
  }
  return 1;
}

#define TVM_MINMAX(T, N) \
  TVM_INLINE T tvm_min_##N(T a, T b) { return a < b ? a : b; } \
  TVM_INLINE T tvm_max_##N(T a, T b) { return a > b ? a : b; }
/* NaN where either is; the first of equals. */
#define TVM_MINMAX_FLOAT(T, N) \
  TVM_INLINE T tvm_min_##N(T a, T b) { return (b < a) | (b != b) ? b : a; } \
  TVM_INLINE T tvm_max_##N(T a, T b) { return (b > a) | (b != b) ? b : a; }
#define TVM_ABS(T, N) TVM_INLINE T tvm_abs_##N(T a) { return a < 0 ? (T)-a : a; }
/* `a * b + c` where one rounding instead of two is allowed. Nothing else is fused (`-ffp-contract=off`). */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__aarch64__)
#define TVM_FAST_FMA 1
TVM_INLINE float tvm_fmuladd_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TVM_INLINE double tvm_fmuladd_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define TVM_FAST_FMA 0
TVM_INLINE float tvm_fmuladd_f32(float a, float b, float c) { return a * b + c; }
TVM_INLINE double tvm_fmuladd_f64(double a, double b, double c) { return a * b + c; }
#endif
/* `c` plus the products of the unsigned bytes of `a` and the signed bytes of `b`, wrapping. */
TVM_INLINE int32_t tvm_dot4_i32(int32_t a, int32_t b, int32_t c) {
  uint32_t r = (uint32_t)c;
  for (int i = 0; i < 32; i += 8) {
    r += (uint32_t)((int32_t)((uint32_t)a >> i & 255) * (int8_t)((uint32_t)b >> i));
  }
  return (int32_t)r;
}
/* The widest vectors, in bits, for which the CPU sums four products of bytes; 0 if it does not. */
#ifndef TVM_VNNI
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define TVM_VNNI 512
#elif defined(__AVXVNNI__)
#define TVM_VNNI 256
#else
#define TVM_VNNI 0
#endif
#endif
#if TVM_VNNI == 512
#define TVM_DPBUSD(r, x, y) __asm__("vpdpbusd %2, %1, %0" : "+v"(r) : "v"(x), "v"(y))
#else
#define TVM_DPBUSD(r, x, y) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(r) : "x"(x), "x"(y))
#endif
#ifdef __clang__
#define TVM_PMADDWD512(x, y) __builtin_ia32_pmaddwd512(x, y)
#else
#define TVM_PMADDWD512(x, y) __builtin_ia32_pmaddwd512_mask(x, y, (piece){0}, -1)
#endif
