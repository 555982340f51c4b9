// The loop over a call's share [begin, end) of a kernel's units.
#pragma once

#include <string>
#include <vector>

#include "common/lowering/text/code_writer.h"

namespace common {

// Units are the steps of several outer loops, counted in row-major order.
class UnitLoop {
 public:
  // Opens the loop (scope 1) over the product of `extents`. Without extents it opens nothing.
  UnitLoop(CodeWriter& writer, std::vector<Expr> extents);
  // The index of each extent's loop.
  const std::vector<Expr>& indices() const { return indices_; }
  // The unit's number, and how many there are.
  const Expr& position() const { return position_; }
  const Expr& count() const { return units_; }
  // Closes the loop under `pragma` ("" or a line with its end). Returns the number of units: 1 when
  // `whole`, where every call does everything.
  Expr close(const std::string& pragma, bool whole);

 private:
  CodeWriter& writer_;
  std::vector<Expr> extents_;
  std::vector<Expr> indices_;
  Expr position_ = 0;
  Expr units_ = 1;
  std::string counter_;
};

}  // namespace common
