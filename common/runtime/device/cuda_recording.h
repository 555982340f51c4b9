// A row of launches on a GPU as one graph, which is patched where the memory that it works on has
// moved.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/runtime/device/cuda_session.h"
#include "common/runtime/device/device.h"

namespace common {

// A kernel's launch as the driver takes it. Every argument has 8 bytes; tensor maps follow them,
// and follow from them: maps of one kernel differ only where addresses or sizes do.
struct CudaKernelLaunch {
  CudaFunction function = nullptr;
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  std::vector<uint64_t> arguments;
  std::vector<CudaTensorMap> maps;
  bool waits = false;  // see EntryPoint

  // `overlaps`: it may begin while the kernel before it runs.
  CudaResult put_on(CudaStream stream, const CudaCalls& calls, bool overlaps = false) const;
  bool is_like(const CudaKernelLaunch& other) const {
    return function == other.function && blocks == other.blocks && threads == other.threads &&
           shared_bytes == other.shared_bytes && arguments.size() == other.arguments.size() &&
           maps.size() == other.maps.size();
  }
};

// One launch or library call of a recorded row.
struct CudaStep {
  CudaKernelLaunch launch;  // without a function: a library call, whose arguments tell it
  // Its nodes in order; none where a library call left what cannot be patched.
  std::vector<CudaGraphNode> nodes;
};

class CudaRecording final : public Recording {
 public:
  // Owns both. The driver knows an executable's nodes by those of the graph that it was made of.
  CudaRecording(std::shared_ptr<CudaSession> session, CudaGraph graph, CudaGraphExec executable,
                std::vector<CudaStep> steps)
      : session_(std::move(session)),
        graph_(graph),
        executable_(executable),
        steps_(std::move(steps)) {}
  ~CudaRecording() override;
  CudaGraphExec executable() const { return executable_; }

 private:
  friend class CudaRecorder;
  std::shared_ptr<CudaSession> session_;
  CudaGraph graph_;
  CudaGraphExec executable_;
  std::vector<CudaStep> steps_;
};

// Makes and patches recordings. Thread-safe: one thread records, others wait for it.
class CudaRecorder {
 public:
  explicit CudaRecorder(std::shared_ptr<CudaSession> session) : session_(std::move(session)) {}

  // Device::record: while `row` runs, the calling thread's launches and library calls have to come
  // here. Of a recording that is there, what changed is patched: kernels by their arguments,
  // library calls by what they record when called again alone. Where the row is another one, or
  // the driver refuses, all of it is recorded anew.
  Status record(const std::function<Status()>& row, std::unique_ptr<Recording>& recording);
  // Whether the calling thread is recording.
  bool is_mine() const {
    return recorder_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  // For the recording thread.
  Status launch(CudaKernelLaunch launch);
  // `arguments` tell calls apart; `call` puts the call on a stream.
  Status call_library(std::vector<uint64_t> arguments,
                      const std::function<Status(CudaStream)>& call);

 private:
  Status run(const std::function<Status()>& row);
  // Whether `recording` now is what the row launches.
  Result<bool> patch(const std::function<Status()>& row, CudaRecording& recording);
  // Whether the next kernel of the row may begin while what stands before it runs.
  bool may_overlap(const CudaKernelLaunch& launch) const;
  Result<CudaGraph> capture(const std::function<Status()>& row);
  Status begin_capture();
  // Without a recording's steps the graph is what `recording` becomes, if the driver agrees.
  bool update(CudaRecording& recording, CudaGraph graph);
  // Of the row that is patched; null and is_other_ where it has no such step.
  CudaStep* next_step(bool is_library);
  bool set_kernel(CudaStep& step, const CudaKernelLaunch& launch);
  Status patch_library(CudaStep& step, std::vector<uint64_t> arguments,
                       const std::function<Status(CudaStream)>& call);
  bool copy_node(CudaGraphNode to, CudaGraphNode from);
  // What was captured last; null at the beginning.
  CudaGraphNode last_node() const;
  // What was captured after `first`, in order; none where that is not a short line of nodes.
  std::vector<CudaGraphNode> nodes_since(CudaGraphNode first) const;

  std::shared_ptr<CudaSession> session_;
  std::mutex mutex_;  // held while a row is recorded; guards what follows
  std::vector<CudaStep> steps_;
  CudaRecording* patched_ = nullptr;  // null: the row is captured
  size_t next_ = 0;                   // among its steps
  bool is_other_ = false;             // the row is none that it can be patched to
  std::atomic<std::thread::id> recorder_{};
};

}  // namespace common
