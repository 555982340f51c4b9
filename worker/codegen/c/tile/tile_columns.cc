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
                         const std::string& name, const std::string& from, const std::string& to,
                         const Expr& extent, bool runs) {
  TileColumns c;
  if (!runs || sizes.size() < 2) {
    c.values = unfold(sizes, Expr::index(writer.open_loop(name, extent)));
    c.position = name;
    c.header = counting_loop(name, from, to);
    return c;
  }
  const Expr& last = sizes.back();
  std::vector<Expr> outer(sizes.begin(), sizes.end() - 1);
  Expr outer_size = common::element_count(outer);
  writer.open(true);
  std::string next = writer.fresh("next");
  std::string quotient = writer.fresh("q");
  std::string start = writer.fresh("x");
  std::string size = writer.rare_text(last);
  writer.line(cat("const int64_t ", quotient, " = ", name, " / ", size, ", ", start, " = ", name,
                  " % ", size, ";"));
  writer.line(cat(next, " = lf_min_i64(", to, ", ", name, " + ", size, " - ", start, ");"));
  c.values = unfold(outer, Expr::index(writer.bind_index(quotient, outer_size, writer.depth())));
  std::string x = writer.fresh("x");
  c.values.push_back(Expr::index(writer.open_loop(x, last)));
  c.position = cat("(", name, " + (", x, " - ", start, "))");
  c.header = cat("for (int64_t ", x, " = ", start, "; ", x, " < ", start, " + (", next, " - ", name,
                 "); ++", x, ")");
  c.run_header = cat("for (int64_t ", name, " = ", from, ", ", next, "; ", name, " < ", to, "; ",
                     name, " = ", next, ")");
  return c;
}

void close_columns(common::CodeWriter& writer, const TileColumns& columns) {
  std::string pragma = writer.holds_loops() ? "" : "LF_VECTOR_LOOP(0, 1)\n";
  writer.close(cat(pragma, columns.header));
  if (!columns.run_header.empty()) writer.close(columns.run_header);
}

}  // namespace worker
