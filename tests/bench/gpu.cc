// gpu [--quick] [--only KIND]: what generated kernels reach of a GPU's bandwidth, and of cuBLASLt.
// Rows are measured against a copy of the same device's memory, products against the library.
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "tests/bench/bench.h"
#include "tests/bench/gpu_runner.h"

namespace bench {
namespace {

using common::BinaryOp;
using common::cat;
using common::DType;
using common::GraphBuilder;
using common::NodeId;
using common::Op;
using common::Result;
using common::Status;
using common::Template;
using common::UnaryOp;

struct GpuOptions {
  bool quick = false;
  std::string only;  // a kind; empty: all
};

NodeId input(GraphBuilder& b, DType dtype, common::Shape shape) {
  return b.input(common::InputKind::kUser, dtype, std::move(shape), "x");
}

// All measurements on one device, against what a copy of its memory gets.
class Bench {
 public:
  Bench(GpuRunner& runner, const GpuOptions& options) : runner_(runner), options_(options) {}

  // False when anything failed; the rest is measured all the same.
  bool run();

 private:
  // What is common to all lines about kernels: the default's time, the best one's, and the time in
  // which a copy moves as much as the kernel reads and writes.
  struct Timing {
    std::string text;
    double best_us = 0, floor_us = 0;
    // Of the best by warpgroups and the best of the others; 0: none.
    double warpgroups_us = 0, warps_us = 0;
  };
  struct Product {
    const char* name;
    int64_t m, n, k;
  };
  struct Attention {
    const char* name;
    int64_t groups, members, rows, keys, depth;
    bool causal;
  };

  bool is_asked(const char* kind) const { return options_.only.empty() || options_.only == kind; }
  Status copy();
  Result<Timing> time(const common::Graph& body, const std::vector<Variant>& variants,
                      double bytes);
  Status rows(const std::string& name, DType dtype, int64_t rows, int64_t columns);
  Status product(const Product& p, const char* kind, const std::vector<Variant>& variants);
  Status attention(const Attention& a);
  // Says what failed, so that the rest goes on.
  void note(const std::string& what, const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "lfarm-bench: %s: %s\n", what.c_str(), status.error().message.c_str());
    failed_ = true;
  }

  GpuRunner& runner_;
  GpuOptions options_;
  double copy_gb_s_ = 0;  // read and written
  bool failed_ = false;
};

std::vector<Variant> loops_variants(bool quick) {
  std::vector<Variant> variants{{Template::kLoops, {}}};
  for (int64_t team : {32, 128, 256, 512, 1024}) {
    if (!quick) variants.push_back({Template::kLoops, {{"team", team}}});
  }
  return variants;
}

// Blocks of single warps, and shared k.
std::vector<Variant> product_variants(int64_t m, bool quick) {
  std::vector<Variant> variants{{Template::kTile, {}}};
  if (!quick && m == 1) variants.push_back({Template::kLoops, {}});
  for (int64_t rows : {16, 32, 64, 128}) {
    for (int64_t columns : {64, 128}) {
      if (quick || m == 1) continue;
      variants.push_back({Template::kTile, {{"block_columns", columns}, {"block_rows", rows}}});
    }
  }
  for (int64_t splits : {1, 2, 4, 8}) {
    if (!quick) variants.push_back({Template::kTile, {{"splits", splits}}});
  }
  return variants;
}

// The default, then what warpgroups can do; nothing where they cannot.
std::vector<Variant> warpgroup_variants(bool quick, common::Machine machine) {
  std::vector<Variant> variants;
  for (const common::ScheduleChoice& choice : common::schedule_parameters(Template::kTile)) {
    if (choice.name != "warpgroups" || !choice.is_on(machine)) continue;
    variants.push_back({Template::kTile, {}});
    for (int64_t block : choice.values) {
      for (int64_t stages : {0, 3}) {
        if (block == 0 || (quick && (block != 64064 || stages != 0))) continue;
        common::Schedule schedule{{"warpgroups", block}};
        if (stages != 0) schedule.insert(schedule.begin(), {"stages", stages});
        variants.push_back({Template::kTile, schedule});
      }
    }
  }
  return variants;
}

bool is_by_warpgroups(const Variant& variant) {
  return variant.form == Template::kTile &&
         common::schedule_value(variant.schedule, Template::kTile, "warpgroups") != 0;
}

std::vector<Variant> attention_variants(bool quick) {
  std::vector<Variant> variants{{Template::kAttention, {}}};
  for (int64_t keys : {32, 64}) {
    for (int64_t rows : {16, 32, 64}) {
      if (quick) continue;
      variants.push_back({Template::kAttention, {{"block_keys", keys}, {"block_rows", rows}}});
    }
  }
  return variants;
}

// Half types are computed in float32, as models ask for.
common::Graph rows_body(const std::string& name, DType dtype, int64_t rows, int64_t columns) {
  GraphBuilder b;
  auto wide = [&](NodeId x) { return b.cast(x, DType::kFloat32); };
  NodeId x = wide(input(b, dtype, {rows, columns}));
  NodeId result = x;
  if (name == "add") {
    result = b.binary(BinaryOp::kAdd, x, wide(input(b, dtype, {rows, columns})));
  } else if (name == "gelu") {
    NodeId e = b.unary(UnaryOp::kErf,
                       b.binary(BinaryOp::kMul, x, b.scalar(DType::kFloat32, 0.70710678118654752)));
    NodeId half = b.binary(BinaryOp::kMul, x, b.scalar(DType::kFloat32, 0.5));
    result =
        b.binary(BinaryOp::kMul, half, b.binary(BinaryOp::kAdd, e, b.scalar(DType::kFloat32, 1)));
  } else if (name == "softmax") {
    result =
        b.raw({Op::kSoftmax, DType::kFloat32, {rows, columns}, {x}, common::SoftmaxAttr{1, false}});
  } else if (name == "sum") {
    result = b.reduce(common::ReduceOp::kSum, x, {1});
  } else {
    bool centred = name == "layer_norm";
    result = b.raw(
        {Op::kNorm, DType::kFloat32, {rows, columns}, {x}, common::NormAttr{1, centred, 1e-5}});
    result = b.binary(BinaryOp::kMul, result, wide(input(b, dtype, {columns})));
    if (centred) result = b.binary(BinaryOp::kAdd, result, wide(input(b, dtype, {columns})));
  }
  b.output(b.cast(result, dtype));
  return b.finish();
}

// What the body's inputs and outputs take.
double moved_bytes(const common::Graph& body) {
  auto bytes = [](DType dtype, const common::Shape& shape) {
    auto total = static_cast<double>(common::dtype_size(dtype));
    for (const common::Expr& size : shape) total *= static_cast<double>(size.constant());
    return total;
  };
  double total = 0;
  for (const common::GraphInput& x : body.inputs) total += bytes(x.dtype, x.shape);
  for (const common::GraphOutput& output : body.outputs) {
    const common::Node& node = body.node(output.node);
    total += bytes(node.dtype, node.shape);
  }
  return total;
}

Status Bench::copy() {
  const size_t bytes = options_.quick ? size_t{1} << 20 : size_t{1} << 30;
  LFARM_ASSIGN_OR_RETURN(double us, runner_.time_copy(bytes));
  copy_gb_s_ = 2 * static_cast<double>(bytes) / us * 1e-3;
  std::printf("{\"gpu\":\"copy\",\"bytes\":%zu,\"us\":%.2f,\"gb_per_s\":%.1f}\n", bytes, us,
              copy_gb_s_);
  return {};
}

Result<Bench::Timing> Bench::time(const common::Graph& body, const std::vector<Variant>& variants,
                                  double bytes) {
  LFARM_ASSIGN_OR_RETURN(std::vector<TimedVariant> timed, runner_.time(body, variants));
  const TimedVariant* best = timed.data();
  double warpgroups_us = 0;
  double warps_us = 0;
  for (const TimedVariant& t : timed) {
    if (t.us < best->us) best = &t;
    double& least = is_by_warpgroups(t.variant) ? warpgroups_us : warps_us;
    if (least == 0 || t.us < least) least = t.us;
  }
  double floor_us = bytes / copy_gb_s_ * 1e-3;
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "\"first\":\"%s\",\"us\":%.2f,\"best\":\"%s\",\"best_us\":%.2f,\"copy_us\":%.2f",
                name_of(timed[0].variant).c_str(), timed[0].us, name_of(best->variant).c_str(),
                best->us, floor_us);
  return Timing{text.data(), best->us, floor_us, warpgroups_us, warps_us};
}

Status Bench::rows(const std::string& name, DType dtype, int64_t rows, int64_t columns) {
  common::Graph body = rows_body(name, dtype, rows, columns);
  double bytes = moved_bytes(body);
  LFARM_ASSIGN_OR_RETURN(Timing timing, time(body, loops_variants(options_.quick), bytes));
  std::printf(
      "{\"gpu\":\"rows\",\"name\":\"%s\",\"dtype\":\"%s\",\"rows\":%lld,\"columns\":%lld,%s,"
      "\"gb_per_s\":%.1f,\"fraction_of_copy\":%.3f}\n",
      name.c_str(), std::string(common::dtype_name(dtype)).c_str(), static_cast<long long>(rows),
      static_cast<long long>(columns), timing.text.c_str(), bytes / timing.best_us * 1e-3,
      timing.floor_us / timing.best_us);
  return {};
}

// x[m, k] times the transposed w[n, k], as linear layers store it, all bfloat16.
Status Bench::product(const Product& p, const char* kind, const std::vector<Variant>& variants) {
  GraphBuilder b;
  NodeId x = input(b, DType::kBfloat16, {p.m, p.k});
  NodeId w = input(b, DType::kBfloat16, {p.n, p.k});
  NodeId sums = b.raw({Op::kContract,
                       DType::kFloat32,
                       {p.m, p.n},
                       {x, w},
                       common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
  b.output(b.cast(sums, DType::kBfloat16));
  common::Graph body = b.finish();
  LFARM_ASSIGN_OR_RETURN(Timing timing, time(body, variants, moved_bytes(body)));
  common::GemmSizes sizes{DType::kBfloat16, 1, p.m, p.n, p.k, {0, 0, p.k, 1}, {0, 0, 1, p.k},
                          {0, 0, p.n, 1}};
  LFARM_ASSIGN_OR_RETURN(std::optional<double> library_us, runner_.time_library(sizes));
  double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  std::string peer;
  if (timing.warpgroups_us != 0) {
    peer = cat(",\"warps_us\":", timing.warps_us, ",\"warpgroups_us\":", timing.warpgroups_us);
  }
  if (library_us) {
    peer += cat(",\"cublaslt_us\":", *library_us,
                ",\"fraction_of_cublaslt\":", *library_us / timing.best_us);
  }
  std::printf(
      "{\"gpu\":\"%s\",\"name\":\"%s\",\"m\":%lld,\"n\":%lld,\"k\":%lld,%s,\"tflops\":%.2f,"
      "\"fraction_of_copy\":%.3f%s}\n",
      kind, p.name, static_cast<long long>(p.m), static_cast<long long>(p.n),
      static_cast<long long>(p.k), timing.text.c_str(), flops / timing.best_us * 1e-6,
      timing.floor_us / timing.best_us, peer.c_str());
  return {};
}

Status Bench::attention(const Attention& a) {
  GraphBuilder b;
  NodeId q = input(b, DType::kBfloat16, {a.groups, a.members, a.rows, a.depth});
  NodeId k = input(b, DType::kBfloat16, {a.groups, a.keys, a.depth});
  NodeId v = input(b, DType::kBfloat16, {a.groups, a.keys, a.depth});
  // Labels: 0 group, 1 member, 2 row, 3 key, 4 depth.
  common::Shape shape{a.groups, a.members, a.rows, a.keys};
  NodeId scores = b.raw({Op::kContract,
                         DType::kFloat32,
                         shape,
                         {q, k},
                         common::ContractAttr{{0, 1, 2, 4}, {0, 3, 4}, {0, 1, 2, 3}}});
  scores = b.binary(BinaryOp::kMul, scores, b.scalar(DType::kFloat32, 0.08838834764831845));
  if (a.causal) {
    auto position = [&](int64_t size, int axis) {
      return b.view(b.iota(DType::kInt64, size),
                    {{a.rows, a.keys}, {common::Expr::index(axis)}, {}, 0});
    };
    NodeId seen = b.binary(BinaryOp::kLessEqual, position(a.keys, 1), position(a.rows, 0));
    scores = b.select(seen, scores, b.scalar(DType::kFloat32, -HUGE_VAL));
  }
  NodeId p = b.raw({Op::kSoftmax, DType::kFloat32, shape, {scores}, common::SoftmaxAttr{3, false}});
  NodeId out = b.raw({Op::kContract,
                      DType::kFloat32,
                      {a.groups, a.members, a.rows, a.depth},
                      {p, v},
                      common::ContractAttr{{0, 1, 2, 3}, {0, 3, 4}, {0, 1, 2, 4}}});
  b.output(b.cast(out, DType::kBfloat16));
  common::Graph body = b.finish();
  LFARM_ASSIGN_OR_RETURN(Timing timing,
                         time(body, attention_variants(options_.quick), moved_bytes(body)));
  const int64_t heads = a.groups * a.members;
  // Causal rows see half of the keys.
  double flops = (a.causal ? 2.0 : 4.0) * static_cast<double>(heads * a.rows) *
                 static_cast<double>(a.keys * a.depth);
  std::printf(
      "{\"gpu\":\"attention\",\"name\":\"%s\",\"heads\":%lld,\"rows\":%lld,\"keys\":%lld,"
      "\"depth\":%lld,%s,\"tflops\":%.2f,\"fraction_of_copy\":%.3f}\n",
      a.name, static_cast<long long>(heads), static_cast<long long>(a.rows),
      static_cast<long long>(a.keys), static_cast<long long>(a.depth), timing.text.c_str(),
      flops / timing.best_us * 1e-6, timing.floor_us / timing.best_us);
  return {};
}

bool Bench::run() {
  const bool quick = options_.quick;
  Status copied = copy();
  note("copy", copied);
  if (!copied.ok()) return false;
  using Sizes = std::vector<std::array<int64_t, 2>>;
  const Sizes sizes = quick ? Sizes{{8, 256}} : Sizes{{8192, 4096}, {4096, 14336}};
  for (const auto& [rows_count, columns] : sizes) {
    for (DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      for (const char* name : {"add", "gelu", "softmax", "rms_norm", "layer_norm", "sum"}) {
        if (is_asked("rows")) note(name, rows(name, dtype, rows_count, columns));
        std::fflush(stdout);
      }
    }
  }
  // The layers of Llama-3-8B for one token, then square products.
  const std::vector<Product> products =
      quick ? std::vector<Product>{{"gemv", 1, 64, 128}, {"gemm", 64, 64, 64}}
            : std::vector<Product>{{"query or output", 1, 4096, 4096},
                                   {"key or value", 1, 1024, 4096},
                                   {"gate or up", 1, 14336, 4096},
                                   {"down", 1, 4096, 14336},
                                   {"vocabulary", 1, 128256, 4096},
                                   {"query or output of 16", 16, 4096, 4096},
                                   {"gate or up of 16", 16, 14336, 4096},
                                   {"down of 16", 16, 4096, 14336},
                                   {"down of 64", 64, 4096, 14336},
                                   {"gemm", 2048, 2048, 2048},
                                   {"gemm", 4096, 4096, 4096},
                                   {"gemm", 8192, 8192, 8192},
                                   {"query or output of a prompt", 2048, 4096, 4096},
                                   {"gate or up of a prompt", 2048, 14336, 4096},
                                   {"down of a prompt", 2048, 4096, 14336}};
  for (const Product& p : products) {
    if (is_asked("product")) note(p.name, product(p, "product", product_variants(p.m, quick)));
    std::fflush(stdout);
  }
  const std::vector<Attention> attentions =
      quick ? std::vector<Attention>{{"prefill", 1, 2, 16, 16, 16, true}}
            : std::vector<Attention>{{"prefill", 8, 4, 2048, 2048, 128, true},
                                     {"prefill", 8, 4, 4096, 4096, 128, true},
                                     {"decode", 8, 4, 1, 1024, 128, false},
                                     {"decode", 8, 4, 1, 8192, 128, false}};
  for (const Attention& a : attentions) {
    if (is_asked("attention")) note(a.name, attention(a));
    std::fflush(stdout);
  }
  // Last: an error of theirs would stick to the device. They are not what is chosen unasked.
  const std::vector<Variant> by_warpgroups = warpgroup_variants(quick, runner_.machine());
  for (const Product& p : products) {
    if (p.m == 1 || by_warpgroups.empty() || !is_asked("warpgroups")) continue;
    note(p.name, product(p, "warpgroups", by_warpgroups));
    std::fflush(stdout);
  }
  return !failed_;
}

}  // namespace

int run_gpu(const std::vector<std::string>& arguments) {
  GpuOptions options;
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (arguments[k] == "--quick") {
      options.quick = true;
    } else if (arguments[k] == "--only" && k + 1 < arguments.size()) {
      options.only = arguments[++k];
    } else {
      std::fprintf(stderr,
                   "usage: lfarm-bench gpu [--quick] [--only rows|product|attention|warpgroups]\n");
      return 2;
    }
  }
  auto runner = GpuRunner::open(options.quick ? 3 : 50);
  if (!runner.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", runner.error().message.c_str());
    return 1;
  }
  return Bench(**runner, options).run() ? 0 : 1;
}

}  // namespace bench
