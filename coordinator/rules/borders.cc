// Borders: windows of an image that is mirrored, repeated or wrapped around at its border, or has
// each place several times, are windows of a copy that is so.
#include "coordinator/rules/matching/bordered_windows.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {

using common::attr;
using common::ViewAttr;

void add_borders_rules(RuleMaker& m) {
  m.rule("bordered-windows", Equivalence::kBits, "(view@v ?x)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const common::View& view = attr<ViewAttr>(m.node(match, "v")).view;
           auto parts = bordered_windows(view, r.shape(match["x"]), r.symbols());
           if (!parts) return std::nullopt;
           const common::Node border{common::Op::kView,
                                     r.dtype(match["x"]),
                                     parts->border.shape,
                                     {},
                                     ViewAttr{parts->border}};
           // Apart from each other: windows of the copy are read in order, windows of the other
           // are what the match is.
           const ClassId seen = r.view(r.add(border, {match["x"]}), parts->windows);
           r.graph().merge(seen,
                           r.view(r.add(border, {match["x"]}, Lowering::kCopy), parts->windows));
           return seen;
         });
}

}  // namespace coordinator
