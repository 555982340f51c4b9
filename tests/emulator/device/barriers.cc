#include "tests/emulator/device/barriers.h"

#include <algorithm>
#include <cstring>

namespace emulator {
namespace {

constexpr size_t kBoxAlignment = 128, kChunk = 16;
constexpr uint64_t kBarrierWord = 0x6261'7272'0000'0000;
constexpr unsigned kArrivalsMax = (1u << 20) - 1;
constexpr int64_t kBytesMax = (1 << 20) - 1;
constexpr int kUnderWay = 0xff;  // of each byte: a NaN of every kind of float

}  // namespace

size_t BoxCopy::bytes() const {
  size_t bytes = map.element_bytes;
  for (unsigned k = 0; k < map.rank; ++k) bytes *= map.box[k];
  return bytes;
}

void BoxCopy::visit(
    const std::function<void(std::byte*, const std::byte*, size_t, size_t)>& row) const {
  const size_t row_bytes = size_t{map.box[0]} * map.element_bytes;
  const size_t rows = bytes() / row_bytes;
  const int64_t inside = std::clamp<int64_t>(static_cast<int64_t>(map.sizes[0]) - at[0], 0,
                                             static_cast<int64_t>(map.box[0]));
  int64_t place[EncodedMap::kRankMax];
  std::copy(std::begin(at), std::end(at), place);
  for (size_t r = 0; r < rows; ++r, advance(place)) {
    int64_t offset = int64_t{at[0]} * map.element_bytes;
    bool is_inside = at[0] >= 0;
    for (unsigned k = 1; k < map.rank; ++k) {
      const bool is_window = map.has_windows() && k + 1 < map.rank;
      const int64_t position = place[k] + (is_window ? pixel[k - 1] : 0);
      is_inside = is_inside && position >= 0 && position < static_cast<int64_t>(map.sizes[k]);
      offset += position * static_cast<int64_t>(map.strides[k - 1]);
    }
    const size_t first = is_inside ? static_cast<size_t>(inside) * map.element_bytes : 0;
    // An address of the emulated device is one of this process.
    const auto* from = reinterpret_cast<const std::byte*>(map.address + offset);  // NOLINT
    row(to + r * row_bytes, first == 0 ? nullptr : from, first, row_bytes);
  }
}

void BoxCopy::advance(int64_t (&place)[EncodedMap::kRankMax]) const {
  for (unsigned k = 1; k < map.rank; ++k) {
    const bool is_window = map.has_windows() && k + 1 < map.rank;
    place[k] += is_window ? map.steps[k - 1] : 1;
    const int64_t end = !map.has_windows() ? at[k] + map.box[k]
                        : is_window        ? static_cast<int64_t>(map.sizes[k]) + map.upper[k - 1]
                                           : INT64_MAX;
    if (place[k] < end) return;
    place[k] = is_window ? map.lower[k - 1] : at[k];
  }
}

std::string check(const BoxCopy& copy) {
  const EncodedMap& map = copy.map;
  if (map.magic != EncodedMap::kMagic) return "a copy by what is no tensor map";
  if (reinterpret_cast<uintptr_t>(copy.to) % kBoxAlignment != 0) {
    return "a box that begins at no multiple of 128 bytes";
  }
  if (map.swizzle_bytes != 0 && map.box[0] * map.element_bytes != map.swizzle_bytes) {
    return "a box whose rows are not what is permuted, which is not emulated";
  }
  if (copy.at[0] < 0) return "a box that begins before its rows, which is not emulated";
  constexpr int kPixelMax[] = {1 << 16, 1 << 8, 1 << 5};
  for (unsigned k = 1; map.has_windows() && k + 1 < map.rank; ++k) {
    const int64_t end = static_cast<int64_t>(map.sizes[k]) + map.upper[k - 1];
    if (copy.at[k] < map.lower[k - 1] || copy.at[k] >= end) return "no window begins there";
    if (copy.pixel[k - 1] < 0 || copy.pixel[k - 1] >= kPixelMax[map.rank - 3]) {
      return "a pixel beyond what windows may have";
    }
  }
  return "";
}

void SharedBarriers::reset(std::byte* shared, size_t bytes, Written written) {
  shared_ = shared;
  bytes_ = bytes;
  written_ = std::move(written);
  barriers_.clear();
}

std::string SharedBarriers::init(void* barrier, unsigned arrivals) {
  const auto* at = static_cast<std::byte*>(barrier);
  if (at < shared_ || at + sizeof(uint64_t) > shared_ + bytes_ ||
      reinterpret_cast<uintptr_t>(barrier) % sizeof(uint64_t) != 0) {
    return "a barrier that is not in the dynamic shared memory";
  }
  if (arrivals == 0 || arrivals > kArrivalsMax) return "a barrier for no number of threads";
  Barrier& made = barriers_[barrier];
  made = {};
  made.word = kBarrierWord + ++made_;
  made.arrivals = made.pending = arrivals;
  std::memcpy(barrier, &made.word, sizeof made.word);
  return "";
}

void SharedBarriers::fence() {
  for (auto& [at, barrier] : barriers_) barrier.is_fenced = true;
}

std::string SharedBarriers::find(const void* barrier, Barrier** found) {
  auto known = barriers_.find(barrier);
  if (known == barriers_.end()) return "a barrier that was not initialised";
  *found = &known->second;
  uint64_t word = 0;
  std::memcpy(&word, barrier, sizeof word);
  if (word != (*found)->word) return "a barrier that was stored over";
  if (!(*found)->is_fenced) return "a barrier that was not fenced after its initialisation";
  return "";
}

// Where all threads have arrived and all bytes are asked for, they come.
std::string SharedBarriers::end_phase(Barrier& barrier) {
  if (barrier.pending > 0) return "";
  int64_t coming = 0;
  for (const BoxCopy& copy : barrier.copies) coming += static_cast<int64_t>(copy.bytes());
  if (coming > barrier.bytes) return "more bytes come than the phase of a barrier expects";
  if (coming < barrier.bytes) return "";
  for (const BoxCopy& copy : barrier.copies) {
    const uintptr_t chunks = copy.map.swizzle_bytes / kChunk;
    copy.visit([&](std::byte* to, const std::byte* from, size_t first, size_t bytes) {
      for (size_t begin = 0; begin < bytes; begin += kChunk) {
        auto address = reinterpret_cast<uintptr_t>(to + begin);
        if (chunks != 0) address ^= (address >> 7 & (chunks - 1)) * kChunk;
        auto* at = reinterpret_cast<std::byte*>(address);  // NOLINT: a permuted place
        const size_t there = std::min(kChunk, first - std::min(first, begin));
        if (there != 0) std::memcpy(at, from + begin, there);
        std::memset(at + there, 0, kChunk - there);
        written_(at, kChunk);
      }
    });
  }
  barrier.copies.clear();
  barrier.bytes = 0;
  barrier.pending = barrier.arrivals;
  ++barrier.phase;
  return "";
}

std::string SharedBarriers::arrive(const void* barrier, unsigned expected_bytes) {
  Barrier* found = nullptr;
  if (std::string wrong = find(barrier, &found); !wrong.empty()) return wrong;
  if (found->pending == 0) {
    if (std::string wrong = end_phase(*found); !wrong.empty()) return wrong;
    if (found->pending == 0) return "more threads arrive at a barrier than it counts";
  }
  --found->pending;
  found->bytes += expected_bytes;
  if (found->bytes > kBytesMax) return "a barrier that expects too many bytes";
  return found->copies.empty() && found->bytes == 0 ? end_phase(*found) : "";
}

std::string SharedBarriers::copy(const void* barrier, const BoxCopy& copy) {
  Barrier* found = nullptr;
  if (std::string wrong = find(barrier, &found); !wrong.empty()) return wrong;
  if (std::string wrong = check(copy); !wrong.empty()) return wrong;
  if (copy.to < shared_ || copy.to + copy.bytes() > shared_ + bytes_) {
    return "a box beyond the dynamic shared memory";
  }
  std::memset(copy.to, kUnderWay, copy.bytes());
  found->copies.push_back(copy);
  return "";
}

std::string SharedBarriers::test(const void* barrier, unsigned parity, bool* has_ended) {
  Barrier* found = nullptr;
  if (std::string wrong = find(barrier, &found); !wrong.empty()) return wrong;
  if (found->phase % 2 == parity) {
    if (std::string wrong = end_phase(*found); !wrong.empty()) return wrong;
  }
  *has_ended = found->phase % 2 != parity;
  return "";
}

bool SharedBarriers::may_end(const void* barrier, unsigned parity) const {
  auto known = barriers_.find(barrier);
  if (known == barriers_.end()) return true;  // which test() reports
  const Barrier& found = known->second;
  if (found.phase % 2 != parity) return true;
  int64_t coming = 0;
  for (const BoxCopy& copy : found.copies) coming += static_cast<int64_t>(copy.bytes());
  return found.pending == 0 && coming >= found.bytes;
}

uint64_t SharedBarriers::bytes_under_way() const {
  uint64_t bytes = 0;
  for (const auto& [at, barrier] : barriers_) {
    for (const BoxCopy& copy : barrier.copies) bytes += copy.bytes();
  }
  return bytes;
}

}  // namespace emulator
