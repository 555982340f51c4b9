#include "tests/emulator/device/warpgroups.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace emulator {
namespace {

constexpr uint64_t kAddressMask = 0x3ffff;
constexpr uint32_t kUnderWay = 0xffedcba9;  // a NaN that no computation makes

float as_float(uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

uint32_t bits_of(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float value_of(uint16_t bits, bool is_bf16) {
  if (is_bf16) return as_float(static_cast<uint32_t>(bits) << 16);
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 31) return as_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -small : small;
}

// Table "Matrix Descriptor Format". Fields leave out the four lowest bits.
uint64_t field(uint64_t descriptor, unsigned first) { return (descriptor >> first & 0x3fff) << 4; }

std::string line_of(const lf_emu::Product& product) {
  return "line " + std::to_string(product.site) + ": ";
}

}  // namespace

void Warpgroups::reset(std::byte* shared, size_t bytes, unsigned threads) {
  shared_ = shared;
  bytes_ = bytes;
  is_used_ = false;
  threads_.assign(threads, {});
  groups_.assign((threads + kThreads - 1) / kThreads, {});
}

// Most kernels have no products and need no second picture of their memory.
void Warpgroups::wake() {
  if (is_used_) return;
  is_used_ = true;
  seen_.assign(bytes_, std::byte{0xff});
}

// "Canonical Layouts": where element (own, k) of a matrix lies, `own` along its rows or columns,
// T = 8 of which are 16 bytes.
std::string Warpgroups::place(uint64_t descriptor, bool across, unsigned own, unsigned k,
                              size_t* result) const {
  const uint64_t leading = field(descriptor, 16), stride = field(descriptor, 32);
  const auto mode = static_cast<unsigned>(descriptor >> 62);
  if ((descriptor >> 49 & 7) != 0) return "a base offset, which is not emulated";
  const unsigned bits = mode == 0 ? 0 : 4 - mode;  // of the address that are permuted
  const unsigned chunks = 1u << bits;              // of 16 bytes in a row of the pattern
  uint64_t offset = 0;
  if (across) {
    const unsigned chunk = own / 8;
    offset = mode == 0 ? chunk * stride + k / 8 * leading + k % 8 * 16
                       : chunk % chunks * 16 + chunk / chunks * leading + k % 8 * chunks * 16 +
                             k / 8 * stride;
    offset += own % 8 * 2;
  } else {
    offset =
        own / 8 * stride + own % 8 * chunks * 16 + k / 8 * (mode == 0 ? leading : 16) + k % 8 * 2;
  }
  uint64_t address = field(descriptor, 0) + offset;
  address ^= (address >> 7 & (chunks - 1)) << 4;
  const uint64_t begin = reinterpret_cast<uint64_t>(shared_) & kAddressMask;
  if (address < begin || address + 2 > begin + bytes_) {
    return "a matrix beyond the dynamic shared memory";
  }
  *result = address - begin;
  return "";
}

std::string Warpgroups::read(Begun& begun) const {
  const lf_emu::Product& p = begun.product;
  begun.first = bytes_;
  for (const bool is_left : {true, false}) {
    if (is_left && p.left_registers != nullptr) continue;
    std::vector<float>& values = is_left ? begun.left : begun.right;
    const unsigned count = is_left ? kRows : p.columns;
    for (unsigned own = 0; own < count; ++own) {
      for (unsigned k = 0; k < kDepth; ++k) {
        size_t at = 0;
        std::string wrong = place(is_left ? p.left : p.right,
                                  is_left ? p.left_across : p.right_across, own, k, &at);
        if (!wrong.empty()) return wrong;
        uint16_t bits = 0;
        std::memcpy(&bits, &seen_[at], sizeof bits);
        values.push_back(value_of(bits, p.is_bf16));
        begun.places.push_back(at);
        begun.first = std::min(begun.first, at);
        begun.last = std::max(begun.last, at + 2);
      }
    }
  }
  return "";
}

// "Register Fragments", A of m64nNk16: the thread's warp has 16 rows.
void Warpgroups::take_registers(unsigned thread, const lf_emu::Product& product, Begun& begun) {
  begun.left.resize(size_t{kRows} * kDepth);
  const size_t first = thread % kThreads / 32 * 16;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned half = 0; half < 8; ++half) {
      uint16_t bits = 0;
      std::memcpy(&bits, product.left_registers + lane * lf_emu::kExchangeBytes + half * 2,
                  sizeof bits);
      const size_t row = first + lane / 4 + half / 2 % 2 * 8;
      const size_t k = lane % 4 * 2 + half % 2 + half / 4 * 8;
      begun.left[row * kDepth + k] = value_of(bits, product.is_bf16);
    }
  }
}

// Whether what products see of the matrices is not what threads see.
bool Warpgroups::is_changed(const Begun& begun) const {
  return std::any_of(begun.places.begin(), begun.places.end(),
                     [&](size_t at) { return std::memcmp(&seen_[at], shared_ + at, 2) != 0; });
}

std::string Warpgroups::begin_product(unsigned thread, const lf_emu::Product& product,
                                      float* sums) {
  wake();
  if ((thread / kThreads + 1) * kThreads > threads_.size()) {
    return line_of(product) + "a warpgroup that is not whole";
  }
  if (product.columns % 8 != 0 || product.columns > 256) return "no such shape";
  ThreadState& state = threads_[thread];
  Warpgroup& group = groups_[thread / kThreads];
  const uint64_t number = state.begun++;
  if (number == group.dropped + group.begun.size()) {
    Begun begun;
    begun.product = product;
    std::string wrong = read(begun);
    if (wrong.empty() && is_changed(begun)) {
      wrong = "a product reads what was not fenced for it, or was overwritten";
    }
    if (!wrong.empty()) return line_of(product) + wrong;
    group.begun.push_back(std::move(begun));
  }
  Begun& begun = group.begun[number - group.dropped];
  if (product.left_registers != nullptr) take_registers(thread, product, begun);
  const lf_emu::Product& first = begun.product;
  if (first.left != product.left || first.right != product.right || first.site != product.site ||
      first.columns != product.columns || first.is_bf16 != product.is_bf16 ||
      first.left_across != product.left_across || first.right_across != product.right_across ||
      first.adds != product.adds ||
      (first.left_registers == nullptr) != (product.left_registers == nullptr)) {
    return line_of(product) + "threads of a warpgroup begin different products";
  }
  Sums& kept = state.sums[sums];
  if (kept.under_way == 0) {
    if (!state.is_fenced) return line_of(product) + "no fence between sums' access and a product";
    kept.values.assign(sums, sums + product.columns / 2);
    std::fill(sums, sums + product.columns / 2, as_float(kUnderWay));
  }
  if (kept.values.size() != product.columns / 2) {
    return line_of(product) + "products of different shapes on the same sums";
  }
  ++kept.under_way;
  state.open.push_back({number, sums});
  return "";
}

void Warpgroups::fence_products(unsigned thread) {
  wake();
  threads_[thread].is_fenced = true;
}

void Warpgroups::commit_products(unsigned thread) {
  ThreadState& state = threads_[thread];
  state.groups.push_back(std::move(state.open));
  state.open.clear();
}

// "Register Fragments", accumulator D of m64nNk16.
std::string Warpgroups::add(unsigned thread, const Pending& pending) {
  ThreadState& state = threads_[thread];
  Warpgroup& group = groups_[thread / kThreads];
  Begun& begun = group.begun[pending.number - group.dropped];
  Sums& kept = state.sums[pending.sums];
  const unsigned warp = thread % kThreads / 32, lane = thread % 32;
  for (unsigned i = 0; i < kept.values.size(); ++i) {
    const unsigned row = warp * 16 + lane / 4 + i / 2 % 2 * 8;
    const unsigned column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    const float* left = &begun.left[row * kDepth];
    const float* right = &begun.right[column * kDepth];
    float sum = begun.product.adds ? kept.values[i] : 0;
    for (unsigned k = 0; k < kDepth; ++k) sum += left[k] * right[k];
    kept.values[i] = sum;
  }
  if (++begun.ended == kThreads) {
    if (is_changed(begun)) {
      return line_of(begun.product) + "a matrix was written while a product read it";
    }
  }
  while (!group.begun.empty() && group.begun.front().ended == kThreads) {
    group.begun.pop_front();
    ++group.dropped;
  }
  if (--kept.under_way > 0) return "";
  for (size_t i = 0; i < kept.values.size(); ++i) {
    if (bits_of(pending.sums[i]) != kUnderWay) {
      return "sums were written while a product was under way";
    }
  }
  std::copy(kept.values.begin(), kept.values.end(), pending.sums);
  state.sums.erase(pending.sums);
  state.is_fenced = false;
  return "";
}

std::string Warpgroups::wait_products(unsigned thread, unsigned groups_left) {
  ThreadState& state = threads_[thread];
  while (state.groups.size() > groups_left) {
    std::vector<Pending> group = std::move(state.groups.front());
    state.groups.erase(state.groups.begin());
    for (const Pending& pending : group) {
      std::string wrong = add(thread, pending);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

void Warpgroups::note_write(unsigned thread, const std::byte* at, size_t bytes) {
  if (at < shared_ || at >= shared_ + bytes_) return;
  threads_[thread].unfenced.emplace_back(static_cast<size_t>(at - shared_), bytes);
}

void Warpgroups::note_copied(const std::byte* at, size_t bytes) {
  wake();
  std::memcpy(&seen_[static_cast<size_t>(at - shared_)], at, bytes);
}

std::string Warpgroups::check_write(const std::byte* at, size_t bytes) const {
  if (!is_used_ || at < shared_ || at >= shared_ + bytes_) return "";
  const auto from = static_cast<size_t>(at - shared_);
  for (const Warpgroup& group : groups_) {
    for (const Begun& begun : group.begun) {
      if (from < begun.last && from + bytes > begun.first && begun.ended < kThreads) {
        return "a write to a matrix that the product of line " +
               std::to_string(begun.product.site) + " reads";
      }
    }
  }
  return "";
}

void Warpgroups::fence_async(unsigned thread) {
  wake();
  for (const auto& [at, size] : threads_[thread].unfenced) {
    std::memcpy(&seen_[at], shared_ + at, size);
  }
  threads_[thread].unfenced.clear();
}

std::string Warpgroups::end_thread(unsigned thread) {
  if (!is_used_) return "";
  const ThreadState& state = threads_[thread];
  if (!state.sums.empty()) return "a thread ends before its products";
  const Warpgroup& group = groups_[thread / kThreads];
  if (state.begun != group.dropped + group.begun.size()) {
    return "threads of a warpgroup begin different numbers of products";
  }
  return "";
}

}  // namespace emulator
