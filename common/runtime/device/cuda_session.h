// A GPU's primary context as one device of the runtime uses it: its streams, its memory, and the
// order of work when a caller brings a stream of its own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "common/cuda/driver.h"
#include "common/runtime/device/cuda_memory.h"

namespace common {

// Held by all that lives in the context, so that it goes last. Thread-safe.
class CudaSession {
 public:
  static Result<std::shared_ptr<CudaSession>> open(std::shared_ptr<const CudaDriver> driver,
                                                   int index, DeviceAllocator allocator);
  ~CudaSession();
  CudaSession(const CudaSession&) = delete;
  CudaSession& operator=(const CudaSession&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  const CudaCalls& calls() const { return driver_->calls(); }
  const CudaDeviceFacts& facts() const { return facts_; }
  CudaMemoryPool& pool() { return pool_; }
  CudaContext context() const { return context_; }
  CudaStream capture_stream() const { return capture_stream_; }

  Status check(CudaResult result, const char* what) {
    if (is_kernel_fault(result)) faulted_ = true;
    return driver_->check(result, what);
  }
  bool is_faulted() const { return faulted_; }
  // Whether kernels of a graph may begin while the ones before them run.
  bool overlaps_kernels() const { return overlaps_kernels_; }

  // Where the calling thread's work goes: the session's own stream, or the one it borrowed.
  CudaStream stream() const { return borrows() ? borrowed_ : stream_; }
  // Until give_stream_back(), the calling thread's work goes to a stream of the caller's, after all
  // that was put on the own one; what comes later waits for it. Memory, workspaces and recordings
  // are thus used in one order, whatever the stream. Other threads wait meanwhile.
  Status borrow(CudaStream stream);
  Status give_stream_back();
  // Whether that stream is being captured by the caller. Then nothing is ordered: what was put on
  // the own stream before is waited for, and what the caller does with the graph is the caller's.
  bool is_capturing() const { return borrows() && borrowed_captures_; }
  // As cuStreamIsCapturing says it.
  Result<int> capture_status(CudaStream stream);
  // To be held while work is put on stream().
  using Turn = std::shared_lock<std::shared_mutex>;
  Turn turn() { return borrows() ? Turn() : Turn(turn_mutex_); }

  Result<CudaEvent> take_event();
  void give_back(std::vector<CudaEvent>& events);

 private:
  CudaSession(std::shared_ptr<const CudaDriver>, CudaDeviceFacts, CudaContext, DeviceAllocator);
  // Before the calling thread borrows the stream.
  Status order_borrowed(CudaStream stream);
  bool borrows() const {
    return borrower_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  // What `last` does from now on comes after what `first` was given.
  Status put_in_order(CudaStream first, CudaStream last);

  std::shared_ptr<const CudaDriver> driver_;
  CudaDeviceFacts facts_;
  CudaContext context_;
  bool overlaps_kernels_;
  CudaMemoryPool pool_;
  CudaStream stream_ = nullptr;
  CudaStream capture_stream_ = nullptr;
  std::atomic<bool> faulted_{false};
  std::shared_mutex turn_mutex_;  // held alone by who borrows; guards what follows
  CudaStream borrowed_ = nullptr;
  bool borrowed_captures_ = false;
  CudaEvent order_event_ = nullptr;
  std::atomic<std::thread::id> borrower_{};
  std::mutex mutex_;               // guards events_
  std::vector<CudaEvent> events_;  // not in use
};

// Makes the session's context the calling thread's, and at its end again what it was before: the
// thread is an application's, which may work on another device. Meanwhile the thread may allocate,
// free and wait, whatever the application captures, and its captures stay whole.
class CudaScope {
 public:
  explicit CudaScope(CudaSession& session);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;
  // Whether the context is current.
  Status status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  const CudaCalls& calls_;
  CudaContext before_ = nullptr;
  bool is_changed_ = false;
  int capture_mode_ = kCudaCaptureRelaxed;  // then what it was before
  Status status_;
};

}  // namespace common
