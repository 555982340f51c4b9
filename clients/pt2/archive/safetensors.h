// Weights in a safetensors file (huggingface.co/docs/safetensors), found where they lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/ir/hlir/dtype.h"

namespace clients {

// One tensor of a file.
struct NamedTensor {
  std::string name;
  common::DType dtype{};
  std::vector<int64_t> sizes;
  common::ByteView bytes;  // row-major, inside the file
};

// The tensors in a file's bytes: the header's length in 8 bytes, the header in JSON, the data.
// kCorrupt when an offset, a size or the header is not in order, kUnsupported for a type that lfarm
// does not have.
common::Result<std::vector<NamedTensor>> read_safetensors(common::ByteView file);

}  // namespace clients
