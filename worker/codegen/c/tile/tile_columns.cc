#include "worker/codegen/c/tile/tile_columns.h"

#include <utility>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

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
  bool is_whole = last.is_constant() && last.constant() > 0 && range.step % last.constant() == 0;
  writer.open(true);
  std::string next = is_whole ? "" : writer.fresh("next");
  std::string quotient = writer.fresh("q");
  std::string size = writer.rare_text(last);
  std::string start = is_whole ? "0" : writer.fresh("x");
  std::string remainder = is_whole ? "" : cat(", ", start, " = ", name, " % ", size);
  writer.line(cat("const int64_t ", quotient, " = ", name, " / ", size, remainder, ";"));
  if (!is_whole) {
    writer.line(cat(next, " = lf_min_i64(", range.to, ", ", name, " + ", size, " - ", start, ");"));
  }
  Expr outer_size = common::element_count(outer);
  c.values = unfold(outer, Expr::index(writer.bind_index(quotient, outer_size, writer.depth())));
  std::string x = writer.fresh("x");
  c.values.push_back(Expr::index(writer.open_loop(x, last)));
  if (is_whole) {
    c.position = cat("(", name, " + ", x, ")");
    c.header = counting_loop(x, "0", size);
    c.run_header = counting_loop(name, range.from, range.to, last.constant());
    return c;
  }
  c.position = cat("(", name, " + (", x, " - ", start, "))");
  c.header = counting_loop(x, start, cat(start, " + (", next, " - ", name, ")"));
  c.run_header = cat("for (int64_t ", name, " = ", range.from, ", ", next, "; ", name, " < ",
                     range.to, "; ", name, " = ", next, ")");
  return c;
}

void close_columns(common::CodeWriter& writer, const TileColumns& columns) {
  std::string pragma = writer.holds_loops() ? "" : "LF_VECTOR_LOOP(0, 1)\n";
  writer.close(cat(pragma, columns.header));
  if (!columns.run_header.empty()) writer.close(columns.run_header);
}

}  // namespace worker
