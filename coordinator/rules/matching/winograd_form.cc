#include "coordinator/rules/matching/winograd_form.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/contains.h"
#include "common/base/divide_up.h"
#include "common/ir/expr/index.h"

namespace coordinator {
namespace {

using common::at;
using common::contains;
using common::ContractAttr;
using common::Expr;
using common::View;
using common::WindowAxis;

// Where polynomials are evaluated, and at infinity. With these, sums of 2,304 products had errors
// of 1.6 times those of products added up in order; with 2 for 1/2, of 2.2 times.
constexpr double kPoints[] = {0, 1, -1, 0.5, -2};
constexpr int64_t kFinite = 5;
constexpr int64_t kTapsMax = 5;
// With fewer channels or columns, the tiles take longer than what they save.
constexpr int64_t kChannelsMin = 16;

// Coefficients of the product of all (x - point) but that of `left_out`, by power.
std::vector<double> polynomial(int64_t left_out) {
  std::vector<double> c{1};
  for (int64_t b = 0; b < kFinite; ++b) {
    if (b == left_out) continue;
    c.insert(c.begin(), 0);
    for (size_t k = 0; k + 1 < c.size(); ++k) c[k] -= kPoints[b] * c[k + 1];
  }
  return c;
}

// Powers of the points, and the highest one alone at infinity: [points, powers].
std::vector<double> powers(int64_t count) {
  std::vector<double> result(at((kFinite + 1) * count), 0);
  for (int64_t a = 0; a < kFinite; ++a) {
    for (int64_t k = 0; k < count; ++k) {
      result[at(a * count + k)] = std::pow(kPoints[a], static_cast<double>(k));
    }
  }
  result.back() = 1;
  return result;
}

// Each axis of the view belongs to one of the image.
bool are_disjoint(const std::vector<WindowAxis>& axes, size_t rank) {
  std::vector<int> used(rank, 0);
  for (const WindowAxis& axis : axes) {
    for (int k : {axis.place, axis.tap}) {
      if (k >= 0) ++used[at(k)];
    }
  }
  return std::all_of(used.begin(), used.end(), [](int times) { return times == 1; });
}

// Every condition is one on the place of a pixel along one axis.
bool is_bordered(const View& view) {
  if (view.fill != 0 && !view.valid.empty()) return false;
  return std::all_of(view.valid.begin(), view.valid.end(), [&](const common::Validity& v) {
    return v.bound.is_constant() &&
           std::any_of(view.index.begin(), view.index.end(),
                       [&](const Expr& e) { return (v.value - e).is_constant(); });
  });
}

bool is_at_least(const Expr& size, int64_t least) {
  return size.is_constant() && size.constant() >= least;
}

}  // namespace

std::vector<float> MinimalFilter::of_pixels() const {
  std::vector<float> result;
  for (int64_t a = 0; a <= kFinite; ++a) {
    std::vector<double> row = polynomial(a < kFinite ? a : -1);
    row.resize(at(points()), 0);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

std::vector<float> MinimalFilter::of_filters() const {
  std::vector<double> rows = powers(taps);
  for (int64_t a = 0; a < kFinite; ++a) {
    double scale = 1;
    for (int64_t b = 0; b < kFinite; ++b) {
      if (b != a) scale *= kPoints[a] - kPoints[b];
    }
    for (int64_t k = 0; k < taps; ++k) rows[at(a * taps + k)] /= scale;
  }
  return {rows.begin(), rows.end()};
}

std::vector<float> MinimalFilter::of_results() const {
  std::vector<double> columns = powers(outputs);
  std::vector<float> result;
  for (int64_t r = 0; r < outputs; ++r) {
    for (int64_t a = 0; a <= kFinite; ++a) {
      result.push_back(static_cast<float>(columns[at(a * outputs + r)]));
    }
  }
  return result;
}

int64_t WinogradForm::tiles(const View& windows) const {
  const int64_t places = windows.shape[at(axes[along].place)].constant();
  return common::divide_up(places, axes[along].tap_step * filter.outputs);
}

double WinogradForm::share(const View& windows) const {
  const int64_t places = windows.shape[at(axes[along].place)].constant();
  return static_cast<double>(tiles(windows) * axes[along].tap_step * filter.points()) /
         static_cast<double>(places * filter.taps);
}

std::optional<WinogradForm> winograd_form(const ContractAttr& c, size_t image, const View& windows,
                                          const common::Shape& filter_shape) {
  const std::vector<int>& labels = image == 0 ? c.a : c.b;
  const std::vector<int>& others = image == 0 ? c.b : c.a;
  if (windows.index.size() < 2 || !is_bordered(windows) || c.out.empty()) return std::nullopt;
  WinogradForm form;
  form.image = image;
  std::vector<bool> is_place;
  for (int label : labels) is_place.push_back(contains(c.out, label));
  for (const Expr& e : windows.index) {
    auto axis = common::window_axis(e, is_place);
    if (!axis) return std::nullopt;
    form.axes.push_back(*axis);
  }
  if (!are_disjoint(form.axes, labels.size())) return std::nullopt;
  // Windows and filters share what is summed and nothing else; columns are the filters' own.
  for (size_t k = 0; k < labels.size(); ++k) {
    if (contains(others, labels[k]) == contains(c.out, labels[k])) return std::nullopt;
  }
  for (size_t k = 0; k < others.size(); ++k) {
    bool is_summed = contains(labels, others[k]);
    if (is_summed == contains(c.out, others[k])) return std::nullopt;
    if (!filter_shape[k].is_constant()) return std::nullopt;
    bool is_last = others[k] == c.out.back();
    if (is_last && !is_at_least(filter_shape[k], kChannelsMin)) return std::nullopt;
  }
  if (!contains(others, c.out.back())) return std::nullopt;
  const WindowAxis& channels = form.axes.back();
  if (channels.place >= 0 || channels.tap < 0 || channels.tap_step != 1 ||
      !is_at_least(windows.shape[at(channels.tap)], kChannelsMin)) {
    return std::nullopt;
  }

  double least = 0;
  for (size_t d = 0; d + 1 < form.axes.size(); ++d) {
    const WindowAxis& axis = form.axes[d];
    if (axis.tap < 0) continue;
    if (!windows.shape[at(axis.tap)].is_constant()) return std::nullopt;
    if (axis.place < 0 || !windows.shape[at(axis.place)].is_constant()) return std::nullopt;
    if (axis.place_step != 1) continue;
    int64_t taps = windows.shape[at(axis.tap)].constant();
    int64_t places = windows.shape[at(axis.place)].constant();
    const MinimalFilter filter{taps, kFinite + 2 - taps};
    if (taps < 2 || taps > kTapsMax || places < filter.outputs * axis.tap_step) continue;
    WinogradForm found = form;
    found.along = d;
    found.filter = filter;
    const double share = found.share(windows);
    if (least != 0 && share > least) continue;  // the last axis where several do as well
    least = share;
    form = std::move(found);
  }
  constexpr double kShareMax = 0.75;
  if (least == 0 || least > kShareMax) return std::nullopt;
  return form;
}

}  // namespace coordinator
