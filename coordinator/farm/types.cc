#include "coordinator/farm/types.h"

namespace coordinator::farm {

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kCompileError:
      return "compile_error";
    case Outcome::kWrong:
      return "wrong";
    case Outcome::kCrash:
      return "crash";
    case Outcome::kHang:
      return "hang";
    case Outcome::kInfra:
      return "infra";
  }
  return "unknown";
}

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
