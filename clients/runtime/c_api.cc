// The C interface (include/lfarm.h): handles around the runtime's objects, errors as values, and no
// exception across the border.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/c_tensor.h"
#include "clients/runtime/include/lfarm.h"
#include "clients/runtime/live_instance.h"
#include "clients/runtime/session.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/ir/graph_hash.h"

using common::cat;
using common::Code;
using common::Error;
using common::HostTensor;
using common::Result;
using common::Status;

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
  std::string graph_hash;
  std::vector<size_t> tensors;  // which of the model's user inputs are tensors that it reads
};

struct lfarm_instance {
  std::shared_ptr<const clients::Model> model;
  std::vector<size_t> tensors;
  std::unique_ptr<clients::LiveInstance> instance;
  mutable std::string plan_id;
};

struct lfarm_outputs {
  std::vector<std::optional<HostTensor>> values;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<lfarm_tensor> tensors;
};

namespace {

constexpr int64_t kDeadlineMsDefault = 1000;

lfarm_status status_of(Code code) {
  switch (code) {
    case Code::kInvalidInput:
    case Code::kCorrupt:
      return LFARM_INVALID;
    case Code::kUnsupported:
      return LFARM_UNSUPPORTED;
    case Code::kUnavailable:
      return LFARM_UNAVAILABLE;
    case Code::kTimedOut:
      return LFARM_TIMED_OUT;
    case Code::kVerification:
      return LFARM_VERIFICATION;
    default:
      return LFARM_FAILED;
  }
}

lfarm_status report(lfarm_status status, std::string message, lfarm_error** error) {
  if (error != nullptr) *error = new lfarm_error{status, std::move(message)};
  return status;
}

// Runs `body`, which returns a Status.
template <class Body>
lfarm_status guarded(lfarm_error** error, Body&& body) {
  if (error != nullptr) *error = nullptr;
  try {
    Status status = body();
    if (status.ok()) return LFARM_OK;
    return report(status_of(status.error().code), status.error().message, error);
  } catch (const std::exception& exception) {
    return report(LFARM_FAILED, exception.what(), error);
  }
}

std::string text_of(const char* given, const char* otherwise) {
  return given != nullptr ? given : otherwise;
}

// What the caller's struct holds, which may be shorter than today's.
lfarm_options full_options(const lfarm_options* given) {
  lfarm_options options;
  lfarm_options_init(&options);
  if (given != nullptr) std::memcpy(&options, given, std::min(given->size, sizeof options));
  return options;
}

clients::SessionOptions session_options(const lfarm_options& given) {
  clients::SessionOptions out;
  const char* farm = std::getenv("LFARM_FARM");
  out.access.endpoint = text_of(given.farm, farm != nullptr ? farm : "");
  out.access.server_key = text_of(given.farm_key, "");
  out.access.keys = text_of(given.keys, "");
  out.access.trust = text_of(given.trust, "");
  out.access.state.path = text_of(given.state, "");
  if (out.access.state.path.empty()) out.access.state.path = common::default_state_directory();
  out.device = text_of(given.device, "auto");
  out.numerics = text_of(given.numerics, "strict");
  out.threads = given.threads;
  out.cache_bytes = given.cache_bytes;
  out.budget_candidates = given.budget_candidates;
  out.budget_ms = given.budget_ms;
  out.revocations_ms = given.revocations_ms;
  return out;
}

// The caller's tensors in the places of the model's user inputs.
Result<std::vector<HostTensor>> take_inputs(const lfarm_instance& instance,
                                            const lfarm_tensor* inputs, size_t count) {
  if (count != instance.tensors.size()) {
    return common::invalid_input(
        cat("the model takes ", instance.tensors.size(), " tensors, not ", count));
  }
  std::vector<HostTensor> out(instance.model->user_inputs.size());
  for (size_t i = 0; i < count; ++i) {
    size_t input = instance.tensors[i];
    auto tensor = clients::from_c(inputs[i], instance.model->user_input_is_complex[input]);
    if (!tensor.ok()) {
      return Error{tensor.error().code, cat("input ", i, " ", tensor.error().message)};
    }
    out[input] = std::move(*tensor);
  }
  return out;
}

std::unique_ptr<lfarm_outputs> wrap_outputs(const clients::Model& model,
                                            clients::CallResult result) {
  auto out = std::make_unique<lfarm_outputs>();
  out->values = std::move(result.outputs);
  out->shapes.resize(out->values.size());
  out->tensors.resize(out->values.size());
  for (size_t i = 0; i < out->values.size(); ++i) {
    if (!out->values[i]) continue;
    out->tensors[i] =
        clients::to_c(*out->values[i], model.user_outputs[i].complex, &out->shapes[i]);
  }
  return out;
}

}  // namespace

uint32_t lfarm_abi_version(void) { return LFARM_ABI_VERSION; }

lfarm_status lfarm_error_status(const lfarm_error* error) { return error->status; }
const char* lfarm_error_message(const lfarm_error* error) { return error->message.c_str(); }
void lfarm_error_free(lfarm_error* error) { delete error; }

void lfarm_options_init(lfarm_options* options) {
  *options = lfarm_options{};
  options->size = sizeof *options;
  options->deadline_ms = kDeadlineMsDefault;
  options->cache_bytes = clients::DiskCache::kBytesMaxDefault;
  options->revocations_ms = clients::SessionOptions().revocations_ms;
}

lfarm_status lfarm_session_open(const lfarm_options* options, lfarm_session** session,
                                lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    lfarm_options full = full_options(options);
    LFARM_ASSIGN_OR_RETURN(auto opened, clients::Session::open(session_options(full)));
    *session = new lfarm_session{std::move(opened), std::chrono::milliseconds(full.deadline_ms)};
    return {};
  });
}

void lfarm_session_free(lfarm_session* session) { delete session; }

lfarm_status lfarm_model_load(lfarm_session* session, const char* path, lfarm_model** model,
                              lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(clients::Model loaded, clients::load_model(path));
    auto out = std::make_unique<lfarm_model>();
    out->session = session->session;
    out->deadline = session->deadline;
    out->graph_hash = common::graph_hash(loaded.graph).hex();
    for (size_t i = 0; i < loaded.user_inputs.size(); ++i) {
      if (loaded.user_inputs[i] >= 0) out->tensors.push_back(i);
    }
    out->model = std::make_shared<const clients::Model>(std::move(loaded));
    *model = out.release();
    return {};
  });
}

void lfarm_model_free(lfarm_model* model) { delete model; }
const char* lfarm_model_graph_hash(const lfarm_model* model) { return model->graph_hash.c_str(); }
size_t lfarm_model_inputs(const lfarm_model* model) { return model->tensors.size(); }
size_t lfarm_model_outputs(const lfarm_model* model) { return model->model->user_outputs.size(); }

lfarm_status lfarm_instance_create(lfarm_model* model, lfarm_instance** instance,
                                   lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(
        auto made, clients::LiveInstance::make(model->session, model->model, model->deadline));
    *instance = new lfarm_instance{model->model, model->tensors, std::move(made), ""};
    return {};
  });
}

void lfarm_instance_free(lfarm_instance* instance) { delete instance; }

int lfarm_instance_plan(const lfarm_instance* instance, lfarm_plan* plan) {
  const clients::SharedPlan& running = instance->instance->plan();
  if (!running) return 0;
  if (plan == nullptr) return 1;
  instance->plan_id = running->id.hex();
  const common::Provenance& from = running->plan.provenance;
  lfarm_plan facts{plan->size,
                   instance->plan_id.c_str(),
                   running->plan.key.target.name.c_str(),
                   from.farm.c_str(),
                   from.best_ns,
                   from.baseline_ns,
                   from.candidates,
                   from.created_ns};
  std::memcpy(plan, &facts, std::min(plan->size, sizeof facts));
  return 1;
}

lfarm_status lfarm_instance_wait(lfarm_instance* instance, int64_t timeout_ms,
                                 lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    return instance->instance->wait(std::chrono::milliseconds(timeout_ms));
  });
}

lfarm_status lfarm_instance_run(lfarm_instance* instance, const lfarm_tensor* inputs, size_t count,
                                lfarm_outputs** outputs, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(auto values, take_inputs(*instance, inputs, count));
    LFARM_ASSIGN_OR_RETURN(clients::CallResult result, instance->instance->call(values));
    for (size_t i = 0; i < count; ++i) {
      for (const auto& [input, content] : result.mutated) {
        if (static_cast<size_t>(input) == instance->tensors[i]) {
          clients::write_back(content, inputs[i]);
        }
      }
    }
    auto wrapped = wrap_outputs(*instance->model, std::move(result));
    delete *outputs;
    *outputs = wrapped.release();
    return {};
  });
}

size_t lfarm_outputs_count(const lfarm_outputs* outputs) { return outputs->values.size(); }

const lfarm_tensor* lfarm_outputs_get(const lfarm_outputs* outputs, size_t index) {
  if (index >= outputs->values.size() || !outputs->values[index]) return nullptr;
  return &outputs->tensors[index];
}

void lfarm_outputs_free(lfarm_outputs* outputs) { delete outputs; }
