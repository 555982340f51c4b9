// Cases: a model with inputs and the outputs that PyTorch gave, and the comparison with them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/cli/base/case_measure.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/model/instance.h"
#include "common/base/result.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

// abs(a - b) <= atol + rtol * abs(b), where b is what is expected; NaN equals NaN. Integers and
// booleans are exact.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

// What differs, in a few words; empty when nothing does.
std::optional<std::string> difference(const common::HostTensor& actual,
                                      const common::HostTensor& expected,
                                      const Tolerance& tolerance);
// As difference, for positions that sort `keys` along the axis where PyTorch leaves the order of
// equal elements open: two orders agree when each names every position once and finds equal keys in
// the same places. All three have equal sizes.
std::optional<std::string> order_difference(const common::HostTensor& actual,
                                            const common::HostTensor& expected,
                                            const common::HostTensor& keys, int axis);

// The folder's inputs N.npy for the model, one entry per user input. Files are numbered by the
// tensors among the user inputs; what is no tensor has an empty entry.
common::Result<std::vector<common::HostTensor>> read_inputs(const Model& model,
                                                            const std::string& folder);
// outputs/N.npy of one call, numbered in the same way, and `after`/N.npy for mutated user inputs.
common::Status write_results(const Model& model, const CallResult& result,
                             const std::string& folder);

enum class Verdict { kPass, kFail, kUnsupported };
// "PASS", "FAIL", "UNSUPPORTED".
const char* verdict_name(Verdict verdict);

struct CaseResult {
  std::string name;  // of the folder
  Verdict verdict = Verdict::kFail;
  std::string detail;  // why it failed; for kUnsupported the operator
  double seconds = 0;
  std::vector<CaseMeasurement> measured;  // where that was asked for, and all is right
};

// "PASS name", "FAIL name: reason", "UNSUPPORTED name: operator".
std::string line_of(const CaseResult& result);

std::string case_name(const std::string& folder);

// Gives new instances of the model it is called for.
using InstanceFactory = std::function<common::Result<std::unique_ptr<Instance>>()>;
using InstanceMaker =
    std::function<common::Result<InstanceFactory>(std::shared_ptr<const Model> model)>;

// Runs one folder: the first call, steps on the same instance, sizes on fresh ones, and what user
// inputs hold after the first call. With `measure`, the first inputs and each of sizes/ are called
// again and again once all is right. Does not throw.
CaseResult run_case(const std::string& folder, const InstanceMaker& maker, bool measure = false);

}  // namespace clients
