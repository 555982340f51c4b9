// For every rewrite rule a graph that it fires on, as a function of the dtype: what the soundness
// test executes both sides of.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/ir/hlir/builder.h"

namespace coordinator::rules_testing {

struct RuleCase {
  std::vector<common::DType> dtypes;
  // One symbol s0 in 1..64 is declared. Adds inputs and outputs.
  std::function<void(common::GraphBuilder&, common::DType)> build;
};

// By rule; several cases for a rule that has several ways to go.
std::multimap<std::string, RuleCase> rule_cases();

// Graphs that no rule may take for one of its cases, each with what it is.
std::vector<std::pair<std::string, RuleCase>> near_misses();

// Of the families whose cases have files of their own.
void add_movement_cases(std::multimap<std::string, RuleCase>& cases);
void add_contraction_cases(std::multimap<std::string, RuleCase>& cases);
void add_row_cases(std::multimap<std::string, RuleCase>& cases);
void add_fourier_cases(std::multimap<std::string, RuleCase>& cases);
void add_layout_cases(std::multimap<std::string, RuleCase>& cases);
void add_positions_cases(std::multimap<std::string, RuleCase>& cases);
void add_routing_cases(std::multimap<std::string, RuleCase>& cases);
void add_windows_cases(std::multimap<std::string, RuleCase>& cases);
void add_windows_misses(std::vector<std::pair<std::string, RuleCase>>& misses);

}  // namespace coordinator::rules_testing
