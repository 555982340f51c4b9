// The copy engine of compute capability 9.0: boxes of tensors that one thread asks for, the
// barriers in shared memory that count their bytes, and clusters of blocks that share what is
// copied. Other architectures get the type alone; an emulated device defines the functions itself.
//
// Source: PTX ISA, "cp.async.bulk.tensor", "mbarrier", "barrier.cluster", "mapa".
#pragma once

#include "worker/codegen/cuda/support/mma.cuh"

#ifndef LF_EMULATED
struct __align__(64) lf_tensor_map {
  uint64_t words[16];
};
#endif

#if !defined(LF_EMULATED) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// All threads of the cluster that have not ended meet; each sees what the others wrote.
LF_PTX void lf_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// A phase of a barrier ends when `arrivals` threads have arrived and all bytes have come that it
// was told to expect. Phases have parities 0, 1, 0, ...
LF_PTX void lf_barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(lf_shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
// After init, by the same thread: the copy engine and other blocks see the barriers after the next
// meeting of threads.
LF_PTX void lf_barrier_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and expects so many bytes more in this phase.
LF_PTX void lf_barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(lf_shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
LF_PTX void lf_barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(lf_shared_address(barrier))
               : "memory");
}
// At the barrier in the same place of another block of the cluster.
LF_PTX void lf_barrier_arrive_in(uint64_t* barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(lf_shared_address(barrier)),
      "r"(rank)
      : "memory");
}
// Until the phase of this parity has ended. Of what other blocks wrote it shows the copy engine's
// boxes alone, as lf_barrier_arrive_in() tells of no writes: neither waits for the second cache.
LF_PTX void lf_barrier_wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(lf_shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Begins to copy the box of `map` that begins at the coordinates, the fastest first, to `to`, a
// multiple of 128 bytes, or of eight rows where chunks are permuted; its bytes are told to
// `barrier`. For one thread. With blocks, a bit each, the same goes to the same places of these
// blocks of the cluster, to each one's own barrier.
#define LF_AT2 int x, int y
#define LF_AT3 LF_AT2, int z
#define LF_AT4 LF_AT3, int u
#define LF_AT5 LF_AT4, int v
#define LF_COPY_BOX(rank, coordinates, mask, ...)                                                  \
  LF_PTX void lf_copy_box(void* to, const lf_tensor_map* map, uint64_t* barrier, LF_AT##rank) {    \
    asm volatile("cp.async.bulk.tensor." #rank                                                     \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" coordinates  \
                 "}], [%2];" ::"r"(lf_shared_address(to)),                                         \
                 "l"(map), "r"(lf_shared_address(barrier)), __VA_ARGS__                            \
                 : "memory");                                                                      \
  }                                                                                                \
  LF_PTX void lf_copy_box_to(int blocks, void* to, const lf_tensor_map* map, uint64_t* barrier,    \
                             LF_AT##rank) {                                                        \
    asm volatile("cp.async.bulk.tensor." #rank                                                     \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], " \
                 "[%1, {" coordinates "}], [%2], " mask ";" ::"r"(lf_shared_address(to)),          \
                 "l"(map), "r"(lf_shared_address(barrier)), __VA_ARGS__, "h"((uint16_t)blocks)     \
                 : "memory");                                                                      \
  }
LF_COPY_BOX(2, "%3, %4", "%5", "r"(x), "r"(y))
LF_COPY_BOX(3, "%3, %4, %5", "%6", "r"(x), "r"(y), "r"(z))
LF_COPY_BOX(4, "%3, %4, %5, %6", "%7", "r"(x), "r"(y), "r"(z), "r"(u))
LF_COPY_BOX(5, "%3, %4, %5, %6, %7", "%8", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v))

// Begins to copy a pixel of each of the windows of `map` from the one on that begins at the
// coordinates: the first channel, the place of the window from its fastest dimension on, the image.
// The last numbers say which pixel of each window, the fastest dimension first.
#define LF_COPY_PIXELS(rank, coordinates, pixel, at, ...)                                        \
  LF_PTX void lf_copy_pixels(void* to, const lf_tensor_map* map, uint64_t* barrier, LF_AT##rank, \
                             at) {                                                               \
    asm volatile(                                                                                \
        "cp.async.bulk.tensor." #rank                                                            \
        "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {" coordinates  \
        "}], [%2], {" pixel "};" ::"r"(lf_shared_address(to)),                                   \
        "l"(map), "r"(lf_shared_address(barrier)), __VA_ARGS__                                   \
        : "memory");                                                                             \
  }
#define LF_PIXEL1 int a
#define LF_PIXEL2 LF_PIXEL1, int b
#define LF_PIXEL3 LF_PIXEL2, int c
LF_COPY_PIXELS(3, "%3, %4, %5", "%6", LF_PIXEL1, "r"(x), "r"(y), "r"(z), "h"((uint16_t)a))
LF_COPY_PIXELS(4, "%3, %4, %5, %6", "%7, %8", LF_PIXEL2, "r"(x), "r"(y), "r"(z), "r"(u),
               "h"((uint16_t)a), "h"((uint16_t)b))
LF_COPY_PIXELS(5, "%3, %4, %5, %6, %7", "%8, %9, %10", LF_PIXEL3, "r"(x), "r"(y), "r"(z), "r"(u),
               "r"(v), "h"((uint16_t)a), "h"((uint16_t)b), "h"((uint16_t)c))
#endif
