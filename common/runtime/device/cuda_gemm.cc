#include "common/runtime/device/cuda_gemm.h"

#include <optional>

#include "common/base/cat.h"

namespace common {
namespace {

// Sizes that vary would fill the memory; what is forgotten is prepared again.
constexpr size_t kPlansMax = 4096;
// The greatest alignment that makes a difference.
constexpr uintptr_t kAlignmentMax = 256;

std::optional<CublasLtType> type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CublasLtType::kFloat32;
    case DType::kFloat64:
      return CublasLtType::kFloat64;
    case DType::kFloat16:
      return CublasLtType::kFloat16;
    case DType::kBfloat16:
      return CublasLtType::kBfloat16;
    default:
      return std::nullopt;
  }
}

uint32_t alignment_of(const void* data) {
  auto address = reinterpret_cast<uintptr_t>(data) | kAlignmentMax;
  return static_cast<uint32_t>(address & (~address + 1));
}

CublasLtOperand operand_of(const GemmOperandSizes& sizes, const void* data) {
  return {sizes.batch_stride, sizes.row_stride, sizes.column_stride, alignment_of(data)};
}

}  // namespace

Result<std::shared_ptr<const CublasLtPlan>> CudaGemm::prepared(const CublasLtProduct& product,
                                                               int algorithm) {
  Key key{static_cast<int64_t>(product.type),
          product.batch,
          product.m,
          product.n,
          product.k,
          algorithm};
  size_t next = 6;
  for (const CublasLtOperand* operand : {&product.a, &product.b, &product.out}) {
    for (int64_t value : {operand->batch_stride, operand->row_stride, operand->column_stride,
                          static_cast<int64_t>(operand->alignment)}) {
      key[next++] = value;
    }
  }
  std::lock_guard lock(mutex_);
  auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  LFARM_ASSIGN_OR_RETURN(
      auto plan, library_->prepare(product, kWorkspaceBytes, static_cast<size_t>(algorithm) + 1));
  if (plans_.size() >= kPlansMax) plans_.clear();
  plans_[key] = plan;
  return plan;
}

Status CudaGemm::multiply(const GemmSizes& sizes, const void* a, const void* b, void* out,
                          void* workspace, void* stream) {
  std::optional<CublasLtType> type = type_of(sizes.dtype);
  if (!type) return unsupported(cat("cuBLASLt multiplies no ", dtype_name(sizes.dtype)));
  int64_t bytes = dtype_size(sizes.dtype);
  const char* a_first = static_cast<const char*>(a) + sizes.a.offset * bytes;
  const char* b_first = static_cast<const char*>(b) + sizes.b.offset * bytes;
  char* out_first = static_cast<char*>(out) + sizes.out.offset * bytes;
  CublasLtProduct product;
  product.type = *type;
  product.batch = sizes.batch;
  product.m = sizes.m;
  product.n = sizes.n;
  product.k = sizes.k;
  product.a = operand_of(sizes.a, a_first);
  product.b = operand_of(sizes.b, b_first);
  product.out = operand_of(sizes.out, out_first);
  auto plan = prepared(product, sizes.algorithm);
  if (!plan.ok()) {
    if (plan.error().code != Code::kInvalidInput) return plan.error();
    return unsupported(plan.error().message);
  }
  auto choice = static_cast<size_t>(sizes.algorithm);
  size_t listed = (*plan)->choices();
  if (choice >= listed) {
    if (exact_algorithms_) {
      return unsupported(cat("cuBLASLt lists ", listed, " algorithms for this product, none at ",
                             sizes.algorithm));
    }
    choice = 0;
  }
  return library_->run(**plan, choice, a_first, b_first, out_first, workspace, stream);
}

}  // namespace common
