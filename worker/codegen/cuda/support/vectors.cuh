// Up to 16 bytes of neighbours in one access.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

template <class T, int kCount>
struct __align__(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) LfVec {
  T e[kCount];
  LF_METHOD T operator[](int64_t k) const { return e[k]; }
};
template <class T, int kCount>
LF_INLINE LfVec<T, kCount> lf_load(const T* from) {
  return *(const LfVec<T, kCount>*)from;
}
template <class T, int kCount>
LF_INLINE void lf_store(T* to, const LfVec<T, kCount>& x) {
#ifndef LF_EMULATED
  // The compiler may store short elements in pairs.
  if constexpr (sizeof(T) < 4 && sizeof(x) == 16) {
    const uint4 q = *(const uint4*)x.e;
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w));
    return;
  }
#endif
  *(LfVec<T, kCount>*)to = x;
}
// A vector that is stored later, if it is there.
template <class T, int kCount>
struct LfLater {
  T* to = nullptr;
  LfVec<T, kCount> x;
  LF_METHOD void leave(T* place, const LfVec<T, kCount>& value) {
    to = place;
    x = value;
  }
  LF_METHOD void store() const {
    if (to != nullptr) lf_store<T, kCount>(to, x);
  }
};
