#include "common/runtime/executor/executor_memory.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/hash64.h"
#include "common/runtime/tensor/tensor.h"

namespace common {
namespace {

// Large device memory is copied to page-locked host memory in pieces of this size to be hashed.
constexpr size_t kPieceBytes = size_t{8} << 20;
// For less than this, such as most user inputs, locking pages takes longer than the copy.
constexpr size_t kLargeBytes = size_t{1} << 20;

// The position of the first byte that is not of the pattern, or `bytes`.
Result<size_t> first_damage(Device& device, const std::byte* data, size_t bytes) {
  Bytes host(bytes);
  LFARM_RETURN_IF_ERROR(device.copy_out(host, data));
  auto damage =
      std::find_if(host.begin(), host.end(), [](std::byte b) { return b != kBandPattern; });
  return static_cast<size_t>(damage - host.begin());
}

}  // namespace

Result<GuardedMemory> GuardedMemory::allocate(Device& device, size_t bytes, size_t band) {
  LFARM_ASSIGN_OR_RETURN(DeviceMemory memory, device.allocate(bytes + 2 * band));
  return within(device, std::move(memory), band);
}

Result<GuardedMemory> GuardedMemory::zeros(Device& device, size_t bytes, size_t band) {
  LFARM_ASSIGN_OR_RETURN(DeviceMemory memory, device.allocate_zeros(bytes + 2 * band));
  return within(device, std::move(memory), band);
}

Result<GuardedMemory> GuardedMemory::within(Device& device, DeviceMemory memory, size_t band) {
  GuardedMemory result;
  result.memory_ = std::move(memory);
  result.data_ = result.memory_.data() + band;
  result.size_ = result.memory_.size() - 2 * band;
  result.band_ = band;
  if (band != 0) {
    LFARM_RETURN_IF_ERROR(device.fill(result.memory_.data(), kBandPattern, band));
    LFARM_RETURN_IF_ERROR(device.fill(result.data_ + result.size_, kBandPattern, band));
  }
  return result;
}

GuardedMemory GuardedMemory::around(std::byte* data, size_t bytes, size_t band) {
  GuardedMemory result;
  result.data_ = data;
  result.size_ = bytes;
  result.band_ = band;
  return result;
}

Status GuardedMemory::check(Device& device, const std::string& name) const {
  if (band_ == 0 || data_ == nullptr) return {};
  LFARM_ASSIGN_OR_RETURN(size_t before, first_damage(device, data_ - band_, band_));
  if (before != band_) {
    return Error{Code::kVerification,
                 cat(name, ": ", band_ - before, " bytes before its start were written")};
  }
  LFARM_ASSIGN_OR_RETURN(size_t after, first_damage(device, data() + size_, band_));
  if (after != band_) {
    return Error{Code::kVerification,
                 cat(name, ": bytes past its end were written, from ", after, " on")};
  }
  return {};
}

Result<uint64_t> MemoryHasher::hash(const std::byte* data, size_t bytes) {
  if (device_.uses_host_memory() || bytes == 0) return hash64(ByteView{data, bytes});
  if (bytes < kLargeBytes) {
    Bytes host(bytes);
    LFARM_RETURN_IF_ERROR(device_.copy_out(host, data));
    return hash64(host);
  }
  if (!host_) {
    LFARM_ASSIGN_OR_RETURN(host_, device_.allocate_host(2 * kPieceBytes));
  }
  Hasher64 hasher;
  // A piece is hashed while the next one is copied.
  LFARM_RETURN_IF_ERROR(device_.copy_out_later(host_.get(), data, std::min(bytes, kPieceBytes)));
  for (size_t at = 0, half = 0; at < bytes; at += kPieceBytes, half = 1 - half) {
    const size_t size = std::min(kPieceBytes, bytes - at), next = at + size;
    LFARM_RETURN_IF_ERROR(device_.synchronise());
    if (next < bytes) {
      LFARM_RETURN_IF_ERROR(device_.copy_out_later(host_.get() + (1 - half) * kPieceBytes,
                                                   data + next,
                                                   std::min(kPieceBytes, bytes - next)));
    }
    hasher.add({host_.get() + half * kPieceBytes, size});
  }
  return hasher.finish();
}

}  // namespace common
