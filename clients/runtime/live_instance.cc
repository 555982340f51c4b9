#include "clients/runtime/live_instance.h"

#include <algorithm>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace clients {

using common::cat;
using common::DeviceTensor;
using common::HostTensor;
using common::Result;
using common::RunOutputs;
using common::Status;
using common::TensorRef;
using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

namespace {

size_t at(int position) { return static_cast<size_t>(position); }

// In host memory: the tensor itself, or a copy of what lies on the device.
Result<HostTensor> on_host(const TensorRef& tensor, common::Device& device) {
  std::vector<int64_t> sizes(tensor.sizes.begin(), tensor.sizes.end());
  if (!tensor.on_device) {
    return HostTensor::wrap(tensor.dtype, std::move(sizes), {tensor.data, tensor.bytes});
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor copy,
                         HostTensor::uninitialized(tensor.dtype, std::move(sizes)));
  LFARM_RETURN_IF_ERROR(device.copy_out(copy.mutable_bytes(), tensor.data));
  return copy;
}

}  // namespace

LiveInstance::LiveInstance(std::shared_ptr<Session> session, std::shared_ptr<const Model> model,
                           std::shared_ptr<Weights> weights)
    : session_(std::move(session)),
      model_(std::move(model)),
      weights_(std::move(weights)),
      binding_(*model_) {
  for (const common::GraphInput& input : model_->graph.inputs) {
    has_states_ = has_states_ || input.kind == common::InputKind::kState;
  }
  if (!model_->graph.nodes.empty()) reference_ = make_reference_instance(model_, weights_);
}

LiveInstance::~LiveInstance() {
  for (Variant& variant : variants_) {
    if (variant.instance) variant.instance->finish_keeping();
  }
}

LiveInstance::Variant LiveInstance::variant_of(SizeRanges ranges,
                                               std::shared_ptr<const Model> model,
                                               std::shared_ptr<const PlanRequest> request) {
  Variant variant;
  variant.ranges = std::move(ranges);
  variant.model = std::move(model);
  variant.request = std::move(request);
  return variant;
}

Status LiveInstance::add_variants(const std::vector<SizeRanges>& sizes) {
  if (!reference_) {
    if (!sizes.empty()) {
      return common::invalid_input(
          "plans for parts of the sizes are found by the model, not by its hash");
    }
    variants_.push_back(variant_of({}, model_, session_->request(*model_->graph_hash)));
    return {};
  }
  for (const SizeRanges& ranges : sizes) {
    Model narrow = *model_;
    LFARM_ASSIGN_OR_RETURN(narrow.graph, for_sizes(model_->graph, ranges));
    auto shared = std::make_shared<const Model>(std::move(narrow));
    variants_.push_back(
        variant_of(ranges, shared, session_->request(shared->graph, shared->class_name)));
  }
  if (variants_.empty()) {
    variants_.push_back(
        variant_of({}, model_, session_->request(model_->graph, model_->class_name)));
  }
  return {};
}

Result<std::unique_ptr<LiveInstance>> LiveInstance::make(std::shared_ptr<Session> session,
                                                         std::shared_ptr<const Model> model,
                                                         std::shared_ptr<Weights> weights,
                                                         milliseconds deadline,
                                                         const std::vector<SizeRanges>& sizes) {
  LFARM_RETURN_IF_ERROR(weights->check_complete());
  std::unique_ptr<LiveInstance> instance(
      new LiveInstance(std::move(session), std::move(model), std::move(weights)));
  LFARM_RETURN_IF_ERROR(instance->add_variants(sizes));
  SteadyTime end = std::chrono::steady_clock::now() + deadline;
  for (Variant& variant : instance->variants_) {
    auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    uint64_t changes = variant.request->changes();  // before: what comes after it counts
    SharedPlan plan = variant.request->wait(std::max(left, milliseconds(0)));
    if (plan) {
      variant.looked = changes;
      variant.coming = plan;
      LFARM_RETURN_IF_ERROR(instance->change_over(variant, instance->load(variant.model, plan)));
    } else if (!instance->reference_) {
      Status status = variant.request->status();
      if (!status.ok()) return status.error();
      return common::Error{common::Code::kTimedOut,
                           cat("no plan came within ", deadline.count(), " ms")};
    }
  }
  return instance;
}

// Weights are bound and prepared here, which may take as long as many calls.
LiveInstance::Loaded LiveInstance::load(const std::shared_ptr<const Model>& model,
                                        const SharedPlan& plan) const {
  common::ExecutorOptions options;
  options.arenas = session_->arenas();
  return PlanInstance::make(model, weights_, plan->plan, plan->object_source(), session_->device(),
                            &session_->prepared(), options);
}

// On an error the plan that runs goes on.
Status LiveInstance::change_over(Variant& variant, Loaded loaded) {
  LFARM_ASSIGN_OR_RETURN(std::unique_ptr<PlanInstance> fresh, std::move(loaded));
  for (int user_input : donated_) LFARM_RETURN_IF_ERROR(fresh->donate(user_input));
  if (variant.instance && !session_->device().uses_host_memory()) {
    LFARM_RETURN_IF_ERROR(session_->device().synchronise());  // calls on streams still use it
  }
  PlanInstance* before = variant.instance.get();
  if (before != nullptr && holder_ == before) {
    Status moved = move_states(fresh.get());
    if (!moved.ok()) {
      holder_ = before;
      return moved;
    }
  }
  retire(variant);
  variant.instance = std::move(fresh);
  variant.plan = variant.coming;
  common::log_info("an instance runs by a plan", {{"plan", variant.plan->id.short_hex()}});
  return {};
}

Status LiveInstance::donate(int user_input) {
  if (user_input < 0 || at(user_input) >= model_->user_inputs.size()) {
    return common::invalid_input(cat("the model has no user input ", user_input, " to donate"));
  }
  donated_.push_back(user_input);
  for (Variant& variant : variants_) {
    if (variant.instance) LFARM_RETURN_IF_ERROR(variant.instance->donate(user_input));
  }
  return {};
}

void LiveInstance::retire(Variant& variant) {
  if (variant.is_captured) retired_.push_back(std::move(variant.instance));
  variant.instance.reset();
  variant.is_captured = false;
}

// Costs a call no more than a counter while nothing changes.
Status LiveInstance::look(Variant& variant) {
  bool has_changed = variant.request->changes() != variant.looked;
  if (has_changed && variant.plan && variant.request->is_withdrawn(variant.plan->id)) {
    LFARM_RETURN_IF_ERROR(leave(variant));
  }
  if (has_changed || variant.loading.valid()) improve(variant);
  if (variant.plan || reference_) return {};
  return common::unavailable(
      "the farm has revoked the plan; there is no model to interpret until another one comes");
}

// What the farm has withdrawn is used no more.
Status LiveInstance::leave(Variant& variant) {
  if (holder_ == variant.instance.get()) LFARM_RETURN_IF_ERROR(move_states(nullptr));
  retire(variant);
  variant.plan.reset();
  return {};
}

// Begins to load the newest plan, and changes over once it is loaded. One is loaded at a time; a
// plan that cannot be loaded is not tried again.
void LiveInstance::improve(Variant& variant) {
  if (variant.loading.valid()) {
    bool is_loaded = variant.loading.wait_for(milliseconds(0)) == std::future_status::ready;
    if (!is_loaded) return;
    end_loading(variant);
  }
  variant.looked = variant.request->changes();  // before: what comes after it counts
  SharedPlan newest = variant.request->plan();
  if (!newest || (variant.coming && variant.coming->id == newest->id)) return;
  variant.coming = newest;
  variant.loading = std::async(
      std::launch::async, [this, model = variant.model, newest] { return load(model, newest); });
}

void LiveInstance::end_loading(Variant& variant) {
  Loaded loaded = variant.loading.get();
  if (variant.request->is_withdrawn(variant.coming->id)) return;
  Status changed = change_over(variant, std::move(loaded));
  if (changed.ok()) return;
  common::log_warning(cat("plan ", variant.coming->id.short_hex(),
                          " cannot be used here: ", changed.error().message));
}

Status LiveInstance::wait_for(Variant& variant, SteadyTime end) {
  if (variant.plan) return {};
  auto time = std::max(milliseconds(0),
                       std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now()));
  if (!variant.loading.valid() && !variant.request->wait(time)) {
    Status status = variant.request->status();
    if (!status.ok()) return status;
    return common::Error{common::Code::kTimedOut, cat("no plan came within ", time.count(),
                                                      " ms; the farm still looks for "
                                                      "one")};
  }
  improve(variant);
  if (variant.loading.valid()) {
    (void)variant.loading.wait_until(end);
    improve(variant);
  }
  if (variant.plan) return {};
  return common::Error{common::Code::kTimedOut, "the plan is still being loaded"};
}

Status LiveInstance::wait(milliseconds time) {
  SteadyTime end = std::chrono::steady_clock::now() + time;
  for (Variant& variant : variants_) LFARM_RETURN_IF_ERROR(wait_for(variant, end));
  return {};
}

Result<LiveInstance::Variant*> LiveInstance::choose(std::span<const TensorRef> user_inputs) {
  auto is_ready = [&](const Variant& variant) {
    return variant.ranges.empty() ||
           (variant.instance && variant.instance->is_like_last(user_inputs));
  };
  if (is_ready(variants_[current_])) return &variants_[current_];
  for (size_t k = 0; k < variants_.size(); ++k) {
    if (is_ready(variants_[k])) return &variants_[current_ = k];
  }
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> symbols, symbols_of(*model_, user_inputs));
  std::string known;
  for (size_t k = 0; k < variants_.size(); ++k) {
    if (holds(variants_[k].ranges, symbols)) return &variants_[current_ = k];
    known += cat(k == 0 ? "" : ";", text_of(variants_[k].ranges));
  }
  std::string given;
  for (size_t s = 0; s < symbols.size(); ++s) {
    given += cat(s == 0 ? "" : ",", "s", s, "=", symbols[s]);
  }
  return common::invalid_input(
      cat("sizes ", given, " lie in none of the session's ranges ", known));
}

// The states go along with what computes the next call.
Status LiveInstance::move_states(PlanInstance* to) {
  PlanInstance* from = holder_;
  holder_ = to;
  if (!has_states_ || !has_run_ || from == to) return {};
  if (from != nullptr && to != nullptr) return to->take_states(*from);
  if (!reference_) return {};  // revoked with its states: they begin anew
  Instance& source = from != nullptr ? *from : *reference_;
  Instance& target = to != nullptr ? *to : *reference_;
  for (size_t i = 0; i < model_->graph.inputs.size(); ++i) {
    if (model_->graph.inputs[i].kind != common::InputKind::kState) continue;
    LFARM_ASSIGN_OR_RETURN(HostTensor content, source.state(static_cast<int>(i)));
    LFARM_RETURN_IF_ERROR(target.set_state(static_cast<int>(i), content));
  }
  return {};
}

Result<Instance*> LiveInstance::holder_of_states() {
  if (!session_->device().uses_host_memory()) {
    LFARM_RETURN_IF_ERROR(session_->device().synchronise());  // calls on streams still change them
  }
  if (holder_ == nullptr && !reference_) holder_ = variants_[current_].instance.get();
  Instance* holder = holder_ != nullptr ? static_cast<Instance*>(holder_) : reference_.get();
  if (holder != nullptr) return holder;
  return common::unavailable("the states went with the plan that the farm has revoked");
}

Result<HostTensor> LiveInstance::state(int input) {
  LFARM_ASSIGN_OR_RETURN(Instance * holder, holder_of_states());
  LFARM_ASSIGN_OR_RETURN(HostTensor content, holder->state(input));
  if (holder == holder_) return content;
  return content.clone();  // the interpreter goes on with its own
}

Status LiveInstance::set_state(int input, const HostTensor& content) {
  LFARM_ASSIGN_OR_RETURN(Instance * holder, holder_of_states());
  LFARM_RETURN_IF_ERROR(holder->set_state(input, content));
  has_run_ = true;  // they are no more as they were bound
  return {};
}

template <class Body>
Status LiveInstance::profiled(const Variant& variant, Body&& body) {
  if (!profiler_) return body(nullptr);
  common::SteadyClock clock;
  CallProfile profile;
  profile.start_ns = clock.now_ns();
  Status ran = body(&profile.kernels_ns);
  if (!ran.ok()) return ran;
  profile.wall_ns = clock.now_ns() - profile.start_ns;
  if (variant.instance) {
    profile.kernels = variant.instance->call_facts();
    const common::Plan& plan = variant.plan->plan;
    auto origins = common::kernel_origins(plan, variant.model->graph.inputs);
    for (const common::Call& call : plan.calls) {
      profile.origins.push_back(origins[static_cast<size_t>(call.kernel)]);
    }
  }
  profiler_(profile);
  return {};
}

Status LiveInstance::report_earlier() {
  for (Variant& variant : variants_) {
    if (variant.instance) LFARM_RETURN_IF_ERROR(variant.instance->report_earlier());
  }
  return {};
}

Status LiveInstance::run(std::span<const TensorRef> user_inputs, RunOutputs& outputs) {
  LFARM_RETURN_IF_ERROR(report_earlier());
  LFARM_ASSIGN_OR_RETURN(Variant * variant, choose(user_inputs));
  LFARM_RETURN_IF_ERROR(look(*variant));
  LFARM_RETURN_IF_ERROR(move_states(variant->instance.get()));
  has_run_ = true;
  LFARM_RETURN_IF_ERROR(profiled(*variant, [&](std::vector<int64_t>* times) {
    return variant->instance ? variant->instance->run(user_inputs, outputs, times)
                             : interpret(user_inputs, outputs);
  }));
  return write_mutated(user_inputs, outputs);
}

// A capture is no time for another plan, whose memory would be allocated in it.
Status LiveInstance::check_captured(Variant& variant) {
  if (!variant.instance) {
    return common::invalid_input(
        "the interpreter's calls cannot be captured: wait for the plan before");
  }
  if (has_states_ && has_run_ && holder_ != variant.instance.get()) {
    return common::invalid_input("a call of these sizes has to come before one that is captured");
  }
  variant.is_captured = true;
  return {};
}

Status LiveInstance::run_on(void* stream, std::span<const TensorRef> user_inputs,
                            std::vector<DeviceTensor>& outputs) {
  LFARM_RETURN_IF_ERROR(report_earlier());
  LFARM_ASSIGN_OR_RETURN(Variant * variant, choose(user_inputs));
  bool is_captured = false;
  if (stream != nullptr) {
    LFARM_ASSIGN_OR_RETURN(is_captured, session_->device().is_captured(stream));
  }
  LFARM_RETURN_IF_ERROR(is_captured ? check_captured(*variant) : look(*variant));
  LFARM_RETURN_IF_ERROR(move_states(variant->instance.get()));
  has_run_ = true;
  return profiled(*variant, [&](std::vector<int64_t>* times) {
    return variant->instance ? variant->instance->run_on(stream, user_inputs, outputs, times)
                             : interpret_on(stream, user_inputs, outputs);
  });
}

Status LiveInstance::interpret(std::span<const TensorRef> user_inputs, RunOutputs& outputs) {
  std::vector<HostTensor> inputs;
  for (const TensorRef& input : user_inputs) {
    LFARM_ASSIGN_OR_RETURN(HostTensor tensor, on_host(input, session_->device()));
    inputs.push_back(std::move(tensor));
  }
  LFARM_ASSIGN_OR_RETURN(CallResult result, reference_->call(inputs));
  outputs = {};
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    int place = binding_.outputs()[i];
    if (place < 0) continue;
    outputs.user.resize(std::max(outputs.user.size(), at(place) + 1));
    // A copy: the interpreter's values may be one another's, its state's or the caller's memory.
    LFARM_ASSIGN_OR_RETURN(outputs.user[at(place)], result.outputs[i]->clone());
  }
  for (auto& [user, content] : result.mutated) {
    outputs.mutated.push_back({model_->user_inputs[at(user)], std::move(content)});
  }
  return {};
}

Status LiveInstance::interpret_on(void* stream, std::span<const TensorRef> user_inputs,
                                  std::vector<DeviceTensor>& outputs) {
  common::Device& device = session_->device();
  auto body = [&]() -> Status {
    RunOutputs results;
    LFARM_RETURN_IF_ERROR(interpret(user_inputs, results));
    outputs.resize(results.user.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      const HostTensor& value = results.user[k];
      LFARM_RETURN_IF_ERROR(common::make_room(device, value.dtype(), value.sizes(), outputs[k]));
      LFARM_RETURN_IF_ERROR(device.copy_in(outputs[k].data, value.bytes()));
    }
    LFARM_RETURN_IF_ERROR(device.synchronise());  // before the results go
    return write_mutated(user_inputs, results);
  };
  if (stream == nullptr) return body();
  LFARM_RETURN_IF_ERROR(device.begin_stream(stream));
  Status ran = body();
  Status ended = device.end_stream();
  return ran.ok() ? ended : ran;
}

Status LiveInstance::write_mutated(std::span<const TensorRef> user_inputs,
                                   const RunOutputs& outputs) {
  for (const common::MutatedInput& mutated : outputs.mutated) {
    const TensorRef& input = user_inputs[at(binding_.user_of(mutated.input))];
    common::ByteView content = mutated.value.bytes();
    if (input.on_device) {
      LFARM_RETURN_IF_ERROR(session_->device().copy_in(input.data, content));
      LFARM_RETURN_IF_ERROR(session_->device().synchronise());
    } else if (!content.empty()) {
      std::memmove(input.data, content.data(), content.size());
    }
  }
  return {};
}

}  // namespace clients
