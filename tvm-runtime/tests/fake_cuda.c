// A CUDA driver whose devices are host memory, for machines without a GPU.
//
// Kernels are those of a shared library: an image is such a library, which has for each kernel NAME the function
// tvm_emulated_NAME(values, extents) and the number tvm_emulated_params_NAME. Work is done as late as the driver may do it:
// launches, fills, copies and frees in a stream are queued until a call that waits, and then those alone are done that it waits for:
// what is in its stream, and what this waits for by events. A call that waits for everything does one stream after the other, the last first. The default
// stream waits for all streams, and these for it. Writes beside an allocation abort the process.
//
// Options are in the environment variable TVM_FAKE_CUDA, as "name=number" separated by spaces: init (result of cuInit), memory
// (bytes of the device), pools (0: no allocation in streams), load (result of cuModuleLoadData), launch (result of
// cuLaunchKernel), version (of the driver), major
// and minor (of the compute capability), devices (their number), major1 and minor1 (of the second one), fault (number of the launch, from 1, that accesses memory that it does not have), graph
// (result of cuGraphInstantiateWithFlags), watch (1: writes to memory that was freed abort the process; slow), pinned (bytes of
// memory of the host that may be page-locked), order (a number: at each call, some work is done at once; which, is random, from this
// number on).
// TVM_FAKE_CUDA_LOG names a file to which each launch, load, copy and allocation adds a line, and each kernel when it runs ("run").
//
// -DOLD leaves out most functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <elf.h>

typedef uint64_t ptr;
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

static long option(const char *name, long otherwise) {
  const char *all = getenv("TVM_FAKE_CUDA");
  size_t len = strlen(name);
  for (; all && *all; all += strcspn(all, " "), all += strspn(all, " "))
    if (!strncmp(all, name, len) && all[len] == '=') return atol(all + len + 1);
  return otherwise;
}

int cuInit(unsigned flags) { return option("init", 0); }
int cuGetErrorString(int code, const char **text) { *text = "fake error"; return 0; }
int cuGetErrorName(int code, const char **text) { *text = "FAKE"; return 0; }
int cuDriverGetVersion(int *version) { *version = option("version", 13000); return 0; }

#ifndef OLD
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int leave(int code) { pthread_mutex_unlock(&lock); return code; }

static void note(const char *what, const char *name, long number) {
  const char *path = getenv("TVM_FAKE_CUDA_LOG");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s %s %ld\n", what, name, number);
  fclose(file);
}

/* Allocations: bytes, and GUARD bytes on both sides. */
enum { GUARD = 256, FREE = 0xdd, FILL = 0xff };
struct memory {
  struct memory *next;
  uint8_t *base;
  size_t len;
};
static struct memory *memories;
static size_t used;

static ptr allocate(size_t len) {
  struct memory *it = malloc(sizeof *it);
  it->len = len;
  it->base = aligned_alloc(GUARD, (len + 3 * GUARD - 1) / GUARD * GUARD);
  memset(it->base, FILL, len + 2 * GUARD);
  it->next = memories;
  memories = it;
  used += len;
  return (ptr)(it->base + GUARD);
}

static void check(const struct memory *it) {
  for (size_t i = 0; i < GUARD; ++i)
    if (it->base[i] != FILL || it->base[GUARD + it->len + i] != FILL) {
      fprintf(stderr, "fake driver: a write beside an allocation of %zu bytes\n", it->len);
      abort();
    }
}

/* What was freed, with option `watch`. */
static struct memory *freed;

static void release(ptr at) {
  for (struct memory **it = &memories; *it; it = &(*it)->next) {
    struct memory *found = *it;
    if ((ptr)(found->base + GUARD) != at) continue;
    check(found);
    *it = found->next;
    memset(found->base, FREE, found->len + 2 * GUARD);
    if (option("watch", 0)) {
      found->next = freed;
      freed = found;
      return;
    }
    free(found->base);
    free(found);
    return;
  }
  fprintf(stderr, "fake driver: a free of memory that is not allocated\n");
  abort();
}

static void check_freed(void) {
  for (const struct memory *it = freed; it; it = it->next)
    for (size_t i = 0; i < it->len + 2 * GUARD; ++i)
      if (it->base[i] != FREE) {
        fprintf(stderr, "fake driver: a write to %zu bytes that were freed\n", it->len);
        abort();
      }
}

/* The bytes of an allocation are free as soon as the free is in the stream: what is allocated later comes after it there. */
static void gives_back(ptr at) {
  for (struct memory *it = memories; it; it = it->next)
    if ((ptr)(it->base + GUARD) == at) used -= it->len;
}

/* Modules and functions. */
typedef void (*run_t)(void **values, const uint32_t *extents);
struct function {
  run_t run;
  int params, shared;
  char name[256];
};

/* What is to be done. */
enum { MAX_PARAMS = 64 };
struct work {
  /* MARK does nothing, DONE ends the work of a graph. */
  enum { LAUNCH, RELEASE, SET, COPY, CRASH, MARK, DONE } kind;
  struct function *function;
  uint32_t extents[7];
  uint64_t values[MAX_PARAMS];
  ptr to, from;
  size_t len;
  int byte;
  struct exec *exec;
};

/* What is queued, after other tasks. It stays as long as a stream, an event or a task names it. */
struct task {
  struct task *before, *next;
  struct task **needs;
  int count, holders, done, stream;
  struct work work;
};
static struct task *first, *last;
static int fault;
static long launches;

/* Streams, the last one first, and the last task of the default stream. */
struct stream {
  struct stream *next;
  struct task *last;
  int number;
};
static struct stream *streams;
static struct task *default_last;

/* Graphs: lists of work, each of which comes after that before. */
struct node {
  struct node *next;
  struct work work;
};
struct graph { struct node *first, *last; };
struct exec { struct node *first; int pending; };

static void let(struct task *it) {
  if (it && !--it->holders) free(it);
}
static void name(struct task **place, struct task *it) {
  ++it->holders;
  let(*place);
  *place = it;
}
static void need(struct task *it, struct task *other) {
  if (!other || other->done) return;
  it->needs = realloc(it->needs, (it->count + 1) * sizeof *it->needs);
  it->needs[it->count] = NULL;
  name(&it->needs[it->count++], other);
}

static struct work *queue(struct stream *stream, int kind) {
  struct task *it = calloc(1, sizeof *it);
  it->work.kind = kind;
  it->holders = 1;
  it->before = last;
  last = *(last ? &last->next : &first) = it;
  if (stream) {
    it->stream = stream->number;
    need(it, stream->last);
    name(&stream->last, it);
  } else {
    need(it, default_last);
    name(&default_last, it);
    for (struct stream *other = streams; other; other = other->next) {
      need(it, other->last);
      name(&other->last, it);
    }
  }
  return &it->work;
}

static void perform(struct task *it) {
  *(it->before ? &it->before->next : &first) = it->next;
  *(it->next ? &it->next->before : &last) = it->before;
  struct work *work = &it->work;
  if (!fault) {
    void *values[MAX_PARAMS];
    for (int i = 0; i < MAX_PARAMS; ++i) values[i] = &work->values[i];
    switch (work->kind) {
      case LAUNCH:
        note("run", work->function->name, it->stream);
        work->function->run(values, work->extents);
        break;
      case RELEASE: release(work->to); break;
      case SET: memset((void *)work->to, work->byte, work->len); break;
      case COPY: memcpy((void *)work->to, (void *)work->from, work->len); break;
      case CRASH: fault = ILLEGAL_ADDRESS; break;
      case MARK: break;
      case DONE: --work->exec->pending; break;
    }
    for (struct memory *memory = memories; memory; memory = memory->next) check(memory);
    check_freed();
  }
  it->done = 1;
  for (int i = 0; i < it->count; ++i) let(it->needs[i]);
  free(it->needs);
  it->count = 0, it->needs = NULL;
  let(it);
}

static unsigned chance(unsigned most) {
  static uint64_t state;
  if (!option("order", 0)) return 0;
  if (!state) state = option("order", 0) * 0x9e3779b97f4a7c15u + 1;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (state >> 33) % most;
}

/* Does `target` and what it needs, one stream after the other; the fault, if there is one. */
static int finish(struct task *target) {
  static struct task **path;
  static size_t most;
  if (!target || target->done) return fault;
  for (size_t len = 1, i; len;) {
    if (len + 1 > most) path = realloc(path, (most = 2 * len + 64) * sizeof *path);
    if (len == 1) path[0] = target;
    struct task *it = path[len - 1], *other = NULL;
    int from = it->count ? chance(it->count) : 0;
    for (i = 0; i < it->count && !other; ++i) {
      other = it->needs[(from + i) % it->count];
      if (other->done) other = NULL;
    }
    if (other) path[len++] = other;
    else perform(it), --len;
  }
  return fault;
}

/* Does some task. */
static void progress(void) {
  int count = 0;
  for (struct task *it = first; it; it = it->next) ++count;
  struct task *it = last;
  for (int i = count ? chance(count) : 0; i > 0; --i) it = it->before;
  finish(it);
}

/* Does everything that is queued. */
static int finish_all(void) {
  while (first) progress();
  return fault;
}

static void enter(void) {
  pthread_mutex_lock(&lock);
  if (option("order", 0))
    for (int i = chance(8); i > 5; --i) progress();
}

static __thread void *current;
int cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &used; return option("pools", 1) ? 0 : 801; }
int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
  return pool == &used && attribute == 4 && *(uint64_t *)value == UINT64_MAX ? 0 : INVALID_VALUE;
}
static long devices(void) { return option("devices", 1); }
int cuDeviceGet(int *device, int i) { *device = i; return i >= 0 && i < devices() ? 0 : INVALID_DEVICE; }
int cuDeviceGetCount(int *count) { *count = devices(); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 16: *value = 132; return 0;
    case 75: *value = option(device ? "major1" : "major", 9); return 0;
    case 76: *value = option(device ? "minor1" : "minor", 0); return 0;
    case 115: *value = option("pools", 1); return 0;
    default: *value = 0; return 0;
  }
}
int cuDeviceGetName(char *name, int len, int device) { strncpy(name, "Fake GPU", len); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = option("memory", 1 << 30); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = (char *)&memories + device;
  note("context", "", device);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { current = context; return fault; }
int cuCtxGetCurrent(void **context) { *context = current; return fault; }
int cuCtxSynchronize(void) { enter(); return leave(finish_all()); }
int cuStreamCreate(struct stream **stream, unsigned flags) {
  static int number;
  if (flags || !current) return INVALID_VALUE;
  enter();
  struct stream *it = calloc(1, sizeof *it);
  it->number = ++number;
  if (default_last) name(&it->last, default_last);
  it->next = streams;
  *stream = streams = it;
  note("stream", "", it->number);
  return leave(fault);
}
int cuStreamSynchronize(struct stream *stream) {
  enter();
  if (!stream) queue(NULL, MARK);
  return leave(finish(stream ? stream->last : default_last));
}

int cuMemAlloc_v2(ptr *at, size_t len) {
  enter();
  if (!current || fault) return leave(fault ? fault : 201);
  if (len > (size_t)option("memory", 1 << 30) - used) return leave(OUT_OF_MEMORY);
  *at = allocate(len);
  note("alloc", "", len);
  return leave(0);
}
int cuMemAllocAsync(ptr *at, size_t len, struct stream *stream) {
  int code = cuMemAlloc_v2(at, len);
  if (code) return code;
  enter();
  /* Nothing is there before. */
  struct work *it = queue(stream, SET);
  it->to = *at, it->len = len, it->byte = FILL;
  return leave(0);
}
int cuMemFree_v2(ptr at) {
  enter();
  int code = finish_all();
  gives_back(at);
  if (!code) release(at);
  return leave(code);
}
int cuMemFreeAsync(ptr at, struct stream *stream) {
  enter();
  gives_back(at);
  queue(stream, RELEASE)->to = at;
  return leave(fault);
}
int cuMemsetD8Async(ptr at, unsigned char byte, size_t len, struct stream *stream) {
  enter();
  struct work *it = queue(stream, SET);
  it->to = at, it->len = len, it->byte = byte;
  return leave(fault);
}
static void copy(struct stream *stream, ptr to, ptr from, size_t len) {
  struct work *it = queue(stream, COPY);
  it->to = to, it->from = from, it->len = len;
}
int cuMemcpyHtoD_v2(ptr to, const void *from, size_t len) {
  enter();
  copy(NULL, to, (ptr)from, len);
  note("upload", "", len);
  return leave(finish(default_last));
}
int cuMemcpyDtoH_v2(void *to, ptr from, size_t len) {
  enter();
  copy(NULL, (ptr)to, from, len);
  note("download", "", len);
  return leave(finish(default_last));
}
/* The memory of the host is accessed when the copy is done. */
int cuMemcpyHtoDAsync_v2(ptr to, const void *from, size_t len, struct stream *stream) {
  enter();
  copy(stream, to, (ptr)from, len);
  note("upload", "", len);
  return leave(fault);
}
int cuMemcpyDtoHAsync_v2(void *to, ptr from, size_t len, struct stream *stream) {
  enter();
  copy(stream, (ptr)to, from, len);
  note("download", "", len);
  return leave(fault);
}
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t len, struct stream *stream) {
  enter();
  copy(stream, to, from, len);
  return leave(fault);
}

/* Memory of the host: the page-locked bytes are behind a page that has their number. */
enum { PAGE = 4096 };
static size_t pinned;
int cuMemHostAlloc(void **at, size_t len, unsigned flags) {
  enter();
  if (!current || fault) return leave(fault ? fault : 201);
  if (flags != 1 || len == 0) return leave(INVALID_VALUE);
  if (len > (size_t)option("pinned", 1 << 30) - pinned) return leave(OUT_OF_MEMORY);
  uint8_t *base = aligned_alloc(PAGE, (len + 2 * PAGE - 1) / PAGE * PAGE);
  memset(base, FILL, len + PAGE);
  *(size_t *)base = len;
  pinned += len;
  *at = base + PAGE;
  note("pin", "", len);
  return leave(0);
}
int cuMemFreeHost(void *at) {
  enter();
  uint8_t *base = (uint8_t *)at - PAGE;
  size_t len = *(size_t *)base;
  pinned -= len;
  note("unpin", "", len);
  memset(base, FREE, len + PAGE);
  free(base);
  return leave(fault);
}

/* Events: a task, and the number of what was launched before, as milliseconds. */
struct event { struct task *task; long time; };
int cuEventCreate(struct event **event, unsigned flags) { *event = calloc(1, sizeof **event); return 0; }
int cuEventRecord(struct event *event, struct stream *stream) {
  enter();
  event->time = launches;
  queue(stream, MARK);
  name(&event->task, last);
  return leave(fault);
}
int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
  enter();
  queue(stream, MARK);
  need(last, event->task);
  note("wait", "", stream ? stream->number : 0);
  return leave(flags ? INVALID_VALUE : fault);
}
int cuEventSynchronize(struct event *event) { enter(); return leave(finish(event->task)); }
int cuEventElapsedTime_v2(float *time, struct event *start, struct event *end) {
  *time = end->time - start->time;
  return fault;
}
int cuEventDestroy_v2(struct event *event) { enter(); let(event->task); free(event); return leave(0); }

int cuModuleLoadData(void **module, const void *image) {
  long refused = option("load", 0);
  if (refused) return refused;
  const Elf64_Ehdr *head = image;
  if (memcmp(image, ELFMAG, SELFMAG)) return INVALID_IMAGE;
  /* Section headers are at the end. */
  size_t len = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  /* A name of its own: libraries of the same name are the same to the loader. */
  char path[] = "/tmp/tvm-fake-module-XXXXXX";
  int file = mkstemp(path);
  if (write(file, image, len) != (ssize_t)len) return INVALID_IMAGE;
  *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*module) fprintf(stderr, "fake driver: %s\n", dlerror());
  close(file);
  unlink(path);
  note("load", "", len);
  return *module ? 0 : INVALID_IMAGE;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  char symbol[320];
  snprintf(symbol, sizeof symbol, "tvm_emulated_%s", name);
  run_t run = (run_t)dlsym(module, symbol);
  snprintf(symbol, sizeof symbol, "tvm_emulated_params_%s", name);
  const int *params = dlsym(module, symbol);
  if (!run || !params) return NOT_FOUND;
  struct function *it = calloc(1, sizeof *it);
  it->run = run, it->params = *params;
  strncpy(it->name, name, sizeof it->name - 1);
  *function = it;
  return 0;
}
int cuModuleUnload(void *module) { note("unload", "", 0); return dlclose(module); }

/* The bytes of shared memory of a block beside those that the code says. */
int cuFuncSetAttribute(struct function *function, int attribute, int value) {
  if (attribute != 8 || value > 227 << 10) return INVALID_VALUE;
  function->shared = value;
  note("shared", function->name, value);
  return 0;
}
int cuLaunchKernel(struct function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, struct stream *stream, void **params, void **extra) {
  long refused = option("launch", 0);
  enter();
  if (fault || refused) return leave(fault ? fault : refused);
  uint32_t extents[7] = {gx, gy, gz, bx, by, bz, shared};
  for (int i = 0; i < 6; ++i)
    if (extents[i] == 0) return leave(INVALID_VALUE);
  if (gx > INT32_MAX || gy > 65535 || gz > 65535 || (uint64_t)bx * by * bz > 1024) return leave(INVALID_VALUE);
  if (shared > (function->shared ? function->shared : 48 << 10)) return leave(INVALID_VALUE);
  note("launch", function->name, (long)gx * gy * gz);
  struct work *it = queue(stream, ++launches == option("fault", 0) ? CRASH : LAUNCH);
  it->function = function;
  memcpy(it->extents, extents, sizeof extents);
  for (int i = 0; i < function->params; ++i) memcpy(&it->values[i], params[i], 8);
  return leave(0);
}

int cuGraphCreate(struct graph **graph, unsigned flags) {
  *graph = calloc(1, sizeof **graph);
  return flags || !current ? INVALID_VALUE : fault;
}
/* A node after the last one of the graph. */
static struct node *add(struct graph *graph, int kind, struct node **before, size_t count) {
  if (count != (graph->last != NULL) || (count && before[0] != graph->last)) return NULL;
  struct node *it = calloc(1, sizeof *it);
  it->work.kind = kind;
  *(graph->last ? &graph->last->next : &graph->first) = it;
  return graph->last = it;
}
struct kernel_node { struct function *function; uint32_t extents[7]; void **params, **extra, *kernel, *context; };
int cuGraphAddKernelNode_v2(struct node **node, struct graph *graph, struct node **before, size_t count,
                            const struct kernel_node *it) {
  if (!it->function || it->extra || it->kernel) return INVALID_VALUE;
  for (int i = 0; i < 6; ++i)
    if (it->extents[i] == 0) return INVALID_VALUE;
  if (it->extents[6] > (it->function->shared ? it->function->shared : 48 << 10)) return INVALID_VALUE;
  *node = add(graph, LAUNCH, before, count);
  if (!*node) return INVALID_VALUE;
  struct work *work = &(*node)->work;
  work->function = it->function;
  memcpy(work->extents, it->extents, sizeof it->extents);
  for (int i = 0; i < it->function->params; ++i) memcpy(&work->values[i], it->params[i], 8);
  return fault;
}
/* A side of a copy: where it begins, its kind, and its address on the host or on the device. */
struct side { size_t x, y, z, level; unsigned kind; const void *host; ptr device; void *array, *reserved; size_t pitch, height; };
struct copy_node { struct side from, to; size_t width, height, depth; };
int cuGraphAddMemcpyNode(struct node **node, struct graph *graph, struct node **before, size_t count,
                         const struct copy_node *it, void *context) {
  enum { DEVICE = 2 };
  if (it->from.kind != DEVICE || it->to.kind != DEVICE || it->height != 1 || it->depth != 1) return INVALID_VALUE;
  if (!it->width || context != current) return INVALID_VALUE;
  *node = add(graph, COPY, before, count);
  if (!*node) return INVALID_VALUE;
  struct work *work = &(*node)->work;
  work->to = it->to.device, work->from = it->from.device, work->len = it->width;
  return fault;
}
static void free_nodes(struct node *it) {
  for (struct node *next; it; it = next) {
    next = it->next;
    memset(it, FREE, sizeof *it);
    free(it);
  }
}
int cuGraphInstantiateWithFlags(struct exec **exec, struct graph *graph, unsigned long long flags) {
  long refused = option("graph", 0), count = 0;
  if (refused || flags) return refused ? refused : INVALID_VALUE;
  *exec = calloc(1, sizeof **exec);
  struct node **end = &(*exec)->first;
  for (struct node *it = graph->first; it; it = it->next, ++count) {
    *end = malloc(sizeof *it);
    **end = *it;
    (*end)->next = NULL;
    end = &(*end)->next;
  }
  note("instantiate", "", count);
  return fault;
}
int cuGraphDestroy(struct graph *graph) {
  free_nodes(graph->first);
  free(graph);
  return fault;
}
int cuGraphLaunch(struct exec *exec, struct stream *stream) {
  enter();
  if (fault) return leave(fault);
  long count = 0;
  for (struct node *it = exec->first; it; it = it->next, ++count) {
    struct work *own = queue(stream, it->work.kind);
    *own = it->work;
    if (own->kind == LAUNCH && ++launches == option("fault", 0)) own->kind = CRASH;
  }
  queue(stream, DONE)->exec = exec;
  ++exec->pending;
  note("graph", "", count);
  return leave(0);
}
int cuGraphExecDestroy(struct exec *exec) {
  enter();
  if (exec->pending) {
    fprintf(stderr, "fake driver: a graph is destroyed while it runs\n");
    abort();
  }
  note("destroy", "", 0);
  free_nodes(exec->first);
  free(exec);
  return leave(fault);
}
#endif
