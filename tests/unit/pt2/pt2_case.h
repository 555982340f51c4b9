// Runs a folder of a saved model, its inputs and the outputs eager PyTorch gave, on the reference
// interpreter; see the README beside those folders for their layout.
#pragma once

#include <string>

namespace pt2_test {

struct CaseResult {
  bool passed = false;
  bool unsupported = false;
  std::string message;  // what differs, or the operator that isn't supported
};

// Every call of the case: its inputs, its further steps (state persists) and its further sizes.
CaseResult run_case(const std::string& folder);

}  // namespace pt2_test
