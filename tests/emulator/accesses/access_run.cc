#include "tests/emulator/accesses/access_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "tests/emulator/container.h"
#include "tests/emulator/device/module.h"
#include "tests/emulator/kernel_compiler.h"

namespace emulator {
namespace {

constexpr int64_t kBlockAccessesMax = 10'000'000;
constexpr uint32_t kArchitecture = 90;
constexpr int kDriver = 13000;  // of CUDA 13, as the containers that are made here
// Words before the scratch memory that blocks count each other in, one a block.
constexpr uint64_t kCounterBytes = 4;

// Address space with a page between any two buffers. Nothing is reserved for it: what is only read
// is one page of zeros, what is written takes the pages that are written.
class AddressSpace {
 public:
  explicit AddressSpace(uint64_t bytes) : bytes_(bytes) {
    void* area =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area != MAP_FAILED) next_ = base_ = static_cast<std::byte*>(area);
  }
  ~AddressSpace() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  static uint64_t rounded(uint64_t bytes) {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    return ((bytes + page - 1) / page + 1) * page;
  }
  std::byte* add(uint64_t bytes, bool is_written) {
    const uint64_t size = rounded(bytes);
    std::byte* begin = next_;
    next_ += size;
    ::mprotect(begin, size - static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)),
               is_written ? PROT_READ | PROT_WRITE : PROT_READ);
    return begin;
  }
  bool is_there() const { return base_ != nullptr; }
  uintptr_t first() const { return reinterpret_cast<uintptr_t>(base_); }
  uintptr_t last() const { return first() + bytes_; }

 private:
  uint64_t bytes_;
  std::byte *base_ = nullptr, *next_ = nullptr;
};

// A kernel's arguments in one address space; parameters() points into it.
class Arguments {
 public:
  explicit Arguments(const AccessRun& run)
      : counters_((static_cast<uint64_t>(run.blocks) * kCounterBytes + 255) / 256 * 256),
        scratch_bytes_(counters_ + static_cast<uint64_t>(run.blocks * run.scratch_stride)),
        space_(size_of(run)),
        symbols_(run.symbols),
        units_(run.units),
        stride_(run.scratch_stride) {
    if (!space_.is_there()) return;
    for (const AccessRun::Buffer& buffer : run.buffers) {
      if (buffer.same_as >= 0) {
        buffers_.push_back(buffers_[static_cast<size_t>(buffer.same_as)]);
        continue;
      }
      buffers_.push_back(space_.add(buffer.bytes, buffer.is_written || !buffer.first.empty()));
      std::copy(buffer.first.begin(), buffer.first.end(), buffers_.back());
    }
    scratch_ = space_.add(scratch_bytes_, true) + counters_;
    for (const AccessRun::Map& map : run.maps) {
      maps_.push_back(map.encoded);
      maps_.back().address += reinterpret_cast<uintptr_t>(buffers_[map.buffer]);
    }
  }
  const AddressSpace& space() const { return space_; }
  std::vector<void*> parameters() {
    std::vector<void*> list;
    for (std::byte*& buffer : buffers_) list.push_back(&buffer);
    for (int64_t& symbol : symbols_) list.push_back(&symbol);
    list.insert(list.end(), {&units_, &scratch_, &stride_});
    for (EncodedMap& map : maps_) list.push_back(&map);
    return list;
  }

 private:
  uint64_t size_of(const AccessRun& run) const {
    uint64_t bytes = AddressSpace::rounded(scratch_bytes_);
    for (const AccessRun::Buffer& buffer : run.buffers) {
      bytes += AddressSpace::rounded(buffer.bytes);
    }
    return bytes;
  }

  uint64_t counters_, scratch_bytes_;
  AddressSpace space_;
  std::vector<std::byte*> buffers_;
  std::vector<int64_t> symbols_;
  std::vector<EncodedMap> maps_;
  int64_t units_, stride_;
  std::byte* scratch_ = nullptr;
};

// Between the preamble that defines them and the kernel that calls them: see prelude_access.h.
constexpr const char* kAlone =
    "\n#define lf_ticket(...) lf_emu_ticket()\n"
    "#define lf_is_last(...) lf_emu_is_last(__VA_ARGS__)\n"
    "#define lf_await(...) __syncthreads()\n";

CompiledKernels compile(const AccessRun& run) {
  // Structs stay whole, so that an access of 16 bytes is one.
  return compile_kernels(run.entry, run.preamble + kAlone + run.text,
                         {"-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0",
                          "-fno-tree-sra", "-DLFEMU_ACCESSES=1"});
}

GridLaunch::SharedRange shared_of(const void* module) {
  return static_cast<const Module*>(module)->static_shared();
}

// A block that runs, and how many it stands for.
struct Sample {
  int64_t block = 0;
  double weight = 1;
};

// Of a grid whose blocks read no windows the first, the middle and the last, alike. Where they do,
// the first and the last stand for themselves and several others for all that lie between them: how
// many of their taps lie beyond an image's border differs.
std::vector<Sample> samples_of(const AccessRun& run) {
  constexpr int64_t kWindowBlocks = 6;
  // Of the golden ratio: its multiples are spread whatever the images' period in blocks is.
  constexpr double kSpread = 0.6180339887;
  const bool has_windows = std::any_of(run.maps.begin(), run.maps.end(),
                                       [](const auto& map) { return map.encoded.has_windows(); });
  const int64_t last = std::max<int64_t>(0, run.blocks - 1), inner = last - 1;
  std::vector<Sample> samples;
  if (!has_windows) {
    for (int64_t block : std::set<int64_t>{0, last / 2, last}) samples.push_back({block, 1});
    return samples;
  }
  samples.push_back({0, 1});
  const int64_t count = std::clamp<int64_t>(inner, 0, kWindowBlocks);
  for (int64_t k = 0; k < count; ++k) {
    const double place = std::fmod(0.5 + static_cast<double>(k) * kSpread, 1.0);
    // Where all run, each runs once.
    const int64_t within =
        count == inner ? k : static_cast<int64_t>(place * static_cast<double>(inner));
    samples.push_back({1 + within, static_cast<double>(inner) / static_cast<double>(count)});
  }
  if (last > 0) samples.push_back({last, 1});
  // Of all that run the mean weight is one.
  for (Sample& sample : samples) {
    sample.weight *= static_cast<double>(samples.size()) / static_cast<double>(run.blocks);
  }
  return samples;
}

}  // namespace

AccessFigures run_accesses(const AccessRun& run) {
  AccessFigures figures;
  const CompiledKernels compiled = compile(run);
  if (compiled.code != 0) {
    figures.problem = "it does not compile: " + compiled.log.substr(0, compiled.log.find('\n'));
    return figures;
  }
  int code = 0;
  const std::string image = make_container(compiled.object, kArchitecture, true);
  const auto module = Module::load(image.data(), kDriver, &code);
  const lf_emu::Kernel* kernel = module ? module->find(run.entry) : nullptr;
  Arguments arguments(run);
  if (kernel == nullptr || !arguments.space().is_there()) {
    figures.problem = kernel == nullptr ? "it cannot be loaded" : "there is no address space";
    return figures;
  }
  std::vector<void*> parameters = arguments.parameters();
  Multiprocessor multiprocessor;
  AccessSums completions;
  double completing = 0, completed = 0;  // blocks
  for (const Sample& sample : samples_of(run)) {
    AccessCounter counter(arguments.space().first(), arguments.space().last(), kBlockAccessesMax);
    GridLaunch launch;
    launch.kernel = kernel;
    launch.static_shared = &shared_of;
    launch.module = module.get();
    launch.grid = {static_cast<unsigned>(run.blocks), 1, 1};
    launch.block = {run.threads, 1, 1};
    launch.dynamic_shared_bytes = run.shared_bytes;
    launch.parameters = parameters.data();
    launch.only_block = static_cast<uint64_t>(sample.block);
    launch.observer = &counter;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> stop{false};
    const Fault fault = multiprocessor.run(launch, next, stop);
    if (fault.code != 0 && !counter.has_ended_kernel()) {
      figures.problem = fault.text;
      return figures;
    }
    figures.is_whole &= counter.is_whole();
    figures.sums.add(counter.own(), sample.weight);
    ++figures.blocks;
    double loads = 0;
    for (double bytes : counter.sums().load_bytes) loads += bytes;
    figures.box_bytes_under_way =
        std::max(figures.box_bytes_under_way, static_cast<double>(counter.box_bytes_under_way()));
    figures.warpgroups = std::max(figures.warpgroups, counter.warpgroups());
    if (loads > figures.longest_load_bytes) {
      figures.longest_load_bytes = loads;
      figures.longest = counter.sums();
    }
    if (counter.completed() == 0) continue;
    completions.add(counter.sums(), 1).add(counter.own(), -1);
    completing += 1;
    completed += static_cast<double>(counter.completed());
  }
  // Each completion stands for all blocks that share the sum.
  if (completing > 0) {
    figures.sums.add(completions, static_cast<double>(figures.blocks) / completed);
  }
  if (!figures.is_whole && figures.sums.sectors == 0 && figures.sums.wavefronts == 0) {
    figures.problem = "its threads access more than is followed";
  }
  return figures;
}

}  // namespace emulator
