#include "coordinator/farm/types.h"

namespace coordinator::farm {

const char* requeue_reason_name(RequeueReason reason) {
  switch (reason) {
    case RequeueReason::kReturned:
      return "returned";
    case RequeueReason::kInfra:
      return "infra";
    case RequeueReason::kLeaseExpired:
      return "lease expired";
    case RequeueReason::kWorkerLost:
      return "worker lost";
    case RequeueReason::kUnconfirmedCrash:
      return "crash to confirm";
  }
  return "unknown";
}

const char* refusal_name(Refusal refusal) {
  switch (refusal) {
    case Refusal::kFull:
      return "full";
    case Refusal::kUnknown:
      return "unknown job";
    case Refusal::kCancelled:
      return "job cancelled";
    case Refusal::kInvalid:
      return "invalid";
  }
  return "unknown";
}

}  // namespace coordinator::farm
