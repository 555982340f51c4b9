// Identities that hold bit for bit (up to the sign of zero) for every input.
#include <cmath>

#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Shape;
using common::View;
using common::ViewAttr;

bool is_value(const Rewriter& r, ClassId cls, double wanted) {
  auto value = r.uniform_value(cls);
  return value && *value == wanted;
}

// Every value of `from` is a value of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to) return true;
  switch (to) {
    case DType::kFloat64:
      return from != DType::kInt64 && from != DType::kComplex64;
    case DType::kFloat32:
      return common::is_half(from) || from == DType::kBool || from == DType::kUint8 ||
             from == DType::kInt8 || from == DType::kInt16;
    case DType::kInt64:
      return common::is_integer(from) || from == DType::kBool;
    case DType::kInt32:
      return from == DType::kBool || from == DType::kUint8 || from == DType::kInt8 ||
             from == DType::kInt16;
    default:
      return false;
  }
}

// The view repeats elements of a smaller tensor.
bool is_broadcast(const Rewriter& r, const View& view, const Shape& input) {
  if (!view.valid.empty()) return false;
  common::Bounds bounds(r.symbols(), {});
  return bounds.lower(common::element_count(view.shape) - common::element_count(input)) > 0;
}

void add_neutral_elements(RuleMaker& m) {
  struct Neutral {
    const char* name;
    const char* pattern;  // ?n is the neutral element
    double value;
  };
  for (Neutral n : {Neutral{"add-zero", "(binary.add@ ?x ?n)", 0},
                    {"zero-add", "(binary.add@ ?n ?x)", 0},
                    {"sub-zero", "(binary.sub@ ?x ?n)", 0},
                    {"mul-one", "(binary.mul@ ?x ?n)", 1},
                    {"one-mul", "(binary.mul@ ?n ?x)", 1},
                    {"div-one", "(binary.div@ ?x ?n)", 1},
                    {"pow-one", "(binary.pow@ ?x ?n)", 1}}) {
    m.rule(n.name, n.pattern,
           [value = n.value](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             if (!is_value(r, match["n"], value)) return std::nullopt;
             return match["x"];
           });
  }
}

void add_strength_reduction(RuleMaker& m) {
  m.rule("pow-two", "(binary.pow@ ?x ?c)",
         [](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           if (!is_value(r, match["c"], 2)) return std::nullopt;
           return r.binary(BinaryOp::kMul, match["x"], match["x"]);
         });
  m.rule("div-by-power-of-two", "(binary.div@ ?x ?c)",
         [](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           DType dtype = r.dtype(match["x"]);
           auto value = r.uniform_value(match["c"]);
           int exponent = 0;
           if (!value || !common::is_float(dtype) ||
               std::abs(std::frexp(*value, &exponent)) != 0.5 || std::abs(exponent) > 100) {
             return std::nullopt;
           }
           ClassId inverse = r.scalar(dtype, 1 / *value, r.shape(match["x"]));
           return r.binary(BinaryOp::kMul, match["x"], inverse);
         });
  m.rule("neg-neg", "(unary.neg@ (unary.neg@ ?x))",
         [](Rewriter&, const Match& match) -> std::optional<ClassId> { return match["x"]; });
  m.rule("select-same", "(select@ ?c ?x ?x)",
         [](Rewriter&, const Match& match) -> std::optional<ClassId> { return match["x"]; });
  m.rule("cast-cast", "(cast@outer (cast@inner ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           DType from = r.dtype(match["x"]);
           if (!is_lossless(from, m.node(match, "inner").dtype)) return std::nullopt;
           return r.cast(match["x"], m.node(match, "outer").dtype);
         });
}

void add_movement(RuleMaker& m) {
  m.rule("view-view", "(view@outer (view@inner ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           auto composed = common::view_compose(common::attr<ViewAttr>(m.node(match, "outer")).view,
                                                common::attr<ViewAttr>(m.node(match, "inner")).view,
                                                r.symbols());
           if (!composed) return std::nullopt;
           return r.view(match["x"], *composed);
         });
  for (int k = 0; k < common::kUnaryOpCount; ++k) {
    auto op = static_cast<common::UnaryOp>(k);
    std::string name(common::unary_name(op));
    m.rule(name + "-before-broadcast", "(unary." + name + "@u (view@v ?x))",
           [&m, op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             const View& view = common::attr<ViewAttr>(m.node(match, "v")).view;
             const common::Node& u = m.node(match, "u");
             if (!is_broadcast(r, view, r.shape(match["x"]))) return std::nullopt;
             ClassId inner = r.add(
                 {common::Op::kUnary, u.dtype, r.shape(match["x"]), {}, common::UnaryAttr{op}},
                 {match["x"]});
             return r.view(inner, view);
           });
  }
  m.rule("cast-before-broadcast", "(cast@c (view@v ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const View& view = common::attr<ViewAttr>(m.node(match, "v")).view;
           if (!is_broadcast(r, view, r.shape(match["x"]))) return std::nullopt;
           return r.view(r.cast(match["x"], m.node(match, "c").dtype), view);
         });
}

}  // namespace

void add_algebra_rules(RuleMaker& maker) {
  add_neutral_elements(maker);
  add_strength_reduction(maker);
  add_movement(maker);
}

}  // namespace coordinator
