// The C interface's calls (include/lfarm.h): the caller's tensors in, outputs and profiles out.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/runtime/c_handles.h"
#include "clients/runtime/model/random_state.h"
#include "common/base/cat.h"

using clients::guarded;
using common::cat;
using common::DeviceTensor;
using common::Error;
using common::HostTensor;
using common::Status;
using common::TensorRef;

namespace {

// The caller's tensors in the places of the model's user inputs.
Status take_inputs(lfarm_instance& instance, const lfarm_tensor* inputs, size_t count) {
  if (count != instance.tensors.size()) {
    return common::invalid_input(
        cat("the model takes ", instance.tensors.size(), " tensors, not ", count));
  }
  instance.inputs.resize(instance.model->user_inputs.size());
  instance.taken.resize(count);
  std::optional<int> gpu = clients::gpu_of(instance.session->device());
  for (size_t i = 0; i < count; ++i) {
    size_t input = instance.tensors[i];
    auto tensor = clients::take_c(inputs[i], instance.model->user_input_is_complex[input], gpu,
                                  &instance.taken[i]);
    if (!tensor.ok()) {
      return Error{tensor.error().code, cat("input ", i, " ", tensor.error().message)};
    }
    instance.inputs[input] = *tensor;
  }
  return {};
}

// What a call wrote into a copy of an input goes to where the caller has it.
void give_back(const lfarm_instance& instance, const lfarm_tensor* inputs) {
  for (size_t i = 0; i < instance.taken.size(); ++i) {
    if (!instance.taken[i].is_copied) continue;
    for (const common::GraphOutput& output : instance.model->graph.outputs) {
      if (output.kind == common::OutputKind::kMutate &&
          output.input == instance.model->user_inputs[instance.tensors[i]]) {
        clients::write_back(instance.taken[i].copy, inputs[i]);
      }
    }
  }
}

TensorRef ref_of(const DeviceTensor& tensor, bool on_device) {
  return {tensor.dtype, tensor.sizes, tensor.data, tensor.memory.size(), on_device};
}

void show_outputs(const lfarm_instance& instance, lfarm_outputs& outputs) {
  const std::vector<int>& places = instance.binding.outputs();
  outputs.shapes.resize(places.size());
  outputs.tensors.resize(places.size());
  outputs.has_value.assign(places.size(), 0);
  std::optional<int> gpu = clients::gpu_of(instance.session->device());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) continue;
    auto place = static_cast<size_t>(places[i]);
    outputs.has_value[i] = 1;
    TensorRef value = outputs.is_on_device ? ref_of(outputs.device[place], gpu.has_value())
                                           : common::ref_of(outputs.host.user[place]);
    outputs.tensors[i] = clients::to_c(value, instance.model->user_outputs[i].complex,
                                       gpu.value_or(0), &outputs.shapes[i]);
  }
}

std::unique_ptr<lfarm_outputs> make_outputs(const lfarm_instance& instance, bool is_on_device) {
  auto made = std::make_unique<lfarm_outputs>();
  made->session = instance.session;
  made->is_on_device = is_on_device;
  return made;
}

// Runs `body` on the outputs that are used again, or on new ones.
template <class Body>
Status fill(lfarm_instance& instance, const lfarm_tensor* inputs, bool is_on_device,
            lfarm_outputs** outputs, Body&& body) {
  std::unique_ptr<lfarm_outputs> made;
  if (*outputs == nullptr) {
    made = make_outputs(instance, is_on_device);
  } else if ((*outputs)->is_on_device != is_on_device) {
    return common::invalid_input(
        "outputs of lfarm_instance_run and of lfarm_instance_run_on are not used for each other");
  }
  lfarm_outputs& target = made ? *made : **outputs;
  LFARM_RETURN_IF_ERROR(body(target));
  give_back(instance, inputs);
  show_outputs(instance, target);
  if (made) *outputs = made.release();
  return {};
}

// A profile as the C interface shows it.
void tell(lfarm_profiler profiler, void* context, const clients::CallProfile& call) {
  std::vector<std::string> ids;
  std::vector<lfarm_kernel_time> kernels;
  std::vector<lfarm_kernel_origin> origins;
  for (const common::CallFacts& facts : call.kernels) ids.push_back(facts.fingerprint.hex());
  for (size_t k = 0; k < ids.size(); ++k) {
    const common::CallFacts& facts = call.kernels[k];
    kernels.push_back({facts.name.c_str(), ids[k].c_str(), call.kernels_ns[k], facts.bytes});
    origins.push_back({call.origins[k].modules.c_str(), call.origins[k].sources.c_str()});
  }
  lfarm_profile profile{sizeof profile, call.start_ns,
                        call.wall_ns,   kernels.empty() ? nullptr : kernels.data(),
                        kernels.size(), kernels.empty() ? nullptr : origins.data()};
  profiler(context, &profile);
}

}  // namespace

lfarm_status lfarm_instance_run(lfarm_instance* instance, const lfarm_tensor* inputs, size_t count,
                                lfarm_outputs** outputs, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_RETURN_IF_ERROR(take_inputs(*instance, inputs, count));
    return fill(*instance, inputs, false, outputs, [&](lfarm_outputs& target) {
      return instance->instance->run(instance->inputs, target.host);
    });
  });
}

lfarm_status lfarm_instance_run_on(lfarm_instance* instance, void* stream,
                                   const lfarm_tensor* inputs, size_t count,
                                   lfarm_outputs** outputs, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_RETURN_IF_ERROR(take_inputs(*instance, inputs, count));
    return fill(*instance, inputs, true, outputs, [&](lfarm_outputs& target) {
      return instance->instance->run_on(stream, instance->inputs, target.device);
    });
  });
}

lfarm_status lfarm_instance_seed(lfarm_instance* instance, uint64_t seed, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(int state, clients::random_state_of(*instance->model));
    LFARM_ASSIGN_OR_RETURN(HostTensor content, clients::random_state_from(seed));
    return instance->instance->set_state(state, content);
  });
}

lfarm_status lfarm_instance_donate(lfarm_instance* instance, const size_t* inputs, size_t count,
                                   lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    for (size_t i = 0; i < count; ++i) {
      if (inputs[i] >= instance->tensors.size()) {
        return common::invalid_input(cat("the model takes ", instance->tensors.size(),
                                         " tensors, and no tensor ", inputs[i]));
      }
      int user_input = static_cast<int>(instance->tensors[inputs[i]]);
      LFARM_RETURN_IF_ERROR(instance->instance->donate(user_input));
    }
    return {};
  });
}

lfarm_status lfarm_outputs_wrap(lfarm_instance* instance, const lfarm_tensor* tensors, size_t count,
                                lfarm_outputs** outputs, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    const std::vector<int>& places = instance->binding.outputs();
    if (count != places.size()) {
      return common::invalid_input(
          cat("the model returns ", places.size(), " values, not ", count));
    }
    std::optional<int> gpu = clients::gpu_of(instance->session->device());
    auto made = make_outputs(*instance, true);
    for (size_t i = 0; i < count; ++i) {
      if (places[i] < 0) continue;
      clients::TakenTensor taken;
      auto memory =
          clients::take_c(tensors[i], instance->model->user_outputs[i].complex, gpu, &taken);
      if (!memory.ok()) {
        return Error{memory.error().code, cat("output ", i, " ", memory.error().message)};
      }
      if (taken.is_copied || memory->on_device != gpu.has_value()) {
        return common::invalid_input(
            cat("output ", i, " is not row-major in the memory of the session's device"));
      }
      auto place = static_cast<size_t>(places[i]);
      made->device.resize(std::max(made->device.size(), place + 1));
      made->device[place] = {
          memory->dtype, {memory->sizes.begin(), memory->sizes.end()}, memory->data, {}};
    }
    show_outputs(*instance, *made);
    *outputs = made.release();
    return {};
  });
}

size_t lfarm_outputs_count(const lfarm_outputs* outputs) { return outputs->tensors.size(); }

const lfarm_tensor* lfarm_outputs_get(const lfarm_outputs* outputs, size_t index) {
  if (index >= outputs->tensors.size() || outputs->has_value[index] == 0) return nullptr;
  return &outputs->tensors[index];
}

void lfarm_outputs_free(lfarm_outputs* outputs) { delete outputs; }

void lfarm_instance_set_profiler(lfarm_instance* instance, lfarm_profiler profiler, void* context) {
  if (profiler == nullptr) {
    instance->instance->set_profiler({});
    return;
  }
  instance->instance->set_profiler(
      [profiler, context](const clients::CallProfile& call) { tell(profiler, context, call); });
}
