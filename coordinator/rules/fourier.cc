// Fourier transforms, and the products that they are. A product with a matrix of twiddles, cos or
// sin of 2 pi p q / n, is a product of butterflies where n has factors (Cooley and Tukey, 1965):
// with n = f m, p = a m + b and q = s + f t, p q / n is a s / f + b s / n + b t / m and a whole
// number.
#include <cmath>

#include "common/base/contains.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::FourierAttr;
using common::Node;
using common::Op;
using common::Shape;
using common::UnaryOp;
using common::View;

// Transforms of fewer points gain nothing.
constexpr int64_t kMinPoints = 16;

// cos or sin of direction * 2 pi i j / n, for positions i and j along the two axes.
struct Twiddles {
  UnaryOp op;
  int64_t n;
  int direction;
};

// i * j, or its remainder by n, which is set where it is seen.
bool is_index_product(const Rewriter& r, ClassId cls, std::optional<int64_t>& n) {
  if (auto mod = r.find_binary(cls, BinaryOp::kMod)) {
    auto divisor = r.uniform_value(mod->operands[1]);
    if (!divisor) return false;
    n = static_cast<int64_t>(*divisor);
    cls = mod->operands[0];
  }
  auto product = r.find_binary(cls, BinaryOp::kMul);
  if (!product) return false;
  auto i = index_value(r, product->operands[0]);
  auto j = index_value(r, product->operands[1]);
  if (!i || !j) return false;
  return (*i == Expr::index(0) && *j == Expr::index(1)) ||
         (*i == Expr::index(1) && *j == Expr::index(0));
}

std::optional<Twiddles> twiddles_of(const Rewriter& r, ClassId cls) {
  if (r.shape(cls).size() != 2) return std::nullopt;
  if (auto rounded = r.find(cls, Op::kCast)) cls = rounded->operands[0];
  for (UnaryOp op : {UnaryOp::kCos, UnaryOp::kSin}) {
    auto twiddle = r.find_unary(cls, op);
    if (!twiddle) continue;
    auto angle = r.find_binary(twiddle->operands[0], BinaryOp::kMul);
    if (!angle) continue;
    for (size_t k : {size_t{1}, size_t{0}}) {
      auto step = r.uniform_value(angle->operands[k]);
      auto turn = r.find(angle->operands[1 - k], Op::kCast);
      if (!step || !turn || *step == 0) continue;
      double points = std::abs(2 * M_PI / *step);
      auto n = static_cast<int64_t>(std::llround(points));
      std::optional<int64_t> period;
      if (std::abs(points - static_cast<double>(n)) > 1e-9 * points) continue;
      if (!is_index_product(r, turn->operands[0], period) || (period && *period != n)) continue;
      return Twiddles{op, n, *step < 0 ? -1 : 1};
    }
  }
  return std::nullopt;
}

// The factor next to the root.
int64_t middle_factor(int64_t n) {
  int64_t best = 1;
  for (int64_t f = 2; f * f <= n; ++f) {
    if (n % f == 0) best = f;
  }
  return best;
}

struct Complex {
  ClassId real;
  ClassId imaginary;
};

// cos and sin of direction * 2 pi row * column / n, over rows and columns.
Complex twiddle_matrix(Rewriter& r, int64_t rows, int64_t columns, int64_t n, int direction,
                       DType dtype) {
  Shape shape{Expr(rows), Expr(columns)};
  auto line = [&](int64_t length, int axis) {
    ClassId iota = r.add({Op::kIota, DType::kInt64, {Expr(length)}, {}, {}}, {});
    return r.view(iota, View{shape, {Expr::index(axis)}, {}, 0});
  };
  ClassId product = r.binary(BinaryOp::kMul, line(rows, 0), line(columns, 1));
  ClassId turn =
      r.binary(BinaryOp::kMod, product, r.scalar(DType::kInt64, static_cast<double>(n), shape));
  double step = direction * 2 * M_PI / static_cast<double>(n);
  ClassId angle = r.binary(BinaryOp::kMul, r.cast(turn, DType::kFloat64),
                           r.scalar(DType::kFloat64, step, shape));
  return {r.cast(r.unary(UnaryOp::kCos, angle), dtype),
          r.cast(r.unary(UnaryOp::kSin, angle), dtype)};
}

// A part of a transform as products with twiddles, one for each of the operands.
ClassId write_out(Rewriter& r, const Node& node, const std::vector<ClassId>& parts) {
  const auto& a = attr<FourierAttr>(node);
  int64_t points = r.shape(parts[0]).back().constant();
  Complex twiddle = twiddle_matrix(r, points, a.count, points, a.inverse ? 1 : -1, node.dtype);
  std::vector<int> labels;
  for (size_t k = 0; k < node.shape.size(); ++k) labels.push_back(static_cast<int>(k));
  std::vector<int> out = labels;
  int position = labels.back();
  out.back() = position + 1;
  auto product = [&](ClassId x, ClassId matrix) {
    return contract(r, node.dtype, {x, labels}, {matrix, {position, position + 1}}, out,
                    node.shape);
  };
  ClassId first = product(parts[0], a.imaginary ? twiddle.imaginary : twiddle.real);
  if (parts.size() == 1) return first;
  ClassId second = product(parts[1], a.imaginary ? twiddle.real : twiddle.imaginary);
  return r.binary(a.imaginary ? BinaryOp::kAdd : BinaryOp::kSub, first, second);
}

Complex times(Rewriter& r, const Complex& x, const Complex& y) {
  auto mul = [&](ClassId p, ClassId q) { return r.binary(BinaryOp::kMul, p, q); };
  return {r.binary(BinaryOp::kSub, mul(x.real, y.real), mul(x.imaginary, y.imaginary)),
          r.binary(BinaryOp::kAdd, mul(x.real, y.imaginary), mul(x.imaginary, y.real))};
}

// Transforms of at most this many points are one product, longer ones are split.
constexpr int64_t kDirectPoints = 64;

// A part of a transform of n = f m points, as above, by transforms of f and of m; empty where n is
// short, or has no such factor.
std::optional<ClassId> split(Rewriter& r, const Node& node, const std::vector<ClassId>& parts) {
  const auto& a = attr<FourierAttr>(node);
  int64_t n = r.shape(parts[0]).back().constant();
  int64_t f = kDirectPoints;
  while (f > 1 && n % f != 0) --f;
  if (n <= kDirectPoints || f == 1) return std::nullopt;
  int64_t m = n / f;
  auto last = static_cast<int>(node.shape.size()) - 1;
  View rows = common::view_identity(node.shape);
  auto seen = [&](ClassId x, int64_t first, int64_t second, std::vector<Expr> at) {
    View view = rows;
    view.shape.back() = Expr(first);
    if (second > 0) view.shape.push_back(Expr(second));
    view.index.pop_back();
    view.index.insert(view.index.end(), at.begin(), at.end());
    return r.view(x, view);
  };
  auto transform = [&](const std::vector<ClassId>& of, bool imaginary, int64_t count) {
    Node part{
        Op::kFourier, node.dtype, r.shape(of[0]), {}, FourierAttr{imaginary, a.inverse, count}};
    return r.add(part, of);
  };
  Expr i = Expr::index(last), j = Expr::index(last + 1);
  std::vector<ClassId> folded;  // .., b, a
  for (ClassId part : parts) folded.push_back(seen(part, m, f, {i + j * Expr(m)}));
  Complex inner{transform(folded, false, f), transform(folded, true, f)};  // .., b, s
  Complex twiddle = twiddle_matrix(r, m, f, n, a.inverse ? 1 : -1, node.dtype);
  View over{r.shape(inner.real), {i, j}, {}, 0};
  inner = times(r, inner, {r.view(twiddle.real, over), r.view(twiddle.imaginary, over)});
  std::vector<ClassId> rotated;  // .., s, b
  for (ClassId part : {inner.real, inner.imaginary}) rotated.push_back(seen(part, f, m, {j, i}));
  ClassId outer = transform(rotated, a.imaginary, m);  // .., s, t
  return seen(outer, a.count, 0, {common::mod(i, f), common::floor_div(i, f)});
}

class Butterflies {
 public:
  Butterflies(Rewriter& r, const Node& contraction, const Twiddles& twiddle)
      : r_(r), node_(contraction), twiddle_(twiddle), first_(middle_factor(twiddle.n)) {}

  // `x` holds the label `position`; the result holds `frequency` instead, at the same places as the
  // contraction.
  std::optional<ClassId> rewrite(Factor x, int position, int frequency) {
    auto at = std::find(x.labels.begin(), x.labels.end(), position) - x.labels.begin();
    auto axis = static_cast<size_t>(at);
    const auto& c = attr<ContractAttr>(node_);
    auto place = std::find(c.out.begin(), c.out.end(), frequency) - c.out.begin();
    const Expr& wanted = node_.shape[static_cast<size_t>(place)];
    if (first_ < 2 || !r_.shape(x.cls)[axis].is_constant(twiddle_.n) || !wanted.is_constant() ||
        wanted.constant() > twiddle_.n) {
      return std::nullopt;
    }
    int64_t second = twiddle_.n / first_;
    int fresh = static_cast<int>(c.a.size() + c.b.size());
    int a = position, b = fresh, s = frequency, t = fresh + 1;

    // Along a: transforms of f points.
    Shape split = r_.shape(x.cls);
    split[axis] = Expr(first_);
    split.insert(split.begin() + at + 1, Expr(second));
    common::Bounds bounds(r_.symbols(), {});
    x.cls = r_.view(x.cls, common::view_reshape(r_.shape(x.cls), split, bounds));
    x.labels.insert(x.labels.begin() + at + 1, b);
    Factor inner{0, x.labels};
    inner.labels[axis] = s;  // as many as there were positions along a
    Complex spectrum = product(x, twiddles(first_, first_, first_), {a, s}, inner.labels, split);

    // Each by its own turn, then along b: transforms of m points.
    Complex rotated =
        times(r_, spectrum, spread(twiddles(first_, second, twiddle_.n), axis, split));
    std::vector<int> out = c.out;
    Shape shape = node_.shape;
    out.insert(out.begin() + place, t);
    shape[static_cast<size_t>(place)] = Expr(first_);
    shape.insert(shape.begin() + place, Expr(second));
    Complex last = twiddles(second, second, second);
    auto part = [&](ClassId value, ClassId twiddle) {
      return contract(r_, node_.dtype, {value, inner.labels}, {twiddle, {b, t}}, out, shape);
    };
    ClassId result = twiddle_.op == UnaryOp::kCos
                         ? r_.binary(BinaryOp::kSub, part(rotated.real, last.real),
                                     part(rotated.imaginary, last.imaginary))
                         : r_.binary(BinaryOp::kAdd, part(rotated.real, last.imaginary),
                                     part(rotated.imaginary, last.real));
    return ordered(result, shape, static_cast<int>(place));
  }

 private:
  Complex twiddles(int64_t rows, int64_t columns, int64_t n) {
    return twiddle_matrix(r_, rows, columns, n, twiddle_.direction, node_.dtype);
  }

  // The matrix over axes `axis` and `axis` + 1 of `shape`.
  Complex spread(const Complex& matrix, size_t axis, const Shape& shape) {
    auto first = static_cast<int>(axis);
    View over{shape, {Expr::index(first), Expr::index(first + 1)}, {}, 0};
    return {r_.view(matrix.real, over), r_.view(matrix.imaginary, over)};
  }

  Complex product(const Factor& x, const Complex& matrix, const std::vector<int>& labels,
                  const std::vector<int>& out, const Shape& shape) {
    return {contract(r_, node_.dtype, x, {matrix.real, labels}, out, shape),
            contract(r_, node_.dtype, x, {matrix.imaginary, labels}, out, shape)};
  }

  // Axes t, s become one of t f + s, cut to the frequencies that are wanted.
  ClassId ordered(ClassId x, const Shape& shape, int axis) {
    Shape whole = node_.shape;
    whole[static_cast<size_t>(axis)] = Expr(twiddle_.n);
    common::Bounds bounds(r_.symbols(), {});
    View line = common::view_reshape(shape, whole, bounds);
    View cut = common::view_slice(whole, axis, 0, node_.shape[static_cast<size_t>(axis)], 1);
    return r_.view(x, *common::view_compose(cut, line, r_.symbols()));
  }

  Rewriter& r_;
  const Node node_;
  const Twiddles twiddle_;
  const int64_t first_;
};

}  // namespace

void add_fourier_rules(RuleMaker& m) {
  // For machines without code of their own for transforms.
  auto rewritten = [&m](Rewriter& r, const Match& match,
                        const std::vector<ClassId>& parts) -> std::optional<ClassId> {
    const Node& node = m.node(match, "f");
    const Expr& points = r.shape(parts[0]).back();
    if (points.constant() <= kDirectPoints) return write_out(r, node, parts);
    return split(r, node, parts);
  };
  m.rule(
      "transform-of-real", Equivalence::kDefined, "(fourier@f ?x)",
      [rewritten](Rewriter& r, const Match& match) { return rewritten(r, match, {match["x"]}); });
  m.rule("transform-of-complex", Equivalence::kDefined, "(fourier@f ?x ?y)",
         [rewritten](Rewriter& r, const Match& match) {
           return rewritten(r, match, {match["x"], match["y"]});
         });
  m.rule(
      // An infinite part of a product with a turn makes both parts of the result undefined.
      "butterflies", Equivalence::kFinite, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!m.is_abstract(match, "c")) return std::nullopt;
        const Node& node = m.node(match, "c");
        const auto& c = attr<ContractAttr>(node);
        for (bool left : {false, true}) {
          auto twiddle = twiddles_of(r, match[left ? "a" : "b"]);
          if (!twiddle || twiddle->n < kMinPoints) continue;
          const std::vector<int>& matrix = left ? c.a : c.b;
          const std::vector<int>& other = left ? c.b : c.a;
          auto is_summed = [&](int label) { return !common::contains(c.out, label); };
          // One axis is summed with the other operand, one is the matrix's alone.
          for (size_t k : {size_t{0}, size_t{1}}) {
            int position = matrix[k], frequency = matrix[1 - k];
            bool fits =
                is_summed(position) && !is_summed(frequency) && !common::contains(other, frequency);
            if (!fits) continue;
            ClassId x = match[left ? "b" : "a"];
            return Butterflies(r, node, *twiddle).rewrite({x, other}, position, frequency);
          }
        }
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
