#include "common/runtime/device/cuda_memory.h"

#include "common/base/cat.h"
#include "common/runtime/device/device.h"

namespace common {
namespace {

// The driver's own alignment.
constexpr size_t kGranule = 256;

size_t rounded(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

}  // namespace

Result<CudaAddress> CudaMemoryPool::allocate_fresh(size_t bytes) {
  if (allocator_) return allocate_from_caller(bytes);
  CudaAddress address = 0;
  LFARM_RETURN_IF_ERROR(driver_->check(driver_->calls().allocate(&address, bytes), "cuMemAlloc"));
  return address;
}

Result<CudaAddress> CudaMemoryPool::allocate_from_caller(size_t bytes) {
  void* data = allocator_.allocate(bytes, ordinal_, stream_);
  if (data == nullptr) return unavailable("the caller's allocator has no memory");
  auto address = reinterpret_cast<CudaAddress>(data);
  if (address % kBufferAlignment == 0) return address;
  allocator_.release(data, bytes, ordinal_, stream_);
  return invalid_input(cat("the caller's allocator gave memory ", address % kBufferAlignment,
                           " bytes past a multiple of ", kBufferAlignment));
}

void CudaMemoryPool::give_back(CudaAddress address, size_t bytes) {
  if (allocator_) {
    auto* data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    allocator_.release(data, bytes, ordinal_, stream_);
  } else {
    driver_->calls().free(address);
  }
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
  auto fresh = allocate_fresh(size);
  if (fresh.ok() || fresh.error().code != Code::kUnavailable) return fresh;
  trim();
  fresh = allocate_fresh(size);
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
  give_back(address, size);
}

void CudaMemoryPool::trim() {
  std::unordered_map<size_t, std::vector<CudaAddress>> kept;
  {
    std::lock_guard lock(mutex_);
    kept.swap(kept_);
    kept_bytes_ = 0;
  }
  for (const auto& [size, addresses] : kept) {
    for (CudaAddress address : addresses) give_back(address, size);
  }
}

}  // namespace common
