// Warpgroup products and what orders them, as worker/codegen/cuda/support/wgmma.cuh names them.
// What they do is the engine's part (warpgroups.h).
#pragma once

// Shared memory's addresses are the low bits of the host's: the engine sees to their alignment.
LFEMU_DEVICE unsigned lf_shared_address(const void* p) {
  return static_cast<unsigned>(reinterpret_cast<unsigned long>(p) & 0x3ffff);
}

template <int kLeftAcross, int kRightAcross, unsigned long kSums>
LFEMU_DEVICE void lf_wgmma_bf16(float (&d)[kSums], unsigned long left, unsigned long right,
                                LFEMU_SITE) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->begin_product(
      &t, {left, right, kSums * 2, true, kLeftAcross != 0, kRightAcross != 0, lf_site}, d);
}
template <int kLeftAcross, int kRightAcross, unsigned long kSums>
LFEMU_DEVICE void lf_wgmma_f16(float (&d)[kSums], unsigned long left, unsigned long right,
                               LFEMU_SITE) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->begin_product(
      &t, {left, right, kSums * 2, false, kLeftAcross != 0, kRightAcross != 0, lf_site}, d);
}
LFEMU_DEVICE void lf_wgmma_fence() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->fence_products(&t);
}
LFEMU_DEVICE void lf_wgmma_commit() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->commit_products(&t);
}
template <int kGroupsLeft>
LFEMU_DEVICE void lf_wgmma_wait() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->wait_products(&t, kGroupsLeft);
}
template <unsigned long kSums>
LFEMU_DEVICE void lf_wgmma_done(float (&)[kSums]) {}
LFEMU_DEVICE void lf_fence_async() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->fence_async(&t);
}
LFEMU_DEVICE void lf_store_shared16(void* shared, uint4 x, LFEMU_SITE) {
  lf_emu::require_shared(shared, 16, "a store to shared memory", lf_site);
  lf_emu::Thread& t = lf_emu::self();
  t.engine->store_shared(&t, shared, &x, sizeof x);
}
