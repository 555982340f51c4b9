#include "clients/pt2/aten/random_draws.h"

namespace clients {

RandomStart RandomDraws::draw(Builder& b, const Expr& numbers) {
  if (!declare_) refuse_operands("random numbers are not supported here");
  if (!state_) state_ = declare_();
  auto element = [&](int64_t k) { return b.reshape(b.slice(*state_, 0, k, 1), {}); };
  // A counter has four numbers.
  NodeId from = b.binary(BinaryOp::kShr, element(1), b.scalar_int(DType::kInt64, 2));
  NodeId before = b.size_scalar(DType::kInt64, b.simplify(common::floor_div(taken_, 4)));
  taken_ = b.simplify(taken_ + numbers);
  return {element(0), b.binary(BinaryOp::kAdd, from, before)};
}

std::optional<NodeId> RandomDraws::state_after(Builder& b) const {
  if (!state_) return std::nullopt;
  // Nothing is added to the seed.
  NodeId taken = b.reshape(b.size_scalar(DType::kInt64, taken_), {1});
  return b.binary(BinaryOp::kAdd, *state_, b.pad(taken, 0, 1, 0));
}

}  // namespace clients
