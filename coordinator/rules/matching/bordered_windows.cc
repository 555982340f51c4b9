#include "coordinator/rules/matching/bordered_windows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/sizes.h"

namespace coordinator {
namespace {

using common::at;
using common::Expr;
using common::ExprKind;
using common::Shape;
using common::View;

int count_indices(const Expr& e, int rank) {
  int count = 0;
  for (int k = 0; k < rank; ++k) count += e.uses(common::Var{common::Var::Kind::kIndex, k}) ? 1 : 0;
  return count;
}

// The strides of the first part of `e` that is affine and depends on as many indices as `e` does.
std::optional<std::vector<Expr>> strides_within(const Expr& e, int rank, int indices) {
  if (e.is_constant() || count_indices(e, rank) < indices) return std::nullopt;
  if (auto affine = common::affine_form(e, rank)) return affine->strides;
  if (e.kind() != ExprKind::kSum) {
    if (e.as_var()) return std::nullopt;
    auto left = strides_within(e.left(), rank, indices);
    return left ? left : strides_within(e.right(), rank, indices);
  }
  for (const Expr::Term& term : e.terms()) {
    for (const Expr& factor : term.factors) {
      if (factor == e) continue;
      if (auto found = strides_within(factor, rank, indices)) return found;
    }
  }
  return std::nullopt;
}

// How far windows reach along one axis of an image.
struct Reach {
  Expr place;                  // over the windows' indices, the first one 0
  Expr places = 1;             // how many there are
  Expr windows = 1;            // elements of all windows
  std::optional<size_t> unit;  // an index whose steps are places
  int indices = 0;
  bool is_backwards = false;
};

// Empty unless all strides are constants of one sign.
std::optional<Reach> reach_of(const std::vector<Expr>& strides, const Shape& shape) {
  Reach reach;
  for (size_t k = 0; k < strides.size(); ++k) {
    if (strides[k].is_constant(0)) continue;
    if (!strides[k].is_constant()) return std::nullopt;
    const bool is_backwards = strides[k].constant() < 0;
    if (reach.indices++ == 0) reach.is_backwards = is_backwards;
    if (is_backwards != reach.is_backwards) return std::nullopt;
    const int64_t stride = std::abs(strides[k].constant());
    if (stride == 1) reach.unit = k;
    reach.place += Expr(stride) * Expr::index(static_cast<int>(k));
    reach.places += Expr(stride) * (shape[k] - Expr(1));
    reach.windows *= shape[k];
  }
  return reach;
}

// Along one axis, places of an image within a border: 0, 1, ...
struct Walk {
  Expr place;     // over the windows' indices
  Expr position;  // in the image, over the place, which is index 0
  Expr places;    // how many there are
};

// Of windows that overlap along one axis.
std::optional<Walk> bordered_walk(const Expr& e, const Shape& shape) {
  const auto rank = static_cast<int>(shape.size());
  const int indices = count_indices(e, rank);
  if (indices < 2 || common::affine_form(e, rank)) return std::nullopt;
  auto strides = strides_within(e, rank, indices);
  auto reach = strides ? reach_of(*strides, shape) : std::nullopt;
  if (!reach || !reach->unit || reach->windows == reach->places) return std::nullopt;
  Walk walk{reach->place, Expr(0), reach->places};
  // Any place as a place of its own: index `rank` stands for it until others are gone.
  const Expr others = walk.place - Expr::index(static_cast<int>(*reach->unit));
  const Expr rest = Expr::index(rank) - others;
  walk.position = e.substitute([&](common::Var v) {
    const bool is_unit = v.kind == common::Var::Kind::kIndex && at(v.id) == *reach->unit;
    return is_unit ? rest : Expr::var(v);
  });
  if (count_indices(walk.position, rank) > 0) return std::nullopt;
  walk.position = walk.position.substitute([&](common::Var v) {
    return v.kind == common::Var::Kind::kIndex ? Expr::index(0) : Expr::var(v);
  });
  return walk;
}

constexpr int64_t kPlacesMax = 1 << 16;

// Whether every place that is valid shows a position within [0, size), whatever the sizes are.
// `valid` is over the place, with constant bounds.
bool stays_within(const Walk& walk, const Expr& size, const std::vector<common::Validity>& valid) {
  bool has_symbols = false;
  walk.position.visit_vars(
      [&](common::Var v) { has_symbols |= v.kind == common::Var::Kind::kSymbol; });
  if (has_symbols || !walk.places.is_constant() || !size.is_constant()) return false;
  if (walk.places.constant() > kPlacesMax) return false;
  for (int64_t place = 0; place < walk.places.constant(); ++place) {
    const std::vector<int64_t> indices{place};
    const bool is_valid = std::all_of(valid.begin(), valid.end(), [&](const common::Validity& v) {
      const int64_t value = v.value.evaluate({}, indices);
      return value >= 0 && value < v.bound.evaluate({});
    });
    const int64_t position = walk.position.evaluate({}, indices);
    if (is_valid && (position < 0 || position >= size.constant())) return false;
  }
  return true;
}

// Takes from `view` what it asks of the walk's places alone, over the place.
std::vector<common::Validity> take_validities(const Walk& walk, View& view) {
  std::vector<common::Validity> taken;
  std::erase_if(view.valid, [&](const common::Validity& v) {
    const Expr first = v.value - walk.place;
    if (!first.is_constant() || !v.bound.is_constant()) return false;
    taken.push_back({Expr::index(0) + first, v.bound});
    return true;
  });
  return taken;
}

// Adds to the border's view, axis by axis of the image.
class BorderBuilder {
 public:
  explicit BorderBuilder(const View& view) : windows_(view) { windows_.index.clear(); }

  // An axis of the image as it is.
  void keep(const Expr& size, const Expr& position) {
    border_.index.push_back(add_axis(size, position));
  }

  // Axes that the same places walk along share an axis of the border. False where a place shows
  // nothing of the image.
  bool walk(const Walk& walk, const Expr& size) {
    auto same = std::ranges::find(walks_, walk.place, &Places::place);
    if (same == walks_.end()) {
      Places places{walk.place, add_axis(walk.places, walk.place), take_validities(walk, windows_)};
      same = walks_.insert(walks_.end(), std::move(places));
    }
    border_.index.push_back(common::with_indices(walk.position, {same->axis}));
    return stays_within(walk, size, same->valid);
  }

  // Empty where nothing was walked along.
  std::optional<BorderedWindows> finish() && {
    if (walks_.empty()) return std::nullopt;
    border_.fill = windows_.fill;
    for (const Places& places : walks_) {
      for (const common::Validity& v : places.valid) {
        border_.valid.push_back({common::with_indices(v.value, {places.axis}), v.bound});
      }
    }
    return BorderedWindows{std::move(border_), std::move(windows_)};
  }

 private:
  struct Places {
    Expr place;
    Expr axis;                            // of the border, as an index
    std::vector<common::Validity> valid;  // over the place, which is index 0
  };

  // `position`: the windows' along it.
  Expr add_axis(const Expr& size, const Expr& position) {
    border_.shape.push_back(size);
    windows_.index.push_back(position);
    return Expr::index(static_cast<int>(border_.shape.size()) - 1);
  }

  View border_, windows_;
  std::vector<Places> walks_;
};

}  // namespace

std::optional<BorderedWindows> bordered_windows(const View& view, const Shape& image,
                                                const std::vector<common::SymbolRange>& symbols) {
  BorderBuilder builder(view);
  for (size_t d = 0; d < image.size(); ++d) {
    auto walk = bordered_walk(view.index[d], view.shape);
    if (!walk) {
      builder.keep(image[d], view.index[d]);
    } else if (!builder.walk(*walk, image[d])) {
      return std::nullopt;
    }
  }
  auto result = std::move(builder).finish();
  if (!result) return std::nullopt;
  const std::vector<int64_t> sizes = common::representative_sizes(symbols);
  const double stored = common::count_elements(result->border.shape, sizes);
  if (stored >= common::count_elements(view.shape, sizes)) return std::nullopt;
  return result;
}

std::optional<BorderedWindows> zero_bordered_windows(const View& view, const Shape& image) {
  if (image.empty()) return std::nullopt;
  const size_t d = image.size() - 1;
  const auto rank = static_cast<int>(view.shape.size());
  const auto asks = std::ranges::find_if(view.valid, [&](const common::Validity& v) {
    return v.value == view.index[d] && v.bound == image[d];
  });
  auto affine = common::affine_form(view.index[d], rank);
  if (asks == view.valid.end() || !affine || !affine->offset.is_constant()) return std::nullopt;
  auto reach = reach_of(affine->strides, view.shape);
  const bool overlap = reach && !reach->is_backwards && reach->indices > 1 &&
                       reach->places.is_constant() && reach->windows.is_constant() &&
                       reach->windows.constant() > reach->places.constant();
  if (!overlap) return std::nullopt;
  BorderedWindows result{common::view_identity(image), view};
  const Expr position = Expr::index(static_cast<int>(d)) + affine->offset;
  result.border.shape[d] = reach->places;
  result.border.index[d] = position;
  result.border.valid.push_back({position, image[d]});
  result.border.fill = view.fill;
  result.windows.index[d] = reach->place;
  result.windows.valid.erase(result.windows.valid.begin() + (asks - view.valid.begin()));
  return result;
}

}  // namespace coordinator
