#include "common/lowering/body/window_operand.h"

#include <algorithm>
#include <numeric>

#include "common/base/divide_up.h"
#include "common/ir/expr/with_indices.h"

namespace common {
namespace {

constexpr int64_t kChunk = 8;  // channels that are 16 bytes

// An element of an input, as indices of labels say it.
struct Place {
  const Node* input = nullptr;
  Indices position;
  std::vector<Validity> conditions;  // else it is zero
};

std::optional<Place> place_of(const Graph& body, NodeId id, Indices at, const CodeWriter& writer) {
  Place place;
  while (body.node(id).op == Op::kView) {
    const View& view = attr<ViewAttr>(body.node(id)).view;
    id = body.node(id).operands[0];
    if (!view.valid.empty() && view.fill != 0) return std::nullopt;
    for (const Validity& v : view.valid) {
      place.conditions.push_back({writer.simplify(with_indices(v.value, at)), v.bound});
    }
    Indices inner;
    for (const Expr& e : view.index) inner.push_back(writer.simplify(with_indices(e, at)));
    at = std::move(inner);
  }
  if (body.node(id).op != Op::kInput) return std::nullopt;
  place.input = &body.node(id);
  place.position = std::move(at);
  return place;
}

class Finder {
 public:
  explicit Finder(const Contraction& c) : c_(c), writer_(c.body().symbols) {
    for (int label : c.problem().batch) bind(label);
    own_ = bound_;
    for (int label : c.problem().m) bind(label);
    summed_ = bound_;
    for (int label : c.problem().k) bind(label);
  }

  std::optional<WindowOperand> run() {
    auto part = [&](int begin, int end) {
      return std::vector<Expr>(indices_.begin() + begin, indices_.begin() + end);
    };
    auto place = place_of(
        c_.body(), c_.operand(Side::kLeft),
        c_.operand_at(Side::kLeft, part(0, own_), part(own_, summed_), part(summed_, bound_)),
        writer_);
    if (!place || !read_axes(*place)) return std::nullopt;
    next_own_ = own_;
    is_summed_.assign(static_cast<size_t>(bound_), false);
    Expr stride = 1;
    for (const Expr& size : place->input->shape) stride = stride * size;
    result_.input = attr<InputAttr>(*place->input).position;
    result_.image_stride = stride;
    result_.offset = 0;
    for (size_t d = 0; d < walks_.size(); ++d) {
      const Expr& size = place->input->shape[d];
      if (size.is_constant(0)) return std::nullopt;
      stride = *exact_div(stride, size);
      bool is_last = d + 1 == walks_.size();
      if (!(is_last ? take_channels(walks_[d], size) : take_axis(walks_[d], size, stride))) {
        return std::nullopt;
      }
    }
    std::reverse(result_.axes.begin(), result_.axes.end());
    constexpr size_t kAxesMax = 3;
    if (!take_row(summed_) || !is_all_summed() || result_.axes.empty() ||
        result_.axes.size() > kAxesMax)
      return std::nullopt;
    return result_;
  }

 private:
  void bind(int label) {
    const Expr& size = c_.problem().label_size[static_cast<size_t>(label)];
    indices_.push_back(Expr::index(writer_.bind_index("i", size, 0)));
    sizes_.push_back(size);
    ++bound_;
  }
  const Expr& size_of(int label) const { return sizes_[static_cast<size_t>(label)]; }

  // Each axis' position as a sum over at most one label of rows and one that is summed.
  bool read_axes(const Place& place) {
    std::vector<bool> is_place(static_cast<size_t>(bound_), false);
    std::fill_n(is_place.begin(), summed_, true);
    for (const Expr& position : place.position) {
      auto walk = window_axis(position, is_place);
      bool is_of_batch = walk && walk->place >= 0 && walk->place < own_;
      if (!walk || is_of_batch) return false;
      walks_.push_back(*walk);
    }
    const Shape& shape = place.input->shape;
    return std::all_of(place.conditions.begin(), place.conditions.end(), [&](const Validity& v) {
      for (size_t d = 0; d < shape.size(); ++d) {
        if (v.value == place.position[d] && v.bound == shape[d]) return true;
      }
      return false;
    });
  }

  // Rows follow one another as they do in memory, and each label is read once.
  bool take_row(int label) {
    if (label < 0) return true;
    while (next_own_ < label && size_of(next_own_).is_constant(1)) ++next_own_;
    return label == next_own_++;
  }
  bool take_summed(int label) {
    if (is_summed_[static_cast<size_t>(label)]) return false;
    return is_summed_[static_cast<size_t>(label)] = true;
  }
  bool is_all_summed() const {
    for (int label = summed_; label < bound_; ++label) {
      if (!is_summed_[static_cast<size_t>(label)] && !size_of(label).is_constant(1)) return false;
    }
    return true;
  }

  bool take_channels(const WindowAxis& walk, const Expr& size) {
    if (walk.place >= 0 || walk.tap < 0 || walk.tap_step != 1 || !take_summed(walk.tap)) {
      return false;
    }
    const Expr& count = size_of(walk.tap);
    if (!count.is_constant() || !size.is_constant() || walk.first % kChunk != 0 ||
        size.constant() % kChunk != 0 || count.constant() % kChunk != 0 || walk.first < 0 ||
        walk.first + count.constant() > size.constant()) {
      return false;
    }
    result_.channels = count.constant();
    result_.channel = walk.tap - summed_;
    result_.offset += Expr(walk.first);
    return true;
  }

  bool take_axis(const WindowAxis& walk, const Expr& size, const Expr& stride) {
    if (size.is_constant(1) && walk.place < 0 && walk.tap < 0 && walk.first == 0) return true;
    if (!take_row(walk.place)) return false;
    // The slowest axis that rows walk one by one is that of the images.
    bool is_plain = walk.tap < 0 && walk.place_step == 1 && walk.first == 0 && walk.place >= 0 &&
                    size_of(walk.place) == size;
    if (is_plain && !has_images_ && result_.axes.empty()) {
      has_images_ = true;
      result_.images = size;
      result_.image_stride = stride;
      return true;
    }
    WindowOperand::Axis axis{size, stride};
    if (walk.place >= 0) axis.count = size_of(walk.place);
    axis.first = walk.first;
    axis.step = walk.place_step;
    if (walk.tap >= 0) {
      const Expr& taps = size_of(walk.tap);
      if (!taps.is_constant() || !take_summed(walk.tap)) return false;
      axis.dilation = walk.tap_step;
      axis.tap = walk.tap - summed_;
      axis.taps = taps.constant();
    }
    result_.axes.push_back(axis);
    return true;
  }

  const Contraction& c_;
  CodeWriter writer_;
  std::vector<Expr> indices_, sizes_;  // of labels: the batch's, those of rows, those of k
  int own_ = 0, summed_ = 0, bound_ = 0;
  std::vector<WindowAxis> walks_;  // by axis of the input, of labels by their number
  WindowOperand result_;
  int next_own_ = 0;
  std::vector<bool> is_summed_;
  bool has_images_ = false;
};

}  // namespace

int64_t WindowGrid::stride(size_t axis) const {
  int64_t stride = 1;
  for (size_t k = 0; k < axis; ++k) stride *= axes[k].padded;
  return stride;
}

int64_t WindowGrid::place(int64_t window) const {
  int64_t place = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    place += window % axes[k].count * axes[k].step * stride(k);
    window /= axes[k].count;
  }
  return place + window * stride(axes.size());
}

int64_t WindowGrid::reach() const {
  int64_t reach = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    reach += (axes[k].taps - 1) * axes[k].dilation * stride(k);
  }
  return reach;
}

int64_t WindowGrid::patch(int64_t rows) const {
  int64_t image = 1, most = 0;
  for (const Axis& axis : axes) image *= axis.count;
  // Blocks begin at as many places of an image.
  const int64_t starts = image / std::gcd(image, rows);
  for (int64_t start = 0; start < starts; ++start) {
    const int64_t first = start * rows % image;
    most = std::max(most, place(first + rows - 1) - place(first));
  }
  return most + 1 + reach();
}

double WindowGrid::inside() const {
  double share = 1;
  for (const Axis& axis : axes) {
    share *= static_cast<double>(axis.pixels) / static_cast<double>(axis.padded);
  }
  return share;
}

std::optional<WindowGrid> window_grid(const WindowOperand& windows) {
  constexpr int64_t kBorderMax = 15;  // of maps of three axes
  constexpr int64_t kImageMax = 65536, kShortRow = 16, kBankPixels = 8;
  WindowGrid grid;
  int64_t image = 1;
  for (const WindowOperand::Axis& axis : windows.axes) {
    if (!axis.size.is_constant() || !axis.count.is_constant()) return std::nullopt;
    const int64_t size = axis.size.constant(), count = axis.count.constant();
    int64_t padded = (count - 1) * axis.step + (axis.taps - 1) * axis.dilation + 1;
    // Neighbours on both sides of a short row's end lie in other banks of shared memory, too, where
    // their distance is one more than a multiple of eight pixels.
    if (grid.axes.empty() && axis.step == 1 && count <= kShortRow) {
      padded = count + divide_up(padded - count, kBankPixels) * kBankPixels;
    }
    const int64_t end = axis.first + padded;
    if (count < 1 || size < 1 || axis.first < -kBorderMax || axis.first > kBorderMax ||
        end - size > kBorderMax || size - end > kBorderMax) {
      return std::nullopt;
    }
    const int64_t pixels = std::min(size, end) - std::max<int64_t>(0, axis.first);
    grid.axes.push_back({count, axis.step, padded, pixels, axis.taps, axis.dilation});
    image *= count;
    if (image > kImageMax) return std::nullopt;
  }
  return grid;
}

std::optional<WindowOperand> window_operand(const Contraction& contraction) {
  if (contraction.group() != nullptr) return std::nullopt;
  return Finder(contraction).run();
}

}  // namespace common
