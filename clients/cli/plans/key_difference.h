// Why two models, or a model and a plan, have different plan keys: the first field that differs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/plan/plan.h"

namespace clients {

// What a plan key is made of, as far as it is known.
struct KeyParts {
  std::string name;  // of the file or the plan, for people
  common::PlanKey key;
  std::vector<common::SymbolRange> symbols;
  std::vector<common::GraphInput> inputs;  // names may be empty
  std::vector<common::GraphOutput> outputs;
  std::optional<common::Graph> graph;  // canonical; of a plan only its hash is known
};

// `graph` as the model has it, with its names.
KeyParts parts_of(std::string name, common::PlanKey key, const common::Graph& graph);
KeyParts parts_of(std::string name, const common::Plan& plan);

struct KeyDifference {
  std::string field;  // such as "dim 1 of input 0 (x)"
  std::string a, b;   // what it is in each
  std::string why;    // it matters
};

// In the order target, numerics policy, compiler epoch, inputs, outputs, operations. Empty when the
// keys are equal.
std::optional<KeyDifference> first_difference(const KeyParts& a, const KeyParts& b);

// How many fields agree before the first that does not, for finding the nearest of many.
int agreement(const KeyParts& a, const KeyParts& b);

}  // namespace clients
