// Fast 64-bit hashing for in-memory tables and checksums; never trusted for identity.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/bytes.h"

namespace common {

// XXH3 of the bytes; the same on every platform, so it may be stored against accidental damage.
uint64_t hash64(ByteView bytes);
inline uint64_t hash64(std::string_view text) { return hash64(as_bytes(text)); }

// The same of bytes that come in pieces.
class Hasher64 {
 public:
  Hasher64();
  ~Hasher64();
  Hasher64(const Hasher64&) = delete;
  Hasher64& operator=(const Hasher64&) = delete;
  void add(ByteView bytes);
  uint64_t finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// splitmix64 finaliser: a bijection whose output bits all depend on all input bits.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
// Order-dependent combination of two hashes.
constexpr uint64_t combine64(uint64_t a, uint64_t b) {
  return mix64(a ^ (b * 0xff51afd7ed558ccdULL));
}

}  // namespace common
