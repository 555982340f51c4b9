// Jobs' traces for whoever asks.
#pragma once

#include <string>

#include "coordinator/service/job/environment.h"

namespace coordinator::service {

// Not thread-safe.
class Traces {
 public:
  explicit Traces(Environment& environment) : env_(environment) {}

  // Answers with JobTrace, or JobFailed. Everything that was put to the commits before is in it.
  void send(const std::string& peer, const common::Principal& who, const common::AskTrace& request);

 private:
  void read(const std::string& peer, const common::Principal& who, const common::AskTrace& request);

  static constexpr size_t kAtOnce = 2;  // reading one takes a tenth of a second
  Environment& env_;
  size_t reading_ = 0;
};

}  // namespace coordinator::service
