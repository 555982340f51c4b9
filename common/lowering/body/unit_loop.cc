#include "common/lowering/body/unit_loop.h"

#include "common/base/cat.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/text/c_text.h"

namespace common {

UnitLoop::UnitLoop(CodeWriter& writer, std::vector<Expr> extents)
    : writer_(writer), extents_(std::move(extents)) {
  if (extents_.empty()) return;
  for (const Expr& e : extents_) units_ *= e;
  counter_ = extents_.size() == 1 ? "i0" : "u";
  // A share may be empty.
  position_ = Expr::index(writer_.open_loop(counter_, units_, max(units_, 0)));
  indices_ = declare_positions(writer_, "i", extents_, position_);
}

Expr UnitLoop::close(const std::string& pragma, bool whole) {
  if (extents_.empty()) return 1;
  std::string from = whole ? "0" : "begin";
  std::string to = whole ? writer_.rare_text(units_) : "end";
  writer_.close(cat(pragma, counting_loop(counter_, from, to)));
  return whole ? Expr(1) : units_;
}

}  // namespace common
