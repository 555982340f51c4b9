// The driver API of the emulated device: captures and graphs. Signatures are those of the public
// interface, with handles as untyped pointers.
#include <algorithm>
#include <cstring>

#include "tests/emulator/driver/driver_state.h"

namespace emulator {
namespace {

// Of CUmemorytype.
constexpr int kDeviceMemory = 2;
// Of CUgraphNodeType.
constexpr int kKernelNode = 0, kCopyNode = 1, kFillNode = 2;

struct KernelNode {
  const Function* function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  void* context;
};
struct FillNode {
  uint64_t to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
struct CopySide {
  size_t x_bytes, y, z, level;
  int memory_type;
  const void* host;
  uint64_t device;
  void* array;
  void* reserved;
  size_t pitch, height;
};
struct CopyNode {
  CopySide from, to;
  size_t width_bytes, height, depth;
};
struct UpdateInfo {
  int result;
  void* error_node;
  void* error_from_node;
};

// A node's place; no graph where there is no such node.
struct Place {
  Graph* graph = nullptr;
  size_t index = 0;
  Operation& operation() const { return graph->operations[index]; }
};

Place place_in(Graph* graph, const void* node) {
  for (size_t k = 0; graph != nullptr && k < graph->operations.size(); ++k) {
    if (&graph->operations[k] == node) return {graph, k};
  }
  return {};
}

Place place_of(const void* node) {
  for (auto& [handle, graph] : driver().graphs) {
    if (Place place = place_in(graph.get(), node); place.graph != nullptr) return place;
  }
  for (auto& [handle, stream] : driver().streams) {
    if (Place place = place_in(stream->capture.get(), node); place.graph != nullptr) return place;
  }
  return {};
}

// The executable's own node that was made of `node`; null where it is of another graph, or of one
// that is gone.
Operation* executable_node(void* handle, const void* node) {
  Executable* executable = find(driver().executables, handle);
  const Place place = place_of(node);
  if (executable == nullptr || place.graph == nullptr || place.graph != executable->source) {
    return nullptr;
  }
  return &executable->graph.operations[place.index];
}

int type_of(const Operation& op) {
  if (op.kind == Operation::Kind::kKernel) return kKernelNode;
  return op.kind == Operation::Kind::kFill ? kFillNode : kCopyNode;
}

bool is_device_row(const CopySide& side, size_t bytes) {
  return side.memory_type == kDeviceMemory && side.x_bytes == 0 && side.y == 0 && side.z == 0 &&
         executor().memory.host_view(side.device, bytes) != nullptr;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.

// --- graphs: a line of operations each, since one stream captures ---

LF_API cuStreamBeginCapture_v2(void* stream, int mode) {
  Call call;
  if (call.error != 0) return call.error;
  Stream* found = find(driver().streams, stream);
  if (found == nullptr) return stream == nullptr ? kCaptureUnsupported : kInvalidHandle;
  if (found->capture || mode < 0 || mode > 2) return kInvalidValue;
  found->capture = std::make_unique<Graph>();
  found->is_capture_invalid = false;
  found->mode = static_cast<CaptureMode>(mode);
  found->capturer = std::this_thread::get_id();
  return kSuccess;
}

LF_API cuThreadExchangeStreamCaptureMode(int* mode) {
  if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
  const auto before = static_cast<int>(capture_mode());
  capture_mode() = static_cast<CaptureMode>(*mode);
  *mode = before;
  return kSuccess;
}

LF_API cuStreamIsCapturing(void* stream, int* status) {
  Call call;
  if (call.error != 0) return call.error;
  const Stream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  *status = !found->capture ? 0 : found->is_capture_invalid ? 2 : 1;
  return kSuccess;
}

LF_API cuStreamEndCapture(void* stream, void** graph) {
  Call call;
  if (call.error != 0) return call.error;
  Stream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (!found->capture) return kInvalidValue;
  std::unique_ptr<Graph> captured = std::move(found->capture);
  *graph = nullptr;
  if (found->is_capture_invalid) return kCaptureInvalidated;
  *graph = keep(driver().graphs, std::move(captured));
  return counted("cuStreamEndCapture");
}

// The last node is what the next one will follow.
LF_API cuStreamGetCaptureInfo_v2(void* stream, int* status, uint64_t* id, void** graph,
                                 const void*** last, size_t* count) {
  if (int error = cuStreamIsCapturing(stream, status); error != 0) return error;
  Call call;
  Stream* found = find_stream(stream);
  *id = 1;
  *count = 0;
  if (*status != 1) return kSuccess;
  static thread_local const void* node = nullptr;
  *graph = found->capture.get();
  *last = &node;
  if (found->capture->operations.empty()) return kSuccess;
  node = &found->capture->operations.back();
  *count = 1;
  return kSuccess;
}

LF_API cuGraphNodeGetDependencies(void* node, const void** before, size_t* count) {
  Call call;
  if (call.error != 0) return call.error;
  const Place place = place_of(node);
  if (place.graph == nullptr) return kInvalidValue;
  const size_t room = *count;
  *count = place.index == 0 ? 0 : 1;
  for (size_t k = 0; before != nullptr && k < room; ++k) {
    before[k] = k < *count ? &place.graph->operations[place.index - 1] : nullptr;
  }
  return kSuccess;
}

LF_API cuGraphNodeGetType(void* node, int* type) {
  Call call;
  if (call.error != 0) return call.error;
  const Place place = place_of(node);
  if (place.graph == nullptr) return kInvalidValue;
  *type = type_of(place.operation());
  return kSuccess;
}

// What it gives lives as long as the node.
LF_API cuGraphKernelNodeGetParams_v2(void* node, KernelNode* out) {
  Call call;
  if (call.error != 0) return call.error;
  const Place place = place_of(node);
  if (place.graph == nullptr || type_of(place.operation()) != kKernelNode) return kInvalidValue;
  Operation& op = place.operation();
  op.parameter_addresses.clear();
  for (std::vector<std::byte>& bytes : op.parameters) {
    op.parameter_addresses.push_back(bytes.data());
  }
  *out = {op.function,
          {op.grid.x, op.grid.y, op.grid.z},
          {op.block.x, op.block.y, op.block.z},
          op.dynamic_shared_bytes,
          op.parameter_addresses.data(),
          nullptr,
          nullptr,
          current_context()};
  return kSuccess;
}

// Stricter than the driver, which lets a node have another function of the context.
LF_API cuGraphExecKernelNodeSetParams_v2(void* executable, void* node, const KernelNode* wanted) {
  Call call;
  if (call.error != 0) return call.error;
  Operation* op = executable_node(executable, node);
  if (op == nullptr || type_of(*op) != kKernelNode || wanted->function != op->function ||
      wanted->extra != nullptr || wanted->kernel != nullptr) {
    return kInvalidValue;
  }
  Operation changed = *op;
  changed.grid = {wanted->grid[0], wanted->grid[1], wanted->grid[2]};
  changed.block = {wanted->block[0], wanted->block[1], wanted->block[2]};
  changed.dynamic_shared_bytes = wanted->shared_bytes;
  if (!set_parameters(changed, wanted->parameters)) return kInvalidValue;
  *op = std::move(changed);
  return counted("cuGraphExecKernelNodeSetParams");
}

LF_API cuGraphMemsetNodeGetParams(void* node, FillNode* out) {
  Call call;
  if (call.error != 0) return call.error;
  const Place place = place_of(node);
  if (place.graph == nullptr || type_of(place.operation()) != kFillNode) return kInvalidValue;
  const Operation& op = place.operation();
  *out = {op.to, 0, op.value, 1, op.bytes, 1};
  return kSuccess;
}

LF_API cuGraphExecMemsetNodeSetParams(void* executable, void* node, const FillNode* wanted,
                                      void* context) {
  Call call;
  if (call.error != 0) return call.error;
  Operation* op = executable_node(executable, node);
  if (op == nullptr || type_of(*op) != kFillNode || context != current_context() ||
      wanted->element_bytes != 1 || wanted->height != 1 || wanted->value > 0xff ||
      executor().memory.host_view(wanted->to, wanted->width) == nullptr) {
    return kInvalidValue;
  }
  op->to = wanted->to;
  op->value = static_cast<uint8_t>(wanted->value);
  op->bytes = wanted->width;
  return counted("cuGraphExecMemsetNodeSetParams");
}

// Copies within the device's memory alone.
LF_API cuGraphMemcpyNodeGetParams(void* node, CopyNode* out) {
  Call call;
  if (call.error != 0) return call.error;
  const Place place = place_of(node);
  if (place.graph == nullptr || place.operation().kind != Operation::Kind::kCopy) {
    return kInvalidValue;
  }
  const Operation& op = place.operation();
  *out = {};
  out->from.memory_type = out->to.memory_type = kDeviceMemory;
  out->from.device = op.from;
  out->to.device = op.to;
  out->width_bytes = op.bytes;
  out->height = out->depth = 1;
  return kSuccess;
}

LF_API cuGraphExecMemcpyNodeSetParams(void* executable, void* node, const CopyNode* wanted,
                                      void* context) {
  Call call;
  if (call.error != 0) return call.error;
  Operation* op = executable_node(executable, node);
  const bool is_line = wanted->height == 1 && wanted->depth == 1;
  if (op == nullptr || op->kind != Operation::Kind::kCopy || context != current_context() ||
      !is_line || !is_device_row(wanted->from, wanted->width_bytes) ||
      !is_device_row(wanted->to, wanted->width_bytes)) {
    return kInvalidValue;
  }
  op->from = wanted->from.device;
  op->to = wanted->to.device;
  op->bytes = wanted->width_bytes;
  return counted("cuGraphExecMemcpyNodeSetParams");
}

LF_API cuGraphDestroy(void* graph) {
  Call call;
  if (call.error != 0) return call.error;
  for (auto& [handle, executable] : driver().executables) {
    if (executable->source == graph) executable->source = nullptr;
  }
  return driver().graphs.erase(graph) == 1 ? kSuccess : kInvalidValue;
}

LF_API cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  Call call;
  if (call.error != 0) return call.error;
  const Graph* found = find(driver().graphs, graph);
  if (found == nullptr) return kInvalidValue;
  auto made = std::make_unique<Executable>();
  made->graph = *found;
  made->source = found;
  *executable = keep(driver().executables, std::move(made));
  return counted("cuGraphInstantiate");
}

LF_API cuGraphExecDestroy(void* executable) {
  Call call;
  if (call.error != 0) return call.error;
  return driver().executables.erase(executable) == 1 ? kSuccess : kInvalidValue;
}

LF_API cuGraphLaunch(void* executable, void* stream) {
  Call call;
  if (call.error != 0) return call.error;
  const Executable* found = find(driver().executables, executable);
  if (found == nullptr) return kInvalidValue;
  for (const Operation& op : found->graph.operations) {
    if (int error = issue(stream, op); error != 0) return error;
  }
  return counted("cuGraphLaunch");
}

// Parameters, sizes and functions may change, the line of nodes may not.
LF_API cuGraphExecUpdate_v2(void* executable, void* graph, UpdateInfo* result) {
  constexpr int kTopologyChanged = 2, kNodeTypeChanged = 3;
  Call call;
  if (call.error != 0) return call.error;
  Executable* old = find(driver().executables, executable);
  const Graph* wanted = find(driver().graphs, graph);
  if (old == nullptr || wanted == nullptr) return kInvalidValue;
  *result = {};
  if (old->graph.operations.size() != wanted->operations.size()) {
    result->result = kTopologyChanged;
  } else if (!std::equal(old->graph.operations.begin(), old->graph.operations.end(),
                         wanted->operations.begin(),
                         [](const Operation& a, const Operation& b) { return a.kind == b.kind; })) {
    result->result = kNodeTypeChanged;
  }
  if (result->result != 0) return kGraphUpdateFailed;
  old->graph = *wanted;
  return counted("cuGraphExecUpdate");
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
