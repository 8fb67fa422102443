/* Runs CUDA kernels on a CPU: blocks one after the other, the threads of a block as fibers that switch at barriers.
 *
 * A program reads calls from standard input, as numbers of eight bytes: memories with their contents, then launches. Writes, for
 * each call, the failure that kernels recorded and the contents of the memories. Memory that nothing wrote holds bytes of
 * ones, which are no number; bytes around each memory must stay as they are.
 *
 * A module of the fake driver has kernels as functions instead (TVM_EMULATED_KERNEL). */
#define TVM_EMULATED 1
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <functional>
#include <utility>
#include <vector>

#define __global__
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("tvm_shared")))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define TVM_INLINE static inline __attribute__((unused))
#define TVM_UNROLL(n)
#define TVM_REMAINDER
extern char __start_tvm_shared __attribute__((weak)), __stop_tvm_shared __attribute__((weak));

/* The shared memory whose size the launch gives: as much as a multiprocessor has, and the bytes of a block. */
static const size_t SHARED = 227 * 1024;
static uint8_t dynamic_shared[SHARED + 256] __align__(256);
static size_t dynamic_bytes;
#define TVM_DYNAMIC_SHARED(name) uint8_t *const name = dynamic_shared;

struct Index {
  uint32_t x, y, z;
};
static Index threadIdx, blockIdx;

[[noreturn]] static void stop(const char *what) {
  fprintf(stderr, "emulator: %s in block (%u, %u, %u), thread (%u, %u, %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z,
          threadIdx.x, threadIdx.y, threadIdx.z);
  exit(3);
}

/* A thread of the block that runs. */
struct Fiber {
  ucontext_t context;
  Index index;
  bool done, waits;
  /* How many values it has given to its warp. */
  size_t shuffles;
  /* The copies that it has begun. */
  std::vector<std::function<void()>> copies;
};
static const size_t WARP = 32;
static const size_t STACK = 256 * 1024;
static std::vector<Fiber> fibers;
static std::vector<char *> stacks;
static ucontext_t scheduler;
static size_t current;
static bool with_fibers;
static std::function<void()> body;

static inline void tvm_barrier() {
  if (!with_fibers) stop("a barrier in a kernel that has none");
  fibers[current].waits = true;
  swapcontext(&fibers[current].context, &scheduler);
}
/* Copies of neighbours: both addresses are multiples of the bytes. */
template <int N, class T>
static inline void tvm_copy(T *to, const T *from, bool valid = true) {
  if ((uintptr_t)to % (N * sizeof(T)) || (uintptr_t)from % (N * sizeof(T))) stop("an address that is not aligned");
  for (int i = 0; i < N; ++i) to[i] = valid ? from[i] : T(0);
}
/* The copy takes place as late as it may: when the thread waits at a barrier for it. */
template <int N, class T>
static inline void tvm_async_copy(T *to, const T *from, bool valid = true) {
  if (!with_fibers) stop("an asynchronous copy in a kernel without barriers");
  fibers[current].copies.push_back([=] { tvm_copy<N>(to, from, valid); });
}
static inline void tvm_async_barrier() {
  for (const std::function<void()> &copy : fibers[current].copies) copy();
  fibers[current].copies.clear();
  tvm_barrier();
}
/* The two last values that each thread gave to its warp. */
static std::vector<uint64_t> given[2];
/* Threads of a warp wait for each other here, and for no other warp. */
template <class T>
static inline T tvm_shuffle_xor(T x, int bits) {
  if (!with_fibers) stop("a shuffle in a kernel that has none");
  if (fibers.size() % WARP != 0) stop("a shuffle in a block that is no multiple of a warp");
  Fiber &own = fibers[current];
  size_t parity = own.shuffles++ % 2;
  memcpy(&given[parity][current], &x, sizeof(T));
  swapcontext(&own.context, &scheduler);
  const Fiber &other = fibers[current ^ bits];
  /* A thread that found a failure has ended. */
  if (other.done && other.shuffles < own.shuffles) return x;
  if (other.shuffles - own.shuffles > 1) stop("a shuffle that a thread of the warp misses");
  memcpy(&x, &given[parity][current ^ bits], sizeof(T));
  return x;
}
static void enter() {
  body();
  fibers[current].done = true;
}

TVM_INLINE int tvm_ones(uint64_t x) { return __builtin_popcountll(x); }
TVM_INLINE int tvm_leading_zeros(uint64_t x) { return __builtin_clzll(x); }
TVM_INLINE bool tvm_first(int64_t *at, int64_t value) {
  if (*at != 0) return false;
  *at = value;
  return true;
}
/* Threads run one after the other between barriers: no access of another one comes between. */
template <class T>
static inline T atomicAdd(T *at, T value) {
  T old = *at;
  *at = old + value;
  return old;
}
template <class T>
static inline T atomicMin(T *at, T value) {
  T old = *at;
  if (value < old) *at = value;
  return old;
}
template <class T>
static inline T atomicMax(T *at, T value) {
  T old = *at;
  if (value > old) *at = value;
  return old;
}
/* Every third one finds that another thread has changed the element, which is then changed back. */
template <class T>
static inline T atomicCAS(T *at, T expected, T value) {
  static unsigned count;
  if (count++ % 3 == 0) return ~expected;
  T old = *at;
  if (old == expected) *at = value;
  return old;
}
TVM_INLINE float tvm_cvt_f16_f32(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                : exponent == 0 ? ldexpf((float)fraction, -24)
                                : ldexpf((float)(fraction + 1024), exponent - 25);
  return h & 0x8000 ? -value : value;
}
TVM_INLINE uint16_t tvm_cvt_f32_f16(float x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (x != x) return sign | 0x7e00;
  double size = fabs((double)x);
  if (size >= 65520) return sign | 0x7c00;
  if (size == 0) return sign;
  int exponent;
  frexp(size, &exponent);
  /* One in the last place; subnormals have that of the smallest normal number. */
  int last = exponent < -13 ? -24 : exponent - 11;
  int64_t units = (int64_t)nearbyint(ldexp(size, -last));
  return sign | (uint16_t)(last == -24 ? units : units + ((int64_t)(last + 24) << 10));
}

static void run_threads(Index block, bool backwards) {
  size_t count = (size_t)block.x * block.y * block.z;
  memset(dynamic_shared, 0xff, sizeof dynamic_shared);
  if (&__start_tvm_shared) memset(&__start_tvm_shared, 0xff, &__stop_tvm_shared - &__start_tvm_shared);
  auto index = [&](size_t i) { return Index{uint32_t(i % block.x), uint32_t(i / block.x % block.y), uint32_t(i / block.x / block.y)}; };
  auto at = [&](size_t i) { return backwards ? count - 1 - i : i; };
  if (!with_fibers) {
    for (size_t i = 0; i < count; ++i) {
      threadIdx = index(at(i));
      body();
    }
    return;
  }
  while (stacks.size() < count) stacks.push_back((char *)malloc(STACK));
  fibers.assign(count, Fiber());
  for (size_t i = 0; i < count; ++i) {
    fibers[i].index = index(i);
    getcontext(&fibers[i].context);
    fibers[i].context.uc_stack.ss_sp = stacks[i];
    fibers[i].context.uc_stack.ss_size = STACK;
    fibers[i].context.uc_link = &scheduler;
    makecontext(&fibers[i].context, enter, 0);
  }
  for (std::vector<uint64_t> &it : given) it.assign(count, 0);
  for (size_t left = count; left > 0;) {
    for (Fiber &fiber : fibers) fiber.waits = false;
    /* Each warp runs up to a barrier before the next one starts. */
    for (size_t first = 0; first < count; first += WARP) {
      for (bool runs = true; runs;) {
        runs = false;
        for (size_t i = first; i < count && i < first + WARP; ++i) {
          current = at(i);
          Fiber &fiber = fibers[current];
          if (fiber.done || fiber.waits) continue;
          threadIdx = fiber.index;
          swapcontext(&scheduler, &fiber.context);
          left -= fiber.done;
          runs |= !fiber.done && !fiber.waits;
        }
      }
    }
  }
}

static void run_block(Index block, bool backwards) {
  run_threads(block, backwards);
  for (size_t i = dynamic_bytes; i < sizeof dynamic_shared; ++i)
    if (dynamic_shared[i] != 0xff) stop("a write beyond the shared memory of the launch");
}

/* Runs a kernel with these numbers of blocks and threads, and bytes of shared memory. */
static void run_grid(const uint32_t *extents, bool barriers, bool backwards) {
  with_fibers = barriers;
  dynamic_bytes = extents[6];
  if (dynamic_bytes > SHARED) stop("more shared memory than a GPU has");
  for (uint32_t z = 0; z < extents[2]; ++z)
    for (uint32_t y = 0; y < extents[1]; ++y)
      for (uint32_t x = 0; x < extents[0]; ++x) {
        blockIdx = Index{x, y, z};
        run_block(Index{extents[3], extents[4], extents[5]}, (x + backwards) % 2);
      }
}

/* Runs `kernel` with the parameters whose addresses are `values`. */
template <class... P, size_t... I>
static void launch_with(void (*kernel)(P...), void **values, std::index_sequence<I...>) {
  kernel(*reinterpret_cast<P *>(values[I])...);
}
template <class... P>
static void launch(void (*kernel)(P...), void **values, const uint32_t *extents, bool barriers) {
  body = [=] { launch_with(kernel, values, std::index_sequence_for<P...>()); };
  run_grid(extents, barriers, extents[3] % 2);
}
template <class... P>
constexpr int count_params(void (*)(P...)) {
  return sizeof...(P);
}
#define TVM_EMULATED_KERNEL(NAME, BARRIERS) \
  extern "C" __attribute__((visibility("default"))) const int tvm_emulated_params_##NAME = count_params(NAME); \
  extern "C" __attribute__((visibility("default"))) void tvm_emulated_##NAME(void **values, const uint32_t *extents) { \
    launch(NAME, values, extents, BARRIERS); \
  }

static uint64_t number() {
  uint64_t value;
  if (fread(&value, 8, 1, stdin) != 1) stop("the input ends early");
  return value;
}

template <class... P, size_t... I>
static void call(void (*kernel)(P...), uint64_t *args, std::index_sequence<I...>) {
  kernel(*reinterpret_cast<P *>(args + I)...);
}
template <class... P>
static void call(void (*kernel)(P...), uint64_t *args) {
  call(kernel, args, std::index_sequence_for<P...>());
}
struct Kernel {
  std::function<void(uint64_t *)> run;
  bool barriers;
};

static const size_t GUARD = 256;
struct Memory {
  std::vector<uint64_t> words;
  uint64_t bytes;
  explicit Memory(uint64_t bytes) : words(bytes / 8 + 1 + 2 * GUARD / 8, ~0ull), bytes(bytes) {}
  char *data() { return (char *)words.data() + GUARD; }
  void check() {
    for (size_t i = 0; i < GUARD; ++i)
      if (data()[-1 - (ptrdiff_t)i] != (char)0xff || data()[bytes + i] != (char)0xff) stop("a write outside of a buffer");
  }
};

static int run_calls(const std::vector<Kernel> &kernels) {
  for (uint64_t calls = number(); calls > 0; --calls) {
    std::vector<Memory> memories;
    uint64_t args = number(), count = number();
    for (uint64_t i = 0; i < count; ++i) {
      memories.emplace_back(number());
      if (i < args && memories[i].bytes && fread(memories[i].data(), memories[i].bytes, 1, stdin) != 1) stop("no contents");
    }
    int64_t failure[3] = {0, 0, 0};
    for (uint64_t steps = number(); steps > 0; --steps) {
      const Kernel &kernel = kernels[number()];
      uint32_t extents[7];
      for (uint32_t &extent : extents) extent = (uint32_t)number();
      std::vector<uint64_t> values;
      for (uint64_t left = number(); left > 0; --left) {
        uint64_t kind = number(), value = number();
        values.push_back(kind == 0 ? (uint64_t)memories[value].data() : kind == 1 ? value : (uint64_t)failure);
      }
      body = [&] { kernel.run(values.data()); };
      run_grid(extents, kernel.barriers, calls % 2);
    }
    for (Memory &memory : memories) memory.check();
    fwrite(failure, 8, 3, stdout);
    for (uint64_t i = 0; i < args; ++i) fwrite(memories[i].data(), 1, memories[i].bytes, stdout);
  }
  return 0;
}
