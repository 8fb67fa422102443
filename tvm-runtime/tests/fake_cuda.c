// A CUDA driver whose one device is host memory, for machines without a GPU.
// BROKEN=1: no device; BROKEN=2: most symbols are missing.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t ptr;
#if BROKEN == 1
int cuInit(unsigned f) { return 100; }
#else
int cuInit(unsigned f) { return 0; }
#endif
int cuGetErrorString(int e, const char **s) { *s = "fake error"; return 0; }
int cuGetErrorName(int e, const char **s) { *s = "FAKE"; return 0; }
#if BROKEN != 2
static void *current;
int cuDeviceGet(int *d, int i) { *d = i; return i == 0 ? 0 : 101; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : 0; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "Fake GPU", n); return 0; }
int cuDeviceTotalMem_v2(size_t *b, int d) { *b = 1 << 30; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &current; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
int cuCtxSetCurrent(void *c) { current = c; return 0; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(ptr *p, size_t n) { if (n > 1 << 30) return 2; *p = (ptr)malloc(n); return 0; }
int cuMemFree_v2(ptr p) { free((void *)p); return 0; }
int cuMemsetD8_v2(ptr p, unsigned char v, size_t n) { memset((void *)p, v, n); return 0; }
int cuMemcpyHtoD_v2(ptr d, const void *s, size_t n) { memcpy((void *)d, s, n); return 0; }
int cuMemcpyDtoH_v2(void *d, ptr s, size_t n) { memcpy(d, (void *)s, n); return 0; }
int cuMemcpyDtoD_v2(ptr d, ptr s, size_t n) { memcpy((void *)d, (void *)s, n); return 0; }
#endif
