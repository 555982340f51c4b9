// Selections: the first k of a line in the order of a sort, as top-k asks for.
//
//   slice(sort(x), 50)                =  sort(x) count=50
//   slice(sort(x), 50), x of 151,936  =  slice(sort(the first 50 of each of 128 parts), 50)
//
// A GPU sorts each part by a block. Candidates stand in the order of their parts and, within a
// part, in that of its sort, so that equal keys keep their order.
#include <bit>

#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::Coordinate;
using common::DType;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::SortAttr;
using common::View;

// Shorter lines a block sorts where it lies, in registers and shared memory.
constexpr int64_t kLineMin = 4096;
// Sizes to which blocks round lines up. The cost of a sort is its size, that of a launch this many
// items, and that of a line which no block holds is kLongLine times its length.
constexpr int64_t kSizes[] = {1024, 2048, 4096};
constexpr int64_t kLaunchItems = 600, kLongLine = 16;
// The least length of a part over the number of elements that are kept of it.
constexpr int64_t kPartRatio = 2;

struct Parts {
  int64_t length = 0;  // 0: the line is sorted as it is
  int64_t cost = 0;
};

// The parts in which a line of `length` is sorted for its first `kept`, those kept of all parts
// being selected from in the same way.
Parts parts_of(int64_t length, int64_t kept) {
  if (length <= kLineMin) {
    return {0, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)))};
  }
  Parts best{0, length * kLongLine};
  for (int64_t size : kSizes) {
    int64_t part = size;
    while (part >= kPartRatio * kept && length % part != 0) --part;
    if (part < kPartRatio * kept) continue;
    const int64_t cost = size + kLaunchItems + parts_of(length / part * kept, kept).cost;
    if (cost < best.cost) best = {part, cost};
  }
  return best;
}

// How many of the last axis a view keeps, from its beginning; 0: it does anything else.
int64_t first_of_line(const View& view, const Shape& line) {
  if (view.shape.size() != line.size() || !view.valid.empty()) return 0;
  const size_t last = line.size() - 1;
  for (size_t k = 0; k < line.size(); ++k) {
    if (view.index[k] != Expr::index(static_cast<int>(k))) return 0;
    if (k != last && view.shape[k] != line[k]) return 0;
  }
  return view.shape[last].is_constant() ? view.shape[last].constant() : 0;
}

// Classes over lines: all axes but the last stay as they are.
class LineRewriter {
 public:
  LineRewriter(Rewriter& r, const Shape& line) : r_(r), lead_(line.begin(), line.end() - 1) {}

  Shape shape(std::vector<Expr> last) const {
    Shape shape = lead_;
    shape.insert(shape.end(), last.begin(), last.end());
    return shape;
  }
  // Of the axes after the leading ones, where `last` reads: over these axes' own indices.
  ClassId view(ClassId x, std::vector<Expr> extents, std::vector<Expr> last) {
    View view;
    view.shape = shape(std::move(extents));
    for (size_t k = 0; k < lead_.size(); ++k) {
      view.index.push_back(Expr::index(static_cast<int>(k)));
    }
    view.index.insert(view.index.end(), last.begin(), last.end());
    return r_.view(x, view);
  }
  Expr axis(int number) const { return Expr::index(static_cast<int>(lead_.size()) + number); }
  ClassId sort(ClassId x, bool descending) {
    const Shape& shape = r_.shape(x);
    return r_.add({Op::kSort,
                   DType::kInt64,
                   shape,
                   {},
                   SortAttr{static_cast<int>(shape.size()) - 1, descending}},
                  {x});
  }
  // Elements of each line at `places` of it.
  ClassId gather(ClassId x, ClassId places) {
    common::GatherAttr gather;
    for (size_t k = 0; k < lead_.size(); ++k) {
      gather.coordinates.push_back({-1, Expr::index(static_cast<int>(k))});
    }
    gather.coordinates.push_back({0, 0});
    return r_.add({Op::kGather, r_.dtype(x), r_.shape(places), {}, gather}, {x, places});
  }
  // Where each of `parts` parts of `length` begins in its line.
  ClassId beginnings(int64_t parts, int64_t length, const Shape& over) {
    ClassId number = r_.add({Op::kIota, DType::kInt64, {parts}, {}, {}}, {});
    View along;
    along.shape = over;
    along.index = {axis(0)};
    return r_.binary(BinaryOp::kMul, r_.view(number, along),
                     r_.scalar(DType::kInt64, static_cast<double>(length), over));
  }

 private:
  Rewriter& r_;
  Shape lead_;
};

std::optional<ClassId> selection_by_parts(Rewriter& r, ClassId x, const SortAttr& sort,
                                          const View& view) {
  const Shape line = r.shape(x);
  if (sort.axis + 1 != static_cast<int>(line.size()) || !line.back().is_constant()) {
    return std::nullopt;
  }
  const int64_t kept = first_of_line(view, line);
  if (kept < 1) return std::nullopt;
  const int64_t length = parts_of(line.back().constant(), kept).length;
  if (length == 0) return std::nullopt;
  const int64_t parts = line.back().constant() / length;
  LineRewriter lines(r, line);
  ClassId split = lines.view(x, {parts, length}, {lines.axis(0) * Expr(length) + lines.axis(1)});
  ClassId sorted = lines.sort(split, sort.descending);
  ClassId first = lines.view(sorted, {parts, kept}, {lines.axis(0), lines.axis(1)});
  ClassId placed =
      r.binary(BinaryOp::kAdd, first, lines.beginnings(parts, length, lines.shape({parts, kept})));
  ClassId candidates = lines.view(
      placed, {parts * kept},
      {common::floor_div(lines.axis(0), Expr(kept)), common::mod(lines.axis(0), Expr(kept))});
  ClassId order = lines.sort(lines.gather(x, candidates), sort.descending);
  return lines.gather(candidates, lines.view(order, {kept}, {lines.axis(0)}));
}

// The places of a sort that a view reads, where they are few of them.
std::optional<ClassId> first_of_sort(Rewriter& r, ClassId x, const SortAttr& sort,
                                     const View& view) {
  constexpr int64_t kFewerTimes = 2;
  if (sort.count != 0) return std::nullopt;
  const auto axis = static_cast<size_t>(sort.axis);
  const int64_t last = common::loop_bounds(view.shape, r.symbols()).upper(view.index[axis]);
  Shape shape = r.shape(x);
  const int64_t least = common::Bounds(r.symbols(), {}).lower(shape[axis]);
  if (last < 0 || last >= least / kFewerTimes) return std::nullopt;
  shape[axis] = last + 1;
  const SortAttr first{sort.axis, sort.descending, last + 1};
  return r.view(r.add({Op::kSort, DType::kInt64, shape, {}, first}, {x}), view);
}

}  // namespace

void add_selection_rules(RuleMaker& m) {
  m.rule("first-of-sort", Equivalence::kBits, "(view@v (sort@s ?x))",
         [&m](Rewriter& r, const Match& match) {
           return first_of_sort(r, match["x"], attr<SortAttr>(m.node(match, "s")),
                                attr<common::ViewAttr>(m.node(match, "v")).view);
         });
  m.rule("selection-by-parts", Equivalence::kBits, "(view@v (sort@s ?x))",
         [&m](Rewriter& r, const Match& match) {
           return selection_by_parts(r, match["x"], attr<SortAttr>(m.node(match, "s")),
                                     attr<common::ViewAttr>(m.node(match, "v")).view);
         });
}

}  // namespace coordinator
