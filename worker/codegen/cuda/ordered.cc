#include "worker/codegen/cuda/ordered.h"

#include <set>
#include <utility>

#include "common/base/cat.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/kernels/ordered_tiling.h"
#include "worker/codegen/body/ordered.h"
#include "worker/codegen/cuda/text/text.h"
#include "worker/codegen/text/scan_form.h"

namespace worker {

using common::BodyEmitter;
using common::c_value_type;
using common::cat;
using common::CodeWriter;
using common::counting_loop;
using common::declare_positions;
using common::DType;
using common::Expr;
using common::finish_body;
using common::GpuFunction;
using common::Graph;
using common::Indices;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::Op;
using common::Result;
using common::ScanAttr;
using common::ScanTiling;
using common::Scratch;
using common::Shape;
using common::SortAttr;
using common::SortBlocks;
using common::SortMethod;
using common::SortTiling;
using common::Team;
using common::Tiling;

namespace {

// One output node, and units that are the positions on all axes but the node's own.
class LineEmitter {
 public:
  LineEmitter(const Graph& body, int axis)
      : body_(body),
        writer_(body.symbols),
        emitter_(body, writer_),
        node_(body.node(body.outputs[0].node)),
        axis_(static_cast<size_t>(axis)),
        length_(body.node(node_.operands[0]).shape[axis_]) {}

 protected:
  // Opens scope 1 with the unit's indices; `unit` spells its number. A team is the block,
  // or each of its warps, which then compute the same.
  Expr open_unit(const std::string& unit, Team team) {
    for (size_t k = 0; k < node_.shape.size(); ++k) {
      if (k != axis_) others_.push_back(node_.shape[k]);
    }
    Expr units = common::element_count(others_);
    writer_.line(cat("const int64_t u = ", unit, ";"));
    // Outside of the unit: what no unit needs for itself is summed there.
    if (team.size > 1) writer_.line(cat("const int member = threadIdx.x % ", team.size, ";"));
    writer_.open(false);
    team.level = writer_.depth();
    emitter_.set_team(team);
    Expr u = Expr::index(writer_.bind_index("u", units, team.level));
    unit_ = declare_positions(writer_, "i", others_, u);
    return units;
  }
  // The element at `j` of the unit's line.
  Indices at(const Expr& j) const {
    Indices position = unit_;
    position.insert(position.begin() + static_cast<std::ptrdiff_t>(axis_), j);
    return position;
  }
  std::string offset(const Indices& position) {
    return writer_.text(writer_.simplify(linear_position(position, node_.shape)));
  }
  std::string element(const Expr& j) { return emitter_.value(node_.operands[0], at(j)).text; }
  Result<GpuFunction> finish(const Expr& units, int threads, int64_t units_of_block,
                             int64_t shared_bytes = 0) {
    writer_.close("");
    LFARM_RETURN_IF_ERROR(emitter_.status());
    return GpuFunction{finish_body(writer_, units, scratch_),
                       {threads, units_of_block, shared_bytes}};
  }

  const Graph& body_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  Scratch scratch_;
  const Node& node_;
  size_t axis_;
  Expr length_;

 private:
  Shape others_;
  Indices unit_;
};

class CudaScanEmitter : public LineEmitter {
 public:
  CudaScanEmitter(const Graph& body, const ScanTiling& tiling)
      : LineEmitter(body, attr<ScanAttr>(body.node(body.outputs[0].node)).axis),
        threads_(static_cast<int>(tiling.threads)),
        form_(body.node(body.outputs[0].node)) {}

  Result<GpuFunction> run() {
    bool is_last = axis_ + 1 == node_.shape.size();
    return is_last ? rows() : lines();
  }

 private:
  std::string stored(const std::string& sum) const {
    return cat("(", c_value_type(node_.dtype), ")", sum);
  }

  Result<GpuFunction> lines() {
    writer_.line(cat("if ((int64_t)blockIdx.x * ", threads_, " + threadIdx.x >= units) return;"));
    Expr units = open_unit(cat("(int64_t)blockIdx.x * ", threads_, " + threadIdx.x"), {});
    writer_.line(cat(form_.type(), " sum = ", form_.start(), ";"));
    Expr j = Expr::index(writer_.open_loop("j", length_));
    writer_.line(cat("sum = ", form_.step("sum", element(j)), ";"));
    writer_.line(cat("out0[", offset(at(j)), "] = ", stored("sum"), ";"));
    writer_.close(counting_loop("j", "0", writer_.text(length_)));
    return finish(units, threads_, threads_);
  }

  // Warps scan 32 elements each by exchanging registers; a warp's sum comes before the next one's.
  Result<GpuFunction> rows() {
    std::string type = form_.type();
    Expr units = open_unit("blockIdx.x", {.size = threads_});
    std::string n = writer_.text(length_);
    writer_.line(cat("__shared__ ", type, " parts[", threads_ / 32, "];"));
    writer_.line("const int lane = member % 32, warp = member / 32;");
    writer_.line(cat(type, " carry = ", form_.start(), ";"));
    writer_.open(true);
    writer_.line(cat(type, " sum = ", form_.start(), ";"));
    writer_.open(true);
    Expr j = Expr::index(writer_.bind_index("j", length_, writer_.depth()));
    writer_.line("const int64_t j = c + member;");
    writer_.line(cat("sum = ", form_.step("sum", element(j)), ";"));
    writer_.close(cat("if (c + member < ", n, ")"));
    write_lines(writer_, cat("for (int o = 1; o < 32; o *= 2) {\n  const ", type,
                             " before = lf_shift(sum, o);\n  if (lane >= o) sum = ",
                             form_.step("before", "sum"), ";\n}\n",
                             "if (lane == 31) parts[warp] = sum;\n__syncthreads();\n", type,
                             " before = carry;\nfor (int w = 0; w < warp; ++w) before = ",
                             form_.step("before", "parts[w]"), ";\nfor (int w = 0; w < ",
                             threads_ / 32, "; ++w) carry = ", form_.step("carry", "parts[w]"),
                             ";\nsum = ", form_.step("before", "sum"), ";\n"));
    writer_.open(true);
    Expr place = Expr::index(writer_.bind_index("(c + member)", length_, writer_.depth()));
    writer_.line(cat("out0[", offset(at(place)), "] = ", stored("sum"), ";"));
    writer_.close(cat("if (c + member < ", n, ")"));
    writer_.line("__syncthreads();");
    writer_.close(counting_loop("c", "0", n, threads_));
    return finish(units, threads_, 1);
  }

  int threads_;
  ScanForm form_;
};

class CudaSortEmitter : public LineEmitter {
 public:
  // `kept`: nodes whose values along a line threads keep in registers.
  CudaSortEmitter(const Graph& body, const SortTiling& tiling, std::set<NodeId> kept = {})
      : LineEmitter(body, attr<SortAttr>(body.node(body.outputs[0].node)).axis),
        blocks_(tiling.blocks()),
        is_packed_(tiling.packed) {
    emitter_.set_choices({.fused = {}, .flat = {}, .staged = std::move(kept)});
  }

  // After run(): what several loops over a line asked for.
  std::set<NodeId> repeated() const {
    std::set<NodeId> nodes;
    for (const auto& [node, uses] : emitter_.row_uses()) {
      if (uses > 1) nodes.insert(node);
    }
    return nodes;
  }

  Result<GpuFunction> run() {
    const DType key = body_.node(node_.operands[0]).dtype;
    const std::string type = is_packed_ ? "lf_item" : "lf_pair";
    if (blocks_.method == SortMethod::kCount) return by_counting(key);
    const bool is_rank = blocks_.method == SortMethod::kRank;
    Expr units = open_unit("blockIdx.x", {.size = blocks_.key_threads()});
    if (blocks_.method == SortMethod::kMemory) {
      // The least power of two of chunks is below twice the length, or one chunk.
      scratch_.add("items", type, blocks_.item_bytes, length_ * Expr(2) + Expr(blocks_.places));
      writer_.line(cat("__shared__ ", type, " shared[", blocks_.places, "];"));
      writer_.line(cat("int64_t count = ", blocks_.places, ";\n    while (count < ",
                       writer_.text(length_), ") count *= 2;"));
    } else {
      writer_.line(cat("__shared__ __align__(16) ", type, " items[", blocks_.places, "];"));
      writer_.line(cat("const int64_t count = ", blocks_.places, ";"));
    }
    std::string make = is_packed_ ? "lf_make_item" : "lf_make_pair";
    std::string n = writer_.text(length_);
    if (is_rank) writer_.open(true);
    Expr j = emitter_.team().open(length_);
    std::string place = writer_.text(j);
    writer_.line(
        cat("items[", place, "] = ", make, "(", item_key(key, element(j)), ", ", place, ");"));
    emitter_.team().close();
    if (is_rank) writer_.close(cat("if (threadIdx.x < ", blocks_.key_threads(), ")"));
    if (!length_.is_constant(blocks_.places)) {
      writer_.open(true);
      writer_.line(cat("items[i] = ", make, "(~(uint64_t)0, i);"));
      writer_.close(counting_loop("i", cat(n, " + threadIdx.x"), "count", blocks_.threads));
    }
    if (is_rank) {
      store_by_rank();
    } else {
      store_sorted();
    }
    return finish(units, static_cast<int>(blocks_.threads), 1);
  }

 private:
  // In the order of the sort, with 32 bits where an item holds no more.
  std::string item_key(DType dtype, const std::string& x) const {
    std::string key = sort_key(node_, dtype, x);
    if (!is_packed_) return key;
    // Of integers the sort's key has 64 bits, whose sign bit is not among the last 32.
    return common::is_float(dtype) ? cat("(uint32_t)(", key, ")")
                                   : cat("(uint32_t)(", key, ") ^ 0x80000000u");
  }

  // Warps count the keys of their parts of the line, then place their items at these counts' sums.
  Result<GpuFunction> by_counting(DType key) {
    const int64_t warps = blocks_.threads / 32;
    Expr units = open_unit("blockIdx.x", {.size = blocks_.threads});
    const std::string n = writer_.text(length_);
    write_lines(
        writer_,
        cat("__shared__ uint32_t counters[", blocks_.places, "];\nfor (int i = member; i < ",
            blocks_.places, "; i += ", blocks_.threads, ") counters[i] = 0;\n",
            "__syncthreads();\nconst int64_t part = (", n, " + ", blocks_.threads - 1, ") / ",
            blocks_.threads, " * 32;\n",
            "const int64_t begin = member / 32 * part, end = lf_min_i64(begin + part, ", n, ");"));
    count_items(key, warps,
                [](const std::string& counted, const Expr&) { return cat(counted, ";"); });
    writer_.line(cat("lf_sum_counters<", warps, ">(counters);"));
    count_items(key, warps, [&](const std::string& counted, const Expr& j) {
      writer_.line(cat("const int64_t rank = ", counted, ";"));
      Expr rank = Expr::index(writer_.bind_index("rank", length_, writer_.depth()));
      return cat("if (c + member % 32 < end", and_is_kept(), ") out0[", offset(at(rank)),
                 "] = ", writer_.text(j), ";");
    });
    return finish(units, static_cast<int>(blocks_.threads), 1);
  }

  template <class Use>
  void count_items(DType key, int64_t warps, const Use& use) {
    writer_.open(true);
    writer_.line(cat("const int64_t j = lf_min_i64(c + member % 32, end - 1);"));
    Expr j = Expr::index(writer_.bind_index("j", length_, writer_.depth()));
    // Of signed keys the sort's order has the sign bit turned, which is not among the last 8.
    std::string number = cat("(unsigned)(", sort_key(node_, key, element(j)), " & 255)");
    if (key == DType::kInt8) number = cat(number, " ^ 128u");
    writer_.line(
        use(cat("lf_count_key<", warps, ">(counters, ", number, ", c + member % 32 < end)"), j));
    writer_.close("for (int64_t c = begin; c < end; c += 32)");
  }

  void store_by_rank() {
    writer_.line(cat("const int item = threadIdx.x / ", blocks_.parts(), ";"));
    writer_.line(
        cat("const int64_t rank = lf_rank<", blocks_.parts(), ", ", blocks_.places, ">(items);"));
    writer_.open(true);
    Expr rank = Expr::index(writer_.bind_index("rank", length_, writer_.depth()));
    writer_.line(cat("out0[", offset(at(rank)), "] = item;"));
    writer_.close(cat("if (threadIdx.x % ", blocks_.parts(), " == 0 && item < ",
                      writer_.text(length_), and_is_kept(), ")"));
  }

  void store_sorted() {
    std::string shared = blocks_.method == SortMethod::kMemory ? "shared" : "items";
    writer_.line(cat("lf_sort_block<", blocks_.threads, ", ", blocks_.each(), ">(items, ", shared,
                     ", count);"));
    const Expr& count = node_.shape[axis_];
    Expr place = Expr::index(writer_.open_loop("i", count));
    writer_.line(cat("out0[", offset(at(place)), "] = lf_position(items[i]);"));
    writer_.close(counting_loop("i", "member", writer_.text(count), blocks_.threads));
  }

  // What else a rank must be to be stored.
  std::string and_is_kept() {
    const Expr& count = node_.shape[axis_];
    return count == length_ ? "" : cat(" && rank < ", writer_.text(count));
  }

  SortBlocks blocks_;
  bool is_packed_;
};

common::Status check(const Graph& body, Op op) {
  const Node& node = body.node(body.outputs[0].node);
  if (body.outputs.size() == 1 && node.op == op) return {};
  return common::unsupported(cat("the ", op_name(op), " template takes a body whose one output ",
                                 "is the ", op_name(op), " node"));
}

}  // namespace

Result<GpuFunction> emit_cuda_scan(const Graph& body, const Tiling& tiling) {
  LFARM_RETURN_IF_ERROR(check(body, Op::kScan));
  LFARM_ASSIGN_OR_RETURN(auto sizes, common::from_tiling<ScanTiling>(tiling));
  LFARM_RETURN_IF_ERROR(common::verify(sizes));
  return CudaScanEmitter(body, sizes).run();
}

Result<GpuFunction> emit_cuda_sort(const Graph& body, const Tiling& tiling) {
  LFARM_RETURN_IF_ERROR(check(body, Op::kSort));
  LFARM_ASSIGN_OR_RETURN(auto sizes, common::from_tiling<SortTiling>(tiling));
  LFARM_RETURN_IF_ERROR(common::verify(sizes, body));
  CudaSortEmitter plain(body, sizes);
  LFARM_ASSIGN_OR_RETURN(GpuFunction function, plain.run());
  // The sums of a softmax read the line that is sorted.
  std::set<NodeId> repeated = plain.repeated();
  if (repeated.empty()) return function;
  return CudaSortEmitter(body, sizes, std::move(repeated)).run();
}

}  // namespace worker
