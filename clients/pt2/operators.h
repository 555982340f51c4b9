// The tables of ATen operators that can be translated, one for each family.
#pragma once

#include <string_view>
#include <unordered_map>

#include "clients/pt2/translate_context.h"

namespace clients {

// Translates the context's current node and sets its results.
using Translator = void (*)(Context& c);

// Keys are "aten.softmax.int", or "aten.add" for all overloads of an operator; an in-place
// operator ("aten.add_") is found under the name without its underscore.
class OperatorTable {
 public:
  void add(std::string_view name, Translator translator) { rows_[name] = translator; }
  // The form for nodes that read or give a complex tensor; others use the plain form.
  void add_complex(std::string_view name, Translator translator) { complex_[name] = translator; }
  // Null when the operator is unknown.
  Translator find(std::string_view target, bool complex) const;

 private:
  using Rows = std::unordered_map<std::string_view, Translator>;
  static Translator find(const Rows& rows, std::string_view target);
  Rows rows_;
  Rows complex_;
};

void add_activation_operators(OperatorTable* table);
void add_attention_operators(OperatorTable* table);
void add_complex_operators(OperatorTable* table);
void add_creation_operators(OperatorTable* table);
void add_indexing_operators(OperatorTable* table);
void add_matmul_operators(OperatorTable* table);
void add_movement_operators(OperatorTable* table);
void add_norm_operators(OperatorTable* table);
void add_pointwise_operators(OperatorTable* table);
void add_reduction_operators(OperatorTable* table);
void add_resample_operators(OperatorTable* table);
void add_special_operators(OperatorTable* table);
void add_state_operators(OperatorTable* table);
void add_window_operators(OperatorTable* table);

}  // namespace clients
