#include "common/runtime/device/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "common/base/cat.h"
#include "common/cuda/driver.h"
#include "common/cuda/nvml.h"
#include "common/runtime/device/cuda_gemm.h"
#include "common/runtime/device/cuda_memory.h"
#include "common/runtime/device/cuda_recording.h"
#include "common/runtime/device/cuda_session.h"
#include "common/runtime/device/cuda_tensor_map.h"

namespace common {
namespace {

// Written between timed runs, as a multiple of the cache, so that whatever it replaces first, all
// of the cache is replaced.
constexpr int64_t kFlushedCaches = 2;

CudaAddress address_of(const std::byte* data) { return reinterpret_cast<CudaAddress>(data); }
uint64_t word_of(const void* data) { return reinterpret_cast<uintptr_t>(data); }

// All that tells one product from another.
std::vector<uint64_t> words_of(const GemmSizes& sizes, const void* a, const void* b, void* out) {
  std::vector<uint64_t> words = {word_of(a), word_of(b), word_of(out)};
  for (int64_t size : {static_cast<int64_t>(sizes.dtype), sizes.batch, sizes.m, sizes.n, sizes.k,
                       int64_t{sizes.algorithm}}) {
    words.push_back(static_cast<uint64_t>(size));
  }
  for (const GemmOperandSizes* operand : {&sizes.a, &sizes.b, &sizes.out}) {
    for (int64_t size :
         {operand->offset, operand->batch_stride, operand->row_stride, operand->column_stride}) {
      words.push_back(static_cast<uint64_t>(size));
    }
  }
  return words;
}

Target target_of(const CudaDeviceFacts& facts) {
  return {cat("cuda-", cuda_architecture(facts.major, facts.minor))};
}

// A kernel of a module, with what launching it found out. Function::handle points to it.
struct CudaKernel {
  CudaFunction function = nullptr;
  std::atomic<int64_t> shared_bytes{0};  // of dynamic shared memory that it may have by now
};

class CudaModuleHolder final : public Module {
 public:
  static Result<std::shared_ptr<Module>> load(std::shared_ptr<CudaSession> session,
                                              const Digest& digest, ByteView object) {
    CudaModule module = nullptr;
    // The driver reads sizes from the image's own headers, and takes what is no image for text,
    // which has to end.
    Bytes image = to_bytes(object);
    image.push_back(std::byte{0});
    // Of PTX, which it compiles, it says what is wrong.
    char log[512] = "";
    int options[] = {kCudaErrorLog, kCudaErrorLogBytes};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};  // NOLINT: as it is asked for
    Status loaded =
        session->check(session->calls().load_module(&module, image.data(), 2, options, values),
                       "cuModuleLoadDataEx");
    if (!loaded.ok()) {
      if (loaded.error().code != Code::kUnsupported) return loaded.error();
      return corrupt(cat("object ", digest.short_hex(), " cannot be loaded: ",
                         loaded.error().message, log[0] == 0 ? "" : "; ", log));
    }
    return std::shared_ptr<Module>(new CudaModuleHolder(std::move(session), digest, module));
  }
  ~CudaModuleHolder() override {
    if (CudaScope scope(*session_); scope.ok()) session_->calls().unload_module(module_);
  }

  Result<Function> entry(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    std::unique_ptr<CudaKernel>& kernel = kernels_[name];
    if (kernel == nullptr) {
      CudaScope scope(*session_);
      LFARM_RETURN_IF_ERROR(scope.status());
      auto found = std::make_unique<CudaKernel>();
      Status status =
          session_->check(session_->calls().get_function(&found->function, module_, name.c_str()),
                          "cuModuleGetFunction");
      if (!status.ok()) {
        if (status.error().code != Code::kUnsupported) return status.error();
        return corrupt(
            cat("object ", digest_.short_hex(), " has no entry ", name, ": fetch the plan again"));
      }
      kernel = std::move(found);
    }
    return Function{kernel.get()};
  }

 private:
  CudaModuleHolder(std::shared_ptr<CudaSession> session, const Digest& digest, CudaModule module)
      : session_(std::move(session)), digest_(digest), module_(module) {}
  std::shared_ptr<CudaSession> session_;
  Digest digest_;
  CudaModule module_;
  mutable std::mutex mutex_;  // guards kernels_
  mutable std::unordered_map<std::string, std::unique_ptr<CudaKernel>> kernels_;
};

class CudaTimer final : public Timer {
 public:
  CudaTimer(std::shared_ptr<CudaSession> session, size_t marks) : session_(std::move(session)) {
    marks_.reserve(marks);
    spare_.reserve(marks);
    // Made before the first mark, so that no interval holds it.
    while (spare_.size() < marks && status_.ok()) add_spare();
  }
  ~CudaTimer() override {
    session_->give_back(marks_);
    session_->give_back(spare_);
  }

  void mark() override {
    CudaScope scope(*session_);
    if (spare_.empty()) add_spare();
    if (!status_.ok()) return;
    marks_.push_back(spare_.back());
    spare_.pop_back();
    status_ = session_->check(session_->calls().record_event(marks_.back(), session_->stream()),
                              "cuEventRecord");
  }

  Result<std::vector<int64_t>> take_intervals_ns() override {
    CudaScope scope(*session_);
    std::vector<int64_t> intervals;
    if (status_.ok() && !marks_.empty()) {
      status_ =
          session_->check(session_->calls().synchronise_event(marks_.back()), "cuEventSynchronize");
    }
    for (size_t k = 1; status_.ok() && k < marks_.size(); ++k) {
      float ms = 0;
      status_ = session_->check(session_->calls().elapsed_ms(&ms, marks_[k - 1], marks_[k]),
                                "cuEventElapsedTime");
      intervals.push_back(static_cast<int64_t>(static_cast<double>(ms) * 1e6));
    }
    spare_.insert(spare_.end(), marks_.begin(), marks_.end());
    marks_.clear();
    Status status = std::exchange(status_, Status());
    if (!status.ok()) return status.error();
    return intervals;
  }

 private:
  void add_spare() {
    auto event = session_->take_event();
    if (event.ok()) {
      spare_.push_back(*event);
    } else {
      status_ = event.error();
    }
  }

  std::shared_ptr<CudaSession> session_;
  std::vector<CudaEvent> marks_, spare_;
  Status status_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaSession> session, CudaDeviceOptions options)
      : session_(std::move(session)),
        options_(std::move(options)),
        target_(target_of(session_->facts())),
        recorder_(session_) {
    auto watched = NvmlDevice::open(session_->facts().uuid);
    if (watched.ok()) nvml_ = std::move(watched).value();
  }
  ~CudaDevice() override {
    CudaScope scope(*session_);
    if (scope.ok()) session_->calls().synchronise_stream(session_->stream());
    library_.reset();  // its handle is the context's
  }

  const Target& target() const override { return target_; }
  bool uses_host_memory() const override { return false; }
  int ordinal() const override { return session_->facts().ordinal; }
  int concurrency() const override { return 1; }

  Result<std::shared_ptr<Module>> load(const Digest& digest, ByteView object) override {
    CudaScope scope(*session_);
    LFARM_RETURN_IF_ERROR(scope.status());
    std::lock_guard lock(mutex_);
    std::shared_ptr<Module> known = modules_[digest].lock();
    if (known != nullptr) return known;
    std::erase_if(modules_, [](const auto& entry) { return entry.second.expired(); });
    auto module = CudaModuleHolder::load(session_, digest, object);
    if (module.ok()) modules_[digest] = *module;
    return module;
  }

  Result<DeviceMemory> allocate(size_t bytes) override {
    CudaScope scope(*session_);
    LFARM_RETURN_IF_ERROR(scope.status());
    LFARM_ASSIGN_OR_RETURN(CudaAddress address, allocate_address(bytes));
    // The driver's addresses are numbers.
    auto* data = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    return DeviceMemory(this, data, bytes);
  }
  Status copy_in(std::byte* device, ByteView host) override;
  Status copy_out(std::span<std::byte> host, const std::byte* device) override;
  Status copy_out_later(std::byte* host, const std::byte* device, size_t bytes) override;
  Result<std::shared_ptr<std::byte[]>> allocate_host(size_t bytes) override;
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override;
  Status fill(std::byte* device, std::byte value, size_t bytes) override;

  Status launch(const Launch& launch) override;
  bool has_gemm() const override { return library().ok(); }
  Status gemm(const GemmSizes& sizes, const void* a, const void* b, void* out) override;
  Status synchronise() override {
    CudaScope scope(*session_);
    LFARM_RETURN_IF_ERROR(scope.status());
    return check(session_->calls().synchronise_stream(session_->stream()), "cuStreamSynchronize");
  }
  Status begin_stream(void* stream) override {
    CudaScope scope(*session_);
    LFARM_RETURN_IF_ERROR(scope.status());
    return session_->borrow(static_cast<CudaStream>(stream));
  }
  Status end_stream() override {
    CudaScope scope(*session_);
    return session_->give_stream_back();
  }
  bool is_capturing() const override { return session_->is_capturing(); }
  Result<bool> is_captured(void* stream) override {
    CudaScope scope(*session_);
    LFARM_RETURN_IF_ERROR(scope.status());
    LFARM_ASSIGN_OR_RETURN(int status, session_->capture_status(static_cast<CudaStream>(stream)));
    return status != kCudaCaptureNone;
  }
  std::unique_ptr<Timer> make_timer(size_t marks) override {
    CudaScope scope(*session_);  // what fails here fails again at the first mark
    return std::make_unique<CudaTimer>(session_, marks);
  }

  // What a caller captures is launched into the caller's graph call by call: a replay would be a
  // copy of the recording as it was first made.
  bool can_record() const override { return !session_->is_capturing(); }
  Status record(const std::function<Status()>& row, std::unique_ptr<Recording>& recording) override;
  Status replay(Recording& recording) override;
  size_t cache_bytes() const override {
    return static_cast<size_t>(std::max<int64_t>(0, session_->facts().l2_bytes));
  }
  Status flush_caches() override;
  bool is_faulted() const override { return session_->is_faulted(); }
  std::string slowdown() const override;
  std::string hardware_id() const override { return session_->facts().uuid; }

 private:
  void release(std::byte* data, size_t size) override {
    CudaScope scope(*session_);
    if (scope.ok()) session_->pool().release(address_of(data), size, session_->is_capturing());
  }
  Status check(CudaResult result, const char* what) { return session_->check(result, what); }
  Result<CudaAddress> allocate_address(size_t bytes);
  Status fill_on(CudaStream stream, std::byte* device, std::byte value, size_t bytes);
  Status check_limits(const Launch& launch, int64_t blocks) const;
  Status allow_shared_bytes(CudaKernel& kernel, int64_t bytes);
  // Of products; opened when first asked for, which takes half a second.
  Result<CudaGemm*> library() const;
  // A product of no terms.
  Status clear(const GemmSizes& sizes, void* out, CudaStream stream);
  Status multiply(const GemmSizes& sizes, const void* a, const void* b, void* out,
                  CudaStream stream);

  std::shared_ptr<CudaSession> session_;
  CudaDeviceOptions options_;
  Target target_;
  std::unique_ptr<const NvmlDevice> nvml_;  // null without NVML: the device tells nothing then
  std::mutex mutex_;                        // guards modules_, flushed_ and workspace_
  std::unordered_map<Digest, std::weak_ptr<Module>> modules_;
  DeviceMemory flushed_;
  mutable std::once_flag library_once_;
  mutable std::unique_ptr<CudaGemm> library_;
  mutable Status library_status_;
  DeviceMemory workspace_;  // of the library's products
  CudaRecorder recorder_;
};

Result<CudaAddress> CudaDevice::allocate_address(size_t bytes) {
  if (!session_->is_capturing()) return session_->pool().allocate(bytes);
  if (auto kept = session_->pool().allocate_kept(bytes)) return *kept;
  return unsupported(cat("no ", bytes, " bytes of device memory are there, and none is allocated ",
                         "while the stream is captured: run once before the capture"));
}

Status CudaDevice::copy_in(std::byte* device, ByteView host) {
  if (host.empty()) return {};
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  CudaSession::Turn turn = session_->turn();
  return check(
      session_->calls().copy_in(address_of(device), host.data(), host.size(), session_->stream()),
      "cuMemcpyHtoDAsync");
}

Status CudaDevice::copy_out(std::span<std::byte> host, const std::byte* device) {
  if (host.empty()) return {};
  LFARM_RETURN_IF_ERROR(copy_out_later(host.data(), device, host.size()));
  return synchronise();
}

Status CudaDevice::copy_out_later(std::byte* host, const std::byte* device, size_t bytes) {
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  CudaSession::Turn turn = session_->turn();
  return check(session_->calls().copy_out(host, address_of(device), bytes, session_->stream()),
               "cuMemcpyDtoHAsync");
}

Result<std::shared_ptr<std::byte[]>> CudaDevice::allocate_host(size_t bytes) {
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  if (session_->is_capturing()) {
    return unsupported("no memory is allocated while the stream is captured: run once before");
  }
  void* data = nullptr;
  LFARM_RETURN_IF_ERROR(check(session_->calls().allocate_host(&data, bytes, 0), "cuMemHostAlloc"));
  auto free = [session = session_](std::byte* host) {
    CudaScope scope(*session);
    if (scope.ok()) session->calls().free_host(host);
  };
  return std::shared_ptr<std::byte[]>(static_cast<std::byte*>(data), std::move(free));
}

Status CudaDevice::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return {};
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  auto call = [&](CudaStream stream) {
    return check(session_->calls().copy(address_of(to), address_of(from), bytes, stream),
                 "cuMemcpyDtoDAsync");
  };
  if (recorder_.is_mine()) return recorder_.call_library({word_of(to), word_of(from), bytes}, call);
  CudaSession::Turn turn = session_->turn();
  return call(session_->stream());
}

Status CudaDevice::fill(std::byte* device, std::byte value, size_t bytes) {
  CudaSession::Turn turn = session_->turn();
  return fill_on(session_->stream(), device, value, bytes);
}

Status CudaDevice::fill_on(CudaStream stream, std::byte* device, std::byte value, size_t bytes) {
  if (bytes == 0) return {};
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  return check(
      session_->calls().fill(address_of(device), static_cast<unsigned char>(value), bytes, stream),
      "cuMemsetD8Async");
}

// What the driver would refuse as an invalid value without saying which.
Status CudaDevice::check_limits(const Launch& launch, int64_t blocks) const {
  const CudaDeviceFacts& facts = session_->facts();
  if (launch.block.threads < 1 || launch.block.threads > facts.threads_per_block_max) {
    return unsupported(cat("a kernel wants blocks of ", launch.block.threads,
                           " threads, the device has at most ", facts.threads_per_block_max));
  }
  if (blocks > facts.blocks_max) {
    return unsupported(cat("a kernel wants ", blocks, " blocks, the device has at most ",
                           facts.blocks_max, " a launch"));
  }
  if (launch.block.shared_bytes > facts.shared_bytes_per_block_max) {
    return unsupported(cat("a kernel wants ", launch.block.shared_bytes,
                           " bytes of shared memory, the device has at most ",
                           facts.shared_bytes_per_block_max, " a block"));
  }
  return {};
}

// The driver gives a kernel more than its default, which its own arrays share, only when asked.
Status CudaDevice::allow_shared_bytes(CudaKernel& kernel, int64_t bytes) {
  if (bytes <= kernel.shared_bytes.load(std::memory_order_relaxed)) return {};
  LFARM_RETURN_IF_ERROR(
      check(session_->calls().set_function_attribute(kernel.function, kCudaMaxDynamicSharedBytes,
                                                     static_cast<int>(bytes)),
            "cuFuncSetAttribute"));
  kernel.shared_bytes.store(bytes, std::memory_order_relaxed);
  return {};
}

Status CudaDevice::launch(const Launch& launch) {
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  // Shared by all launches of the kernel, which is why it is no member of Launch.
  auto& kernel = *static_cast<CudaKernel*>(const_cast<void*>(launch.function.handle));
  int64_t blocks = launch.block.threads < 1 ? 0 : launch.block.blocks(launch.units);
  LFARM_RETURN_IF_ERROR(check_limits(launch, blocks));
  LFARM_RETURN_IF_ERROR(allow_shared_bytes(kernel, launch.block.shared_bytes));
  CudaKernelLaunch made{kernel.function, static_cast<unsigned>(blocks),
                        static_cast<unsigned>(launch.block.threads),
                        static_cast<unsigned>(launch.block.shared_bytes)};
  made.arguments.reserve(launch.buffers.size() + launch.symbols.size() + 3);
  for (const void* buffer : launch.buffers) made.arguments.push_back(word_of(buffer));
  for (int64_t symbol : launch.symbols) made.arguments.push_back(static_cast<uint64_t>(symbol));
  made.arguments.push_back(static_cast<uint64_t>(launch.units));
  made.arguments.push_back(word_of(launch.scratch));
  made.arguments.push_back(uint64_t{launch.scratch_stride});
  made.waits = launch.waits;
  for (BoundTensorMap& map : launch.maps) {
    LFARM_ASSIGN_OR_RETURN(CudaTensorMap encoded,
                           cuda_tensor_map(session_->driver(), map, launch.buffers));
    made.maps.push_back(encoded);
  }
  if (recorder_.is_mine()) return recorder_.launch(std::move(made));
  CudaSession::Turn turn = session_->turn();
  return check(made.put_on(session_->stream(), session_->calls()), "cuLaunchKernel");
}

std::string CudaDevice::slowdown() const {
  if (nvml_ == nullptr || !nvml_->is_slowed()) return {};
  NvmlConditions now = nvml_->conditions();
  return cat("its clock is at ", now.clock_mhz, " of ", now.clock_mhz_max, " MHz, at ",
             now.temperature_c, " degrees Celsius");
}

Result<CudaGemm*> CudaDevice::library() const {
  std::call_once(library_once_, [this] {
    CudaScope scope(*session_);
    library_status_ = scope.status();
    if (!library_status_.ok()) return;
    auto opened = CublasLt::open();
    if (opened.ok()) {
      library_ = std::make_unique<CudaGemm>(*opened, options_.exact_algorithms);
    } else {
      library_status_ = opened.error();
    }
  });
  if (library_ == nullptr) return library_status_.error();
  return library_.get();
}

Status CudaDevice::clear(const GemmSizes& sizes, void* out, CudaStream stream) {
  int64_t bytes = dtype_size(sizes.dtype);
  if (sizes.n > 1 && sizes.out.column_stride != 1) {
    return unsupported("a product without terms is written across its rows");
  }
  for (int64_t i = 0; i < sizes.batch * sizes.m; ++i) {
    int64_t first = sizes.out.offset + i / sizes.m * sizes.out.batch_stride +
                    i % sizes.m * sizes.out.row_stride;
    LFARM_RETURN_IF_ERROR(fill_on(stream, static_cast<std::byte*>(out) + first * bytes,
                                  std::byte{0}, static_cast<size_t>(sizes.n * bytes)));
  }
  return {};
}

Status CudaDevice::multiply(const GemmSizes& sizes, const void* a, const void* b, void* out,
                            CudaStream stream) {
  if (sizes.k == 0) return clear(sizes, out, stream);
  LFARM_ASSIGN_OR_RETURN(CudaGemm * found, library());
  std::byte* workspace = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (workspace_.data() == nullptr) {
      LFARM_ASSIGN_OR_RETURN(workspace_, allocate(CudaGemm::kWorkspaceBytes));
    }
    workspace = workspace_.data();
  }
  return found->multiply(sizes, a, b, out, workspace, stream);
}

Status CudaDevice::gemm(const GemmSizes& sizes, const void* a, const void* b, void* out) {
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  if (auto found = library(); !found.ok()) {
    return unavailable(cat("the plan calls a library product: ", found.error().message));
  }
  if (sizes.batch == 0 || sizes.m == 0 || sizes.n == 0) return {};
  auto call = [&](CudaStream stream) { return multiply(sizes, a, b, out, stream); };
  if (recorder_.is_mine()) return recorder_.call_library(words_of(sizes, a, b, out), call);
  CudaSession::Turn turn = session_->turn();
  return call(session_->stream());
}

Status CudaDevice::record(const std::function<Status()>& row,
                          std::unique_ptr<Recording>& recording) {
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  return recorder_.record(row, recording);
}

Status CudaDevice::replay(Recording& recording) {
  CudaScope scope(*session_);
  LFARM_RETURN_IF_ERROR(scope.status());
  CudaSession::Turn turn = session_->turn();
  return check(session_->calls().launch_graph(static_cast<CudaRecording&>(recording).executable(),
                                              session_->stream()),
               "cuGraphLaunch");
}

Status CudaDevice::flush_caches() {
  auto bytes = static_cast<size_t>(session_->facts().l2_bytes * kFlushedCaches);
  std::byte* memory = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (flushed_.data() == nullptr && bytes != 0) {
      LFARM_ASSIGN_OR_RETURN(flushed_, allocate(bytes));
    }
    memory = flushed_.data();
  }
  return fill(memory, std::byte{0}, bytes);
}

}  // namespace

Result<Target> find_cuda_target(int index) {
  LFARM_ASSIGN_OR_RETURN(auto driver, CudaDriver::open());
  LFARM_ASSIGN_OR_RETURN(CudaDeviceFacts facts, driver->device(index));
  return target_of(facts);
}

Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options) {
  LFARM_ASSIGN_OR_RETURN(auto driver, CudaDriver::open());
  LFARM_ASSIGN_OR_RETURN(auto session,
                         CudaSession::open(std::move(driver), options.index, options.allocator));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(std::move(session), options));
}

}  // namespace common
