// A model's stored tensors where a device finds them: brought there once, for all instances and
// plans of the model.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/base/result.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

// What is bound to an input, beside what the model came with: the same elements, such as those of
// another archive of the model, or others.
enum class Bound : uint8_t { kEqual, kOther };

// Weights and first contents of states: what the model came with, unless something else was bound.
// Thread-safe.
class Weights {
 public:
  // `device` may be null where only the host reads; else it outlives this.
  Weights(std::shared_ptr<const Model> model, common::Device* device)
      : model_(std::move(model)), device_(device) {}

  // Content for the graph's input `input` from now on, of the type that the graph says. Of states
  // that lie in host memory a copy is kept; other memory stays the caller's, unchanged as long as
  // instances run, and `owner` keeps it alive where it is not null. Not while an instance uses
  // this: see copy().
  common::Status bind(int input, const common::TensorRef& content,
                      std::shared_ptr<const void> owner = nullptr, Bound is = Bound::kOther);
  // The same content for instances to come, while others go on with this.
  std::shared_ptr<Weights> copy() const;
  // kInvalidInput naming the first tensor that has no content.
  common::Status check_complete() const;

  const Model& model() const { return *model_; }
  // The archive whose weights' elements these are; empty where others were bound, and where it is
  // not known what was read.
  std::optional<FileIdentity> file() const;

  // On the device; where it uses host memory, the tensor as it lies. Valid as long as this.
  common::Result<common::TensorRef> on_device(int input);
  // In host memory, row-major.
  common::Result<common::HostTensor> on_host(int input);

 private:
  struct Content {
    common::DType dtype{};
    std::vector<int64_t> sizes;
    common::TensorRef tensor;  // whose sizes are the ones above
    std::shared_ptr<const void> owner;
  };
  struct Uploaded {
    common::HostTensor host;  // of a device that uses host memory
    common::DeviceMemory memory;
    common::TensorRef content;
  };
  common::Result<common::HostTensor> host_content(int input) const;
  common::Result<Uploaded> upload(int input) const;

  std::shared_ptr<const Model> model_;
  common::Device* device_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<int, Content> bound_;
  bool has_other_weights_ = false;
  std::map<int, Uploaded> uploaded_;
};

}  // namespace clients
