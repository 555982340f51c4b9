// The C interface (include/lfarm.h): handles around the runtime's objects, errors as values, and no
// exception across the border.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/c_handles.h"
#include "clients/runtime/include/lfarm.h"
#include "clients/runtime/live_instance.h"
#include "clients/runtime/model/found_model.h"
#include "clients/runtime/model/tensor_named.h"
#include "clients/runtime/session.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"

using clients::guarded;
using common::cat;
using common::Code;
using common::Error;
using common::Result;
using common::Status;

namespace clients {

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
    case Code::kOutOfRange:
      return LFARM_OUT_OF_RANGE;
    default:
      return LFARM_FAILED;
  }
}

lfarm_status report(lfarm_status status, std::string message, lfarm_error** error) {
  if (error != nullptr) *error = new lfarm_error{status, std::move(message)};
  return status;
}

}  // namespace clients

namespace {

constexpr int64_t kDeadlineMsDefault = 1000;

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

// The caller's functions, which end with the last copy.
Result<common::DeviceAllocator> allocator_of(const lfarm_allocator* given) {
  common::DeviceAllocator out;
  if (given == nullptr) return out;
  auto end = [](const lfarm_allocator* hook) {
    if (hook->destroy != nullptr) hook->destroy(hook->context);
    delete hook;
  };
  auto* copy = new lfarm_allocator{};
  std::memcpy(copy, given, std::min(given->size, sizeof *copy));
  std::shared_ptr<const lfarm_allocator> hook(copy, end);
  if (hook->allocate == nullptr || hook->release == nullptr) {
    return common::invalid_input("an allocator needs both allocate and release");
  }
  out.allocate = [hook](size_t bytes, int ordinal, void* stream) {
    return hook->allocate(hook->context, bytes, ordinal, stream);
  };
  out.release = [hook](void* data, size_t bytes, int ordinal, void* stream) {
    hook->release(hook->context, data, bytes, ordinal, stream);
  };
  return out;
}

Result<clients::SessionOptions> session_options(const lfarm_options& given,
                                                const lfarm_allocator* allocator) {
  clients::SessionOptions out;
  LFARM_ASSIGN_OR_RETURN(out.allocator, allocator_of(allocator));
  const char* farm = std::getenv("LFARM_FARM");
  out.access.endpoint = text_of(given.farm, farm != nullptr ? farm : "");
  out.access.server_key = text_of(given.farm_key, "");
  out.access.keys = text_of(given.keys, "");
  out.access.trust = text_of(given.trust, "");
  out.access.state.path = text_of(given.state, "");
  if (out.access.state.path.empty()) out.access.state.path = common::default_state_directory();
  out.device = text_of(given.device, "auto");
  LFARM_ASSIGN_OR_RETURN(out.policy, common::parse_plan_policy(text_of(given.numerics, "strict")));
  out.threads = given.threads;
  out.cache_bytes = given.cache_bytes;
  out.budget_candidates = given.budget_candidates;
  out.budget_ms = given.budget_ms;
  LFARM_ASSIGN_OR_RETURN(out.sizes, clients::parse_size_ranges(text_of(given.sizes, "")));
  out.revocations_ms = given.revocations_ms;
  return out;
}

std::unique_ptr<lfarm_model> wrap_model(const lfarm_session& session, clients::Model loaded,
                                        std::string graph_hash) {
  auto out = std::make_unique<lfarm_model>();
  out->session = session.session;
  out->deadline = session.deadline;
  out->graph_hash = std::move(graph_hash);
  for (size_t i = 0; i < loaded.user_inputs.size(); ++i) {
    if (loaded.user_inputs[i] >= 0) out->tensors.push_back(i);
  }
  out->model = std::make_shared<const clients::Model>(std::move(loaded));
  out->weights = std::make_shared<clients::Weights>(out->model, &out->session->device());
  return out;
}

// Instances that run go on with the content they were made with.
clients::Weights& weights_to_bind(lfarm_model& model) {
  if (model.weights.use_count() > 1) model.weights = model.weights->copy();
  return *model.weights;
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
  return lfarm_session_open_with(options, nullptr, session, error);
}

lfarm_status lfarm_session_open_with(const lfarm_options* options, const lfarm_allocator* allocator,
                                     lfarm_session** session, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    common::log_init_library();
    lfarm_options full = full_options(options);
    LFARM_ASSIGN_OR_RETURN(clients::SessionOptions wanted, session_options(full, allocator));
    LFARM_ASSIGN_OR_RETURN(auto opened, clients::Session::open(std::move(wanted)));
    *session = new lfarm_session{std::move(opened), std::chrono::milliseconds(full.deadline_ms)};
    return {};
  });
}

void lfarm_session_keep_searches(lfarm_session* session, int keep) {
  session->session->keep_searches(keep != 0);
}

void lfarm_session_free(lfarm_session* session) { delete session; }

lfarm_status lfarm_model_load(lfarm_session* session, const char* path, lfarm_model** model,
                              lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(clients::Model loaded, clients::load_model(path));
    std::string hash = common::graph_hash(loaded.graph).hex();
    *model = wrap_model(*session, std::move(loaded), std::move(hash)).release();
    return {};
  });
}

lfarm_status lfarm_model_find(lfarm_session* session, const char* graph_hash, const char* signature,
                              lfarm_model** model, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    auto hash = common::Digest::parse(graph_hash);
    if (!hash) {
      return common::invalid_input(cat("\"", graph_hash, "\" is not 64 hexadecimal digits"));
    }
    std::string names;
    if (signature != nullptr) {
      LFARM_ASSIGN_OR_RETURN(names, common::read_file(signature));
    }
    auto request = session->session->request(*hash);
    clients::SharedPlan plan = request->wait(session->deadline);
    if (!plan) {
      Status status = request->status();
      if (!status.ok()) return status;
      return Error{Code::kTimedOut, cat("no plan came within ", session->deadline.count(), " ms")};
    }
    LFARM_ASSIGN_OR_RETURN(clients::Model found, clients::model_of(plan->plan, names));
    *model = wrap_model(*session, std::move(found), hash->hex()).release();
    return {};
  });
}

lfarm_status lfarm_model_bind(lfarm_model* model, const char* name, const lfarm_tensor* tensor,
                              lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    auto found = clients::tensor_named(*model->model, name);
    if (!found) return common::invalid_input(cat("the model has no tensor \"", name, "\""));
    std::optional<int> gpu = clients::gpu_of(model->session->device());
    constexpr uint8_t kComplexCode = 5;
    auto taken = std::make_shared<clients::TakenTensor>();
    auto content = clients::take_c(*tensor, tensor->dtype.code == kComplexCode, gpu, taken.get());
    if (!content.ok()) {
      return Error{content.error().code, cat("\"", name, "\" ", content.error().message)};
    }
    return weights_to_bind(*model).bind(*found, *content, taken);
  });
}

lfarm_status lfarm_model_bind_file(lfarm_model* model, const char* path, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    return clients::bind_file(*model->model, path, &weights_to_bind(*model));
  });
}

void lfarm_model_free(lfarm_model* model) { delete model; }
const char* lfarm_model_graph_hash(const lfarm_model* model) { return model->graph_hash.c_str(); }
size_t lfarm_model_inputs(const lfarm_model* model) { return model->tensors.size(); }
size_t lfarm_model_outputs(const lfarm_model* model) { return model->model->user_outputs.size(); }

namespace clients {

Status make_instance(const lfarm_model& model, const std::vector<SizeRanges>& sizes,
                     lfarm_instance** instance) {
  LFARM_ASSIGN_OR_RETURN(auto made, LiveInstance::make(model.session, model.model, model.weights,
                                                       model.deadline, sizes));
  *instance = new lfarm_instance{model.session,
                                 model.model,
                                 model.tensors,
                                 std::move(made),
                                 Binding(*model.model),
                                 "",
                                 "",
                                 {},
                                 {}};
  return {};
}

}  // namespace clients

lfarm_status lfarm_instance_create(lfarm_model* model, lfarm_instance** instance,
                                   lfarm_error** error) {
  return guarded(error,
                 [&] { return clients::make_instance(*model, model->session->sizes(), instance); });
}

void lfarm_instance_free(lfarm_instance* instance) { delete instance; }

int lfarm_instance_plan(const lfarm_instance* instance, lfarm_plan* plan) {
  const clients::SharedPlan& running = instance->instance->plan();
  if (!running) return 0;
  if (plan == nullptr) return 1;
  instance->plan_id = running->id.hex();
  clients::SharedPlan newest = instance->instance->newest_plan();
  instance->newer_id = newest ? newest->id.hex() : "";
  const common::Provenance& from = running->plan.provenance;
  lfarm_plan facts{plan->size,
                   instance->plan_id.c_str(),
                   running->plan.key.target.name.c_str(),
                   from.farm.c_str(),
                   from.best_ns,
                   from.baseline_ns,
                   from.search.candidates,
                   from.created_ns,
                   common::standing_name(running->facts.standing),
                   from.speedup.ratio,
                   from.speedup.low,
                   from.speedup.high,
                   newest && newest->id != running->id ? instance->newer_id.c_str() : nullptr};
  std::memcpy(plan, &facts, std::min(plan->size, sizeof facts));
  return 1;
}

lfarm_status lfarm_instance_wait(lfarm_instance* instance, int64_t timeout_ms,
                                 lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    return instance->instance->wait(std::chrono::milliseconds(timeout_ms));
  });
}
