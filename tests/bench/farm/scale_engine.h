// The engine of several coordinators with many plans, and a coordinator over it.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

struct ScaleEngineOptions {
  std::string address;  // of a server that holds nothing else
  int64_t plans = 0;
  size_t plan_bytes = 512;
  std::string
      state;  // directory of the signing key, by which the plans are found; empty: a scratch one
};

// Fills the engine, unless it was filled with this state before, and prints one line of JSON.
// Throws where the server cannot be used.
int run_scale_engine(const ScaleEngineOptions& options);

}  // namespace bench
