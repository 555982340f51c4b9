// Where the store keeps how far jobs are numbered.
#pragma once

namespace coordinator::service {

// Name of the record of the last job's number, in decimal digits.
inline constexpr const char* kLastJobRecord = "coordinator/last-job";

}  // namespace coordinator::service
