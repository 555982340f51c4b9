#include "coordinator/search/genes/kernel_traits.h"

#include <algorithm>
#include <cmath>

#include "common/base/contains.h"
#include "common/base/hash64.h"
#include "common/ir/hlir/attention_form.h"

namespace coordinator {
namespace {

using common::Node;
using common::Op;
using common::Template;

// Features of one body are of no use to other searches: they hold this bit.
constexpr Feature kOwn = Feature{1} << 63;
// Products and attention of up to this many rows are bound by what they read, once for all rows;
// what a schedule is worth there says nothing of products that compute.
constexpr double kFewRows = 8;

double extent(const common::Expr& size, const std::vector<int64_t>& symbols) {
  return static_cast<double>(std::max<int64_t>(1, size.evaluate(symbols)));
}

bool reads_across(const Node& node) {
  const common::View& view = common::attr<common::ViewAttr>(node).view;
  int last = static_cast<int>(node.shape.size()) - 1;
  for (size_t k = 0; k + 1 < view.index.size(); ++k) {
    if (view.index[k].uses({common::Var::Kind::kIndex, last})) return true;
  }
  return false;
}

void note_contraction(const common::Graph& body, const Node& node,
                      const std::vector<int64_t>& symbols, KernelTraits& traits) {
  const auto& c = common::attr<common::ContractAttr>(node);
  for (size_t k = 0; k < c.a.size(); ++k) {
    double size = extent(body.node(node.operands[0]).shape[k], symbols);
    if (!common::contains(c.out, c.a[k])) {
      traits.k *= size;
    } else if (!common::contains(c.b, c.a[k])) {
      traits.m *= size;
    }
  }
  for (size_t k = 0; k < c.b.size(); ++k) {
    if (!common::contains(c.a, c.b[k]))
      traits.n *= extent(body.node(node.operands[1]).shape[k], symbols);
  }
}

uint64_t size_class(double size, double step) {
  return static_cast<uint64_t>(std::lround(std::log2(std::max(size, 1.0)) / step));
}

uint64_t few(int count, int most) { return static_cast<uint64_t>(std::min(count, most)); }

// Collects features of one kernel.
class Features {
 public:
  // Kernels of different kinds have no feature in common.
  Features(Template form, uint64_t kind)
      : form_(common::combine64(common::mix64(static_cast<uint64_t>(form) + 77), kind)) {
    add({});
  }
  void add(std::initializer_list<uint64_t> parts) {
    uint64_t key = form_;
    for (uint64_t part : parts) key = common::combine64(key, part);
    all_.push_back(key & ~kOwn);
  }
  void add_own(std::initializer_list<uint64_t> parts) {
    add(parts);
    all_.back() |= kOwn;
  }
  std::vector<Feature> take() { return std::move(all_); }

 private:
  uint64_t form_;
  std::vector<Feature> all_;
};

// The position of a parameter among its template's.
enum LoopsParameter : size_t { kStage, kUnroll, kVector, kAccess, kUnitRows, kTeam };
enum TileParameter : size_t {
  kKc,
  kMc,
  kMr,
  kNc,
  kNr,
  kStores,
  kTileColumns,
  kTileRows,
  kTileSplits,
  kWarpgroups,
  kStages,
  kClusters
};
enum GemmParameter : size_t { kAlgorithm };

void loops_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  auto digit = [&](size_t k) { return schedule_digit(t.form, code, k); };
  uint64_t kind = few(t.reductions, 2) * 2 + (t.jumps ? 1 : 0);
  uint64_t row = size_class(t.row, 2);
  uint64_t operations = size_class(t.operations, 1.5);
  features.add({1, kind});
  features.add({2, kind, row});
  features.add({3, kind, operations, t.profiles[0].profile.hard_ops > 0 ? 1u : 0u});
  features.add({4, kUnroll, digit(kUnroll)});
  features.add({4, kVector, digit(kVector)});
  features.add({4, kStage, digit(kStage)});
  features.add({5, kind, kUnroll, digit(kUnroll)});
  features.add({5, kind, kVector, digit(kVector)});
  features.add({5, few(t.reductions, 3), kStage, digit(kStage)});
  features.add({6, row, kind, digit(kVector), digit(kUnroll)});
  features.add({7, operations, kind, digit(kVector)});
  features.add({8, operations, kind, digit(kUnroll)});
}

void gpu_loops_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  auto digit = [&](size_t k) { return schedule_digit(t.form, code, k); };
  uint64_t kind = few(t.reductions, 2) * 2 + (t.jumps ? 1 : 0);
  uint64_t row = size_class(t.row, 2);
  features.add({31, kind});
  features.add({32, kind, row});
  features.add({33, kAccess, digit(kAccess)});
  features.add({33, kind, kAccess, digit(kAccess)});
  features.add({33, kind, kUnitRows, digit(kUnitRows)});
  features.add({33, kTeam, digit(kTeam)});
  features.add({34, kind, kTeam, digit(kTeam)});
  features.add({35, row, kTeam, digit(kTeam)});
}

void tile_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  auto digit = [&](size_t k) { return schedule_digit(t.form, code, k); };
  uint64_t rows = size_class(t.m, 2), columns = size_class(t.n, 2), summed = size_class(t.k, 2);
  features.add({1, rows});
  features.add({2, columns});
  features.add({3, summed});
  features.add({4, size_class(t.m * t.n * t.k, 4)});
  for (size_t k : {kKc, kMc, kMr, kNc, kNr, kStores}) features.add({5, k, digit(k)});
  features.add({6, rows, digit(kMr)});
  features.add({7, columns, digit(kNr)});
  features.add({8, summed, digit(kKc)});
  features.add({9, rows, digit(kMc)});
  features.add({10, columns, digit(kNc)});
  features.add({11, digit(kMr), digit(kNr)});
  features.add({12, digit(kKc), digit(kNr)});
  features.add({13, size_class(t.operations, 2), digit(kStores)});
}

void gpu_tile_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  uint64_t block_rows = schedule_digit(t.form, code, kTileRows);
  uint64_t block_columns = schedule_digit(t.form, code, kTileColumns);
  uint64_t rows = size_class(t.m, 2), columns = size_class(t.n, 2);
  features.add({31, rows});
  features.add({32, columns});
  features.add({33, size_class(t.k, 2)});
  features.add({34, size_class(t.m * t.n * t.k, 4)});
  features.add({35, kTileRows, block_rows});
  features.add({35, kTileColumns, block_columns});
  features.add({36, rows, block_rows});
  features.add({37, columns, block_columns});
  features.add({38, block_rows, block_columns});
  // Whether there are enough blocks to keep the device busy.
  features.add({39, size_class(t.m * t.n, 3), block_rows + block_columns});
  uint64_t splits = schedule_digit(t.form, code, kTileSplits);
  features.add({35, kTileSplits, splits});
  features.add({40, size_class(t.m * t.n, 3), splits});
  features.add({41, size_class(t.k, 2), splits});
  // Both are 0 where warpgroups do not multiply, which changes nothing there.
  uint64_t warpgroups = schedule_digit(t.form, code, kWarpgroups);
  uint64_t stages = schedule_digit(t.form, code, kStages);
  features.add({35, kWarpgroups, warpgroups});
  features.add({42, rows, warpgroups});
  features.add({43, columns, warpgroups});
  features.add({44, size_class(t.m * t.n, 3), warpgroups});
  features.add({35, kStages, stages});
  features.add({45, warpgroups, stages});
  features.add({35, kClusters, schedule_digit(t.form, code, kClusters)});
}

void gemm_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  features.add({1, size_class(t.m * t.n * t.k, 3)});
  features.add({2, size_class(t.m, 2)});
  if (!common::is_gpu(t.terms->machine)) return;
  uint64_t algorithm = schedule_digit(t.form, code, kAlgorithm);
  features.add({31, algorithm});
  features.add({32, size_class(t.m, 2), algorithm});
}

enum AttentionParameter : size_t { kKeys, kOnline, kRows, kBlockKeys, kBlockRows, kKeySplits };

// m rows of a batch element, k keys, n columns.
void note_attention(const common::Graph& body, const std::vector<int64_t>& symbols,
                    KernelTraits& traits) {
  auto form = common::attention_form(body);
  if (!form) return;
  traits.m = extent(form->size(form->rows), symbols);
  traits.n = extent(form->size(form->columns), symbols);
  traits.k = extent(form->label_size[static_cast<size_t>(form->key)], symbols);
}

void attention_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  auto digit = [&](size_t k) { return schedule_digit(t.form, code, k); };
  uint64_t rows = size_class(t.m, 2), keys = size_class(t.k, 2);
  features.add({1, rows});
  features.add({2, keys});
  features.add({3, rows, keys});
  for (size_t k : {kKeys, kOnline, kRows}) features.add({4, k, digit(k)});
  features.add({5, keys, digit(kKeys)});
  features.add({6, rows, digit(kRows)});
  features.add({7, keys, digit(kOnline)});
  features.add({8, digit(kKeys), digit(kRows)});
}

void gpu_attention_features(const KernelTraits& t, ScheduleCode code, Features& features) {
  auto digit = [&](size_t k) { return schedule_digit(t.form, code, k); };
  uint64_t rows = size_class(t.m, 2), keys = size_class(t.k, 2);
  features.add({31, rows});
  features.add({32, keys});
  features.add({33, size_class(t.n, 1)});
  for (size_t k : {kBlockKeys, kBlockRows, kOnline, kKeySplits}) {
    features.add({34, k, digit(k)});
  }
  features.add({35, keys, digit(kBlockKeys)});
  features.add({36, rows, digit(kBlockRows)});
  features.add({37, keys, digit(kOnline)});
  features.add({38, digit(kBlockKeys), digit(kBlockRows)});
  features.add({39, rows, keys, digit(kKeySplits)});
}

}  // namespace

bool is_general(Feature feature) { return (feature & kOwn) == 0; }

KernelTraits traits_of(const common::Kernel& kernel, const common::Digest& body,
                       const std::vector<common::WeightedSizes>& sizes,
                       const common::DeviceTerms& terms) {
  const std::vector<int64_t>& symbols = sizes.front().sizes;
  KernelTraits traits;
  traits.form = kernel.form;
  traits.body = body.prefix64();
  for (const common::WeightedSizes& each : sizes) {
    traits.profiles.push_back({profile_kernel(kernel, each.sizes), each.weight});
  }
  traits.terms = &terms;
  traits.predicted_ns = predict_ns(kernel.form, traits.profiles, {}, terms);
  if (terms.gpu != nullptr && has_nest_times(kernel)) {
    traits.nest_times =
        std::make_shared<common::GpuNestTimes>(kernel.form, kernel.body, *terms.gpu);
  }
  const common::Graph& graph = kernel.body;
  const common::Shape& shape = graph.node(graph.outputs[0].node).shape;
  if (!shape.empty()) traits.row = extent(shape.back(), symbols);
  for (const Node& node : graph.nodes) {
    switch (node.op) {
      case Op::kInput:
      case Op::kConstant:
      case Op::kIota:
        break;
      case Op::kView:
        traits.jumps = traits.jumps || reads_across(node);
        break;
      case Op::kContract:
        note_contraction(graph, node, symbols, traits);
        break;
      case Op::kReduce:
      case Op::kSoftmax:
      case Op::kNorm:
        ++traits.reductions;
        ++traits.operations;
        break;
      default:
        ++traits.operations;
    }
  }
  if (kernel.form == Template::kAttention) note_attention(graph, symbols, traits);
  return traits;
}

double predict_ns(const KernelTraits& traits, ScheduleCode code) {
  if (traits.nest_times) {
    // A schedule that gives no code is a bad one, and yet has a place in ranks and logarithms.
    constexpr double kNoCode = 1000;
    double ns = traits.nest_times->predict_ns(schedule_of(traits.form, code));
    return std::isfinite(ns) ? ns : traits.predicted_ns * kNoCode;
  }
  bool is_attention = traits.form == Template::kAttention;
  if (traits.form != Template::kLoops && traits.form != Template::kTile && !is_attention) {
    return traits.predicted_ns;
  }
  const auto& choices = common::schedule_parameters(traits.form);
  auto value = [&](size_t parameter) {
    return choices[parameter].values[schedule_digit(traits.form, code, parameter)];
  };
  common::ScheduleValues values;
  values.is_default = code == 0;
  if (traits.form == Template::kLoops) {
    values.vector = value(kVector);
    values.unroll = value(kUnroll);
    values.stage = value(kStage);
  } else if (is_attention) {
    values.attention.keys = value(kKeys);
    values.attention.rows = value(kRows);
    values.block_keys = value(kBlockKeys);
    values.splits = value(kKeySplits);
    values.online = value(kOnline);
  } else {
    values.tile.mr = value(kMr);
    values.tile.nr = value(kNr);
    values.tile.mc = value(kMc);
    values.tile.nc = value(kNc);
    values.block_rows = value(kTileRows);
    values.block_columns = value(kTileColumns);
    values.splits = value(kTileSplits);
    values.units = common::tile_units(value(kWarpgroups), values.block_rows, values.block_columns);
    values.product = common::product_wish(value(kWarpgroups), value(kClusters), values.splits);
  }
  return predict_ns(traits.form, traits.profiles, values, *traits.terms);
}

std::vector<Feature> features_of(const KernelTraits& traits, ScheduleCode code) {
  const bool has_rows = traits.form == Template::kTile || traits.form == Template::kGemm ||
                        traits.form == Template::kAttention;
  Features features(traits.form, has_rows && traits.m <= kFewRows ? 1 : 0);
  // What holds where launching takes all the time says little about large kernels.
  features.add({20, size_class(traits.predicted_ns, 1.5)});
  features.add({21, size_class(traits.predicted_ns, 3)});
  bool on_gpu = common::is_gpu(traits.terms->machine);
  if (traits.form == Template::kLoops) {
    (on_gpu ? gpu_loops_features : loops_features)(traits, code, features);
  }
  if (traits.form == Template::kTile) {
    (on_gpu ? gpu_tile_features : tile_features)(traits, code, features);
  }
  if (traits.form == Template::kAttention) {
    (on_gpu ? gpu_attention_features : attention_features)(traits, code, features);
  }
  if (traits.form == Template::kGemm) gemm_features(traits, code, features);
  features.add_own({traits.body});
  for (size_t k : schedule_parameters_on(traits.form, traits.terms->machine)) {
    features.add_own({traits.body, k, schedule_digit(traits.form, code, k)});
  }
  return features.take();
}

}  // namespace coordinator
