#include "common/lowering/text/c_text.h"

#include <cmath>
#include <cstring>

#include "common/base/cat.h"
#include "common/ir/hlir/half.h"

namespace common {

std::string_view c_storage_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return "uint8_t";
    case DType::kInt8:
      return "int8_t";
    case DType::kInt16:
      return "int16_t";
    case DType::kInt32:
      return "int32_t";
    case DType::kInt64:
      return "int64_t";
    case DType::kFloat16:
    case DType::kBfloat16:
      return "uint16_t";
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kComplex64:
      return "uint64_t";
  }
  LFARM_CHECK(false, "unknown dtype");
}

std::string_view c_value_type(DType dtype) {
  return dtype == DType::kBool ? "_Bool" : c_storage_type(dtype);
}

std::string counting_loop(std::string_view i, std::string_view from, std::string_view to,
                          int64_t step) {
  std::string next = step == 1 ? cat("++", i) : cat(i, " += ", step);
  return cat("for (int64_t ", i, " = ", from, "; ", i, " < ", to, "; ", next, ")");
}

std::string c_suffix(DType dtype) { return std::string(dtype_name(dtype)); }

std::string c_int_literal(int64_t value) {
  if (value == INT64_MIN) return "INT64_MIN";
  std::string text = value > INT32_MAX || value < -INT32_MAX ? cat(value, "L") : cat(value);
  return value < 0 ? cat("(", text, ")") : text;
}

namespace {

template <class Float>
std::string float_literal(Float value, std::string_view suffix) {
  bool is_float = sizeof(Float) == 4;
  if (std::isnan(value)) return is_float ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(value)) {
    std::string text = is_float ? "__builtin_inff()" : "__builtin_inf()";
    return value < 0 ? cat("(-", text, ")") : text;
  }
  std::string text = cat(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += suffix;
  return std::signbit(value) ? cat("(", text, ")") : text;
}

// What a cast of the fill value to an integer type stores; out-of-range values saturate.
int64_t integer_of(double value, DType dtype) {
  if (std::isnan(value)) return 0;
  if (value >= 9.2e18) return INT64_MAX;
  if (value <= -9.2e18) return INT64_MIN;
  auto exact = static_cast<int64_t>(value);
  switch (dtype) {
    case DType::kUint8:
      return static_cast<uint8_t>(exact);
    case DType::kInt8:
      return static_cast<int8_t>(exact);
    case DType::kInt16:
      return static_cast<int16_t>(exact);
    case DType::kInt32:
      return static_cast<int32_t>(exact);
    default:
      return exact;
  }
}

}  // namespace

std::string c_literal(DType dtype, double value) {
  switch (dtype) {
    case DType::kBool:
      return value != 0 ? "1" : "0";
    case DType::kFloat32:
      return float_literal(static_cast<float>(value), "f");
    case DType::kFloat64:
      return float_literal(value, "");
    case DType::kFloat16:
      return cat(half_from_float(static_cast<float>(value)));
    case DType::kBfloat16:
      return cat(bfloat16_from_float(static_cast<float>(value)));
    case DType::kComplex64: {
      auto real = static_cast<float>(value);
      uint32_t bits = 0;
      std::memcpy(&bits, &real, sizeof bits);
      return cat(bits, "UL");
    }
    default:
      return c_int_literal(integer_of(value, dtype));
  }
}

std::string c_element_literal(DType dtype, const std::byte* bytes) {
  auto read = [&](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kBool:
      return read(uint8_t{}) != 0 ? "1" : "0";
    case DType::kUint8:
      return cat(read(uint8_t{}));
    case DType::kInt8:
      return c_int_literal(read(int8_t{}));
    case DType::kInt16:
      return c_int_literal(read(int16_t{}));
    case DType::kInt32:
      return c_int_literal(read(int32_t{}));
    case DType::kInt64:
      return c_int_literal(read(int64_t{}));
    case DType::kFloat16:
    case DType::kBfloat16:
      return cat(read(uint16_t{}));
    case DType::kFloat32:
      return float_literal(read(float{}), "f");
    case DType::kFloat64:
      return float_literal(read(double{}), "");
    case DType::kComplex64:
      return cat(read(uint64_t{}), "UL");
  }
  LFARM_CHECK(false, "unknown dtype");
}

namespace {

using Naming = std::function<std::string(Var)>;

std::string atom_text(const Expr& atom, const Naming& name, const Bounds& bounds) {
  if (auto var = atom.as_var()) return name(*var);
  std::string a = c_expr(atom.left(), name, bounds);
  std::string b = c_expr(atom.right(), name, bounds);
  switch (atom.kind()) {
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      bool divide = atom.kind() == ExprKind::kFloorDiv;
      if (bounds.provably_non_negative(atom.left()) && bounds.lower(atom.right()) >= 1) {
        // 32-bit divisions by constants become vector multiplications.
        if (atom.right().is_constant() && bounds.upper(atom.left()) <= INT32_MAX &&
            atom.right().constant() <= INT32_MAX) {
          return cat("(int64_t)((uint32_t)", a, divide ? " / " : " % ", atom.right().constant(),
                     "u)");
        }
        return cat("(", a, divide ? " / " : " % ", b, ")");
      }
      return cat(divide ? "lf_floordiv_index(" : "lf_mod_index(", a, ", ", b, ")");
    }
    case ExprKind::kMin:
      return cat("lf_min_i64(", a, ", ", b, ")");
    case ExprKind::kMax:
      return cat("lf_max_i64(", a, ", ", b, ")");
    default:
      return cat("(", c_expr(atom, name, bounds), ")");
  }
}

}  // namespace

std::string c_expr(const Expr& expr, const Naming& name, const Bounds& bounds) {
  if (expr.is_constant()) return c_int_literal(expr.constant());
  std::string out;
  size_t pieces = 0;
  bool compound = false;  // binds less tightly than an operand of a division may
  for (const auto& term : expr.terms()) {
    compound = compound || term.coefficient != 1 || term.factors.size() > 1;
    bool negative = term.coefficient < 0 && term.coefficient != INT64_MIN;
    int64_t magnitude = negative ? -term.coefficient : term.coefficient;
    std::string product;
    if (magnitude != 1) product = c_int_literal(magnitude);
    for (const Expr& factor : term.factors) {
      if (!product.empty()) product += " * ";
      product += atom_text(factor, name, bounds);
    }
    if (pieces++ == 0) {
      out = negative ? cat("-", product) : product;
    } else {
      out += cat(negative ? " - " : " + ", product);
    }
  }
  if (int64_t c = expr.sum_constant(); c != 0) {
    bool negative = c < 0 && c != INT64_MIN;
    out += cat(negative ? " - " : " + ", c_int_literal(negative ? -c : c));
    ++pieces;
  }
  return compound || pieces > 1 ? cat("(", out, ")") : out;
}

std::string c_unary(UnaryOp op, DType dtype, const std::string& x) {
  std::string_view type = c_value_type(dtype);
  bool small = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kUint8;
  switch (op) {
    case UnaryOp::kNeg:
      return small ? cat("(", type, ")(-", x, ")") : cat("-", x);
    case UnaryOp::kNot:
      return dtype == DType::kBool ? cat("!", x) : cat("(", type, ")(~", x, ")");
    default:
      return cat("lf_", unary_name(op), "_", c_suffix(dtype), "(", x, ")");
  }
}

namespace {

std::string_view infix(BinaryOp op, DType dtype) {
  bool floats = is_float(dtype);
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSub:
      return "-";
    case BinaryOp::kMul:
      return "*";
    case BinaryOp::kDiv:
      return floats ? "/" : "";
    case BinaryOp::kAnd:
      return "&";
    case BinaryOp::kOr:
      return "|";
    case BinaryOp::kXor:
      return "^";
    case BinaryOp::kLess:
      return "<";
    case BinaryOp::kLessEqual:
      return "<=";
    case BinaryOp::kEqual:
      return "==";
    case BinaryOp::kNotEqual:
      return "!=";
    case BinaryOp::kMin:
      return dtype == DType::kBool ? "&" : "";
    case BinaryOp::kMax:
      return dtype == DType::kBool ? "|" : "";
    default:
      return "";
  }
}

}  // namespace

std::string c_binary(BinaryOp op, DType dtype, const std::string& a, const std::string& b) {
  if (std::string_view symbol = infix(op, dtype); !symbol.empty()) {
    std::string text = cat(a, " ", symbol, " ", b);
    bool small = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kUint8;
    if (small && !is_comparison(op)) return cat("(", c_value_type(dtype), ")(", text, ")");
    return text;
  }
  return cat("lf_", binary_name(op), "_", c_suffix(dtype), "(", a, ", ", b, ")");
}

std::string c_cast(DType from, DType to, const std::string& x) {
  if (from == to) return x;
  if (is_half(from) || from == DType::kComplex64) {
    if (from == DType::kComplex64 && to == DType::kBool) return cat("lf_nonzero_c64(", x, ")");
    return c_cast(DType::kFloat32, to, cat("lf_f32_from_", c_suffix(from), "(", x, ")"));
  }
  if (is_half(to) || to == DType::kComplex64) {
    return cat("lf_", c_suffix(to), "_from_f32(", c_cast(from, DType::kFloat32, x), ")");
  }
  if (to == DType::kBool) return cat("(", x, " != 0)");
  if (is_float(from) && !is_float(to)) {
    const char* wide = to == DType::kInt64 ? "i64" : "i32";
    std::string whole = cat("lf_", wide, "_from_", c_suffix(from), "(", x, ")");
    // Narrow types take the lowest bits of an int32.
    bool is_narrow = to != DType::kInt64 && to != DType::kInt32;
    return is_narrow ? cat("(", c_value_type(to), ")", whole) : whole;
  }
  return cat("(", c_value_type(to), ")", x);
}

}  // namespace common
