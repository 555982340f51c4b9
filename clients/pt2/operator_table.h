// All families' operators.
#pragma once

#include "clients/pt2/aten/operators.h"

namespace clients {

// Every operator that can be translated.
const OperatorTable& operator_table();

}  // namespace clients
