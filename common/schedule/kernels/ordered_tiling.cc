#include "common/schedule/kernels/ordered_tiling.h"

#include <algorithm>
#include <bit>

#include "common/cost/gpu_shared_memory.h"
#include "common/ir/llir/wrong_tiling.h"

namespace common {
namespace {

constexpr int64_t kWarp = 32, kThreadsMax = 1024;
constexpr int64_t kKeyCounters = 256;  // of a warp
// What blocks get of shared memory without asking, less what functions use.
constexpr int64_t kSharedBytes = kGpuStaticSharedBytes - 1024;
constexpr int64_t kPackedBytes = 8, kPositionsMax = int64_t{1} << 32;

struct Lines {
  DType key = DType::kFloat32;
  int64_t longest = 0;
  // Warps that count walk parts of the line, so that no sum along it can be theirs together.
  bool may_count = false;
};

Lines lines_of(const Graph& body) {
  const Node& node = body.node(body.outputs[0].node);
  Lines lines;
  lines.key = body.node(node.operands[0]).dtype;
  const Shape& keys = body.node(node.operands[0]).shape;
  const Expr& length = keys[static_cast<size_t>(attr<SortAttr>(node).axis)];
  lines.longest = Bounds(body.symbols, {}).upper(length);
  lines.may_count =
      dtype_size(lines.key) == 1 && std::none_of(body.nodes.begin(), body.nodes.end(),
                                                 [](const Node& n) { return n.op == Op::kReduce; });
  return lines;
}

bool is_block(int64_t threads) {
  return threads >= kWarp && threads <= kThreadsMax && threads % kWarp == 0;
}

const Node* only_output(const Graph& body, Op op) {
  if (body.outputs.size() != 1) return nullptr;
  const Node& node = body.node(body.outputs[0].node);
  return node.op == op ? &node : nullptr;
}

bool is_power(int64_t x) { return x > 0 && std::has_single_bit(static_cast<uint64_t>(x)); }

}  // namespace

SortBlocks SortTiling::blocks() const {
  return {static_cast<SortMethod>(method), places, threads, packed ? kPackedBytes : 16};
}

std::optional<SortTiling> choose_sort_tiling(const Graph& body) {
  if (only_output(body, Op::kSort) == nullptr) return {};
  const Lines lines = lines_of(body);
  const bool is_byte = dtype_size(lines.key) == 1;
  const SortBlocks blocks =
      sort_blocks(is_byte && !lines.may_count ? DType::kInt16 : lines.key, lines.longest);
  return SortTiling{static_cast<int64_t>(blocks.method), blocks.places, blocks.threads,
                    blocks.item_bytes == kPackedBytes};
}

Status verify(const SortTiling& t, const Graph& body) {
  const Lines lines = lines_of(body);
  const bool may_pack = dtype_size(lines.key) <= 4 && lines.longest <= kPositionsMax;
  if (t.packed && !may_pack) return wrong_tiling(t, "keys or positions exceed 32 bits");
  if (!is_block(t.threads)) return wrong_tiling(t, "threads make no block");
  const bool is_shared = t.places <= kSharedBytes / t.blocks().item_bytes;
  switch (static_cast<SortMethod>(t.method)) {
    case SortMethod::kRank: {
      if (!is_shared || t.places < std::max<int64_t>(1, lines.longest) ||
          t.threads % t.places != 0) {
        return wrong_tiling(t, "places do not hold a line, each with threads of its own");
      }
      const int64_t parts = t.threads / t.places;
      // Two items at a time, by threads of one warp.
      if (!is_power(parts) || parts > kWarp || t.places % (2 * parts) != 0) {
        return wrong_tiling(t, "an item's threads do not share its comparisons");
      }
      return {};
    }
    case SortMethod::kNetwork:
    case SortMethod::kMemory:
      if (!is_shared || !is_power(t.places) || !is_power(t.threads) || t.places < t.threads) {
        return wrong_tiling(t, "threads do not share the network's places");
      }
      if (t.method == static_cast<int64_t>(SortMethod::kNetwork) && t.places < lines.longest) {
        return wrong_tiling(t, "places do not hold a line");
      }
      return {};
    case SortMethod::kCount:
      if (!lines.may_count) return wrong_tiling(t, "only keys of 8 bits are counted");
      if (t.packed || t.places != kKeyCounters * (t.threads / kWarp)) {
        return wrong_tiling(t, "each warp counts all keys");
      }
      return {};
  }
  return wrong_tiling(t, "an unknown method");
}

std::optional<ScanTiling> choose_scan_tiling(const Graph& body) {
  constexpr int64_t kLineThreads = 256, kAcrossThreads = 128;
  const Node* scan = only_output(body, Op::kScan);
  if (scan == nullptr) return {};
  const auto axis = static_cast<size_t>(attr<ScanAttr>(*scan).axis);
  return ScanTiling{axis + 1 == scan->shape.size() ? kLineThreads : kAcrossThreads};
}

Status verify(const ScanTiling& t) {
  return is_block(t.threads) ? Status() : wrong_tiling(t, "threads make no block");
}

}  // namespace common
