/* The words of CUDA that clang has only in the headers of NVIDIA. */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#include <__clang_cuda_builtin_vars.h>
extern "C" __device__ void __syncthreads();
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
extern "C" __device__ unsigned long __cvta_generic_to_shared(const void *);
#define TVM_SHUFFLE(T) __device__ T __shfl_xor_sync(unsigned, T, int);
TVM_SHUFFLE(int) TVM_SHUFFLE(unsigned) TVM_SHUFFLE(long long) TVM_SHUFFLE(unsigned long long)
TVM_SHUFFLE(float) TVM_SHUFFLE(double)
extern "C" __device__ int __popcll(unsigned long long);
extern "C" __device__ int __clzll(long long);
#define TVM_SWAP(T) __device__ T atomicCAS(T *, T, T);
TVM_SWAP(unsigned) TVM_SWAP(unsigned long long)
#define TVM_UPDATES(T) __device__ T atomicMin(T *, T); __device__ T atomicMax(T *, T);
TVM_UPDATES(int) TVM_UPDATES(unsigned) TVM_UPDATES(long long) TVM_UPDATES(unsigned long long)
#define TVM_SUM(T) __device__ T atomicAdd(T *, T);
TVM_SUM(int) TVM_SUM(unsigned) TVM_SUM(unsigned long long) TVM_SUM(float) TVM_SUM(double)
#define TVM_FUNCTION(N) \
  extern "C" __device__ float N##f(float); \
  extern "C" __device__ double N(double);
#define TVM_FUNCTION2(N) \
  extern "C" __device__ float N##f(float, float); \
  extern "C" __device__ double N(double, double);
TVM_FUNCTION(exp) TVM_FUNCTION(exp2) TVM_FUNCTION(log) TVM_FUNCTION(log2) TVM_FUNCTION(log10) TVM_FUNCTION(log1p)
TVM_FUNCTION(sqrt) TVM_FUNCTION(sin) TVM_FUNCTION(cos) TVM_FUNCTION(tan) TVM_FUNCTION(asin) TVM_FUNCTION(acos)
TVM_FUNCTION(atan) TVM_FUNCTION(sinh) TVM_FUNCTION(cosh) TVM_FUNCTION(tanh) TVM_FUNCTION(asinh) TVM_FUNCTION(acosh)
TVM_FUNCTION(atanh) TVM_FUNCTION(erf) TVM_FUNCTION(fabs) TVM_FUNCTION(floor) TVM_FUNCTION(ceil) TVM_FUNCTION(trunc)
TVM_FUNCTION(rint) TVM_FUNCTION2(pow) TVM_FUNCTION2(atan2) TVM_FUNCTION2(copysign) TVM_FUNCTION2(fmod)
extern "C" __device__ float fmaf(float, float, float);
extern "C" __device__ double fma(double, double, double);
extern "C" __device__ float ldexpf(float, int);
extern "C" __device__ double ldexp(double, int);
