// The processor's roofline, measured. No compiler runs: the loops are here, one for each width of
// vectors that the processor may have.
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "clients/score/roofline.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/runtime/device/cpu_device.h"

namespace clients {
namespace {

constexpr int kChains = 12;      // of dependent operations: more than units times their latency
constexpr int kPairChains = 24;  // likewise: 12 reach 0.93 of what these do
constexpr int64_t kSteps = 1 << 14;
constexpr int64_t kRoundNs = 15'000'000;
constexpr int kRounds = 7;

struct Work {
  double amount = 0;  // operations or bytes of one call
  double (*run)(const std::byte* data, size_t bytes) = nullptr;
};

// The loops for vectors of `width` bits, in functions that alone may use the instructions `target`.
// A macro, since no instance of a template can have a target of its own.
// NOLINTBEGIN(bugprone-macro-parentheses): an attribute stands in none
#define LFARM_LOOPS(width, target)                                                   \
  target double multiply_##width(const std::byte*, size_t) {                         \
    using Vector = float __attribute__((vector_size((width) / 8)));                  \
    const Vector none = {}, factor = none + 0.999F, term = none + 0.001F;            \
    Vector sums[kChains];                                                            \
    for (int k = 0; k < kChains; ++k) sums[k] = none + static_cast<float>(k);        \
    for (int64_t step = 0; step < kSteps; ++step) {                                  \
      _Pragma("GCC unroll 12") for (int k = 0; k < kChains; ++k) {                   \
        sums[k] = sums[k] * factor + term; /* one instruction: see CMakeLists.txt */ \
      }                                                                              \
    }                                                                                \
    float total = 0;                                                                 \
    for (const Vector& sum : sums) {                                                 \
      for (int lane = 0; lane < (width) / 32; ++lane) total += sum[lane];            \
    }                                                                                \
    return static_cast<double>(total);                                               \
  }                                                                                  \
  target double read_##width(const std::byte* data, size_t bytes) {                  \
    using Vector = uint64_t __attribute__((vector_size((width) / 8)));               \
    constexpr size_t kVector = sizeof(Vector), kSums = 8;                            \
    Vector sums[kSums] = {};                                                         \
    for (size_t at = 0; at + kSums * kVector <= bytes; at += kSums * kVector) {      \
      _Pragma("GCC unroll 8") for (size_t k = 0; k < kSums; ++k) {                   \
        sums[k] += *reinterpret_cast<const Vector*>(data + at + kVector * k);        \
      }                                                                              \
    }                                                                                \
    uint64_t total = 0;                                                              \
    for (const Vector& sum : sums) {                                                 \
      for (int lane = 0; lane < (width) / 64; ++lane) total += sum[lane];            \
    }                                                                                \
    return static_cast<double>(total);                                               \
  }
// NOLINTEND(bugprone-macro-parentheses)

#if defined(__x86_64__)
LFARM_LOOPS(512, __attribute__((target("avx512f"))))
LFARM_LOOPS(256, __attribute__((target("avx2,fma"))))
#endif
LFARM_LOOPS(128, )  // the least width that there is

struct Loops {
  int floats = 0;  // in a vector
  double (*multiply)(const std::byte* data, size_t bytes) = nullptr;
  double (*read)(const std::byte* data, size_t bytes) = nullptr;
};

Loops widest_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {16, multiply_512, read_512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {8, multiply_256, read_256};
  }
#endif
  return {4, multiply_128, read_128};
}

Work multiplications() {
  Loops loops = widest_loops();
  return {2.0 * kChains * loops.floats * static_cast<double>(kSteps), loops.multiply};
}

#if defined(__x86_64__)
// Sums of pairs of bfloat16. The instruction by name: a builtin's types differ between compilers.
__attribute__((target("avx512f"))) double multiply_pairs(const std::byte*, size_t) {
  using Vector = float __attribute__((vector_size(64)));
  Vector sums[kPairChains] = {};
  const Vector pairs = Vector{} + 0.5F;  // the upper halves are numbers, the lower ones are zeros
  for (int64_t step = 0; step < kSteps; ++step) {
    _Pragma("GCC unroll 24") for (int k = 0; k < kPairChains; ++k) {
      Vector sum = sums[k];  // an element of an array would be in memory
      asm("vdpbf16ps %1, %1, %0" : "+v"(sum) : "v"(pairs));
      sums[k] = sum;
    }
  }
  double total = 0;
  for (const Vector& sum : sums) total += static_cast<double>(sum[0]);
  return total;
}

constexpr int kTileChains = 4;

// The same by registers of 16 rows of 16 pairs: all zeros, which take as long as anything else.
__attribute__((target("amx-tile,amx-bf16"))) double multiply_tiles(const std::byte*, size_t) {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  } shape;
  asm volatile("ldtilecfg %0" ::"m"(shape));
  asm volatile("tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2" ::);
  asm volatile("tilezero %%tmm3; tilezero %%tmm4; tilezero %%tmm5" ::);
  for (int64_t step = 0; step < kSteps; ++step) {
    asm volatile("tdpbf16ps %%tmm5, %%tmm4, %%tmm0; tdpbf16ps %%tmm5, %%tmm4, %%tmm1" ::);
    asm volatile("tdpbf16ps %%tmm5, %%tmm4, %%tmm2; tdpbf16ps %%tmm5, %%tmm4, %%tmm3" ::);
  }
  asm volatile("tilerelease" ::: "memory");
  return 0;
}
#endif

// Of 16-bit numbers, where the processor multiplies them as they are.
std::optional<Work> short_multiplications() {
#if defined(__x86_64__)
  if (common::host_cpu_target().name == "cpu-x86_64-amxbf16") {
    return Work{2.0 * kTileChains * 16 * 16 * 32 * static_cast<double>(kSteps), multiply_tiles};
  }
  if (__builtin_cpu_supports("avx512bf16")) {
    return Work{2.0 * kPairChains * 32 * static_cast<double>(kSteps), multiply_pairs};
  }
#endif
  return std::nullopt;
}

constexpr size_t kReadBytes = size_t{4} << 20;  // of one call at least, so that clocks cost nothing

Work reads(size_t bytes) { return {static_cast<double>(bytes), widest_loops().read}; }

// ---- Rounds ------------------------------------------------------------------------------------

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

struct Freed {
  void operator()(std::byte* data) const { std::free(data); }
};
using Memory = std::unique_ptr<std::byte, Freed>;

// Ones, since pages that nobody wrote to are all the same one; in huge pages where there are any.
Memory touched(size_t bytes) {
  size_t alignment = bytes < kHugePage ? kLine : kHugePage;
  size_t whole = (bytes + alignment - 1) / alignment * alignment;
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(alignment, whole)));
#if defined(__linux__)
  if (memory && alignment == kHugePage) ::madvise(memory.get(), whole, MADV_HUGEPAGE);
#endif
  if (memory) std::fill_n(memory.get(), bytes, std::byte{1});
  return memory;
}

// Of the calling thread: what other programs take meanwhile is not the device's doing.
int64_t thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Threads that do the same work at once, each with memory of its own.
class Gang {
 public:
  Gang(const Work& work, int threads, size_t bytes)
      : work_(work), threads_(static_cast<size_t>(threads)), bytes_(bytes) {
    for (size_t k = 0; k < threads_ && bytes > 0; ++k) memories_.push_back(touched(bytes));
  }

  // Amount per second of all threads together; 0 when there is no such memory. Threads work until
  // all have measured, because two that share a core are faster one by one than they will be
  // together.
  double round() {
    for (const Memory& memory : memories_) {
      if (!memory) return 0;
    }
    ready_ = done_ = 0;
    std::vector<double> rates(threads_, 0);
    std::vector<std::thread> others;
    for (size_t k = 1; k < threads_; ++k) {
      others.emplace_back([this, k, &rates] { rates[k] = member(k); });
    }
    rates[0] = member(0);
    for (std::thread& other : others) other.join();
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  }

 private:
  double member(size_t k) {
    const size_t repeats = bytes_ == 0 ? 1 : std::max<size_t>(1, kReadBytes / bytes_);
    const std::byte* data = bytes_ > 0 ? memories_[k].get() : nullptr;
    ++ready_;
    while (ready_ < threads_) std::this_thread::yield();
    int64_t start = thread_ns(), now = start;
    double calls = 0, sum = 0;
    for (; now - start < kRoundNs; now = thread_ns()) {
      for (size_t r = 0; r < repeats; ++r, ++calls) sum += work_.run(data, bytes_);
    }
    ++done_;
    while (done_ < threads_) sum += work_.run(data, bytes_);
    used_.store(sum, std::memory_order_relaxed);
    return calls * work_.amount / static_cast<double>(now - start) * 1e9;
  }

  Work work_;
  size_t threads_;
  size_t bytes_;  // of each one's memory
  std::vector<Memory> memories_;
  std::atomic<size_t> ready_{0}, done_{0};
  std::atomic<double> used_{0};  // so that no compiler leaves the work out
};

// The median of several rounds.
double usual_rate(const Work& work, int threads, size_t bytes) {
  Gang gang(work, threads, bytes);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) rounds.push_back(gang.round());
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

// Of a set that large no cache keeps what would show.
constexpr double kReadSetMax = 0x1p30;
// A thread's share of a working set that no cache holds whole.
constexpr size_t kMemoryShare = size_t{96} << 20;

void empty_kernel(void* const*, const int64_t*, int64_t, int64_t, void*) {}

double launch_ns() {
  auto device = common::make_cpu_device();
  common::Launch launch;
  launch.function.handle = reinterpret_cast<const void*>(&empty_kernel);
  common::SteadyClock clock;
  double best = 1e9;
  constexpr int kLaunches = 1000;
  for (int round = 0; round < kRounds; ++round) {
    int64_t start = clock.now_ns();
    for (int k = 0; k < kLaunches; ++k) {
      if (!device->launch(launch).ok()) return 0;
    }
    best = std::min(best, static_cast<double>(clock.now_ns() - start) / kLaunches);
  }
  return best;
}

}  // namespace

struct MemoryReads::Threads {
  Gang gang;
};

MemoryReads::MemoryReads(int threads, double bytes) {
  auto set = static_cast<size_t>(std::min(bytes, kReadSetMax));
  size_t share = set / static_cast<size_t>(threads);
  threads_.reset(new Threads{Gang(reads(share), threads, share)});
}

MemoryReads::~MemoryReads() = default;

double MemoryReads::bytes_per_s() { return threads_->gang.round(); }

Roofline measure_processor(int threads) {
  Roofline roofline;
  roofline.device =
      common::cat(processor_name(), ", ", threads, threads == 1 ? " thread" : " threads");
  roofline.source = "measured";
  roofline.operations_per_s = usual_rate(multiplications(), threads, 0);
  if (auto work = short_multiplications()) {
    roofline.half_operations_per_s = usual_rate(*work, threads, 0);
  }
  // Each thread's share of the working set: in its first and second cache, the shared one, memory.
  double before = 0;
  for (size_t share : {size_t{24} << 10, size_t{768} << 10, size_t{8} << 20, kMemoryShare}) {
    double rate = usual_rate(reads(share), threads, share);
    if (rate <= 0) break;  // no such memory
    // Nothing larger is faster, whatever else the machine did meanwhile.
    rate = before > 0 ? std::min(before, rate) : rate;
    roofline.reads.push_back({static_cast<double>(share) * threads, rate});
    before = rate;
  }
  roofline.launch_ns = launch_ns();
  return roofline;
}

}  // namespace clients
