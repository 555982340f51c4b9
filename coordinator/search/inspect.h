// The stages of a search as text, for `lfarm print`.
#pragma once

#include <string>

#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {

// Each region's saturated e-graph: what was found, rule by rule, and every class.
std::string print_egraphs(const common::Graph& graph, const common::Target& target,
                          Numerics numerics);
// Each region's default program and the first few alternatives, with predicted times.
std::string print_candidates(const common::Graph& graph, const common::Target& target,
                             Numerics numerics);
// The whole graph's program as it is before anything was measured.
common::Program default_program(const common::Graph& graph, const common::Target& target,
                                Numerics numerics);

// `lfarm-coordinator print --stage egraph|candidates|program --target NAME [--numerics POLICY]`:
// reads an encoded graph from standard input and writes text (an encoded program for `program`) to
// standard output, as a search for the target would see it.
// Exit code 0, or 2 with one line on standard error.
int run_print(int argc, const char* const* argv);

}  // namespace coordinator
