// The programs that one exported model gives a generator.
#pragma once

#include <memory>
#include <vector>

#include "clients/generate/roles.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/model/size_ranges.h"
#include "clients/runtime/model/weights.h"
#include "common/base/result.h"

namespace clients {

// The model for some widths of its calls, which has a plan of its own.
struct WidthPart {
  std::shared_ptr<const Model> model;
  Roles roles;
};

// The model with the logits of each call's last token alone, [batch, 1, words], which are all that
// choose the next one; the model itself where it returns no others, or is known by its hash.
std::shared_ptr<const Model> with_last_logits(std::shared_ptr<const Model> model,
                                              const Roles& roles);

// The ranges of sizes that have plans of their own: of a model that takes any number of tokens and
// keeps them, one for a single token and one for more. Empty: one plan for all calls.
std::vector<SizeRanges> width_ranges(const Model& model, const Roles& roles);
// A part for each of them, or the model itself, with the last token's logits.
common::Result<std::vector<WidthPart>> parts_of(const std::shared_ptr<const Model>& model);

// Weights of two models with the same name and content, as places among the inputs of `from` and
// `to`. Reads all of both; those of `to` that are equal leave memory again where they lie in a
// file.
struct EqualWeight {
  int from = 0, to = 0;
};
std::vector<EqualWeight> equal_weights(const Model& from, const Model& to);
// These lie in the memory of `from` from now on.
common::Status share_weights(const std::vector<EqualWeight>& equal,
                             const std::shared_ptr<Weights>& from, Weights& to);

}  // namespace clients
