// The C interface's states (include/lfarm.h): what calls leave behind, read and written by name.
#include <memory>
#include <string>
#include <vector>

#include "clients/runtime/c_handles.h"
#include "clients/runtime/model/tensor_named.h"
#include "common/base/cat.h"

using clients::guarded;
using common::cat;
using common::HostTensor;
using common::InputKind;
using common::Result;
using common::Status;

namespace {

// The position of the state among the graph's inputs.
Result<int> find_state(const lfarm_instance& instance, const std::string& name) {
  auto found = clients::tensor_named(*instance.model, name);
  if (!found) return common::invalid_input(cat("the model has no tensor \"", name, "\""));
  if (instance.model->graph.inputs[static_cast<size_t>(*found)].kind != InputKind::kState) {
    return common::invalid_input(
        cat("\"", name, "\" is a weight, which no call changes: it is what was bound"));
  }
  return *found;
}

std::string text_of(const HostTensor& tensor) {
  std::string sizes;
  for (int64_t size : tensor.sizes()) sizes += cat(sizes.empty() ? "" : ",", size);
  return cat(common::dtype_name(tensor.dtype()), "[", sizes, "]");
}

}  // namespace

lfarm_status lfarm_instance_state(lfarm_instance* instance, const char* name,
                                  lfarm_outputs** content, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(int position, find_state(*instance, name));
    LFARM_ASSIGN_OR_RETURN(HostTensor state, instance->instance->state(position));
    std::unique_ptr<lfarm_outputs> made;
    if (*content == nullptr) {
      made = std::make_unique<lfarm_outputs>();
      made->session = instance->session;
    }
    lfarm_outputs& target = made ? *made : **content;
    target.host.user = {std::move(state)};
    target.shapes.resize(1);
    target.tensors = {clients::to_c(target.host.user[0], false, &target.shapes[0])};
    target.has_value = {1};
    if (made) *content = made.release();
    return {};
  });
}

lfarm_status lfarm_instance_set_state(lfarm_instance* instance, const char* name,
                                      const lfarm_tensor* tensor, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(int position, find_state(*instance, name));
    auto content = clients::from_c(*tensor, false);
    if (!content.ok()) {
      return common::Error{content.error().code, cat("\"", name, "\" ", content.error().message)};
    }
    LFARM_ASSIGN_OR_RETURN(HostTensor present, instance->instance->state(position));
    if (content->dtype() != present.dtype() || content->sizes() != present.sizes()) {
      return common::invalid_input(
          cat("\"", name, "\" is ", text_of(present), " in the model, not ", text_of(*content)));
    }
    return instance->instance->set_state(position, *content);
  });
}
