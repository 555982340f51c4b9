// With LFEMU_ACCESSES: what the compiler calls before each access of memory when it is told to look
// for races (-fsanitize=thread), and hands on to the engine; and how blocks behave that run without
// those they would wait for.
#pragma once

#ifdef LFEMU_ACCESSES

// Those of a thread's own stack are registers of a GPU's.
#define LFEMU_UNSEEN __attribute__((used, visibility("hidden"), noinline, no_sanitize("thread")))
static LFEMU_UNSEEN void lf_emu_access(const void* site, const void* address, unsigned long bytes,
                                       bool is_store) {
  lf_emu::Thread& t = lf_emu::self();
  const auto place = reinterpret_cast<unsigned long>(address);
  if ((place ^ reinterpret_cast<unsigned long>(&t)) < lf_emu::kStackBytes) return;
  t.engine->access(&t, site, address, static_cast<unsigned>(bytes), is_store);
}
#define LFEMU_ACCESS(bytes)                                            \
  LFEMU_UNSEEN void __tsan_read##bytes(void* address) {                \
    lf_emu_access(__builtin_return_address(0), address, bytes, false); \
  }                                                                    \
  LFEMU_UNSEEN void __tsan_write##bytes(void* address) {               \
    lf_emu_access(__builtin_return_address(0), address, bytes, true);  \
  }                                                                    \
  LFEMU_UNSEEN void __tsan_unaligned_read##bytes(void* address) {      \
    lf_emu_access(__builtin_return_address(0), address, bytes, false); \
  }                                                                    \
  LFEMU_UNSEEN void __tsan_unaligned_write##bytes(void* address) {     \
    lf_emu_access(__builtin_return_address(0), address, bytes, true);  \
  }
extern "C" {
LFEMU_ACCESS(1)
LFEMU_ACCESS(2)
LFEMU_ACCESS(4)
LFEMU_ACCESS(8)
LFEMU_ACCESS(16)
LFEMU_UNSEEN void __tsan_read_range(void* address, unsigned long bytes) {
  lf_emu_access(__builtin_return_address(0), address, bytes, false);
}
LFEMU_UNSEEN void __tsan_write_range(void* address, unsigned long bytes) {
  lf_emu_access(__builtin_return_address(0), address, bytes, true);
}
LFEMU_UNSEEN void __tsan_init() {}
}

// In place of functions of worker/codegen/cuda/support/blocks.cuh: nobody is waited for, blocks
// have the tickets of their places, and of `count` neighbours the last one arrives last.
LFEMU_DEVICE long lf_emu_ticket() {
  __syncthreads();
  return blockIdx.x;
}
LFEMU_DEVICE bool lf_emu_is_last(const void*, long, long count) {
  __syncthreads();
  const bool is_last = blockIdx.x % count == count - 1;
  lf_emu::Thread& t = lf_emu::self();
  if (is_last) t.engine->complete(&t, count);
  return is_last;
}

#endif
