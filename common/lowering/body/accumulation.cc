#include "common/lowering/body/accumulation.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

bool is_extremum(ReduceOp op) { return op == ReduceOp::kMax || op == ReduceOp::kMin; }

std::string integer_end(DType dtype, bool low) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return low ? "0" : dtype == DType::kBool ? "1" : "255";
    case DType::kInt8:
      return low ? "(-128)" : "127";
    case DType::kInt16:
      return low ? "(-32768)" : "32767";
    case DType::kInt32:
      return low ? "INT32_MIN" : "INT32_MAX";
    default:
      return low ? "INT64_MIN" : "INT64_MAX";
  }
}

}  // namespace

std::string Accumulation::step(const std::string& total, const std::string& x) const {
  switch (op) {
    case ReduceOp::kSum:
      return cat(total, " += ", x, ";");
    case ReduceOp::kProd:
      return cat(total, " *= ", x, ";");
    case ReduceOp::kAny:
      return cat(total, " |= ", x, ";");
    case ReduceOp::kAll:
      return cat(total, " &= ", x, ";");
    default: {
      std::string sign = op == ReduceOp::kMax ? " > " : " < ";
      return cat(total, " = ", x, sign, total, " ? ", x, " : ", total, ";");
    }
  }
}
std::string Accumulation::loose_step(const std::string& total, const std::string& x) const {
  if (op != ReduceOp::kSum || (type != "float" && type != "double")) return step(total, x);
  return cat(total, " = lf_sum_", type, "(", total, ", ", x, ");");
}
std::string Accumulation::enter(const std::string& x) const {
  if (!is_extremum(op) || !is_float(dtype)) return x;
  std::string zero = position ? cat(" + ", c_literal(dtype, 0.0)) : "";
  return cat(op == ReduceOp::kMax ? "lf_top_key_" : "lf_low_key_", c_suffix(dtype), "(", x, zero,
             ")");
}
std::string Accumulation::leave(const std::string& total) const {
  if (is_extremum(op) && is_float(dtype)) {
    return cat("lf_from_key_", c_suffix(dtype), "(", total, ")");
  }
  return cat("(", c_value_type(dtype), ")", total);
}
Accumulation accumulation_of(ReduceOp op, DType dtype) {
  Accumulation a;
  a.position = op == ReduceOp::kArgmax || op == ReduceOp::kArgmin;
  if (op == ReduceOp::kArgmax) op = ReduceOp::kMax;
  if (op == ReduceOp::kArgmin) op = ReduceOp::kMin;
  a.op = op;
  a.dtype = dtype;
  a.type = c_value_type(dtype);
  bool single = dtype == DType::kFloat32;
  switch (op) {
    case ReduceOp::kSum:
      a.start = "0";
      a.clause = "+";
      if (single) a.outer = "double";
      break;
    case ReduceOp::kProd:
      a.start = "1";
      a.clause = "*";
      if (single) a.type = "double";
      break;
    case ReduceOp::kAny:
      a.type = "int32_t";
      a.start = "0";
      a.clause = "|";
      break;
    case ReduceOp::kAll:
      a.type = "int32_t";
      a.start = "1";
      a.clause = "&";
      break;
    default: {
      bool low = op == ReduceOp::kMax;
      a.clause = low ? "max" : "min";
      if (is_float(dtype)) {
        a.type = single ? "int32_t" : "int64_t";
        a.start = a.enter(c_literal(dtype, low ? -1.0 / 0.0 : 1.0 / 0.0));
      } else {
        if (dtype == DType::kBool) a.type = "int32_t";
        a.start = integer_end(dtype, low);
      }
    }
  }
  return a;
}

}  // namespace common
