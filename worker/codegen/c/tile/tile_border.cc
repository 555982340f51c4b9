#include "worker/codegen/c/tile/tile_border.h"

#include "common/base/cat.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/llir/view_inverse.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::attr;
using common::cat;
using common::CodeWriter;
using common::Expr;
using common::Indices;
using common::Node;
using common::Shape;
using common::View;

namespace {

// C: whether the element at these indices is of the view's border.
std::string is_in_border(const View& view, const Indices& at, CodeWriter& writer) {
  auto placed = [&](const Expr& e) {
    return writer.text(writer.simplify(common::with_indices(e, at)));
  };
  std::string condition;
  for (const common::Validity& v : view.valid) {
    condition += cat(condition.empty() ? "" : " || ", "(uint64_t)(", placed(v.value),
                     ") >= (uint64_t)(", placed(v.bound), ")");
  }
  return condition;
}

}  // namespace

void fill_borders(const TileCode& code, const common::UnitLoop& units) {
  const common::Graph& body = code.product.body();
  CodeWriter& writer = code.writer;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const Node& node = body.node(body.outputs[k].node);
    if (node.op != common::Op::kView) continue;
    const View& view = attr<common::ViewAttr>(node).view;
    auto bordered = common::bordered_view(view, body.node(node.operands[0]).shape);
    if (!bordered) continue;
    // Elements within the axes without a border are filled together.
    const auto inner = view.shape.begin() + static_cast<std::ptrdiff_t>(bordered->axes);
    const Shape outer(view.shape.begin(), inner);
    const Expr places = common::element_count(outer);
    const std::string run = writer.text(common::element_count(Shape(inner, view.shape.end())));
    auto share = [&](const Expr& unit) {
      return writer.rare_text(common::floor_div(unit * places, units.count()));
    };
    const std::string begin = share(units.position()), end = share(units.position() + Expr(1));
    const Expr place = Expr::index(writer.open_loop("p", places));
    const Indices at = common::unfold(outer, place);
    writer.open(true);
    writer.line(cat("for (int64_t r = 0; r < ", run, "; ++r) out", k, "[p * ", run,
                    " + r] = ", common::c_literal(node.dtype, view.fill), ";"));
    writer.close(cat("if (", is_in_border(view, at, writer), ")"));
    writer.close(cat("for (int64_t p = ", begin, "; p < ", end, "; ++p)"));
  }
}

}  // namespace worker
