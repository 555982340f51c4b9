#include "worker/codegen/unit_loop.h"

#include "common/base/cat.h"
#include "worker/codegen/body_emitter.h"
#include "worker/codegen/c_text.h"

namespace worker {

using common::cat;
using common::Expr;

UnitLoop::UnitLoop(CodeWriter& writer, std::vector<Expr> extents)
    : writer_(writer), extents_(std::move(extents)) {
  if (extents_.empty()) return;
  for (const Expr& e : extents_) units_ *= e;
  counter_ = extents_.size() == 1 ? "i0" : "u";
  // A share may be empty.
  Expr u = Expr::index(writer_.open_loop(counter_, units_, common::max(units_, 0)));
  if (extents_.size() == 1) {
    indices_.push_back(u);
    return;
  }
  std::vector<Expr> positions = unfold(extents_, u);
  for (size_t k = 0; k < extents_.size(); ++k) {
    std::string name = cat("i", k);
    writer_.line(cat("const int64_t ", name, " = ", writer_.rare_text(positions[k]), ";"));
    indices_.push_back(Expr::index(writer_.bind_index(name, extents_[k], writer_.depth())));
  }
}

Expr UnitLoop::close(const std::string& pragma, bool whole) {
  if (extents_.empty()) return 1;
  std::string from = whole ? "0" : "begin";
  std::string to = whole ? writer_.rare_text(units_) : "end";
  writer_.close(cat(pragma, counting_loop(counter_, from, to)));
  return whole ? Expr(1) : units_;
}

}  // namespace worker
