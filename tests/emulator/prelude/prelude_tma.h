// The copy engine, barriers in shared memory and clusters, as worker/codegen/cuda/support/tma.cuh
// names them. What they do is the engine's part (barriers.h).
#pragma once

struct __attribute__((aligned(64))) lf_tensor_map {
  unsigned long words[16];
};

LFEMU_DEVICE void lf_cluster_sync(LFEMU_SITE) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->cluster_barrier(&t, lf_site);
}
LFEMU_DEVICE void lf_barrier_init(unsigned long* barrier, int arrivals) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->init_barrier(&t, barrier, arrivals);
}
LFEMU_DEVICE void lf_barrier_fence() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->fence_barriers(&t);
}
LFEMU_DEVICE void lf_barrier_expect(unsigned long* barrier, int bytes) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->arrive(&t, barrier, bytes, -1);
}
LFEMU_DEVICE void lf_barrier_arrive(unsigned long* barrier) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->arrive(&t, barrier, 0, -1);
}
LFEMU_DEVICE void lf_barrier_arrive_in(unsigned long* barrier, int rank) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->arrive(&t, barrier, 0, rank);
}
LFEMU_DEVICE void lf_barrier_wait(unsigned long* barrier, int parity, LFEMU_SITE) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->wait_barrier(&t, barrier, parity, lf_site);
}

// Calls have no default argument behind coordinates, so the line is the wrapper's.
#define lf_copy_box(to, map, barrier, ...) \
  lf_emu::copy_box(0, to, map, barrier, __LINE__, __VA_ARGS__)
#define lf_copy_box_to(blocks, to, map, barrier, ...) \
  lf_emu::copy_box(blocks, to, map, barrier, __LINE__, __VA_ARGS__)
#define lf_copy_pixels(to, map, barrier, ...) \
  lf_emu::copy_pixels(to, map, barrier, __LINE__, __VA_ARGS__)

namespace lf_emu {

template <class... C>
LFEMU_DEVICE void copy_box(unsigned blocks, void* to, const lf_tensor_map* map,
                           unsigned long* barrier, int site, C... at) {
  Thread& t = self();
  BoxRequest box = {map, {static_cast<int>(at)...}, sizeof...(at), blocks, site, {}, false};
  t.engine->copy_box(&t, to, barrier, box);
}

// The coordinates of the first window, then the place in each of them.
template <class... C>
LFEMU_DEVICE void copy_pixels(void* to, const lf_tensor_map* map, unsigned long* barrier, int site,
                              C... given) {
  constexpr unsigned kRank = (sizeof...(given) + 2) / 2;
  const int all[] = {static_cast<int>(given)...};
  Thread& t = self();
  BoxRequest box = {map, {}, kRank, 0, site, {}, true};
  for (unsigned k = 0; k < sizeof...(given); ++k) {
    (k < kRank ? box.at[k] : box.pixel[k - kRank]) = all[k];
  }
  t.engine->copy_box(&t, to, barrier, box);
}

}  // namespace lf_emu
