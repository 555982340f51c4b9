// The command line of lfarm-worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/kubernetes/cluster.h"
#include "common/wire/security.h"
#include "common/wire/socket.h"

namespace worker {

struct WorkerOptions {
  std::string farm{common::kDefaultEndpoint};
  std::string device = "auto";
  std::optional<int> gpu;  // of several
  std::string name;
  std::string state;
  std::string http;  // HOST:PORT of probes and metrics; empty: none
  std::string pod;   // this worker's, where it runs in a cluster; empty: not in one
  common::ClusterOptions cluster;
  uint32_t slots = 4;
  bool debug_sequential = false;
  uint32_t threads = 0;      // 0: as many as there are processors to use
  int64_t drain_ms = 3'000;  // for what is on the device when the worker is told to stop
  std::optional<common::ClientKeys> keys;
  common::LogLevel log = common::LogLevel::kInfo;
  std::optional<common::LogFormat> log_format;  // what the environment says
};

// How main() goes on: with options, or to its end with an exit code (after --help or a mistake,
// which has been printed).
// `devices`: what --device may name besides "auto".
std::variant<WorkerOptions, int> parse_options(int argc, char** argv,
                                               const std::vector<std::string>& devices);

}  // namespace worker
