#include "coordinator/search/partition/winograd_convolutions.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "coordinator/rules/matching/winograd_form.h"
#include "coordinator/search/partition/without_unused.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::UnaryOp;
using common::View;
using common::ViewAttr;
using common::WindowAxis;

constexpr uint32_t kAdded = 0x04000000;
constexpr uint32_t kPartBits = 5;

// A value and the label of each of its axes.
struct Labelled {
  common::NodeId node = -1;
  std::vector<int> labels;
};

class Expander {
 public:
  explicit Expander(Selected&& from) : from_(std::move(from)) {}

  Selected run() {
    to_.graph.symbols = from_.graph.symbols;
    to_.graph.inputs = from_.graph.inputs;
    for (size_t i = 0; i < from_.graph.nodes.size(); ++i) {
      Node node = from_.graph.nodes[i];
      for (common::NodeId& operand : node.operands) operand = moved_[at(operand)];
      gene_ = from_.gene[i];
      choice_ = from_.choice[i];
      parts_ = 0;
      if (from_.lowering[i] == Lowering::kWinograd) {
        moved_.push_back(written_out(i, node));
      } else {
        moved_.push_back(to_.add(std::move(node), from_.lowering[i], gene_, choice_));
      }
    }
    to_.graph.outputs = from_.graph.outputs;
    for (auto& output : to_.graph.outputs) output.node = moved_[at(output.node)];
    return without_unused(std::move(to_));
  }

 private:
  // A part of what the node at hand becomes.
  common::NodeId add(Node node, Lowering lowering = Lowering::kInPlace) {
    const uint32_t part = parts_++;
    return to_.add(std::move(node), lowering, kAdded | gene_ << kPartBits | part,
                   kAdded | choice_ << kPartBits | part);
  }

  common::NodeId view(common::NodeId of, View view) {
    const DType dtype = to_.graph.node(of).dtype;
    Shape shape = view.shape;
    return add({Op::kView, dtype, std::move(shape), {of}, ViewAttr{std::move(view)}});
  }

  common::NodeId matrix(const std::vector<float>& values, int64_t rows, int64_t columns) {
    auto data = std::make_shared<common::Bytes>(values.size() * sizeof(float));
    std::memcpy(data->data(), values.data(), data->size());
    return add({Op::kConstant,
                DType::kFloat32,
                {Expr(rows), Expr(columns)},
                {},
                common::ConstantAttr{std::move(data)}});
  }

  Expr size_of(const Labelled& value, int label) const {
    auto place = std::find(value.labels.begin(), value.labels.end(), label) - value.labels.begin();
    return to_.graph.node(value.node).shape[at(place)];
  }

  Labelled product(const Labelled& a, const Labelled& b, std::vector<int> out) {
    Shape shape;
    for (int label : out) shape.push_back(size_of(contains(a.labels, label) ? a : b, label));
    Node node{Op::kContract, DType::kFloat32, shape, {a.node, b.node}, {}};
    node.attr = ContractAttr{a.labels, b.labels, out};
    return {add(std::move(node), Lowering::kTile), std::move(out)};
  }

  // The same as a sum of products, which is computed element by element.
  Labelled few_products(const Labelled& a, const Labelled& b, const std::vector<int>& out) {
    std::vector<int> all = out;
    for (int label : a.labels) {
      if (!contains(out, label)) all.push_back(label);
    }
    Shape shape;
    for (int label : all) shape.push_back(size_of(contains(a.labels, label) ? a : b, label));
    auto spread = [&](const Labelled& value) {
      View over{shape, {}, {}, 0};
      for (int label : value.labels) {
        const auto place = std::find(all.begin(), all.end(), label) - all.begin();
        over.index.push_back(Expr::index(static_cast<int>(place)));
      }
      return view(value.node, std::move(over));
    };
    const common::NodeId left = spread(a), right = spread(b);
    const common::NodeId products = add(
        {Op::kBinary, DType::kFloat32, shape, {left, right}, common::BinaryAttr{BinaryOp::kMul}});
    common::ReduceAttr sum{common::ReduceOp::kSum, {}};
    for (size_t k = out.size(); k < all.size(); ++k) sum.axes.push_back(static_cast<int>(k));
    Shape kept(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(out.size()));
    return {add({Op::kReduce, DType::kFloat32, std::move(kept), {products}, std::move(sum)}), out};
  }

  // `contract` is node `i` with its operands moved.
  common::NodeId written_out(size_t i, const Node& contract) {
    const auto& c = attr<ContractAttr>(contract);
    for (size_t image : {size_t{0}, size_t{1}}) {
      const Node& windows = from_.graph.node(from_.graph.nodes[i].operands[image]);
      if (windows.op != Op::kView) continue;
      const Shape& filter = to_.graph.node(contract.operands[1 - image]).shape;
      auto form = winograd_form(c, image, attr<ViewAttr>(windows).view, filter);
      if (form) return with_fallback(contract, convolved(windows, contract, *form));
    }
    return to_.add(contract, Lowering::kTile, gene_, choice_);
  }

  common::NodeId with_fallback(const Node& contract, common::NodeId y) {
    auto test = [&](UnaryOp op) {
      return add({Op::kUnary, DType::kBool, contract.shape, {y}, common::UnaryAttr{op}});
    };
    common::NodeId nan = test(UnaryOp::kIsNan), inf = test(UnaryOp::kIsInf);
    common::NodeId condition = add(
        {Op::kBinary, DType::kBool, contract.shape, {nan, inf}, common::BinaryAttr{BinaryOp::kOr}});
    common::NodeId direct = add(contract, Lowering::kTile);
    return to_.add({Op::kSelect, contract.dtype, contract.shape, {condition, direct, y}, {}},
                   Lowering::kInPlace, gene_, choice_);
  }

  common::NodeId convolved(const Node& windows, const Node& contract, const WinogradForm& form) {
    const auto& c = attr<ContractAttr>(contract);
    const View& view = attr<ViewAttr>(windows).view;
    const std::vector<int>& own = form.image == 0 ? c.a : c.b;
    const WindowAxis& along = form.axes[form.along];
    const MinimalFilter& filter = form.filter;
    const int place = own[at(along.place)], tap = own[at(along.tap)];
    point_ = 0;
    for (const auto* labels : {&c.a, &c.b}) {
      for (int label : *labels) point_ = std::max(point_, label + 1);
    }
    phase_ = point_ + 1;
    Labelled tiles = transformed_image(windows, form);
    Labelled rows = windows_of_tiles(tiles, view, own, form);
    Labelled filters = transformed_filter(contract, form, tap);
    std::vector<int> out = c.out;
    if (has_phases(form)) out.insert(std::find(out.begin(), out.end(), place) + 1, phase_);
    out.insert(out.end() - 1, point_);
    Labelled sums = form.image == 0 ? product(rows, filters, out) : product(filters, rows, out);

    const int result = point_ + 2;
    Labelled results{matrix(filter.of_results(), filter.outputs, filter.points()),
                     {result, point_}};
    out.clear();
    View back{contract.shape, {}, {}, 0};
    for (size_t axis = 0; axis < c.out.size(); ++axis) {
      const Expr k = Expr::index(static_cast<int>(axis));
      out.push_back(c.out[axis]);
      back.index.push_back(k);
      if (c.out[axis] != place) continue;
      out.push_back(result);
      const Expr turn(along.tap_step), of_phase = common::floor_div(k, turn);
      back.index.back() = common::floor_div(of_phase, Expr(filter.outputs));
      back.index.push_back(common::mod(of_phase, Expr(filter.outputs)));
      if (!has_phases(form)) continue;
      out.push_back(phase_);
      back.index.push_back(common::mod(k, turn));
    }
    Labelled y = few_products(results, sums, out);
    return this->view(y.node, std::move(back));
  }

  // Pixels that windows read along an axis of the image, the border with them.
  static Expr reach_of(const View& view, const WindowAxis& axis) {
    Expr last = 0;
    if (axis.place >= 0) last += (view.shape[at(axis.place)] - Expr(1)) * Expr(axis.place_step);
    if (axis.tap >= 0) last += (view.shape[at(axis.tap)] - Expr(1)) * Expr(axis.tap_step);
    return last + Expr(1);
  }
  static bool has_phases(const WinogradForm& form) { return form.axes[form.along].tap_step > 1; }
  static bool has_both(const WindowAxis& axis) { return axis.place >= 0 && axis.tap >= 0; }

  // Tiles of the image, each multiplied by the matrix. Labels are the numbers of the image's axes,
  // without those of one pixel, and of the last ones' number on: phases, pixels of a tile, points.
  Labelled transformed_image(const Node& windows, const WinogradForm& form) {
    const View& view = attr<ViewAttr>(windows).view;
    const common::NodeId image = moved_[at(windows.operands[0])];
    const MinimalFilter& filter = form.filter;
    const int rank = static_cast<int>(form.axes.size());
    Labelled tiles;
    View pixels;
    for (int d = 0; d < rank; ++d) {
      const WindowAxis& axis = form.axes[at(d)];
      if (axis.place < 0 && axis.tap < 0) {
        pixels.index.push_back(axis.first);
        continue;
      }
      const Expr i = Expr::index(static_cast<int>(pixels.shape.size()));
      tiles.labels.push_back(d);
      if (at(d) == form.along) {
        pixels.shape.emplace_back(form.tiles(view));
        pixels.index.push_back(i * Expr(filter.outputs * axis.tap_step) + axis.first);
        if (!has_phases(form)) continue;
        pixels.index.back() += Expr::index(static_cast<int>(pixels.shape.size()));
        pixels.shape.emplace_back(axis.tap_step);
        tiles.labels.push_back(rank);
      } else if (has_both(axis)) {
        pixels.shape.push_back(reach_of(view, axis));
        pixels.index.push_back(i + axis.first);
      } else {
        const int only = std::max(axis.place, axis.tap);
        pixels.shape.push_back(view.shape[at(only)]);
        pixels.index.push_back(i * Expr(std::max(axis.place_step, axis.tap_step)) + axis.first);
      }
    }
    pixels.index[form.along] +=
        Expr::index(static_cast<int>(pixels.shape.size())) * Expr(form.axes[form.along].tap_step);
    pixels.shape.emplace_back(filter.points());
    add_borders(view, form, to_.graph.node(image).shape, pixels);
    const int pixel = rank + 1, point = rank + 2;
    tiles.labels.push_back(pixel);
    std::vector<int> out = tiles.labels;
    out.pop_back();
    out.insert(out.end() - 1, point);
    tiles.node = this->view(image, std::move(pixels));
    Labelled transform{matrix(filter.of_pixels(), filter.points(), filter.points()),
                       {point, pixel}};
    return few_products(transform, tiles, out);
  }

  // The conditions of the windows, and one where the last tile reaches beyond the image.
  static void add_borders(const View& windows, const WinogradForm& form, const Shape& image,
                          View& pixels) {
    bool is_bordered = false;
    for (const common::Validity& v : windows.valid) {
      for (size_t d = 0; d < windows.index.size(); ++d) {
        const Expr difference = v.value - windows.index[d];
        if (!difference.is_constant()) continue;
        pixels.valid.push_back({pixels.index[d] + difference, v.bound});
        is_bordered = is_bordered || (d == form.along && difference.is_constant(0) &&
                                      v.bound == image[form.along]);
        break;
      }
    }
    if (!is_bordered) pixels.valid.push_back({pixels.index[form.along], image[form.along]});
  }

  // A step of the sum is a tap, in which channels lie side by side.
  static std::vector<size_t> channels_last(size_t axes, const WinogradForm& form) {
    std::vector<size_t> order(axes);
    std::iota(order.begin(), order.end(), size_t{0});
    order.erase(order.begin() + form.axes.back().tap);
    order.push_back(at(form.axes.back().tap));
    return order;
  }

  // As the contraction reads them, with the points' label and tiles instead of places and taps.
  Labelled windows_of_tiles(const Labelled& tiles, const View& view, const std::vector<int>& own,
                            const WinogradForm& form) {
    const WindowAxis& along = form.axes[form.along];
    const int rank = static_cast<int>(form.axes.size());
    Labelled rows;
    View windows;
    std::vector<Expr> position(own.size());  // of each axis of the old view
    for (size_t k : channels_last(own.size(), form)) {
      if (static_cast<int>(k) == along.tap) continue;
      bool is_place = static_cast<int>(k) == along.place;
      position[k] = Expr::index(static_cast<int>(windows.shape.size()));
      windows.shape.push_back(is_place ? size_of(tiles, static_cast<int>(form.along))
                                       : view.shape[k]);
      rows.labels.push_back(own[k]);
    }
    const Expr phase = Expr::index(static_cast<int>(windows.shape.size()));
    if (has_phases(form)) {
      windows.shape.emplace_back(along.tap_step);
      rows.labels.push_back(phase_);
    }
    const Expr point = Expr::index(static_cast<int>(windows.shape.size()));
    windows.shape.emplace_back(form.filter.points());
    rows.labels.push_back(point_);
    for (int label : tiles.labels) {
      if (label >= rank) {
        windows.index.push_back(label == rank ? phase : point);
        continue;
      }
      const WindowAxis& axis = form.axes[at(label)];
      if (at(label) == form.along) {
        windows.index.push_back(position[at(axis.place)]);
      } else if (has_both(axis)) {
        windows.index.push_back(position[at(axis.place)] * Expr(axis.place_step) +
                                position[at(axis.tap)] * Expr(axis.tap_step));
      } else {
        windows.index.push_back(position[at(std::max(axis.place, axis.tap))]);
      }
    }
    rows.node = this->view(tiles.node, std::move(windows));
    return rows;
  }

  // The filter's matrix times its taps, of the other axes as they are: a sum that is computed where
  // panels of it are made.
  Labelled transformed_filter(const Node& contract, const WinogradForm& form, int tap) {
    const auto& c = attr<ContractAttr>(contract);
    const MinimalFilter& filter = form.filter;
    Labelled weight{contract.operands[1 - form.image], form.image == 0 ? c.b : c.a};
    Labelled transform{matrix(filter.of_filters(), filter.points(), filter.taps), {point_, tap}};
    std::vector<int> out{point_};
    for (int label : weight.labels) {
      if (label != tap) out.push_back(label);
    }
    return few_products(transform, weight, out);
  }

  Selected from_;
  Selected to_;
  std::vector<common::NodeId> moved_;  // node of from_ -> node of to_
  ClassId gene_ = 0;                   // of the node at hand
  NodeId choice_ = 0;
  uint32_t parts_ = 0;  // that were added for it
  // Labels beyond the contraction's own: of points, and of the places between two taps, each of
  // which has tiles of its own.
  int point_ = 0, phase_ = 0;
};

}  // namespace

NodeId choice_behind(NodeId choice) {
  return (choice & kAdded) != 0 ? (choice & ~kAdded) >> kPartBits : choice;
}

Selected with_winograd_convolutions(Selected selected) {
  if (!contains(selected.lowering, Lowering::kWinograd)) return selected;
  return Expander(std::move(selected)).run();
}

}  // namespace coordinator
