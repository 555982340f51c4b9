#include "common/runtime/device/cuda_memory.h"

#include "common/base/cat.h"

namespace common {
namespace {

// The driver's own alignment.
constexpr size_t kGranule = 256;

size_t rounded(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

}  // namespace

Result<CudaAddress> CudaMemoryPool::allocate_from_driver(size_t bytes) {
  CudaRelaxedCapture relaxed(driver_->calls());
  CudaAddress address = 0;
  LFARM_RETURN_IF_ERROR(driver_->check(driver_->calls().allocate(&address, bytes), "cuMemAlloc"));
  return address;
}

std::optional<CudaAddress> CudaMemoryPool::allocate_kept(size_t bytes) {
  size_t size = rounded(bytes == 0 ? 1 : bytes);
  std::lock_guard lock(mutex_);
  auto found = kept_.find(size);
  if (found == kept_.end() || found->second.empty()) return std::nullopt;
  CudaAddress address = found->second.back();
  found->second.pop_back();
  kept_bytes_ -= size;
  return address;
}

Result<CudaAddress> CudaMemoryPool::allocate(size_t bytes) {
  size_t size = rounded(bytes == 0 ? 1 : bytes);
  if (size < bytes) return unavailable(cat("no room for ", bytes, " bytes of device memory"));
  if (auto kept = allocate_kept(bytes)) return *kept;
  auto fresh = allocate_from_driver(size);
  if (fresh.ok() || fresh.error().code != Code::kUnavailable) return fresh;
  trim();
  fresh = allocate_from_driver(size);
  if (fresh.ok() || fresh.error().code != Code::kUnavailable) return fresh;
  return unavailable(cat("no room for ", bytes, " bytes of device memory"));
}

void CudaMemoryPool::release(CudaAddress address, size_t bytes, bool keeps) {
  size_t size = rounded(bytes == 0 ? 1 : bytes);
  {
    std::lock_guard lock(mutex_);
    if (keeps || kept_bytes_ + size <= kept_bytes_max_) {
      kept_[size].push_back(address);
      kept_bytes_ += size;
      return;
    }
  }
  CudaRelaxedCapture relaxed(driver_->calls());
  driver_->calls().free(address);
}

void CudaMemoryPool::trim() {
  std::unordered_map<size_t, std::vector<CudaAddress>> kept;
  {
    std::lock_guard lock(mutex_);
    kept.swap(kept_);
    kept_bytes_ = 0;
  }
  CudaRelaxedCapture relaxed(driver_->calls());
  for (const auto& [size, addresses] : kept) {
    for (CudaAddress address : addresses) driver_->calls().free(address);
  }
}

}  // namespace common
