// Operators that no plan can hold, with what to do instead.
#include "clients/pt2/aten/operators.h"

namespace clients {
namespace {

void data_dependent(Context& c) {
  c.refuse(
      "the size of its result is known only from the data; keep every element and mask with "
      "torch.where, or give the size, as nonzero_static does");
}

void decomposition(Context& c) {
  c.refuse(
      "this matrix decomposition is not supported; compute it outside of the model and pass it in "
      "as an input");
}

constexpr std::string_view kDataDependent[] = {"aten.unique",
                                               "aten._unique",
                                               "aten._unique2",
                                               "aten.unique_dim",
                                               "aten.unique_consecutive",
                                               "aten.unique_dim_consecutive",
                                               "aten.bincount"};

constexpr std::string_view kDecompositions[] = {
    "aten.linalg_eig",           "aten.linalg_eigvals",   "aten._linalg_eigvals",
    "aten.linalg_ldl_factor_ex", "aten.linalg_ldl_solve", "aten.linalg_ldl_factor"};

}  // namespace

void add_refused_operators(OperatorTable* t) {
  for (std::string_view name : kDataDependent) t->add(name, data_dependent);
  for (std::string_view name : kDecompositions) t->add(name, decomposition);
}

}  // namespace clients
