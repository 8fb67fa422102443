
/* Updates of an element that no access of another thread comes between. */
#define TVM_ATOMIC(OP, T, N, WORD, FUNCTION) \
  TVM_INLINE void tvm_atomic_##OP##_##N(T *at, T value) { FUNCTION((WORD *)at, (WORD)value); }
/* GPUs have no such operation: the new element is computed again if another thread has changed it meanwhile. */
#define TVM_ATOMIC_BY_SWAP(OP, T, N, WORD, BITS, VALUE, NEW) \
  TVM_INLINE void tvm_atomic_##OP##_##N(T *at, T value) { \
    WORD seen, now = *(const volatile WORD *)at; \
    do { \
      seen = now; \
      T old = VALUE(seen); \
      now = atomicCAS((WORD *)at, seen, (WORD)BITS(NEW)); \
    } while (now != seen); \
  }
#define TVM_ATOMIC_SWAPS(T, N, WORD, BITS, VALUE) \
  TVM_ATOMIC_BY_SWAP(mul, T, N, WORD, BITS, VALUE, old * value) \
  TVM_ATOMIC_BY_SWAP(min, T, N, WORD, BITS, VALUE, tvm_min_##N(old, value)) \
  TVM_ATOMIC_BY_SWAP(max, T, N, WORD, BITS, VALUE, tvm_max_##N(old, value))
/* Sums and products of integers wrap, and have the same bits with and without a sign. */
TVM_ATOMIC(add, int32_t, i32, unsigned int, atomicAdd)
TVM_ATOMIC(add, uint32_t, u32, unsigned int, atomicAdd)
TVM_ATOMIC(add, int64_t, i64, unsigned long long, atomicAdd)
TVM_ATOMIC(add, uint64_t, u64, unsigned long long, atomicAdd)
TVM_ATOMIC(add, float, f32, float, atomicAdd)
TVM_ATOMIC(add, double, f64, double, atomicAdd)
TVM_ATOMIC(min, int32_t, i32, int, atomicMin)
TVM_ATOMIC(min, uint32_t, u32, unsigned int, atomicMin)
TVM_ATOMIC(min, int64_t, i64, long long, atomicMin)
TVM_ATOMIC(min, uint64_t, u64, unsigned long long, atomicMin)
TVM_ATOMIC(max, int32_t, i32, int, atomicMax)
TVM_ATOMIC(max, uint32_t, u32, unsigned int, atomicMax)
TVM_ATOMIC(max, int64_t, i64, long long, atomicMax)
TVM_ATOMIC(max, uint64_t, u64, unsigned long long, atomicMax)
TVM_ATOMIC_BY_SWAP(mul, uint32_t, u32, unsigned int, , , old * value)
TVM_ATOMIC_BY_SWAP(mul, uint64_t, u64, unsigned long long, , , old * value)
TVM_ATOMIC(mul, int32_t, i32, uint32_t, tvm_atomic_mul_u32)
TVM_ATOMIC(mul, int64_t, i64, uint64_t, tvm_atomic_mul_u64)
TVM_ATOMIC_SWAPS(float, f32, unsigned int, tvm_bits_f32_u32, tvm_bits_u32_f32)
TVM_ATOMIC_SWAPS(double, f64, unsigned long long, tvm_bits_f64_u64, tvm_bits_u64_f64)

