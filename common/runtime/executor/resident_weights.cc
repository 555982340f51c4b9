#include "common/runtime/executor/resident_weights.h"

#include <utility>

#include "common/base/hash64.h"

namespace common {

Result<TensorRef> ResidentWeights::find(Device& device, const HostTensor& weight) {
  TensorRef ref = ref_of(weight);
  auto [found, is_new] = residents_.try_emplace({&device, weight.data()});
  Resident& resident = found->second;
  if (is_new || resident.memory.size() != ref.bytes) {
    LFARM_ASSIGN_OR_RETURN(resident.memory, GuardedMemory::allocate(device, ref.bytes, kGuardBand));
    LFARM_RETURN_IF_ERROR(device.copy_in(resident.memory.data(), weight.bytes()));
    LFARM_RETURN_IF_ERROR(device.synchronise());
    resident.hash = hash64(weight.bytes());
    resident.host = weight;
  }
  ref.data = resident.memory.data();
  ref.on_device = true;
  ref.band = kGuardBand;
  ref.hash = resident.hash;
  return ref;
}

}  // namespace common
