// What simulated workers answer to a task without running it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/wire/socket.h"
#include "common/wire/task.h"
#include "tests/bench/search/simulated_device.h"

namespace bench {

// Where the times of a report come from.
enum class AnswersFrom {
  kFingerprints,  // of the kernels: the cheapest, for the scripted search
  kDevice,        // a simulated device, for real searches: times that they can learn from
};

struct SimulatedAnswer {
  common::TaskKind kind{};
  common::Bytes report;
};

// Answers and the objects that they name. Deterministic; not thread-safe.
class SimulatedAnswers {
 public:
  explicit SimulatedAnswers(AnswersFrom from) : from_(from) {}

  // The reference stays valid. Throws when the payload is none.
  const SimulatedAnswer& to(const common::Bytes& payload);
  // Null when no answer named it.
  const common::SharedBytes* object(const common::Digest& digest) const;

 private:
  SimulatedAnswer make(const common::Bytes& payload);
  void measure(const common::TaskPayload& task, common::TaskReport& report);

  const AnswersFrom from_;
  SimulatedDevice device_{{0.03, 1, false}};
  std::unordered_map<uint64_t, SimulatedAnswer> answers_;
  std::map<common::Digest, common::SharedBytes> objects_;
};

}  // namespace bench
