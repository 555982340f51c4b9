// What the C interface's handles hold, and how its functions report: for the sources of liblfarm.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/c_tensor.h"
#include "clients/runtime/include/lfarm.h"
#include "clients/runtime/live_instance.h"
#include "clients/runtime/model/binding.h"
#include "clients/runtime/model/weights.h"
#include "clients/runtime/session.h"
#include "common/base/result.h"
#include "common/runtime/executor/executor.h"

// NOLINTBEGIN(readability-identifier-naming): the interface's own names
struct lfarm_error {
  lfarm_status status;
  std::string message;
};

struct lfarm_session {
  std::shared_ptr<clients::Session> session;
  std::chrono::milliseconds deadline;
};

struct lfarm_model {
  std::shared_ptr<clients::Session> session;
  std::chrono::milliseconds deadline;
  std::shared_ptr<const clients::Model> model;
  std::shared_ptr<clients::Weights> weights;
  std::string graph_hash;
  std::vector<size_t> tensors;  // which of the model's user inputs are tensors that it reads
};

struct lfarm_instance {
  std::shared_ptr<clients::Session> session;
  std::shared_ptr<const clients::Model> model;
  std::vector<size_t> tensors;
  std::unique_ptr<clients::LiveInstance> instance;
  clients::Binding binding;
  mutable std::string plan_id, newer_id;
  // Of the call in progress.
  std::vector<common::TensorRef> inputs;
  std::vector<clients::TakenTensor> taken;
};

// Of a call into host memory or into the device's: one of the two is empty.
struct lfarm_outputs {
  std::shared_ptr<clients::Session> session;  // whose device the memory is of
  common::RunOutputs host;
  std::vector<common::DeviceTensor> device;
  bool is_on_device = false;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<lfarm_tensor> tensors;
  std::vector<char> has_value;
};
// NOLINTEND(readability-identifier-naming)

namespace clients {

// The ordinal of a device with memory of its own.
inline std::optional<int> gpu_of(const common::Device& device) {
  return device.uses_host_memory() ? std::nullopt : std::optional(device.ordinal());
}

lfarm_status status_of(common::Code code);
lfarm_status report(lfarm_status status, std::string message, lfarm_error** error);

// An instance with a plan for each of `sizes`, or one for all.
common::Status make_instance(const lfarm_model& model, const std::vector<SizeRanges>& sizes,
                             lfarm_instance** instance);

// Runs `body`, which returns a Status; no exception leaves it.
template <class Body>
lfarm_status guarded(lfarm_error** error, Body&& body) {
  if (error != nullptr) *error = nullptr;
  try {
    common::Status status = body();
    if (status.ok()) return LFARM_OK;
    return report(status_of(status.error().code), status.error().message, error);
  } catch (const std::exception& exception) {
    return report(LFARM_FAILED, exception.what(), error);
  }
}

}  // namespace clients
