#include "common/base/outcome.h"

namespace common {

const char* outcome_name(TaskOutcome outcome) {
  switch (outcome) {
    case TaskOutcome::kOk:
      return "ok";
    case TaskOutcome::kCompileError:
      return "compile_error";
    case TaskOutcome::kWrong:
      return "wrong";
    case TaskOutcome::kCrash:
      return "crash";
    case TaskOutcome::kHang:
      return "hang";
    case TaskOutcome::kInfra:
      return "infra";
  }
  return "unknown";
}

}  // namespace common
