#include "coordinator/search/cost_model.h"

#include <algorithm>
#include <map>

#include "common/ir/attention_form.h"

namespace coordinator {
namespace {

using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;

// One core with wide vectors: fitted to 2,500 kernels of five small models, timed on an AVX-512
// server core; least squares of the logarithm of measured to predicted time. What misses the
// second-level cache is from that machine's memory bandwidth for one core.
constexpr DeviceTerms kCpu = {.launch_ns = 35,
                              .tile_launch_ns = 57,
                              .library_call_ns = 207,
                              .near_byte_ns = 0.005,
                              .far_byte_ns = 0.08,
                              .near_bytes = 1 << 20,
                              .simple_ns = 0.053,
                              .row_ns = 0.11,
                              .hard_ns = 0.5,
                              .random_ns = 0.15,
                              .folded_ns = 0.45,
                              .in_place_multiply_ns = 0.5,
                              .tile_multiply_ns = 0.03,
                              .attention_multiply_ns = 0.025,
                              .library_multiply_ns = 0.027,
                              .synchronise_ns = 0,
                              .host_byte_ns = 0};
// Data sheet figures of a GPU with HBM3 (4.8 TB/s, 60 TFLOP/s in float32, PCIe 5): whole-device
// rates, so that only large kernels are told apart. Never calibrated.
constexpr DeviceTerms kGpu = {.launch_ns = 2'000,
                              .tile_launch_ns = 2'500,
                              .library_call_ns = 4'000,
                              .near_byte_ns = 0.0001,
                              .far_byte_ns = 0.00021,
                              .near_bytes = 32 << 20,
                              .simple_ns = 0.00003,
                              .row_ns = 0.00003,
                              .hard_ns = 0.0002,
                              .random_ns = 0.0016,
                              .folded_ns = 0.0003,
                              .in_place_multiply_ns = 0.0003,
                              .tile_multiply_ns = 0.00005,
                              .attention_multiply_ns = 0.00003,
                              .library_multiply_ns = 0.00003,
                              .synchronise_ns = 8'000,
                              .host_byte_ns = 0.02};

double count(const common::Shape& shape, const std::vector<int64_t>& symbols) {
  double product = 1;
  for (const common::Expr& size : shape) product *= static_cast<double>(size.evaluate(symbols));
  return product;
}

bool is_hard(const Node& node) {
  if (node.op == Op::kUnary) {
    return common::attr<common::UnaryAttr>(node).op > common::UnaryOp::kNot;
  }
  if (node.op != Op::kBinary) return false;
  common::BinaryOp op = common::attr<common::BinaryAttr>(node).op;
  return op >= common::BinaryOp::kDiv && op <= common::BinaryOp::kNextafter &&
         op != common::BinaryOp::kMin && op != common::BinaryOp::kMax;
}

// Whether neighbours in the last axis are found by division: no vector unit reads such rows at
// once.
bool is_folded(const Node& node) {
  if (node.shape.empty()) return false;
  common::Var last{common::Var::Kind::kIndex, static_cast<int>(node.shape.size()) - 1};
  for (const common::Expr& index : common::attr<common::ViewAttr>(node).view.index) {
    for (const common::Expr::Term& term : index.terms()) {
      for (const common::Expr& factor : term.factors) {
        if (factor.uses(last) && !factor.as_var()) return true;
      }
    }
  }
  return false;
}

// In float32 vector units compute what is hard; in float64 a library does, one by one.
double weight(const Node& node) {
  constexpr double kLibrary = 15;
  return is_hard(node) && node.dtype == common::DType::kFloat64 ? kLibrary : 1;
}

// Walks a body as a generator would: each axis of a demanded value carries how often the loops down
// to the one that drives the axis run. A value costs as often as the deepest loop it depends on.
class Walk {
 public:
  Walk(const common::Kernel& kernel, const std::vector<int64_t>& symbols)
      : body_(kernel.body), symbols_(symbols) {}

  KernelProfile run() {
    for (const auto& input : body_.inputs) {
      profile_.bytes +=
          count(input.shape, symbols_) * static_cast<double>(common::dtype_size(input.dtype));
    }
    for (const auto& output : body_.outputs) {
      const Node& node = body_.node(output.node);
      profile_.bytes +=
          count(node.shape, symbols_) * static_cast<double>(common::dtype_size(node.dtype));
      std::vector<double> runs;
      double prefix = 1;
      for (const common::Expr& size : node.shape) {
        prefix *= static_cast<double>(size.evaluate(symbols_));
        runs.push_back(prefix);
      }
      demand(output.node, runs);
    }
    return profile_;
  }

 private:
  static double deepest(const std::vector<double>& runs) {
    double most = 1;
    for (double r : runs) most = std::max(most, r);
    return most;
  }

  // Axes of the operand seen through a view.
  std::vector<double> through(const common::View& view, const std::vector<double>& runs) const {
    std::vector<double> result;
    for (const common::Expr& e : view.index) {
      double most = 1;
      e.visit_vars([&](common::Var v) {
        if (v.kind == common::Var::Kind::kIndex) {
          most = std::max(most, runs[static_cast<size_t>(v.id)]);
        }
      });
      result.push_back(most);
    }
    return result;
  }

  double size_of(const common::Expr& size) const {
    return static_cast<double>(std::max<int64_t>(1, size.evaluate(symbols_)));
  }

  void demand(NodeId id, const std::vector<double>& runs) {
    const Node& node = body_.node(id);
    double times = deepest(runs);
    if (double& most = demanded_[id]; most >= times) {
      return;  // computed as often already, and kept
    } else {
      most = times;
    }
    switch (node.op) {
      case Op::kInput:
      case Op::kConstant:
      case Op::kIota:
        return;
      case Op::kView:
        if (is_folded(node)) profile_.folded_reads += times;
        demand(node.operands[0], through(common::attr<common::ViewAttr>(node).view, runs));
        return;
      case Op::kReduce:
        return demand_reduce(node, runs, times);
      case Op::kContract:
        return demand_contract(node, runs, times);
      case Op::kSoftmax:
      case Op::kNorm:
        return demand_row(node, runs, times);
      case Op::kGather:
        note_gather(node, times);
        break;
      case Op::kScatter:
        return demand_scatter(node, runs);
      case Op::kSort:
        profile_.hard_ops += times * 8;
        break;
      default:
        (is_hard(node) ? profile_.hard_ops : profile_.simple_ops) += times * weight(node);
    }
    for (NodeId operand : node.operands) {
      std::vector<double> axes = runs;
      if (body_.node(operand).shape.size() != axes.size()) {
        axes.assign(body_.node(operand).shape.size(), times);
      }
      demand(operand, axes);
    }
  }

  // Rows that are read one element after the other are found once each.
  void note_gather(const Node& node, double times) {
    const auto& coordinates = common::attr<common::GatherAttr>(node).coordinates;
    bool by_rows = !coordinates.empty() && coordinates.back().slot < 0 && !node.shape.empty();
    profile_.random_reads += by_rows ? times / size_of(node.shape.back()) : times;
    profile_.simple_ops += times;
  }

  // What the base holds already stays where it is; the rest is done once an update.
  void demand_scatter(const Node& node, const std::vector<double>& runs) {
    demand(node.operands[0], runs);
    std::vector<double> axes;
    double prefix = 1;
    for (const common::Expr& size : body_.node(node.operands[1]).shape) {
      axes.push_back(prefix *= size_of(size));
    }
    profile_.random_reads += prefix;
    for (size_t k = 1; k < node.operands.size(); ++k) demand(node.operands[k], axes);
  }

  void demand_reduce(const Node& node, const std::vector<double>& runs, double times) {
    const auto& axes = common::attr<common::ReduceAttr>(node).axes;
    const Node& operand = body_.node(node.operands[0]);
    auto is_reduced = [&](size_t k) {
      return std::find(axes.begin(), axes.end(), static_cast<int>(k)) != axes.end();
    };
    // A last axis that stays is the innermost loop, as it is where nothing is summed: whole rows
    // are added up.
    double row = 1;
    size_t last = operand.shape.size();
    if (last > 0 && !is_reduced(last - 1) && runs.back() == times)
      row = size_of(operand.shape.back());
    std::vector<double> inner;
    double prefix = times / row;
    size_t kept = 0;
    for (size_t k = 0; k < last; ++k) {
      if (is_reduced(k)) {
        prefix *= size_of(operand.shape[k]);
        inner.push_back(prefix);
      } else {
        inner.push_back(runs[kept++]);
      }
    }
    prefix *= row;
    if (row > 1) inner.back() = prefix;
    (row > 1 ? profile_.simple_ops : profile_.row_ops) += prefix;
    demand(node.operands[0], inner);
  }

  void demand_contract(const Node& node, const std::vector<double>& runs, double times) {
    const auto& c = common::attr<common::ContractAttr>(node);
    std::map<int, double> by_label;
    for (size_t k = 0; k < c.out.size(); ++k) by_label[c.out[k]] = runs[k];
    double prefix = times;
    for (size_t k = 0; k < c.a.size(); ++k) {
      if (by_label.count(c.a[k]) == 0) {
        prefix *= size_of(body_.node(node.operands[0]).shape[k]);
        by_label[c.a[k]] = prefix;
      }
    }
    profile_.contraction_ops += prefix;
    // Operands are packed once, not read once per product.
    for (size_t o = 0; o < 2; ++o) {
      const Node& operand = body_.node(node.operands[o]);
      std::vector<double> packed(operand.shape.size(), count(operand.shape, symbols_));
      demand(node.operands[o], packed);
    }
  }

  void demand_row(const Node& node, const std::vector<double>& runs, double times) {
    (node.op == Op::kSoftmax ? profile_.hard_ops : profile_.simple_ops) += 2 * times;
    profile_.simple_ops += 2 * times;
    demand(node.operands[0], runs);
  }

  const Graph& body_;
  const std::vector<int64_t>& symbols_;
  KernelProfile profile_;
  std::map<NodeId, double> demanded_;
};

// The share of keys that positions do not hide, by a few rows.
double visible_share(const common::AttentionForm& form, const std::vector<int64_t>& symbols) {
  constexpr int64_t kSamples = 8;
  if (!form.keeps_zero || (form.first.empty() && form.last.empty())) return 1;
  int64_t keys = form.label_size[static_cast<size_t>(form.key)].evaluate(symbols);
  double seen = 0;
  for (int64_t k = 0; k < kSamples; ++k) {
    std::vector<int64_t> indices(form.label_size.size(), 0);
    for (int label : form.rows) {
      int64_t size = form.label_size[static_cast<size_t>(label)].evaluate(symbols);
      indices[static_cast<size_t>(label)] = size * (2 * k + 1) / (2 * kSamples);
    }
    int64_t first = 0, last = keys - 1;
    for (const common::Expr& e : form.first) first = std::max(first, e.evaluate(symbols, indices));
    for (const common::Expr& e : form.last) last = std::min(last, e.evaluate(symbols, indices));
    seen += static_cast<double>(std::max<int64_t>(0, last + 1 - first));
  }
  return seen / static_cast<double>(std::max<int64_t>(1, keys) * kSamples);
}

}  // namespace

const char* calibration_name(Calibration calibration) {
  static constexpr const char* kNames[] = {"none", "default", "measured"};
  return kNames[static_cast<size_t>(calibration)];
}

KernelProfile profile_kernel(const common::Kernel& kernel, const std::vector<int64_t>& symbols) {
  KernelProfile profile = Walk(kernel, symbols).run();
  if (kernel.form != common::Template::kAttention) return profile;
  auto form = common::attention_form(kernel.body);
  double share = form ? visible_share(*form, symbols) : 1;
  profile.contraction_ops *= share;
  profile.hard_ops *= share;
  profile.simple_ops *= share;
  return profile;
}

const DeviceTerms& device_terms(const common::Target& target) {
  return target.name.rfind("cuda", 0) == 0 ? kGpu : kCpu;
}

double predict_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                  const DeviceTerms& terms) {
  KernelProfile p = profile_kernel(kernel, symbols);
  double multiply_ns = terms.in_place_multiply_ns;
  double launch_ns = terms.launch_ns;
  if (kernel.form == common::Template::kTile) {
    multiply_ns = terms.tile_multiply_ns;
    launch_ns = terms.tile_launch_ns;
  }
  if (kernel.form == common::Template::kAttention) multiply_ns = terms.attention_multiply_ns;
  if (kernel.form == common::Template::kGemm) {
    multiply_ns = terms.library_multiply_ns;
    launch_ns = terms.library_call_ns;
  }
  double work = p.simple_ops * terms.simple_ns + p.row_ops * terms.row_ns +
                p.hard_ops * terms.hard_ns + p.random_reads * terms.random_ns +
                p.folded_reads * terms.folded_ns + p.contraction_ops * multiply_ns;
  double near = std::min(p.bytes, terms.near_bytes);
  double traffic = near * terms.near_byte_ns + (p.bytes - near) * terms.far_byte_ns;
  return launch_ns + std::max(work, traffic);
}

double program_overhead_ns(const common::Program& program, const std::vector<int64_t>& sizes,
                           const DeviceTerms& terms) {
  common::IoProfile io = common::io_profile(program.buffers, program.calls, program.outputs, sizes);
  return static_cast<double>(io.synchronisations) * terms.synchronise_ns +
         static_cast<double>(io.host_output_bytes) * terms.host_byte_ns;
}

std::vector<int64_t> call_symbols(const common::Call& call, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> values;
  for (const common::Expr& e : call.symbols) values.push_back(e.evaluate(sizes));
  return values;
}

}  // namespace coordinator
