// A plan's library products on a GPU: sizes become products that cuBLASLt has prepared before.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "common/cuda/cublaslt.h"
#include "common/runtime/device/device.h"

namespace common {

// Thread-safe. Calls want the context current that was when the library was opened.
class CudaGemm {
 public:
  // Device memory that every product may use meanwhile.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  CudaGemm(std::shared_ptr<const CublasLt> library, bool exact_algorithms)
      : library_(std::move(library)), exact_algorithms_(exact_algorithms) {}

  // Puts one product into `stream`. Sizes are positive. kUnsupported for types and strides that the
  // library does not know, and for algorithms beyond its list where those must be exact.
  Status multiply(const GemmSizes& sizes, const void* a, const void* b, void* out, void* workspace,
                  void* stream);

 private:
  // Everything of a product that the library's choice depends on.
  using Key = std::array<int64_t, 18>;
  Result<std::shared_ptr<const CublasLtPlan>> prepared(const CublasLtProduct& product,
                                                       int algorithm);

  std::shared_ptr<const CublasLt> library_;
  bool exact_algorithms_;
  std::mutex mutex_;  // guards plans_
  std::map<Key, std::shared_ptr<const CublasLtPlan>> plans_;
};

}  // namespace common
