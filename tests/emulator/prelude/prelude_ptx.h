// What worker/codegen/cuda/support/mma.cuh does in inline PTX, lane by lane: tensor core products
// with the hardware's layout of fragments, matrix loads, and copies that arrive late.
#pragma once

namespace lf_emu {

struct Fragments {
  unsigned a[4], b[2];
};

LFEMU_DEVICE float f16_value(unsigned bits) {
  const unsigned sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31,
                 mantissa = bits & 0x3ff;
  if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float small = static_cast<float>(mantissa) * 0x1p-24f;
  return bit_cast<float>(sign | bit_cast<unsigned>(small));
}

// How a lane's registers hold elements: two halves, or one value of 32 bits whose low 13 bits the
// hardware does not read.
struct Bf16 {
  static constexpr unsigned kPerRegister = 2;
  LFEMU_DEVICE float value(unsigned word, unsigned half) {
    return bit_cast<float>(half != 0 ? word & 0xffff0000u : word << 16);
  }
};
struct F16 {
  static constexpr unsigned kPerRegister = 2;
  LFEMU_DEVICE float value(unsigned word, unsigned half) {
    return f16_value((half != 0 ? word >> 16 : word) & 0xffffu);
  }
};
struct Tf32 {
  static constexpr unsigned kPerRegister = 1;
  LFEMU_DEVICE float value(unsigned word, unsigned) { return bit_cast<float>(word & 0xffffe000u); }
};

// m16n8k(8 * kPerRegister), A by rows and B by columns. Lane 4g + t holds of A the rows g and g + 8
// (registers 0, 2 and 1, 3), of B column g, of D columns 2t and 2t + 1 of A's rows; a register
// holds the k that begins at t * kPerRegister, or half the depth later in registers 2, 3 (of B: 1).
// PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
template <class Element>
LFEMU_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], int site) {
#ifdef LFEMU_ACCESSES
  // Values decide nothing about where a kernel reads. But what is multiplied has to be there, or
  // the compiler leaves out the loads of it.
  __asm__ volatile("" ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (float& sum : d) __asm__ volatile("" : "+x"(sum));
  return;
#endif
  Fragments mine;
  __builtin_memcpy(mine.a, a, sizeof mine.a);
  __builtin_memcpy(mine.b, b, sizeof mine.b);
  const unsigned char* slots = exchange(mine, ~0u, site);
  const unsigned lane = lane_id(), group = lane / 4, column = lane % 4 * 2;
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned t = 0; t < 4; ++t) {
      const Fragments row = exchanged<Fragments>(slots, group * 4 + t);
      const Fragments left = exchanged<Fragments>(slots, column * 4 + t);
      const Fragments right = exchanged<Fragments>(slots, (column + 1) * 4 + t);
      for (unsigned e = 0; e < Element::kPerRegister; ++e) {
        const float upper = Element::value(row.a[2 * half], e);
        const float lower = Element::value(row.a[2 * half + 1], e);
        const float b0 = Element::value(left.b[half], e), b1 = Element::value(right.b[half], e);
        d[0] += upper * b0;
        d[1] += upper * b1;
        d[2] += lower * b0;
        d[3] += lower * b1;
      }
    }
  }
}

LFEMU_DEVICE void require_shared(const void* address, unsigned bytes, const char* what, int site) {
  Thread& t = self();
  if (reinterpret_cast<unsigned long>(address) % bytes != 0) {
    t.engine->fail(&t, 716, "misaligned address", what, site);
  }
  if (!t.engine->is_shared(&t, address, bytes)) {
    t.engine->fail(&t, 700, "not an address of shared memory", what, site);
  }
}

// Lane 8j + i hands over row i of matrix j, for the first 8 * kCount lanes. Every row is read
// before any lane goes on, as the hardware does.
template <unsigned kCount, bool kTransposed>
LFEMU_DEVICE void ldmatrix(unsigned (&r)[kCount], const void* shared_row, int site) {
  struct Row {
    unsigned short values[8];
  };
  const unsigned lane = lane_id();
  Row mine = {};
  if (lane < 8 * kCount) {
    require_shared(shared_row, 16, "ldmatrix", site);
    __builtin_memcpy(&mine, shared_row, sizeof mine);
  }
  const unsigned char* slots = exchange(mine, ~0u, site);
  const unsigned group = lane / 4, pair = lane % 4 * 2;
  for (unsigned j = 0; j < kCount; ++j) {
    if (kTransposed) {
      const unsigned low = exchanged<Row>(slots, 8 * j + pair).values[group];
      const unsigned high = exchanged<Row>(slots, 8 * j + pair + 1).values[group];
      r[j] = low | (high << 16);
    } else {
      const Row row = exchanged<Row>(slots, 8 * j + group);
      r[j] = row.values[pair] | (static_cast<unsigned>(row.values[pair + 1]) << 16);
    }
  }
}

}  // namespace lf_emu

LFEMU_DEVICE void lf_mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              LFEMU_SITE) {
  lf_emu::mma<lf_emu::Bf16>(d, a, b, lf_site);
}
LFEMU_DEVICE void lf_mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             LFEMU_SITE) {
  lf_emu::mma<lf_emu::F16>(d, a, b, lf_site);
}
LFEMU_DEVICE void lf_mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              LFEMU_SITE) {
  lf_emu::mma<lf_emu::Tf32>(d, a, b, lf_site);
}
typedef const unsigned char* lf_shared_place;
LFEMU_DEVICE lf_shared_place lf_shared_at(const void* p) {
  return static_cast<const unsigned char*>(p);
}
LFEMU_DEVICE void lf_compute_again(int&) {}
LFEMU_DEVICE void lf_ldmatrix_x4(unsigned (&r)[4], const void* shared_row, LFEMU_SITE) {
  lf_emu::ldmatrix<4, false>(r, shared_row, lf_site);
}
LFEMU_DEVICE void lf_ldmatrix_x4_trans(unsigned (&r)[4], const void* shared_row, LFEMU_SITE) {
  lf_emu::ldmatrix<4, true>(r, shared_row, lf_site);
}
LFEMU_DEVICE void lf_ldmatrix_x2(unsigned (&r)[2], const void* shared_row, LFEMU_SITE) {
  lf_emu::ldmatrix<2, false>(r, shared_row, lf_site);
}
LFEMU_DEVICE void lf_ldmatrix_x2_trans(unsigned (&r)[2], const void* shared_row, LFEMU_SITE) {
  lf_emu::ldmatrix<2, true>(r, shared_row, lf_site);
}

// The source is read and the target written at the wait, the latest that both may happen.
LFEMU_DEVICE void lf_cp_async16_zfill(void* shared, const void* global, int src_bytes, LFEMU_SITE) {
  lf_emu::Thread& t = lf_emu::self();
  lf_emu::require_shared(shared, 16, "cp.async", lf_site);
  if (reinterpret_cast<unsigned long>(global) % 16 != 0) {
    t.engine->fail(&t, 716, "misaligned address", "cp.async", lf_site);
  }
  if (src_bytes < 0 || src_bytes > 16) {
    t.engine->fail(&t, 719, "a source size beyond 16", "cp.async", lf_site);
  }
  t.engine->copy_async(&t, shared, global, src_bytes, 16 - src_bytes);
}
LFEMU_DEVICE void lf_cp_async16(void* shared, const void* global, LFEMU_SITE) {
  lf_cp_async16_zfill(shared, global, 16, lf_site);
}
LFEMU_DEVICE void lf_cp_async_commit() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->commit_copies(&t);
}
template <int kGroupsLeft>
LFEMU_DEVICE void lf_cp_async_wait() {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->wait_copies(&t, kGroupsLeft);
}

// A hint, which no program can see; nobody may ask for what lies beyond the memory.
template <int kBytes, int kThreads>
LFEMU_DEVICE void lf_prefetch(const void*, long first, long end) {
  lf_emu::Thread& t = lf_emu::self();
  if (first < 0 || first >= end || t.has_waited) {
    t.engine->fail(&t, 719, "a prefetch beyond its memory, or after the wait", __FILE__, __LINE__);
  }
}
LFEMU_DEVICE void lf_prefetch_line(const void*) {
  lf_emu::Thread& t = lf_emu::self();
  if (t.has_waited) t.engine->fail(&t, 719, "a prefetch after the wait", __FILE__, __LINE__);
}
LFEMU_DEVICE void lf_wait_for_earlier() { lf_emu::self().has_waited = true; }

LFEMU_DEVICE uint4 lf_load_stream16(const void* global) {
  return *static_cast<const uint4*>(global);
}
LFEMU_DEVICE uint4 lf_load_once16(const void* global) { return *static_cast<const uint4*>(global); }
