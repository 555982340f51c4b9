#include "worker/codegen/c/tile/tile_columns.h"

#include <numeric>
#include <utility>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {
namespace {

// Parts of a run that are shorter take longer than what is left over of vectors in a whole one.
constexpr int64_t kPartMin = 16;

// The length of equal parts, of which none crosses an end of a run, from multiples of `step` on; 0:
// there are none, or they are short.
int64_t equal_part(const common::Expr& run, int64_t step) {
  if (!run.is_constant() || run.constant() < 1) return 0;
  int64_t part = std::gcd(run.constant(), step);
  return part == run.constant() || part >= kPartMin ? part : 0;
}

}  // namespace

using common::cat;
using common::counting_loop;
using common::Expr;
using common::unfold;

TileColumns open_columns(common::CodeWriter& writer, const std::vector<Expr>& sizes,
                         const ColumnRange& range, bool runs) {
  const std::string& name = range.name;
  TileColumns c;
  if (!runs || sizes.size() < 2) {
    c.values = unfold(sizes, Expr::index(writer.open_loop(name, range.extent)));
    c.position = name;
    c.header = counting_loop(name, range.from, range.to);
    return c;
  }
  const Expr& last = sizes.back();
  std::vector<Expr> outer(sizes.begin(), sizes.end() - 1);
  int64_t part = equal_part(last, range.step);
  writer.open(true);
  std::string next = part != 0 ? "" : writer.fresh("next");
  std::string quotient = writer.fresh("q");
  std::string size = writer.rare_text(last);
  bool is_whole = last.is_constant(part);
  std::string start = is_whole ? "0" : writer.fresh("x");
  std::string remainder = is_whole ? "" : cat(", ", start, " = ", name, " % ", size);
  writer.line(cat("const int64_t ", quotient, " = ", name, " / ", size, remainder, ";"));
  if (part == 0) {
    writer.line(cat(next, " = lf_min_i64(", range.to, ", ", name, " + ", size, " - ", start, ");"));
  }
  Expr outer_size = common::element_count(outer);
  c.values = unfold(outer, Expr::index(writer.bind_index(quotient, outer_size, writer.depth())));
  std::string x = writer.fresh("x");
  c.values.push_back(Expr::index(writer.open_loop(x, last)));
  c.position =
      is_whole ? cat("(", name, " + ", x, ")") : cat("(", name, " + (", x, " - ", start, "))");
  std::string length = part != 0 ? cat(part) : cat("(", next, " - ", name, ")");
  std::string end = is_whole ? length : cat(start, " + ", length);
  c.header = counting_loop(x, start, end);
  c.run_header = part != 0 ? counting_loop(name, range.from, range.to, part)
                           : cat("for (int64_t ", name, " = ", range.from, ", ", next, "; ", name,
                                 " < ", range.to, "; ", name, " = ", next, ")");
  return c;
}

void close_columns(common::CodeWriter& writer, const TileColumns& columns) {
  std::string pragma = writer.holds_loops() ? "" : "LF_VECTOR_LOOP(0, 1)\n";
  writer.close(cat(pragma, columns.header));
  if (!columns.run_header.empty()) writer.close(columns.run_header);
}

}  // namespace worker
