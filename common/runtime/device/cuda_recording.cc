#include "common/runtime/device/cuda_recording.h"

#include <algorithm>
#include <utility>

namespace common {
namespace {

// Nodes that a library call may have to be patched: a product has one or two.
constexpr size_t kLibraryNodesMax = 8;

std::vector<void*> parameters_of(const CudaKernelLaunch& launch) {
  std::vector<void*> parameters;
  parameters.reserve(launch.arguments.size() + launch.maps.size());
  for (const uint64_t& argument : launch.arguments) {
    parameters.push_back(const_cast<uint64_t*>(&argument));
  }
  for (const CudaTensorMap& map : launch.maps) {
    parameters.push_back(const_cast<CudaTensorMap*>(&map));
  }
  return parameters;
}

}  // namespace

CudaResult CudaKernelLaunch::put_on(CudaStream stream, const CudaCalls& calls,
                                    bool overlaps) const {
  std::vector<void*> parameters = parameters_of(*this);
  if (overlaps) {
    CudaLaunchAttribute attribute{};
    attribute.id = kCudaProgrammaticSerialization;
    attribute.value = 1;
    CudaLaunchConfig config{blocks, 1, 1, threads, 1, 1, shared_bytes, stream, &attribute, 1};
    return calls.launch_kernel_with(&config, function, parameters.data(), nullptr);
  }
  return calls.launch_kernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream,
                             parameters.data(), nullptr);
}

CudaRecording::~CudaRecording() {
  CudaScope scope(*session_);
  if (!scope.ok()) return;
  session_->calls().destroy_graph_exec(executable_);
  session_->calls().destroy_graph(graph_);
}

Status CudaRecorder::record(const std::function<Status()>& row,
                            std::unique_ptr<Recording>& recording) {
  std::lock_guard lock(mutex_);
  const CudaCalls& calls = session_->calls();
  std::unique_ptr<Recording> old = std::move(recording);
  auto* known = static_cast<CudaRecording*>(old.get());
  if (known != nullptr) {
    LFARM_ASSIGN_OR_RETURN(bool is_patched, patch(row, *known));
    if (is_patched) {
      recording = std::move(old);
      return {};
    }
  }
  LFARM_ASSIGN_OR_RETURN(CudaGraph graph, capture(row));
  if (known != nullptr && update(*known, graph)) {
    calls.destroy_graph(graph);
    recording = std::move(old);
    return {};
  }
  CudaGraphExec executable = nullptr;
  Status made =
      session_->check(calls.instantiate_graph(&executable, graph, 0), "cuGraphInstantiate");
  if (!made.ok()) {
    calls.destroy_graph(graph);
    return made;
  }
  recording =
      std::make_unique<CudaRecording>(session_, graph, executable, std::exchange(steps_, {}));
  return {};
}

Status CudaRecorder::run(const std::function<Status()>& row) {
  recorder_ = std::this_thread::get_id();
  Status done = row();
  recorder_ = std::thread::id();
  return done;
}

Result<bool> CudaRecorder::patch(const std::function<Status()>& row, CudaRecording& recording) {
  patched_ = &recording;
  next_ = 0;
  is_other_ = false;
  Status done = run(row);
  patched_ = nullptr;
  if (!done.ok()) return done.error();
  return !is_other_ && next_ == recording.steps_.size();
}

Status CudaRecorder::begin_capture() {
  return session_->check(
      session_->calls().begin_capture(session_->capture_stream(), kCudaCaptureThreadLocal),
      "cuStreamBeginCapture");
}

// The graph of what `row` launches; the caller destroys it.
Result<CudaGraph> CudaRecorder::capture(const std::function<Status()>& row) {
  const CudaCalls& calls = session_->calls();
  steps_.clear();
  LFARM_RETURN_IF_ERROR(begin_capture());
  Status launched = run(row);
  CudaGraph graph = nullptr;
  // Ends the capture also when a launch failed, which may have spoilt it.
  Status ended =
      session_->check(calls.end_capture(session_->capture_stream(), &graph), "cuStreamEndCapture");
  if (launched.ok() && ended.ok()) return graph;
  if (graph != nullptr) calls.destroy_graph(graph);
  return launched.ok() ? ended.error() : launched.error();
}

bool CudaRecorder::update(CudaRecording& recording, CudaGraph graph) {
  bool has_same_nodes = std::equal(
      steps_.begin(), steps_.end(), recording.steps_.begin(), recording.steps_.end(),
      [](const CudaStep& a, const CudaStep& b) { return a.nodes.size() == b.nodes.size(); });
  CudaUpdateInfo info{};
  if (!has_same_nodes ||
      session_->calls().update_graph(recording.executable_, graph, &info) != kCudaSuccess) {
    return false;
  }
  for (size_t k = 0; k < steps_.size(); ++k) {
    recording.steps_[k].launch = std::move(steps_[k].launch);
  }
  return true;
}

CudaStep* CudaRecorder::next_step(bool is_library) {
  std::vector<CudaStep>& steps = patched_->steps_;
  is_other_ =
      is_other_ || next_ >= steps.size() || (steps[next_].launch.function == nullptr) != is_library;
  return is_other_ ? nullptr : &steps[next_++];
}

// Only after a kernel that waits, too: then all before that one has ended when this one begins, so
// that its own wait for the one before is a wait for all.
bool CudaRecorder::may_overlap(const CudaKernelLaunch& launch) const {
  return launch.waits && session_->overlaps_kernels() && !steps_.empty() &&
         steps_.back().launch.waits;
}

Status CudaRecorder::launch(CudaKernelLaunch launch) {
  if (patched_ == nullptr) {
    CudaResult put =
        launch.put_on(session_->capture_stream(), session_->calls(), may_overlap(launch));
    LFARM_RETURN_IF_ERROR(session_->check(put, "cuLaunchKernel"));
    steps_.push_back({std::move(launch), {last_node()}});
    return {};
  }
  CudaStep* step = next_step(false);
  if (step == nullptr) return {};
  if (!step->launch.is_like(launch)) {
    is_other_ = true;
  } else if (step->launch.arguments != launch.arguments) {
    is_other_ = !set_kernel(*step, launch);
    step->launch = std::move(launch);
  }
  return {};
}

bool CudaRecorder::set_kernel(CudaStep& step, const CudaKernelLaunch& launch) {
  std::vector<void*> parameters = parameters_of(launch);
  CudaKernelNode node{};
  node.function = launch.function;
  node.grid_x = launch.blocks;
  node.block_x = launch.threads;
  node.grid_y = node.grid_z = node.block_y = node.block_z = 1;
  node.shared_bytes = launch.shared_bytes;
  node.parameters = parameters.data();
  return session_->calls().set_kernel_node(patched_->executable_, step.nodes[0], &node) ==
         kCudaSuccess;
}

Status CudaRecorder::call_library(std::vector<uint64_t> arguments,
                                  const std::function<Status(CudaStream)>& call) {
  if (patched_ == nullptr) {
    CudaGraphNode before = last_node();
    LFARM_RETURN_IF_ERROR(call(session_->capture_stream()));
    CudaStep step;
    step.launch.arguments = std::move(arguments);
    step.nodes = nodes_since(before);
    steps_.push_back(std::move(step));
    return {};
  }
  CudaStep* step = next_step(true);
  if (step == nullptr || step->launch.arguments == arguments) return {};
  return patch_library(*step, std::move(arguments), call);
}

Status CudaRecorder::patch_library(CudaStep& step, std::vector<uint64_t> arguments,
                                   const std::function<Status(CudaStream)>& call) {
  is_other_ = step.nodes.empty();
  if (is_other_) return {};
  const CudaCalls& calls = session_->calls();
  LFARM_RETURN_IF_ERROR(begin_capture());
  Status called = call(session_->capture_stream());
  std::vector<CudaGraphNode> fresh = called.ok() ? nodes_since(nullptr) : decltype(step.nodes){};
  CudaGraph graph = nullptr;
  Status ended =
      session_->check(calls.end_capture(session_->capture_stream(), &graph), "cuStreamEndCapture");
  if (called.ok() && ended.ok()) {
    is_other_ =
        !std::equal(step.nodes.begin(), step.nodes.end(), fresh.begin(), fresh.end(),
                    [this](CudaGraphNode to, CudaGraphNode from) { return copy_node(to, from); });
    step.launch.arguments = std::move(arguments);
  }
  if (graph != nullptr) calls.destroy_graph(graph);
  return called.ok() ? ended : called;
}

bool CudaRecorder::copy_node(CudaGraphNode to, CudaGraphNode from) {
  const CudaCalls& calls = session_->calls();
  int type = -1, wanted = -1;
  if (calls.node_type(from, &type) != kCudaSuccess ||
      calls.node_type(to, &wanted) != kCudaSuccess || type != wanted) {
    return false;
  }
  CudaGraphExec executable = patched_->executable_;
  if (type == kCudaKernelNode) {
    CudaKernelNode node{};
    return calls.get_kernel_node(from, &node) == kCudaSuccess &&
           calls.set_kernel_node(executable, to, &node) == kCudaSuccess;
  }
  if (type == kCudaCopyNode) {
    CudaCopyNode node{};
    return calls.get_copy_node(from, &node) == kCudaSuccess &&
           calls.set_copy_node(executable, to, &node, session_->context()) == kCudaSuccess;
  }
  CudaFillNode node{};
  return type == kCudaFillNode && calls.get_fill_node(from, &node) == kCudaSuccess &&
         calls.set_fill_node(executable, to, &node, session_->context()) == kCudaSuccess;
}

CudaGraphNode CudaRecorder::last_node() const {
  int status = 0;
  uint64_t id = 0;
  CudaGraph graph = nullptr;
  const CudaGraphNode* last = nullptr;
  size_t count = 0;
  bool is_known = session_->calls().capture_info(session_->capture_stream(), &status, &id, &graph,
                                                 &last, &count) == kCudaSuccess;
  return is_known && count == 1 ? last[0] : nullptr;
}

std::vector<CudaGraphNode> CudaRecorder::nodes_since(CudaGraphNode first) const {
  std::vector<CudaGraphNode> nodes;
  for (CudaGraphNode node = last_node(); node != first;) {
    if (node == nullptr || nodes.size() == kLibraryNodesMax) return {};
    nodes.push_back(node);
    CudaGraphNode before[2] = {};
    size_t count = 2;
    if (session_->calls().dependencies(node, before, &count) != kCudaSuccess || count > 1) {
      return {};
    }
    node = count == 0 ? nullptr : before[0];
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace common
