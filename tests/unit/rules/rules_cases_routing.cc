// Mixtures of experts: every token goes to the experts that its router scores highest.
#include "clients/pt2/aten/translate_math.h"
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

using clients::along;

const Expr kTokens = Expr::symbol(0);
constexpr int64_t kExperts = 6, kChosen = 2, kWidth = 3, kResult = 4;

// (tokens, chosen): the places of the greatest scores.
IrNode chosen_experts(GraphBuilder& b, IrNode scores) {
  return b.slice(b.sort_indices(scores, 1, true), 1, 0, kChosen);
}

// (tokens, experts): scores where an expert is chosen, zeros elsewhere.
IrNode weights(GraphBuilder& b, DType t, IrNode scores, ScatterMode mode) {
  IrNode places = chosen_experts(b, scores);
  IrNode values = b.gather(scores, {places}, {kTokens, kChosen}, along(2, 1));
  IrNode zeros = b.full(t, {kTokens, kExperts}, 0);
  return b.scatter(mode, zeros, values, {places}, along(2, 1));
}

// (experts, tokens, width) of inputs that all experts see, times each expert's matrix.
IrNode all_experts(GraphBuilder& b, DType t) {
  IrNode x = input(b, t, {kTokens, kWidth});
  IrNode matrices = input(b, t, {kExperts, kWidth, kResult});
  return b.matmul(b.expand(x, {kExperts, kTokens, kWidth}), matrices);
}

void add_sums(std::multimap<std::string, RuleCase>& cases) {
  for (ScatterMode mode : {ScatterMode::kAssign, ScatterMode::kAdd}) {
    cases.emplace("sum-of-routed",
                  RuleCase{kFloats, [mode](GraphBuilder& b, DType t) {
                             IrNode scores = input(b, t, {kTokens, kExperts});
                             IrNode y = b.unary(UnaryOp::kTanh, all_experts(b, t));
                             IrNode w = b.permute(weights(b, t, scores, mode), {1, 0});
                             IrNode products = b.binary(BinaryOp::kMul, b.unsqueeze(w, 2), y);
                             b.output(b.reduce(ReduceOp::kSum, products, {0}));
                           }});
  }
  // Weights that were rounded in between, times experts on the left.
  cases.emplace("sum-of-routed",
                RuleCase{{DType::kFloat32}, [](GraphBuilder& b, DType t) {
                           IrNode scores = input(b, t, {kTokens, kExperts});
                           IrNode y = input(b, t, {kTokens, kExperts, kResult});
                           IrNode half = b.cast(scores, DType::kBfloat16);
                           IrNode w =
                               b.cast(weights(b, DType::kBfloat16, half, ScatterMode::kAssign), t);
                           IrNode products = b.binary(BinaryOp::kMul, y, b.unsqueeze(w, 2));
                           b.output(b.reduce(ReduceOp::kSum, products, {1}));
                         }});
}

// One-hot tensors over the experts, as weights of a sum.
void add_one_hot(std::multimap<std::string, RuleCase>& cases) {
  auto hot = [](GraphBuilder& b, DType t, IrNode places) {
    int rank = b.rank(places);
    IrNode experts = b.iota(DType::kInt64, kExperts);
    IrNode same = b.binary(BinaryOp::kEqual, b.unsqueeze(places, rank), experts);
    return b.cast(b.cast(same, DType::kInt64), t);
  };
  // (tokens, experts) of what each token chose, weighed.
  cases.emplace("sum-of-one-hot",
                RuleCase{kFloats, [hot](GraphBuilder& b, DType t) {
                           IrNode places = chosen_experts(b, input(b, t, {kTokens, kExperts}));
                           IrNode values = input(b, t, {kTokens, kChosen, 1});
                           IrNode each = b.binary(BinaryOp::kMul, hot(b, t, places), values);
                           IrNode w = b.unsqueeze(b.reduce(ReduceOp::kSum, each, {1}), 2);
                           IrNode y = b.permute(all_experts(b, t), {1, 0, 2});
                           b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, w, y), {1}));
                         }});
  // One expert a token, which may be none of those there are.
  cases.emplace("sum-of-one-hot",
                RuleCase{kFloats, [hot](GraphBuilder& b, DType t) {
                           IrNode places = input(b, DType::kInt64, {kTokens});
                           IrNode values = input(b, t, {kTokens, 1});
                           IrNode w = b.binary(BinaryOp::kMul, values, hot(b, t, places));
                           IrNode y = input(b, t, {kTokens, kExperts, kResult});
                           IrNode products = b.binary(BinaryOp::kMul, y, b.unsqueeze(w, 2));
                           b.output(b.reduce(ReduceOp::kSum, products, {1}));
                         }});
  // An embedding as a product.
  cases.emplace("one-hot-rows",
                RuleCase{kFloats, [hot](GraphBuilder& b, DType t) {
                           IrNode places = input(b, DType::kInt64, {2, kTokens});
                           IrNode table = b.input(InputKind::kWeight, t, {kExperts, kResult}, "w");
                           b.output(b.matmul(hot(b, t, places), table));
                         }});
}

// The chosen experts' results: (tokens, chosen, result) from (tokens, experts, result).
IrNode chosen_results(GraphBuilder& b, DType t, IrNode results) {
  IrNode scores = input(b, t, {kTokens, kExperts});
  IrNode places = b.expand(b.unsqueeze(chosen_experts(b, scores), 2), {kTokens, kChosen, kResult});
  return b.gather(results, {places}, {kTokens, kChosen, kResult}, along(3, 1));
}

void add_gathers(std::multimap<std::string, RuleCase>& cases) {
  cases.emplace("gather-of-elementwise",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           IrNode x = input(b, t, {kTokens, kExperts, kResult});
                           IrNode y = input(b, t, {kTokens, kExperts, kResult});
                           IrNode sum = b.binary(BinaryOp::kAdd, b.unary(UnaryOp::kExp, x), y);
                           b.output(chosen_results(b, t, sum));
                         }});
  cases.emplace("gather-of-view",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           IrNode x = input(b, t, {kExperts, kTokens, kResult});
                           b.output(chosen_results(b, t, b.permute(x, {1, 0, 2})));
                         }});
  // From experts first, as they are computed, to tokens first, as they are chosen.
  cases.emplace("gather-of-contraction",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           b.output(chosen_results(b, t, b.permute(all_experts(b, t), {1, 0, 2})));
                         }});
  // The index depends on one axis alone: the table is of the tokens' matrices.
  cases.emplace("gather-of-contraction",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           IrNode y = all_experts(b, t);
                           IrNode places = input(b, DType::kInt64, {kChosen});
                           Shape shape{kChosen, kTokens, kResult};
                           IrNode index = b.expand(b.reshape(places, {kChosen, 1, 1}), shape);
                           b.output(b.gather(y, {index}, shape, along(3, 0)));
                         }});
}

// Tokens that multiply the matrix of an expert each, on either side of the product.
void add_grouping(std::multimap<std::string, RuleCase>& cases) {
  for (bool is_right : {true, false}) {
    cases.emplace("rows-by-group",
                  RuleCase{kFloats, [is_right](GraphBuilder& b, DType t) {
                             IrNode x = input(b, t, {kTokens, kWidth});
                             IrNode matrices = weight(b, t, {kExperts, kWidth, kResult});
                             IrNode places = input(b, DType::kInt64, {kTokens});
                             Shape shape{kTokens, kWidth, kResult};
                             IrNode index = b.expand(b.reshape(places, {kTokens, 1, 1}), shape);
                             IrNode own = b.gather(matrices, {index}, shape, along(3, 0));
                             IrNode row = b.unsqueeze(x, is_right ? 1 : 2);
                             if (!is_right) own = b.permute(own, {0, 2, 1});
                             b.output(is_right ? b.matmul(row, own) : b.matmul(own, row));
                           }});
  }
}

}  // namespace

void add_routing_cases(std::multimap<std::string, RuleCase>& cases) {
  add_sums(cases);
  add_one_hot(cases);
  add_gathers(cases);
  add_grouping(cases);
}

}  // namespace coordinator::rules_testing
