// One running copy of a model, whatever computes it: weights bound, state kept from call to call.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/base/result.h"
#include "common/plan/plan.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

struct CallResult {
  std::vector<std::optional<common::HostTensor>> outputs;   // the model's, in order; empty: None
  std::vector<std::pair<int, common::HostTensor>> mutated;  // user input, its content afterwards
};

// Not thread-safe.
class Instance {
 public:
  virtual ~Instance() = default;
  // One entry per user input of the model; those that the model does not read are not looked at.
  // kInvalidInput names the user input that does not fit, kOutOfRange an index among the inputs.
  virtual common::Result<CallResult> call(std::span<const common::HostTensor> user_inputs) = 0;
  // The content of the state at this input of the model's graph, as the last call left it.
  virtual common::Result<common::HostTensor> state(int input) = 0;
  virtual common::Status set_state(int input, const common::HostTensor& content) = 0;
};

// kInvalidInput naming the user input, unless `inputs` have the types that the model takes and
// sizes within the ranges of its symbols. Every call checks this first.
common::Status check_user_inputs(const Model& model, std::span<const common::HostTensor> inputs);

common::Status check_user_inputs(const Model& model, std::span<const common::TensorRef> inputs);
// The same, and the values of the model's symbols.
common::Result<std::vector<int64_t>> symbols_of(const Model& model,
                                                std::span<const common::TensorRef> inputs);

class Weights;

// Computed plainly by the reference interpreter; slow, and needs no plan.
std::unique_ptr<Instance> make_reference_instance(std::shared_ptr<const Model> model);
std::unique_ptr<Instance> make_reference_instance(std::shared_ptr<const Model> model,
                                                  std::shared_ptr<Weights> weights);

// Runs a plan that was made for the model's graph (the caller has compared the keys). Weights that
// lie contiguous in the archive are used where they are. The device outlives the instance.
common::Result<std::unique_ptr<Instance>> make_plan_instance(std::shared_ptr<const Model> model,
                                                             const common::Plan& plan,
                                                             const common::ObjectSource& objects,
                                                             common::Device& device);

// Threads that one instance may use: those of the machine.
int default_threads();

}  // namespace clients
