// What families of rules ask about contractions.
#pragma once

#include <optional>

#include "coordinator/rules/matching/rewriter.h"

namespace coordinator {

// Both operands have free labels: each element of either is used several times.
bool reuses_operands(const common::ContractAttr& contraction);

// The contraction of classes a and b with a batch label split into groups that share an operand's
// matrix; empty when none does.
std::optional<ClassId> grouped(Rewriter& r, const common::Node& contraction, ClassId a, ClassId b);

}  // namespace coordinator
