// cuBLASLt, NVIDIA's library of matrix products, found at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace common {

enum class CublasLtType { kFloat32, kFloat64, kFloat16, kBfloat16 };

// Strides in elements. One of the two matrix strides is 1, unless that axis has size 1.
struct CublasLtOperand {
  int64_t batch_stride = 0, row_stride = 0, column_stride = 0;
  // Of the first element's address, in bytes: a power of two. More is faster.
  uint32_t alignment = 256;
};

// out[b] = a[b] * b[b] for each b of the batch: a is m by k, b is k by n. Sizes are positive.
struct CublasLtProduct {
  CublasLtType type = CublasLtType::kFloat32;  // of all three; 16-bit ones are summed in 32 bits
  bool tf32 = false;                           // 32-bit factors may be rounded to 11 bits
  int64_t batch = 1, m = 1, n = 1, k = 1;
  CublasLtOperand a, b, out;
};

class CublasLt;

// A product that was prepared once and can be asked for often. Immutable.
class CublasLtPlan {
 public:
  ~CublasLtPlan();
  CublasLtPlan(const CublasLtPlan&) = delete;
  CublasLtPlan& operator=(const CublasLtPlan&) = delete;
  // The algorithms that fit, the one that the library expects to be the fastest first.
  size_t choices() const;
  // Device memory that run() with this choice needs.
  size_t workspace_bytes(size_t choice) const;

 private:
  friend class CublasLt;
  struct State;
  explicit CublasLtPlan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The library, with a handle on the device whose context was current when it was opened. run() and
// prepare() want that context current. Thread-safe.
class CublasLt {
 public:
  // kUnavailable when no library is found; kDeviceSick when it cannot use the current device.
  static Result<std::shared_ptr<const CublasLt>> open();
  // "13.0.2" of the library that open() would use, without touching a device. kUnavailable without
  // one; it names what to install.
  static Result<std::string> find_version();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // At most `choices_max` algorithms that need no more than `workspace_bytes`. Where they split a
  // sum, its parts are added in the type they were summed in. kUnsupported when no algorithm does
  // the product or the library refuses it; kInvalidInput when a matrix has no stride of 1.
  Result<std::shared_ptr<const CublasLtPlan>> prepare(const CublasLtProduct& product,
                                                      size_t workspace_bytes,
                                                      size_t choices_max) const;
  // Puts the product into `stream` (a CUstream). Pointers are to device memory.
  Status run(const CublasLtPlan& plan, size_t choice, const void* a, const void* b, void* out,
             void* workspace, void* stream) const;

 private:
  struct Entries;
  explicit CublasLt(std::shared_ptr<const Entries> entries);
  static Result<std::shared_ptr<const Entries>> load();
  std::shared_ptr<const Entries> entries_;
  void* handle_ = nullptr;
  friend class CublasLtPlan;
};

}  // namespace common
