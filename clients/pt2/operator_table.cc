#include "clients/pt2/operator_table.h"

namespace clients {
namespace {

OperatorTable all_operators() {
  OperatorTable table;
#define LFARM_ADD_OPERATORS(family, title) \
  table.begin_family(title);               \
  add_##family##_operators(&table);
  LFARM_OPERATOR_FAMILIES(LFARM_ADD_OPERATORS)
#undef LFARM_ADD_OPERATORS
  return table;
}

}  // namespace

const OperatorTable& operator_table() {
  static const OperatorTable table = all_operators();
  return table;
}

}  // namespace clients
