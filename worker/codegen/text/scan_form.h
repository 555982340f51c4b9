// How a scan accumulates, as C text.
#pragma once

#include <string>

#include "common/ir/hlir/graph.h"

namespace worker {

class ScanForm {
 public:
  // `node`: a kScan.
  explicit ScanForm(const common::Node& node);
  // Of the accumulator: float sums and products are carried in double.
  const std::string& type() const { return type_; }
  // The neutral element.
  std::string start() const;
  // The accumulator `sum` after `x`, which may be an accumulator too.
  std::string step(const std::string& sum, const std::string& x) const;

 private:
  common::ScanOp op_;
  common::DType dtype_;
  std::string type_;
};

}  // namespace worker
