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

// Nanoseconds a unit, one core with wide vectors.
constexpr double kLaunchNs = 150;
constexpr double kByteNs = 0.05;
constexpr double kSimpleNs = 0.06;
constexpr double kHardNs = 0.6;
constexpr double kRandomNs = 1.0;
constexpr double kInPlaceMultiplyNs = 0.5;
constexpr double kTileMultiplyNs = 0.035;
constexpr double kGemmMultiplyNs = 0.025;
constexpr double kAttentionMultiplyNs = 0.025;
constexpr double kGemmCallNs = 1500;

constexpr int64_t kTypicalSize = 32;

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
      case Op::kScatter:
        profile_.random_reads += times;
        break;
      case Op::kSort:
        profile_.hard_ops += times * 8;
        break;
      default:
        (is_hard(node) ? profile_.hard_ops : profile_.simple_ops) += times;
    }
    for (NodeId operand : node.operands) {
      std::vector<double> axes = runs;
      if (body_.node(operand).shape.size() != axes.size()) {
        axes.assign(body_.node(operand).shape.size(), times);
      }
      demand(operand, axes);
    }
  }

  void demand_reduce(const Node& node, const std::vector<double>& runs, double times) {
    const auto& axes = common::attr<common::ReduceAttr>(node).axes;
    const Node& operand = body_.node(node.operands[0]);
    std::vector<double> inner;
    double prefix = times;
    size_t kept = 0;
    for (size_t k = 0; k < operand.shape.size(); ++k) {
      if (std::find(axes.begin(), axes.end(), static_cast<int>(k)) != axes.end()) {
        prefix *= size_of(operand.shape[k]);
        inner.push_back(prefix);
      } else {
        inner.push_back(runs[kept++]);
      }
    }
    profile_.simple_ops += prefix;
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

double predict_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols) {
  KernelProfile p = profile_kernel(kernel, symbols);
  double multiply_ns = kInPlaceMultiplyNs;
  double launch_ns = kLaunchNs;
  if (kernel.form == common::Template::kTile) multiply_ns = kTileMultiplyNs;
  if (kernel.form == common::Template::kAttention) multiply_ns = kAttentionMultiplyNs;
  if (kernel.form == common::Template::kGemm) {
    multiply_ns = kGemmMultiplyNs;
    launch_ns = kGemmCallNs;
  }
  double work = p.simple_ops * kSimpleNs + p.hard_ops * kHardNs + p.random_reads * kRandomNs +
                p.contraction_ops * multiply_ns;
  return launch_ns + std::max(work, p.bytes * kByteNs);
}

std::vector<int64_t> representative_sizes(const std::vector<common::SymbolRange>& symbols) {
  std::vector<int64_t> sizes;
  for (const common::SymbolRange& s : symbols) {
    sizes.push_back(std::clamp(kTypicalSize, std::max<int64_t>(s.min, 1), s.max));
  }
  return sizes;
}

std::vector<int64_t> call_symbols(const common::Call& call, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> values;
  for (const common::Expr& e : call.symbols) values.push_back(e.evaluate(sizes));
  return values;
}

}  // namespace coordinator
