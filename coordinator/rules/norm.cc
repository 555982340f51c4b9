// RMS and layer norm, and group norm, which is layer norm on regrouped channels. A norm over other
// axes than the last is one of the tensor with those axes last.
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::Op;
using common::UnaryOp;

// x * scale, or x / scale, where the scale is the root of mean(x * x) + epsilon in one of its
// spellings.
enum class Spelling { kFactor, kDivisor };

// Steps below the root: rsqrt(v) or v^-0.5 of a factor, sqrt(v) of a divisor.
bool through_root(const Rewriter& r, Descent& descent, Spelling spelling) {
  // Most products are no norms: look before composing views, which costs far more.
  ClassId below = descent.cls();
  for (int step = 0; step < 16; ++step) {
    auto view = r.find(below, Op::kView);
    if (!view) break;
    below = view->operands[0];
  }
  if (!r.find(below, Op::kUnary) && !r.find_binary(below, BinaryOp::kPow)) return false;
  if (!descent.through_views()) return false;
  if (spelling == Spelling::kDivisor) return descent.through_unary(UnaryOp::kSqrt);
  if (descent.through_unary(UnaryOp::kRsqrt)) return true;
  if (!r.find_binary(descent.cls(), BinaryOp::kPow)) return false;
  auto exponent = descent.through_constant(BinaryOp::kPow, true);
  return exponent && *exponent == -0.5;
}

ClassId norm_of(Rewriter& r, ClassId x, const Mean& mean, bool centred, double epsilon) {
  common::NormAttr norm{mean.axes, centred, epsilon};
  if (mean.is_of_last()) return r.add({Op::kNorm, r.dtype(x), r.shape(x), {}, norm}, {x});
  std::vector<int> back(mean.order.size());
  for (size_t k = 0; k < back.size(); ++k) {
    back[static_cast<size_t>(mean.order[k])] = static_cast<int>(k);
  }
  ClassId turned = r.view(x, common::view_permute(r.shape(x), mean.order));
  turned = r.add({Op::kNorm, r.dtype(x), r.shape(turned), {}, norm}, {turned});
  return r.view(turned, common::view_permute(r.shape(turned), back));
}

// The mean of x * x.
bool is_mean_square(Rewriter& r, const Mean& mean, ClassId x) {
  auto square = r.find_binary(mean.of, BinaryOp::kMul);
  ClassId canonical = r.graph().find(x);
  return square && r.graph().find(square->operands[0]) == canonical &&
         r.graph().find(square->operands[1]) == canonical;
}

std::optional<ClassId> rms_norm_of(Rewriter& r, ClassId x, ClassId scale, Spelling spelling) {
  Descent descent(r, scale);
  if (!through_root(r, descent, spelling)) return std::nullopt;
  auto epsilon = descent.through_constant(BinaryOp::kAdd, false);
  // Not negative, so that the root is of no negative number, however it is spelled.
  if (!epsilon || !(*epsilon >= 0)) return std::nullopt;
  auto mean = mean_of(r, descent);
  if (!mean || !is_mean_square(r, *mean, x)) return std::nullopt;
  // With its axes last a difference is hard to see through: it is centred at once.
  auto centre = mean->is_of_last() ? std::nullopt : r.find_binary(x, BinaryOp::kSub);
  if (centre) {
    auto of_same = mean_of(r, Descent(r, centre->operands[1]));
    if (of_same && of_same->order == mean->order && of_same->axes == mean->axes &&
        r.graph().find(of_same->of) == r.graph().find(centre->operands[0])) {
      return norm_of(r, centre->operands[0], *mean, true, *epsilon);
    }
  }
  return norm_of(r, x, *mean, false, *epsilon);
}

// As rms_norm_of, of `centred`, where the variance is spelled mean(x * x) - mean * mean.
std::optional<ClassId> one_pass_norm_of(Rewriter& r, ClassId centred, ClassId scale,
                                        Spelling spelling) {
  auto difference = r.find_binary(centred, BinaryOp::kSub);
  if (!difference) return std::nullopt;
  ClassId x = difference->operands[0];
  auto mean = mean_of(r, Descent(r, difference->operands[1]));
  if (!mean || r.graph().find(mean->of) != r.graph().find(x)) return std::nullopt;
  Descent descent(r, scale);
  if (!through_root(r, descent, spelling)) return std::nullopt;
  auto epsilon = descent.through_constant(BinaryOp::kAdd, false);
  if (!epsilon || !(*epsilon >= 0) || !descent.through_views()) return std::nullopt;
  // What rounds below zero may be lifted back to it.
  if (r.find_binary(descent.cls(), BinaryOp::kMax)) {
    auto least = descent.through_constant(BinaryOp::kMax, false);
    if (!least || *least != 0 || !descent.through_views()) return std::nullopt;
  }
  auto variance = r.find_binary(descent.cls(), BinaryOp::kSub);
  if (!variance) return std::nullopt;
  auto of_squares = mean_of(r, descent.at(variance->operands[0]));
  bool fits = of_squares && of_squares->order == mean->order && of_squares->axes == mean->axes &&
              is_mean_square(r, *of_squares, x);
  Descent below = descent.at(variance->operands[1]);
  if (!fits || !below.through_views()) return std::nullopt;
  auto square = r.find_binary(below.cls(), BinaryOp::kMul);
  if (!square || r.graph().find(square->operands[0]) != r.graph().find(square->operands[1])) {
    return std::nullopt;
  }
  auto squared = mean_of(r, below.at(square->operands[0]));
  if (!squared || squared->order != mean->order || squared->axes != mean->axes ||
      r.graph().find(squared->of) != r.graph().find(x)) {
    return std::nullopt;
  }
  return norm_of(r, x, *mean, true, *epsilon);
}

}  // namespace

void add_norm_rules(RuleMaker& m) {
  // What a factor or divisor makes of x, as it may be spelled.
  auto spelled = [&m](const std::string& name, auto norm_by) {
    auto rule = [&](const char* suffix, const char* pattern, Spelling spelling) {
      m.rule(
          name + suffix, Equivalence::kRounding, pattern,
          [norm_by, spelling](Rewriter& r, const Match& match) {
            return norm_by(r, match["x"], match["s"], spelling);
          },
          RuleMaker::Reach::kDeep);
    };
    rule("", "(binary.mul@ ?x ?s)", Spelling::kFactor);
    rule("-turned", "(binary.mul@ ?s ?x)", Spelling::kFactor);
    rule("-by-quotient", "(binary.div@ ?x ?s)", Spelling::kDivisor);
  };
  spelled("rms-norm", rms_norm_of);
  m.rule(
      "layer-norm", Equivalence::kRounding, "(norm@n (binary.sub@ ?x ?m))",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const auto& norm = attr<common::NormAttr>(m.node(match, "n"));
        if (norm.centred) return std::nullopt;
        auto mean = mean_of(r, Descent(r, match["m"]));
        if (!mean || !mean->is_of_last() || mean->axes != norm.axes ||
            r.graph().find(mean->of) != r.graph().find(match["x"])) {
          return std::nullopt;
        }
        return norm_of(r, match["x"], *mean, true, norm.epsilon);
      },
      RuleMaker::Reach::kDeep);
  spelled("one-pass-norm", one_pass_norm_of);
}

}  // namespace coordinator
