// Tensors of the C interface as the runtime's, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "clients/runtime/include/lfarm.h"
#include "common/base/result.h"
#include "common/runtime/tensor.h"

namespace clients {

// The elements that the tensor describes, in place where they lie row-major without gaps, else
// copied. With `complex` they become pairs of real numbers on a last axis of two. kInvalidInput
// when it is not a tensor in host memory or of no type that lfarm has.
common::Result<common::HostTensor> from_c(const lfarm_tensor& tensor, bool complex);

// Writes `content` into the tensor's memory, whose shape and type are those that from_c() saw.
void write_back(const common::HostTensor& content, const lfarm_tensor& tensor);

// A view of the tensor for the caller. `shape` keeps its sizes; both are to outlive the view.
lfarm_tensor to_c(const common::HostTensor& tensor, bool complex, std::vector<int64_t>* shape);

}  // namespace clients
