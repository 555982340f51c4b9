// A model's names and the form of its call, for clients that have its plan and not the model: a
// plan belongs to every model of the same graph, and knows positions only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/base/digest.h"

namespace clients {

struct Signature {
  // A value of the call: its position among the graph's inputs or outputs; -1: none.
  struct Place {
    int graph = -1;
    bool complex = false;
    std::string gradient_of = {};  // of an output: see UserOutput
  };
  std::string graph_hash;
  std::vector<std::string> tensors;  // for each input of the graph; empty for user inputs
  std::vector<Place> inputs;
  std::vector<Place> outputs;
};

// As JSON.
std::string signature_text(const Model& model, const common::Digest& graph_hash);
// Empty when the text is no signature; whether it is of some graph is not looked at.
std::optional<Signature> parse_signature(std::string_view text);

}  // namespace clients
