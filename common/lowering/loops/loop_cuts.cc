#include "common/lowering/loops/loop_cuts.h"

#include <set>

#include "common/ir/expr/with_indices.h"
#include "common/lowering/text/position_choice.h"

namespace common {
namespace {

// Each part is text of its own.
constexpr size_t kCutsMax = 8;
// Values that are looked at; a shared one counts for each reader.
constexpr int kValuesMax = 256;

class CutFinder {
 public:
  CutFinder(const Graph& body, int index, int64_t extent)
      : body_(body), index_(index), extent_(extent) {}

  void visit(NodeId id, const Indices& indices) {
    if (++visited_ > kValuesMax) return;
    const Node& node = body_.node(id);
    if (node.op == Op::kView) {
      const View& view = attr<ViewAttr>(node).view;
      for (const Validity& valid : view.valid) note_ends(valid, indices);
      Indices inner;
      for (const Expr& e : view.index) inner.push_back(with_indices(e, indices));
      return visit(node.operands[0], inner);
    }
    if (!is_elementwise(node.op)) return;
    if (node.op == Op::kSelect) note_choice(node, indices);
    for (NodeId operand : node.operands) visit(operand, indices);
  }

  std::vector<int64_t> cuts() const {
    if (visited_ > kValuesMax || cuts_.size() > kCutsMax) return {};
    return {cuts_.begin(), cuts_.end()};
  }

 private:
  void note_choice(const Node& select, const Indices& indices) {
    auto test = position_test(body_, select.operands[0], indices);
    if (!test || test->index != index_) return;
    if (asks_position(body_, select.operands[1]) || asks_position(body_, select.operands[2])) {
      note(test->bound);
    }
  }
  // Where a view of a part begins and ends.
  void note_ends(const Validity& valid, const Indices& indices) {
    auto place = shifted_index(with_indices(valid.value, indices));
    if (!place || place->index != index_ || !valid.bound.is_constant()) return;
    note(-place->by);
    note(valid.bound.constant() - place->by);
  }
  void note(int64_t cut) {
    if (cut > 0 && cut < extent_) cuts_.insert(cut);
  }

  const Graph& body_;
  int index_;
  int64_t extent_;
  int visited_ = 0;
  std::set<int64_t> cuts_;
};

}  // namespace

std::vector<int64_t> loop_cuts(const Graph& body, const std::vector<NodeId>& outputs,
                               const Indices& position, int index, int64_t extent) {
  CutFinder finder(body, index, extent);
  for (NodeId output : outputs) finder.visit(output, position);
  return finder.cuts();
}

}  // namespace common
