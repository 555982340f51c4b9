// Warpgroup products and what orders them, as worker/codegen/cuda/support/wgmma.cuh names them.
// What they do is the engine's part (warpgroups.h).
#pragma once

// Shared memory's addresses are the low bits of the host's: the engine sees to their alignment.
LFEMU_DEVICE unsigned lf_shared_address(const void* p) {
  return static_cast<unsigned>(reinterpret_cast<unsigned long>(p) & 0x3ffff);
}

namespace lf_emu {

template <unsigned long kSums>
LFEMU_DEVICE void multiply(float (&d)[kSums], const Product& product) {
  Thread& t = self();
  t.engine->begin_product(&t, product, d);
}
// All lanes of a warp hand over their part of the left matrix.
template <unsigned long kSums>
LFEMU_DEVICE void multiply(float (&d)[kSums], const unsigned (&left)[4], Product product) {
  struct Part {
    unsigned words[4];
  } part = {{left[0], left[1], left[2], left[3]}};
  product.left_registers = exchange(part, 0xffffffffu, product.site);
  multiply(d, product);
}

}  // namespace lf_emu

#define LFEMU_WGMMA(type, is_bf16)                                                             \
  template <int kLeftAcross, int kRightAcross, int kAdds = 1, unsigned long kSums>             \
  LFEMU_DEVICE void lf_wgmma_##type(float(&d)[kSums], unsigned long left, unsigned long right, \
                                    LFEMU_SITE) {                                              \
    lf_emu::multiply(d, {left, right, kSums * 2, is_bf16, kLeftAcross != 0, kRightAcross != 0, \
                         kAdds != 0, nullptr, lf_site});                                       \
  }                                                                                            \
  template <int kRightAcross, unsigned long kSums>                                             \
  LFEMU_DEVICE void lf_wgmma_##type##_registers(float(&d)[kSums], const unsigned(&left)[4],    \
                                                unsigned long right, LFEMU_SITE) {             \
    lf_emu::multiply(                                                                          \
        d, left,                                                                               \
        {0, right, kSums * 2, is_bf16, false, kRightAcross != 0, true, nullptr, lf_site});     \
  }
LFEMU_WGMMA(bf16, true)
LFEMU_WGMMA(f16, false)
template <int kRegisters>
LFEMU_DEVICE void lf_fewer_registers() {}
template <int kRegisters>
LFEMU_DEVICE void lf_more_registers() {}
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
LFEMU_DEVICE void lf_store_shared2(void* shared, unsigned short x, LFEMU_SITE) {
  lf_emu::require_shared(shared, 2, "a store to shared memory", lf_site);
  lf_emu::Thread& t = lf_emu::self();
  t.engine->store_shared(&t, shared, &x, sizeof x);
}
