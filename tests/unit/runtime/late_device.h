// A device that behaves as GPUs do, on the CPU: memory that is not the host's, work that is done
// only when somebody waits for it, and rows of launches that can be recorded.
#pragma once

#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/runtime/device/cpu_device.h"

namespace common {

class LateDevice final : public Device {
 public:
  int launched = 0, recorded = 0, replayed = 0, flushed = 0;  // how often it was asked to
  int copied_in = 0, copied_out = 0;                          // between host and device
  size_t allocated = 0;                                       // bytes that nobody gave back yet
  int begun = 0, ended = 0;                                   // streams of a caller's
  std::function<void()> on_flush;
  bool has_library = true;    // of products, if the CPU has one
  bool refuses_rows = false;  // to record them

  ~LateDevice() override { (void)synchronise(); }
  const Target& target() const override { return cpu_->target(); }
  bool uses_host_memory() const override { return false; }
  int concurrency() const override { return 1; }
  Result<std::shared_ptr<Module>> load(const Digest& digest, ByteView object) override {
    return cpu_->load(digest, object);
  }
  Result<DeviceMemory> allocate(size_t bytes) override {
    allocated += bytes;
    size_t rounded = (bytes / kBufferAlignment + 1) * kBufferAlignment;
    return DeviceMemory(
        this, static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, rounded)), bytes);
  }
  Status copy_in(std::byte* device, ByteView host) override {
    ++copied_in;
    return later([=, this] { return cpu_->copy_in(device, host); });
  }
  Status copy_out(std::span<std::byte> host, const std::byte* device) override {
    ++copied_out;
    LFARM_RETURN_IF_ERROR(synchronise());
    return cpu_->copy_out(host, device);
  }
  Status copy_out_later(std::byte* host, const std::byte* device, size_t bytes) override {
    return later([=, this] { return cpu_->copy_out({host, bytes}, device); });
  }
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override {
    return later([=, this] { return cpu_->copy(to, from, bytes); });
  }
  Status fill(std::byte* device, std::byte value, size_t bytes) override {
    return later([=, this] { return cpu_->fill(device, value, bytes); });
  }

  Status launch(const Launch& launch) override {
    ++launched;
    // A GPU takes its arguments along, and leaves the caller's memory.
    auto work = [this, late = launch,
                 buffers = std::vector(launch.buffers.begin(), launch.buffers.end()),
                 symbols = std::vector(launch.symbols.begin(), launch.symbols.end())]() mutable {
      late.buffers = buffers;
      late.symbols = symbols;
      return cpu_->launch(late);
    };
    return later(std::move(work));
  }
  Status gemm(const GemmSizes& sizes, const void* a, const void* b, void* out) override {
    if (!has_library) return unavailable("there is no library of products");
    ++launched;
    return later([=, this] { return cpu_->gemm(sizes, a, b, out); });
  }
  bool has_gemm() const override { return has_library && cpu_->has_gemm(); }
  Status synchronise() override {
    while (!work_.empty()) {
      std::function<Status()> next = std::move(work_.front());
      work_.pop_front();
      LFARM_RETURN_IF_ERROR(next());
    }
    return {};
  }
  // All work is done in one order, as it is with streams that wait for one another.
  Status begin_stream(void*) override {
    ++begun;
    return {};
  }
  Status end_stream() override {
    ++ended;
    return {};
  }
  bool is_idle() const { return work_.empty(); }
  std::unique_ptr<Timer> make_timer(size_t) override { return std::make_unique<LateTimer>(*this); }
  Status flush_caches() override {
    ++flushed;
    if (on_flush) on_flush();
    return {};
  }

  bool can_record() const override { return true; }
  Status record(const std::function<Status()>& row, std::unique_ptr<Recording>& out) override {
    ++recorded;
    if (refuses_rows) {
      out.reset();
      return unsupported("rows are not recorded");
    }
    auto made = std::make_unique<Row>();
    recording_ = &made->work;
    Status status = row();
    recording_ = nullptr;
    out.reset();
    LFARM_RETURN_IF_ERROR(status);
    out = std::move(made);
    return {};
  }
  Status replay(Recording& recording) override {
    ++replayed;
    for (const auto& work : static_cast<Row&>(recording).work) work_.push_back(work);
    return {};
  }

 private:
  struct Row final : Recording {
    std::vector<std::function<Status()>> work;
  };
  class LateTimer final : public Timer {
   public:
    explicit LateTimer(LateDevice& device) : device_(device) {}
    void mark() override {
      (void)device_.later([this]() -> Status {
        marks_.push_back(clock_.now_ns());
        return {};
      });
    }
    Result<std::vector<int64_t>> take_intervals_ns() override {
      LFARM_RETURN_IF_ERROR(device_.synchronise());
      std::vector<int64_t> intervals;
      for (size_t k = 1; k < marks_.size(); ++k) intervals.push_back(marks_[k] - marks_[k - 1]);
      marks_.clear();
      return intervals;
    }

   private:
    LateDevice& device_;
    SteadyClock clock_;
    std::vector<int64_t> marks_;
  };

  Status later(std::function<Status()> work) {
    if (recording_ != nullptr) {
      recording_->push_back(std::move(work));
    } else {
      work_.push_back(std::move(work));
    }
    return {};
  }
  // What was launched before may still use it.
  void release(std::byte* data, size_t bytes) override {
    allocated -= bytes;
    work_.emplace_back([data]() -> Status {
      std::free(data);
      return {};
    });
  }

  std::unique_ptr<Device> cpu_ = make_cpu_device();
  std::deque<std::function<Status()>> work_;
  std::vector<std::function<Status()>>* recording_ = nullptr;
};

}  // namespace common
