#include "common/runtime/device/cpu_device.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/process/kept_memory.h"
#include "common/runtime/device/blas.h"
#include "common/runtime/device/cpu_device_pool.h"

namespace common {
namespace {

using KernelFn = void (*)(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
                          void* scratch);

// Memory begins with a page, so that what shares the low bits of its address with what does not
// depend on the allocations before it: of one plan loaded twice, the second copy took 14 % longer.
constexpr size_t kPage = 4096;
static_assert(kPage % kBufferAlignment == 0);
// From this size on memory is aligned to huge pages, which halves the page faults' share of a run.
constexpr size_t kHugePage = size_t{2} << 20;
size_t rounded_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

// A copy of fewer bytes is over before a second thread has begun.
constexpr size_t kSharedCopyBytes = size_t{1} << 20;
// Waking the helpers costs about as much as this much work.
constexpr double kWorthSharingNs = 5'000;
// A member takes one part in this many of what is left of a range.
constexpr int64_t kPiecesPerMember = 2;
// A launch's first units, where they have to tell how long a unit takes: at most one part in so
// many of each member's, and for this much time.
constexpr int64_t kFirstPieces = 4;
constexpr double kFirstNs = 4 * kWorthSharingNs;
constexpr int kTimedLaunches = 4;

// Writes the whole object into anonymous memory that can be loaded as a file.
Result<FileDescriptor> memory_file(ByteView object) {
#ifndef MFD_EXEC
  constexpr unsigned kMfdExec = 0x0010;  // kernels from 6.3 on want to be told
#else
  constexpr unsigned kMfdExec = MFD_EXEC;
#endif
  FileDescriptor fd(::memfd_create("lfarm-object", MFD_CLOEXEC | kMfdExec));
  if (!fd.is_open() && errno == EINVAL) {
    fd = FileDescriptor(::memfd_create("lfarm-object", MFD_CLOEXEC));
  }
  if (!fd.is_open()) {
    return unavailable(cat("cannot create memory for an object: ", std::strerror(errno)));
  }
  const std::byte* data = object.data();
  for (size_t left = object.size(); left > 0;) {
    ssize_t n = ::write(fd.get(), data, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return unavailable(
          cat("cannot hold an object of ", object.size(), " bytes: ", std::strerror(errno)));
    }
    data += n;
    left -= static_cast<size_t>(n);
  }
  return fd;
}

class CpuModule final : public Module {
 public:
  static Result<std::shared_ptr<Module>> load(const Digest& digest, ByteView object) {
    LFARM_ASSIGN_OR_RETURN(FileDescriptor fd, memory_file(object));
    // The descriptor stays open as long as the object is loaded: the loader tells objects apart by
    // path, so a number that was used again would give the old object.
    std::string path = cat("/proc/self/fd/", fd.get());
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* reason = ::dlerror();
      return corrupt(cat("object ", digest.short_hex(),
                         " cannot be loaded: ", reason == nullptr ? "unknown reason" : reason));
    }
    return std::shared_ptr<Module>(new CpuModule(digest, std::move(fd), std::move(path), library));
  }

  ~CpuModule() override {
    ::dlclose(library_);
    void* still_loaded = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (still_loaded == nullptr) return;
    ::dlclose(still_loaded);
    fd_.release();  // an object may forbid unloading; then its path stays taken
  }

  Result<Function> entry(const std::string& name) const override {
    void* symbol = ::dlsym(library_, name.c_str());
    if (symbol == nullptr) {
      return corrupt(
          cat("object ", digest_.short_hex(), " has no entry ", name, ": fetch the plan again"));
    }
    return Function{symbol};
  }

 private:
  CpuModule(const Digest& digest, FileDescriptor fd, std::string path, void* library)
      : digest_(digest), fd_(std::move(fd)), path_(std::move(path)), library_(library) {}
  Digest digest_;
  FileDescriptor fd_;
  std::string path_;
  void* library_;
};

class CpuTimer final : public Timer {
 public:
  explicit CpuTimer(size_t marks) { marks_.reserve(marks); }
  void mark() override { marks_.push_back(clock_.now_ns()); }
  Result<std::vector<int64_t>> take_intervals_ns() override {
    std::vector<int64_t> intervals;
    for (size_t k = 1; k < marks_.size(); ++k) intervals.push_back(marks_[k] - marks_[k - 1]);
    marks_.clear();
    return intervals;
  }

 private:
  SteadyClock clock_;
  std::vector<int64_t> marks_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : target_(host_cpu_target()),
        pool_(options.threads, options.shares_openmp ? OpenMpTeam::find() : nullptr) {}

  const Target& target() const override { return target_; }
  bool uses_host_memory() const override { return true; }
  int concurrency() const override { return pool_.threads(); }
  uint64_t stalls() const override { return pool_.stalls(); }

  Result<std::shared_ptr<Module>> load(const Digest& digest, ByteView object) override {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Module> known = modules_[digest].lock();
    if (known != nullptr) return known;
    std::erase_if(modules_, [](const auto& entry) { return entry.second.expired(); });
    auto module = CpuModule::load(digest, object);
    if (module.ok()) modules_[digest] = *module;
    return module;
  }

  Result<DeviceMemory> allocate(size_t bytes) override {
    size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kPage;
    std::byte* data = take_memory(std::max<size_t>(bytes, 1), alignment);
    if (data == nullptr) return unavailable(cat("no room for ", bytes, " bytes of memory"));
    if (alignment == kHugePage) ::madvise(data, rounded_up(bytes, kHugePage), MADV_HUGEPAGE);
    return DeviceMemory(this, data, bytes);
  }

  Result<DeviceMemory> allocate_zeros(size_t bytes) override {
    // In small pages, since the first write to a huge one clears all of it.
    std::byte* data = take_memory(std::max<size_t>(bytes, 1), kPage);
    if (data == nullptr) return unavailable(cat("no room for ", bytes, " bytes of memory"));
    // The system fills discarded pages with zeros at the next access.
    const size_t pages = bytes / kPage * kPage;
    const bool is_clear = ::madvise(data, pages, MADV_DONTNEED) == 0;
    const size_t cleared = is_clear ? pages : 0;
    std::memset(data + cleared, 0, bytes - cleared);
    return DeviceMemory(this, data, bytes);
  }

  Status copy_in(std::byte* device, ByteView host) override {
    return copy(device, host.data(), host.size());
  }
  Status copy_out(std::span<std::byte> host, const std::byte* device) override {
    return copy(host.data(), device, host.size());
  }
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override;
  Status fill(std::byte* device, std::byte value, size_t bytes) override {
    if (bytes != 0) std::memset(device, static_cast<int>(value), bytes);
    return {};
  }

  Status launch(const Launch& launch) override;
  bool has_gemm() const override { return blas() != nullptr; }
  Status gemm(const GemmSizes& sizes, const void* a, const void* b, void* out) override;
  Status synchronise() override { return {}; }
  std::unique_ptr<Timer> make_timer(size_t marks) override {
    return std::make_unique<CpuTimer>(marks);
  }

 private:
  void release(std::byte* data, size_t) override { give_memory(data); }
  // Null where there is no library. Opening one takes as long as thousands of small kernels, so
  // that plans that need none do without.
  const Blas* blas() const {
    std::call_once(blas_asked_, [this] {
      auto found = Blas::open();
      if (found.ok()) blas_ = *found;
    });
    return blas_.get();
  }

  Target target_;
  CpuPool pool_;
  mutable std::once_flag blas_asked_;
  mutable std::shared_ptr<const Blas> blas_;
  std::mutex mutex_;  // guards modules_
  std::unordered_map<Digest, std::weak_ptr<Module>> modules_;
};

// A copy of which each member takes a part.
struct SharedCopy {
  std::byte* to;
  const std::byte* from;
  size_t bytes, part;
  std::atomic<size_t> next{0};

  static void work(void* context, int) {
    auto* self = static_cast<SharedCopy*>(context);
    for (size_t begin; (begin = self->next.fetch_add(self->part)) < self->bytes;) {
      const size_t count = std::min(self->part, self->bytes - begin);
      std::memcpy(self->to + begin, self->from + begin, count);
    }
  }
};

Status CpuDevice::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return {};
  auto members = static_cast<size_t>(pool_.threads());
  if (bytes >= kSharedCopyBytes && members > 1) {
    size_t part = rounded_up((bytes + members - 1) / members, kPage);
    SharedCopy shared{to, from, bytes, part};
    if (pool_.try_run(SharedCopy::work, &shared)) return {};
  }
  std::memcpy(to, from, bytes);
  return {};
}

// The units of one launch that nobody has taken yet. Each member begins with a range of its own,
// the same part of every launch, so that it finds what it wrote before in its own caches, and then
// takes what others have left. Pieces become smaller towards the end, so that all finish at about
// the same time.
class SharedLaunch {
 public:
  SharedLaunch(const Launch& launch, int64_t begin, int64_t members)
      : launch_(launch), ranges_(std::min(members, kRangesMax)) {
    const int64_t units = launch.units - begin;
    for (int64_t k = 0; k < ranges_; ++k) {
      range_[k].next.store(begin + units * k / ranges_, std::memory_order_relaxed);
      range_[k].end = begin + units * (k + 1) / ranges_;
    }
  }

  static void work(void* context, int member) {
    auto* self = static_cast<SharedLaunch*>(context);
    for (int64_t k = 0; k < self->ranges_; ++k) {
      self->work_through(self->range_[(member + k) % self->ranges_], member);
    }
  }

 private:
  static constexpr int64_t kRangesMax = 64;
  struct alignas(64) Range {
    std::atomic<int64_t> next;
    int64_t end;
  };

  void work_through(Range& range, int member) {
    auto kernel = reinterpret_cast<KernelFn>(const_cast<void*>(launch_.function.handle));
    std::byte* scratch = launch_.scratch + static_cast<size_t>(member) * launch_.scratch_stride;
    int64_t begin = range.next.load(std::memory_order_relaxed);
    while (begin < range.end) {
      const int64_t end = begin + std::max<int64_t>(1, (range.end - begin) / kPiecesPerMember);
      if (!range.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      kernel(launch_.buffers.data(), launch_.symbols.data(), begin, end, scratch);
      begin = range.next.load(std::memory_order_relaxed);
    }
  }

  const Launch& launch_;
  const int64_t ranges_;
  std::array<Range, kRangesMax> range_;
};

Status CpuDevice::launch(const Launch& launch) {
  auto kernel = reinterpret_cast<KernelFn>(const_cast<void*>(launch.function.handle));
  auto run = [&](int64_t begin, int64_t end) {
    kernel(launch.buffers.data(), launch.symbols.data(), begin, end, launch.scratch);
  };
  int64_t members = pool_.threads();
  if (members == 1 || launch.units <= 1 || launch.is_alone) {
    run(0, launch.units);
    return {};
  }
  LaunchHistory once;
  LaunchHistory& history = launch.history != nullptr ? *launch.history : once;
  int64_t begin = 0;
  if (history.timed < kTimedLaunches) {
    // First units on this thread tell whether the rest is worth waking the others for: no more of
    // them than that takes, as the others wait meanwhile. The first launches find caches cold.
    SteadyClock clock;
    const int64_t most = std::max<int64_t>(1, launch.units / (members * kFirstPieces));
    const int64_t start = clock.now_ns();
    run(0, 1);
    double unit_ns = static_cast<double>(clock.now_ns() - start);
    begin = std::clamp(static_cast<int64_t>(kFirstNs / std::max(unit_ns, 1.0)), int64_t{1}, most);
    if (begin > 1) {
      run(1, begin);
      unit_ns = static_cast<double>(clock.now_ns() - start) / static_cast<double>(begin);
    }
    history.unit_ns = history.timed == 0 ? unit_ns : std::min(history.unit_ns, unit_ns);
    ++history.timed;
  }
  double left_ns = history.unit_ns * static_cast<double>(launch.units - begin);
  if (left_ns > kWorthSharingNs) {
    SharedLaunch shared(launch, begin, members);
    if (pool_.try_run(SharedLaunch::work, &shared)) return {};
  }
  if (begin < launch.units) run(begin, launch.units);
  return {};
}

// A product cut into pieces: batches, or rows or columns of the result.
struct SharedGemm {
  const Blas* blas;
  GemmSizes sizes;
  const char* a;
  const char* b;
  char* out;
  int64_t row_pieces = 1, column_pieces = 1;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  Status status;

  void run_piece(int64_t piece) {
    int64_t columns = piece % column_pieces;
    int64_t rows = piece / column_pieces % row_pieces;
    int64_t batch = piece / column_pieces / row_pieces;
    auto cut = [](int64_t total, int64_t pieces, int64_t index) {
      return std::min(total, (total + pieces - 1) / pieces * index);
    };
    GemmSizes part = sizes;
    int64_t row = cut(sizes.m, row_pieces, rows), column = cut(sizes.n, column_pieces, columns);
    part.m = cut(sizes.m, row_pieces, rows + 1) - row;
    part.n = cut(sizes.n, column_pieces, columns + 1) - column;
    auto position = [&](const GemmOperandSizes& operand, int64_t i, int64_t j) {
      int64_t element = operand.offset + batch * operand.batch_stride + i * operand.row_stride +
                        j * operand.column_stride;
      return element * dtype_size(sizes.dtype);
    };
    Status done =
        blas->multiply(part, a + position(sizes.a, row, 0), b + position(sizes.b, 0, column),
                       out + position(sizes.out, row, column));
    if (!done.ok()) {
      std::lock_guard lock(mutex);
      status = done;
    }
  }
  static void work(void* context, int) {
    auto* self = static_cast<SharedGemm*>(context);
    int64_t pieces = self->sizes.batch * self->row_pieces * self->column_pieces;
    for (int64_t piece; (piece = self->next.fetch_add(1)) < pieces;) self->run_piece(piece);
  }
};

Status CpuDevice::gemm(const GemmSizes& sizes, const void* a, const void* b, void* out) {
  if (blas() == nullptr) {
    return unavailable(
        "a plan calls a library product, but OpenBLAS is missing: install "
        "libopenblas0");
  }
  // Below about a million multiplications the helpers cost more than they give.
  constexpr double kWorthSharing = 1e6;
  Blas::OneThread one_thread(*blas());
  SharedGemm shared{blas(), sizes, static_cast<const char*>(a), static_cast<const char*>(b),
                    static_cast<char*>(out)};
  double work = static_cast<double>(sizes.m) * static_cast<double>(sizes.n) *
                static_cast<double>(sizes.k) * static_cast<double>(sizes.batch);
  int threads = pool_.threads();
  if (threads > 1 && !sizes.is_alone && work > kWorthSharing) {
    if (sizes.batch < threads)
      (sizes.m > sizes.n ? shared.row_pieces : shared.column_pieces) = threads;
    if (pool_.try_run(SharedGemm::work, &shared)) return shared.status;
  }
  SharedGemm::work(&shared, 0);
  return shared.status;
}

#if defined(__x86_64__)
// Whether the processor multiplies tiles of bfloat16 (AMX), the system keeps its registers, and
// this process may use them, which it has to ask for.
bool has_matrix_unit() {
  constexpr unsigned kTiles = 1U << 24, kShort = 1U << 22;  // leaf 7, edx
  constexpr unsigned kSystemSaves = 1U << 27;               // leaf 1, ecx: XGETBV is there
  constexpr unsigned kTileState = 3U << 17;                 // configuration and data
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSystemSaves) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kTiles) == 0 || (d & kShort) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState &&
         ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

Target host_cpu_target() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma")) {
    if (!__builtin_cpu_supports("avx512bf16")) return {"cpu-x86_64-avx512"};
    static const bool has_tiles = has_matrix_unit();
    return {has_tiles ? "cpu-x86_64-amxbf16" : "cpu-x86_64-avx512bf16"};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    return {"cpu-x86_64-avx2"};
  }
  return {"cpu-x86_64"};
#elif defined(__aarch64__)
  return {"cpu-aarch64"};
#else
#error "lfarm knows x86-64 and AArch64 processors"
#endif
}

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace common
