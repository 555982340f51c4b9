#include "clients/runtime/model/weights.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"

namespace clients {

using common::at;
using common::cat;
using common::GraphInput;
using common::HostTensor;
using common::InputKind;
using common::Result;
using common::Status;
using common::TensorRef;

namespace {

// A stored tensor's elements in row-major order, in the archive's own memory where they lie so.
Result<HostTensor> stored_content(const GraphInput& input, const StoredTensor& stored) {
  if (is_contiguous(stored)) {
    return HostTensor::wrap(input.dtype, stored.sizes, contiguous_view(stored));
  }
  return common::contiguous_copy(input.dtype, stored.sizes, stored.strides, stored.storage_offset,
                                 stored.storage);
}

Result<HostTensor> wrap(const TensorRef& content) {
  return HostTensor::wrap(content.dtype, {content.sizes.begin(), content.sizes.end()},
                          {content.data, content.bytes});
}

// A symbolic size fits whatever is there: the call's inputs must agree with it.
bool fits(const GraphInput& input, const TensorRef& content) {
  bool ok = input.dtype == content.dtype && input.shape.size() == content.sizes.size();
  for (size_t k = 0; ok && k < input.shape.size(); ++k) {
    ok = !input.shape[k].is_constant() || input.shape[k].is_constant(content.sizes[k]);
  }
  return ok;
}

}  // namespace

Status Weights::bind(int input, const TensorRef& content, std::shared_ptr<const void> owner,
                     Bound is) {
  const GraphInput& wanted = model_->graph.inputs[at(input)];
  if (!fits(wanted, content)) {
    return common::invalid_input(cat("\"", model_->weight_names[at(input)], "\" is ",
                                     common::tensor_type_text(content.dtype, content.sizes),
                                     ", but the model takes ", common::dtype_name(wanted.dtype),
                                     common::shape_text(wanted.shape)));
  }
  Content bound{
      content.dtype, {content.sizes.begin(), content.sizes.end()}, content, std::move(owner)};
  if (wanted.kind == InputKind::kState && !content.on_device) {
    LFARM_ASSIGN_OR_RETURN(HostTensor copy, HostTensor::copy_of(content.dtype, bound.sizes,
                                                                {content.data, content.bytes}));
    auto kept = std::make_shared<HostTensor>(std::move(copy));
    bound.tensor = common::ref_of(*kept);
    bound.owner = std::move(kept);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  Content& slot = bound_[input] = std::move(bound);
  slot.tensor.sizes = slot.sizes;
  uploaded_.erase(input);
  if (wanted.kind == InputKind::kWeight && is == Bound::kOther) has_other_weights_ = true;
  return {};
}

std::optional<FileIdentity> Weights::file() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return has_other_weights_ ? std::nullopt : model_->identity;
}

std::shared_ptr<Weights> Weights::copy() const {
  auto out = std::make_shared<Weights>(model_, device_);
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [input, bound] : bound_) {
    Content& slot = out->bound_[input] = bound;
    slot.tensor.sizes = slot.sizes;
  }
  out->has_other_weights_ = has_other_weights_;
  return out;
}

Status Weights::check_complete() const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < model_->graph.inputs.size(); ++i) {
    if (model_->graph.inputs[i].kind == InputKind::kUser || model_->weights[i]) continue;
    if (bound_.count(static_cast<int>(i)) != 0) continue;
    return common::invalid_input(
        cat("\"", model_->weight_names[i], "\" has no content: bind it before making an instance"));
  }
  return {};
}

Result<HostTensor> Weights::host_content(int input) const {
  auto bound = bound_.find(input);
  if (bound == bound_.end()) {
    if (!model_->weights[at(input)]) {
      return common::internal_error(cat("the model has no content for its input ", input));
    }
    return stored_content(model_->graph.inputs[at(input)], *model_->weights[at(input)]);
  }
  const TensorRef& content = bound->second.tensor;
  if (!content.on_device || device_->uses_host_memory()) return wrap(content);
  LFARM_ASSIGN_OR_RETURN(HostTensor copy,
                         HostTensor::uninitialized(content.dtype, bound->second.sizes));
  LFARM_RETURN_IF_ERROR(device_->copy_out(copy.mutable_bytes(), content.data));
  return copy;
}

Result<Weights::Uploaded> Weights::upload(int input) const {
  Uploaded out;
  auto bound = bound_.find(input);
  if (bound != bound_.end() && bound->second.tensor.on_device) {
    out.content = bound->second.tensor;
    return out;
  }
  LFARM_ASSIGN_OR_RETURN(out.host, host_content(input));
  out.content = common::ref_of(out.host);
  bool is_aligned = reinterpret_cast<uintptr_t>(out.content.data) % common::kBufferAlignment == 0;
  if (device_->uses_host_memory() && is_aligned) return out;
  LFARM_ASSIGN_OR_RETURN(out.memory, device_->allocate(out.content.bytes));
  LFARM_RETURN_IF_ERROR(device_->copy_in(out.memory.data(), out.host.bytes()));
  LFARM_RETURN_IF_ERROR(device_->synchronise());
  out.content.data = out.memory.data();
  out.content.on_device = true;
  return out;
}

Result<TensorRef> Weights::on_device(int input) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto known = uploaded_.find(input);
  if (known == uploaded_.end()) {
    LFARM_ASSIGN_OR_RETURN(Uploaded made, upload(input));
    known = uploaded_.emplace(input, std::move(made)).first;
  }
  TensorRef content = known->second.content;
  auto bound = bound_.find(input);
  const std::vector<int64_t>& sizes =
      bound != bound_.end() ? bound->second.sizes : known->second.host.sizes();
  content.sizes = sizes;
  return content;
}

Result<HostTensor> Weights::on_host(int input) {
  std::lock_guard<std::mutex> lock(mutex_);
  return host_content(input);
}

}  // namespace clients
