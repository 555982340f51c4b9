#include "clients/generate/roles.h"

#include <initializer_list>
#include <string_view>

#include "common/base/cat.h"
#include "common/ir/expr/bounds.h"

namespace clients {
namespace {

using common::cat;
using common::Expr;
using common::GraphInput;
using common::Shape;

bool mentions(const std::string& name, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

class Finder {
 public:
  explicit Finder(const Model& model) : model_(model), bounds_(model.graph.symbols, {}) {}

  common::Result<Roles> run() {
    for (size_t k = 0; k < model_.user_inputs.size(); ++k) {
      LFARM_RETURN_IF_ERROR(take_input(static_cast<int>(k)));
    }
    if (roles_.tokens < 0) {
      return common::unsupported("the model takes no tokens: integers of two axes, [batch, width]");
    }
    take_sizes();
    LFARM_RETURN_IF_ERROR(take_logits());
    for (const GraphInput& input : model_.graph.inputs) {
      bool is_cache = input.kind == common::InputKind::kState && input.shape.size() >= 3;
      roles_.has_cache = roles_.has_cache || is_cache;
    }
    return roles_;
  }

 private:
  const GraphInput& input(int user) const {
    int position = model_.user_inputs[static_cast<size_t>(user)];
    return model_.graph.inputs[static_cast<size_t>(position)];
  }

  common::Status take_input(int user) {
    if (model_.user_inputs[static_cast<size_t>(user)] < 0) return {};
    const GraphInput& given = input(user);
    bool is_whole = common::is_integer(given.dtype) || given.dtype == common::DType::kBool;
    if (mentions(given.name, {"mask"}) && is_whole && given.shape.size() == 2) {
      return set(&roles_.mask, user, "masks");
    }
    if (!common::is_integer(given.dtype)) {
      return common::unsupported(cat("input \"", given.name, "\" is ",
                                     common::dtype_name(given.dtype),
                                     ": a model is given tokens, positions and a mask alone"));
    }
    if (mentions(given.name, {"pos", "start", "step"}) || given.shape.size() < 2) {
      return set(&roles_.positions, user, "positions");
    }
    return set(&roles_.tokens, user, "tokens");
  }

  common::Status set(int* role, int user, std::string_view what) const {
    if (*role >= 0) {
      return common::unsupported(cat("inputs \"", input(*role).name, "\" and \"", input(user).name,
                                     "\" may both be ", what,
                                     ": name them as tokens, pos and mask"));
    }
    *role = user;
    return {};
  }

  void take_sizes() {
    const Shape& shape = input(roles_.tokens).shape;
    roles_.batch_least = bounds_.lower(shape[0]);
    roles_.batch_most = bounds_.upper(shape[0]);
    roles_.width_least = bounds_.lower(shape[1]);
    roles_.width_most = bounds_.upper(shape[1]);
  }

  common::Status take_logits() {
    for (size_t k = 0; k < model_.user_outputs.size() && roles_.logits < 0; ++k) {
      int place = model_.user_outputs[k].graph_output;
      if (place < 0) continue;
      const auto& output = model_.graph.outputs[static_cast<size_t>(place)];
      const auto& node = model_.graph.node(output.node);
      bool fits =
          common::is_float(node.dtype) && (node.shape.size() == 2 || node.shape.size() == 3);
      if (fits) roles_.logits = static_cast<int>(k);
    }
    if (roles_.logits >= 0) return {};
    return common::unsupported(
        "the model returns no logits: floats [batch, width, words] or [batch, words]");
  }

  const Model& model_;
  common::Bounds bounds_;
  Roles roles_;
};

}  // namespace

common::Result<Roles> roles_of(const Model& model) { return Finder(model).run(); }

}  // namespace clients
