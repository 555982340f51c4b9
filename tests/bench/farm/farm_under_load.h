// A real coordinator in a process of its own, for benchmarks of the farm:
// what its peers do in the benchmark's process is not counted as its work.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/result.h"
#include "common/process/subprocess.h"
#include "common/wire/security.h"

namespace bench {

// The target that simulated workers have and submits ask for.
inline constexpr const char* kLoadTarget = "cpu-simulated";
// Whom the coordinator takes its peers for, with transport security.
inline constexpr const char* kLoadTenant = "bench";

struct FarmOptions {
  bool curve = true;
  bool real_search = false;        // otherwise the scripted one
  std::string state;               // empty: a scratch directory
  std::vector<std::string> extra;  // arguments of the coordinator
  uint32_t searchers = 0;          // processes that search in its place
  uint64_t searches = 1;           // that each takes
};

// What a process has used so far.
struct ProcessUse {
  double cpu_s = 0;
  double peak_mb = 0;
  double now_mb = 0;
};

// Zeros where there is no such process.
ProcessUse process_use(int pid);

// Not thread-safe.
class FarmUnderLoad {
 public:
  static common::Result<std::unique_ptr<FarmUnderLoad>> create(FarmOptions options);

  // Starts the coordinator and returns when it listens; again after kill().
  common::Status start();
  // SIGKILL, and waits until it is dead.
  void kill();

  const std::string& endpoint() const { return endpoint_; }
  // Empty without transport security.
  const std::optional<common::ClientKeys>& keys() const { return keys_; }
  ProcessUse use() const;
  // What the searchers have used together; memory of the largest.
  ProcessUse searchers_use() const;

 private:
  explicit FarmUnderLoad(FarmOptions options) : options_(std::move(options)) {}
  common::Status make_keys();
  common::Status start_searchers(const std::string& endpoint_file);

  FarmOptions options_;
  std::optional<common::ScratchDirectory> scratch_;
  std::optional<common::ClientKeys> keys_;
  std::string endpoint_;
  std::optional<common::Subprocess> process_;
  std::vector<common::Subprocess> searchers_;
};

// This process's use of the processor, all threads together.
double own_cpu_s();
// As many descriptors as the system allows: thousands of connections take thousands.
void raise_descriptor_limit();
// The machine's load average over the last minute.
double load_average();
// The value below which `share` of the samples lie; 0 without samples. Sorts them.
double percentile(std::vector<double>& samples, double share);

// Parses a bench's arguments and runs it. Its exit code; 2 for wrong usage, 1 with a line on
// standard error when it throws.
int run_guarded(const char* name, CLI::App& app, const std::vector<std::string>& arguments,
                const std::function<int()>& run);

}  // namespace bench
