#include "worker/codegen/text/scan_form.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::c_literal;
using common::c_suffix;
using common::c_value_type;
using common::cat;
using common::ScanOp;

ScanForm::ScanForm(const common::Node& node)
    : op_(attr<common::ScanAttr>(node).op), dtype_(node.dtype), type_(c_value_type(node.dtype)) {
  bool sums = op_ == ScanOp::kSum || op_ == ScanOp::kProd || op_ == ScanOp::kLogSumExp;
  if (sums && common::is_float(dtype_)) type_ = "double";
}

std::string ScanForm::start() const {
  bool is_float = common::is_float(dtype_);
  switch (op_) {
    case ScanOp::kSum:
      return "0";
    case ScanOp::kProd:
      return "1";
    case ScanOp::kLogSumExp:
      return "-__builtin_inf()";
    case ScanOp::kMax:
      if (is_float) return c_literal(dtype_, -1.0 / 0.0);
      return dtype_ == common::DType::kUint8 ? "0" : cat("-", c_suffix(dtype_), "_limit - 1");
    case ScanOp::kMin:
      if (is_float) return c_literal(dtype_, 1.0 / 0.0);
      return cat(c_suffix(dtype_), "_limit");
  }
  LFARM_CHECK(false, "unknown scan");
}

std::string ScanForm::step(const std::string& sum, const std::string& x) const {
  switch (op_) {
    case ScanOp::kSum:
      return cat(sum, " + ", x);
    case ScanOp::kProd:
      return cat(sum, " * ", x);
    case ScanOp::kMax:
      return cat("lf_max_", c_suffix(dtype_), "(", sum, ", ", x, ")");
    case ScanOp::kMin:
      return cat("lf_min_", c_suffix(dtype_), "(", sum, ", ", x, ")");
    case ScanOp::kLogSumExp:
      return cat("lf_log_add_exp(", sum, ", ", x, ")");
  }
  LFARM_CHECK(false, "unknown scan");
}

}  // namespace worker
