// How the judging of a candidate ended: the word of workers, wire, scheduler and search alike.
#pragma once

#include <cstdint>

namespace common {

enum class TaskOutcome : uint8_t {
  kOk,
  kCompileError,
  kWrong,  // outputs differ from the reference
  kCrash,  // the executor died
  kHang,   // the executor exceeded its run limit and was killed
  kInfra,  // the worker's machine failed, the candidate was not judged
};
inline constexpr int kOutcomes = 6;
// "ok", "compile_error", "wrong", "crash", "hang", "infra".
const char* outcome_name(TaskOutcome outcome);

}  // namespace common
