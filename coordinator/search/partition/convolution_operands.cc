#include "coordinator/search/partition/convolution_operands.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/search/partition/without_unused.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::contains;
using common::ContractAttr;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::View;
using common::ViewAttr;

constexpr uint32_t kAdded = 0xa0000000;
constexpr int64_t kChunk = 8;  // elements of 16 bytes

class Arranger {
 public:
  explicit Arranger(Selected&& from)
      : from_(std::move(from)), at_load_(common::load_time_nodes(from_.graph)) {}

  Selected run() {
    to_.graph.symbols = from_.graph.symbols;
    to_.graph.inputs = from_.graph.inputs;
    for (size_t i = 0; i < from_.graph.nodes.size(); ++i) {
      if (is_convolution(i) && !merged(i)) copy_image(i);
    }
    for (size_t i = 0; i < from_.graph.nodes.size(); ++i) {
      Node node = from_.graph.nodes[i];
      for (common::NodeId& operand : node.operands) operand = moved_[at(operand)];
      if (auto m = merged(i)) {
        merge_channels(i, *m, node);
      } else if (is_convolution(i)) {
        copy_weight(i, node);
      }
      moved_.push_back(to_.add(std::move(node), from_.lowering[i], from_.gene[i], from_.choice[i]));
    }
    to_.graph.outputs = from_.graph.outputs;
    for (auto& output : to_.graph.outputs) output.node = moved_[at(output.node)];
    return without_unused(std::move(to_));
  }

 private:
  // Where a contraction reads windows: its image and weight, by operand, and the summed label that
  // the image's last axis is.
  struct Convolution {
    size_t image = 0;
    int channel = -1;
  };

  common::NodeId beneath_casts(common::NodeId id) const {
    while (from_.graph.node(id).op == Op::kCast) id = from_.graph.node(id).operands[0];
    return id;
  }
  // Whether it was of 16 bits until it was cast.
  bool is_half(common::NodeId id) const {
    const Node& node = from_.graph.node(id);
    if (common::is_half(node.dtype)) return true;
    return node.op == Op::kCast && is_half(node.operands[0]);
  }

  bool is_convolution(size_t i) const { return convolution(i).has_value(); }

  std::optional<Convolution> convolution(size_t i) const {
    const Node& node = from_.graph.nodes[i];
    if (node.op != Op::kContract || from_.lowering[i] == Lowering::kGemm) return std::nullopt;
    const auto& c = attr<ContractAttr>(node);
    for (size_t image : {size_t{0}, size_t{1}}) {
      common::NodeId x = beneath_casts(node.operands[image]), w = node.operands[1 - image];
      const Node& view = from_.graph.node(x);
      if (at_load_[at(x)] || !at_load_[at(w)] || view.op != Op::kView || !is_half(w) ||
          !is_half(view.operands[0])) {
        continue;
      }
      const std::vector<int>& labels = image == 0 ? c.a : c.b;
      const View& windows = attr<ViewAttr>(view).view;
      if (!has_windows(windows) || windows.index.empty()) continue;
      auto last = windows.index.back().as_var();
      if (!last || last->kind != common::Var::Kind::kIndex) continue;
      int channel = labels[at(last->id)];
      if (!contains(c.out, channel)) return Convolution{image, channel};
    }
    return std::nullopt;
  }

  const Node& windows_of(size_t i, const Convolution& conv) const {
    return from_.graph.node(beneath_casts(from_.graph.nodes[i].operands[conv.image]));
  }
  static const std::vector<int>& labels_of(const Node& contract, size_t side) {
    const auto& c = attr<ContractAttr>(contract);
    return side == 0 ? c.a : c.b;
  }

  // Channels that are no whole chunks of 16 bytes, and the taps along the axis before them: both
  // become one axis, filled up with zeros. Axes are those of the windows.
  struct Merged {
    Convolution conv;
    size_t place = 0;  // along that axis
    size_t tap = 0, channel = 0;
    int64_t channels = 1, taps = 1;  // filled up
    int label = 0;                   // of the one axis
  };

  std::optional<Merged> merged(size_t i) const {
    auto conv = convolution(i);
    if (!conv) return std::nullopt;
    const Node& node = windows_of(i, *conv);
    const View& view = attr<ViewAttr>(node).view;
    const Shape& image = from_.graph.node(node.operands[0]).shape;
    if (view.index.size() < 2 || !image.back().is_constant()) return std::nullopt;
    Merged m{*conv};
    const int64_t channels = image.back().constant();
    m.channel = at(view.index.back().as_var()->id);
    if (channels % kChunk == 0 || channels > kChunk || view.shape[m.channel] != image.back()) {
      return std::nullopt;
    }
    const auto& labels = attr<ContractAttr>(from_.graph.nodes[i]);
    const std::vector<int>& own = labels_of(from_.graph.nodes[i], conv->image);
    int places = 0, taps = 0;
    view.index[view.index.size() - 2].visit_vars([&](common::Var v) {
      if (v.kind != common::Var::Kind::kIndex) return;
      bool is_place = contains(labels.out, own[at(v.id)]);
      (is_place ? m.place : m.tap) = at(v.id);
      ++(is_place ? places : taps);
    });
    if (places != 1 || taps != 1 || !view.shape[m.tap].is_constant()) return std::nullopt;
    while (m.channels < channels) m.channels *= 2;
    const int64_t chunk = kChunk / m.channels;
    m.taps = (view.shape[m.tap].constant() + chunk - 1) / chunk * chunk;
    for (int label : own) m.label = std::max(m.label, label + 1);
    for (int label : labels.out) m.label = std::max(m.label, label + 1);
    return m;
  }

  // The parts of an index of the merged axis, which are beyond what there is where it is filled up.
  static Expr tap_of(const Merged& m, const Expr& both) {
    return common::floor_div(both, Expr(m.channels));
  }
  static Expr channel_of(const Merged& m, const Expr& both) {
    return common::mod(both, Expr(m.channels));
  }
  static void add_bounds(const Merged& m, const Expr& both, const Expr& taps, const Expr& channels,
                         View& view) {
    if (taps != Expr(m.taps)) view.valid.push_back({tap_of(m, both), taps});
    if (channels != Expr(m.channels)) view.valid.push_back({channel_of(m, both), channels});
  }

  // A view of what the casts above `id` were made of, as a copy that is cast again, seen through
  // `back`, if that is given.
  common::NodeId add_cast_copy(size_t i, uint32_t part, common::NodeId id, const View& copy,
                               const View* back) {
    common::NodeId cast = -1;
    for (; !common::is_half(from_.graph.node(id).dtype); id = from_.graph.node(id).operands[0]) {
      cast = id;
    }
    const common::DType dtype = from_.graph.node(id).dtype;
    auto add_view = [&](const View& view, common::NodeId of, Lowering lowering, uint32_t name) {
      return to_.add({Op::kView, dtype, view.shape, {of}, ViewAttr{view}}, lowering,
                     added(from_.gene[i], name), added(from_.choice[i], name));
    };
    common::NodeId made = add_view(copy, moved_[at(id)], Lowering::kCopy, part);
    if (back != nullptr) made = add_view(*back, made, Lowering::kInPlace, part + 1);
    if (cast < 0) return made;
    Node wide = from_.graph.node(cast);
    wide.operands = {made};
    wide.shape = to_.graph.node(made).shape;
    return to_.add(std::move(wide), from_.lowering[at(cast)], from_.gene[at(cast)],
                   from_.choice[at(cast)]);
  }

  // The image with the merged axis at each place, and the windows of that.
  common::NodeId merged_image(size_t i, const Merged& m, std::vector<int>& labels) {
    const Node& node = windows_of(i, m.conv);
    const View& view = attr<ViewAttr>(node).view;
    const Shape& image = from_.graph.node(node.operands[0]).shape;
    const size_t last = image.size() - 1;  // of the image's and of the copy's axes
    const Expr both = Expr::index(static_cast<int>(last));
    auto in_copy = [&](const Expr& e) {
      return e.substitute([&](common::Var v) {
        if (v.kind != common::Var::Kind::kIndex) return Expr::var(v);
        return at(v.id) == m.tap ? tap_of(m, both) : Expr::index(static_cast<int>(last) - 1);
      });
    };
    View copy, windows;
    for (size_t d = 0; d + 1 < last; ++d) {
      copy.shape.push_back(image[d]);
      copy.index.push_back(Expr::index(static_cast<int>(d)));
    }
    copy.shape.push_back(view.shape[m.place]);
    copy.shape.emplace_back(m.taps * m.channels);
    copy.index.push_back(in_copy(view.index[last - 1]));
    copy.index.push_back(channel_of(m, both));
    add_bounds(m, both, view.shape[m.tap], image.back(), copy);
    const std::vector<int>& own = labels_of(from_.graph.nodes[i], m.conv.image);
    std::vector<Expr> place(view.shape.size());
    labels.clear();
    for (size_t k = 0; k < view.shape.size(); ++k) {
      if (k == m.tap || k == m.channel) continue;
      place[k] = Expr::index(static_cast<int>(windows.shape.size()));
      windows.shape.push_back(view.shape[k]);
      labels.push_back(own[k]);
    }
    labels.push_back(m.label);
    const Expr step = Expr::index(static_cast<int>(windows.shape.size()));
    windows.shape.emplace_back(m.taps * m.channels);
    auto in_windows = [&](const Expr& e) {
      return e.substitute([&](common::Var v) {
        return v.kind == common::Var::Kind::kIndex ? place[at(v.id)] : Expr::var(v);
      });
    };
    for (size_t d = 0; d + 1 < last; ++d) windows.index.push_back(in_windows(view.index[d]));
    windows.index.push_back(place[m.place]);
    windows.index.push_back(step);
    for (const common::Validity& v : view.valid) {
      bool is_merged = v.value == view.index[last - 1];
      if (is_merged) copy.valid.push_back({in_copy(v.value), v.bound});
      if (!is_merged) windows.valid.push_back({in_windows(v.value), v.bound});
    }
    return add_cast_copy(i, 0, node.operands[0], copy, &windows);
  }

  common::NodeId merged_weight(size_t i, const Merged& m, std::vector<int>& labels) {
    const Node& contract = from_.graph.nodes[i];
    const std::vector<int>& image = labels_of(contract, m.conv.image);
    const std::vector<int> own = labels_of(contract, 1 - m.conv.image);
    const common::NodeId weight = contract.operands[1 - m.conv.image];
    const Shape& shape = from_.graph.node(weight).shape;
    View copy;
    copy.index.resize(own.size());
    labels.clear();
    for (size_t k = 0; k < own.size(); ++k) {
      if (own[k] == image[m.tap] || own[k] == image[m.channel]) continue;
      copy.index[k] = Expr::index(static_cast<int>(copy.shape.size()));
      copy.shape.push_back(shape[k]);
      labels.push_back(own[k]);
    }
    labels.push_back(m.label);
    const Expr both = Expr::index(static_cast<int>(copy.shape.size()));
    copy.shape.emplace_back(m.taps * m.channels);
    Expr taps, channels;
    for (size_t k = 0; k < own.size(); ++k) {
      if (own[k] == image[m.tap]) copy.index[k] = tap_of(m, both), taps = shape[k];
      if (own[k] == image[m.channel]) copy.index[k] = channel_of(m, both), channels = shape[k];
    }
    add_bounds(m, both, taps, channels, copy);
    return add_cast_copy(i, 2, weight, copy, nullptr);
  }

  // `contract` is node `i` with its operands moved.
  void merge_channels(size_t i, const Merged& m, Node& contract) {
    ContractAttr labels = attr<ContractAttr>(contract);
    const size_t image = m.conv.image;
    contract.operands[image] = merged_image(i, m, image == 0 ? labels.a : labels.b);
    contract.operands[1 - image] = merged_weight(i, m, image == 0 ? labels.b : labels.a);
    contract.attr = labels;
  }

  void copy_image(size_t i) {
    const Node& contract = from_.graph.nodes[i];
    const Node& windows = from_.graph.node(beneath_casts(contract.operands[convolution(i)->image]));
    common::NodeId image = beneath_casts(windows.operands[0]);
    if (from_.graph.node(image).op == Op::kView) from_.lowering[at(image)] = Lowering::kCopy;
  }

  // Names for what is added to node `i`.
  static uint32_t added(uint32_t of, uint32_t part) { return kAdded | of << 2 | part; }

  // `contract` is node `i` with its operands moved.
  void copy_weight(size_t i, Node& contract) {
    const Convolution conv = *convolution(i);
    const size_t side = 1 - conv.image;
    const auto& c = attr<ContractAttr>(contract);
    const std::vector<int>& labels = side == 0 ? c.a : c.b;
    std::vector<common::NodeId> casts;  // the last first
    common::NodeId weight = from_.graph.nodes[i].operands[side];
    while (from_.graph.node(weight).op == Op::kCast) {
      casts.push_back(weight);
      weight = from_.graph.node(weight).operands[0];
    }
    std::vector<int> order;  // of the weight's axes
    for (int part : {0, 1, 2}) {
      for (size_t k = 0; k < labels.size(); ++k) {
        int is = contains(c.out, labels[k]) ? 0 : labels[k] == conv.channel ? 2 : 1;
        if (is == part) order.push_back(static_cast<int>(k));
      }
    }
    const bool is_in_order = std::is_sorted(order.begin(), order.end());
    if (is_in_order && from_.graph.node(base_of(from_, weight)).op == Op::kInput) return;
    const Node& source = from_.graph.node(weight);
    View copy, back;
    back.shape = source.shape;
    copy.index.resize(order.size());
    for (size_t k = 0; k < order.size(); ++k) {
      copy.shape.push_back(source.shape[at(order[k])]);
      copy.index[at(order[k])] = Expr::index(static_cast<int>(k));
      back.index.push_back(Expr::index(order[k]));
    }
    const ClassId gene = from_.gene[i];
    const NodeId choice = from_.choice[i];
    common::NodeId made =
        to_.add({Op::kView, source.dtype, copy.shape, {moved_[at(weight)]}, ViewAttr{copy}},
                Lowering::kCopy, added(gene, 0), added(choice, 0));
    made = to_.add({Op::kView, source.dtype, back.shape, {made}, ViewAttr{back}},
                   Lowering::kInPlace, added(gene, 1), added(choice, 1));
    for (size_t k = casts.size(); k-- > 0;) {
      Node cast = from_.graph.node(casts[k]);
      cast.operands = {made};
      made = to_.add(std::move(cast), from_.lowering[at(casts[k])], from_.gene[at(casts[k])],
                     from_.choice[at(casts[k])]);
    }
    contract.operands[side] = made;
  }

  Selected from_;
  std::vector<char> at_load_;
  Selected to_;
  std::vector<common::NodeId> moved_;  // node of from_ -> node of to_
};

}  // namespace

bool has_windows(const View& view) {
  return std::any_of(view.index.begin(), view.index.end(), [](const Expr& e) {
    int indices = 0;
    e.visit_vars([&](common::Var v) { indices += v.kind == common::Var::Kind::kIndex; });
    return indices > 1;
  });
}

Selected with_convolution_operands(Selected selected) {
  return Arranger(std::move(selected)).run();
}

}  // namespace coordinator
