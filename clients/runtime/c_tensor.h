// Tensors of the C interface as the runtime's, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "clients/runtime/include/lfarm.h"
#include "common/base/result.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

// The elements that the tensor describes, in place where they lie row-major without gaps, else
// copied. With `complex` they become pairs of real numbers on a last axis of two. kInvalidInput
// when it is not a tensor in host memory or of no type that lfarm has.
common::Result<common::HostTensor> from_c(const lfarm_tensor& tensor, bool complex);

// Writes `content` into the tensor's memory, whose shape and type are those that from_c() saw.
void write_back(const common::HostTensor& content, const lfarm_tensor& tensor);

// What a view of a caller's tensor needs beside the tensor itself; used again from call to call.
struct TakenTensor {
  std::vector<int64_t> sizes;  // where they are not the caller's
  common::HostTensor copy;     // of a tensor in host memory that is not row-major
  bool is_copied = false;
};
// The same as from_c() for a tensor that may lie on the device, which is used where it lies and
// must be row-major there. `gpu`: the ordinal of the session's device, where that has memory of its
// own. Valid as long as the tensor and `keep`.
common::Result<common::TensorRef> take_c(const lfarm_tensor& tensor, bool complex,
                                         std::optional<int> gpu, TakenTensor* keep);

// A view of the tensor for the caller. `shape` keeps its sizes; both are to outlive the view.
// `gpu`: the ordinal of the device that the tensor may lie on.
lfarm_tensor to_c(const common::HostTensor& tensor, bool complex, std::vector<int64_t>* shape);
lfarm_tensor to_c(const common::TensorRef& tensor, bool complex, int gpu,
                  std::vector<int64_t>* shape);

}  // namespace clients
