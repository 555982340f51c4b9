// The programs that one exported model gives a generator.
#pragma once

#include <memory>
#include <vector>

#include "clients/generate/roles.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/model/size_ranges.h"
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

}  // namespace clients
