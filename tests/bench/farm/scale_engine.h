// The engine of several coordinators with many plans, and a coordinator over it.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

struct ScaleEngineOptions {
  std::string address;  // of a server that holds nothing else
  int64_t plans = 0;
  size_t plan_bytes = 512;
  std::string state;  // the coordinator's state directory; empty: a scratch one
};

// Fills the engine and prints one line of JSON. Throws where the server cannot be used or is not
// empty.
int run_scale_engine(const ScaleEngineOptions& options);

}  // namespace bench
