// Cases that plans of a graph are judged by: synthetic inputs, and what the reference interpreter
// makes of them. Unlike a worker's, a case may give inputs certain values, such as the position at
// the end of a cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/tensor.h"
#include "common/runtime/whole_run.h"

namespace bench {

// Inputs of integers that are given values, the k-th one in case k, in all elements.
struct GivenInputs {
  std::string pattern;  // of names, with * and ? as in a shell; user inputs and states
  std::vector<int64_t> values;
};
struct CaseChoice {
  std::vector<GivenInputs> given;  // equally many values each; empty: one case
  uint64_t seed = 1;
};

class VerifiedCases {
 public:
  // Interprets the graph in float64 and as a plain lowering, for each case, at its representative
  // sizes. All other inputs are the same in all cases. kInvalidInput when no input has such a name,
  // or a value lies outside of what the input's uses allow.
  static common::Result<VerifiedCases> make(common::Graph graph, const CaseChoice& choice);

  size_t size() const { return cases_.size(); }
  // For people: "pos=5"; empty where no input is given a value.
  std::string name_of(size_t which) const;
  // Runs the case and compares all outputs, new contents of states included, by the rules for
  // candidates (common::judge_outputs). kVerification says what is wrong. Weights are bound with
  // the first case that an executor, loaded with guards, is given.
  common::Result<common::OutputError> judge(common::Executor& executor, size_t which);

 private:
  struct Case {
    std::vector<common::HostTensor> inputs;
    common::ReferenceOutputs reference;
  };
  common::Status add_case(const std::vector<common::HostTensor>& inputs);

  common::Graph graph_;
  CaseChoice choice_;
  std::vector<Case> cases_;
};

}  // namespace bench
