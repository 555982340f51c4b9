#include "worker/agent/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/incarnation.h"
#include "common/process/processors.h"
#include "common/wire/codec.h"
#include "common/wire/limits.h"

namespace worker {
namespace {

// Different for every worker of every machine that shares a farm.
std::string default_name() {
  char host[256] = "worker";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return common::cat(host, "-", ::getpid(), "-", common::Incarnation::draw().low % 65536);
}

common::Status load_keys(const std::string& key_file, const std::string& farm_key,
                         WorkerOptions& options) {
  if (key_file.empty() && farm_key.empty()) return {};
  if (key_file.empty() || farm_key.empty()) {
    return common::invalid_input("--key and --farm-key are only of use together");
  }
  LFARM_RETURN_IF_ERROR(common::check_curve_key(farm_key, "--farm-key"));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair own, common::load_or_create_key_pair(key_file));
  options.keys = common::ClientKeys{std::move(own), farm_key};
  return {};
}

}  // namespace

std::variant<WorkerOptions, int> parse_options(int argc, char** argv,
                                               const std::vector<std::string>& devices) {
  WorkerOptions options;
  std::string key_file, farm_key, log = "info", log_format;
  CLI::App app("Compiles, verifies and measures kernel candidates for a farm.", "lfarm-worker");
  app.add_option("--farm", options.farm,
                 "Endpoints of the farm's coordinators, all of them, with commas between")
      ->capture_default_str();
  std::vector<std::string> known = {"auto"};
  known.insert(known.end(), devices.begin(), devices.end());
  app.add_option("--device", options.device, "What candidates run on")
      ->check(CLI::IsMember(known))
      ->capture_default_str();
  app.add_option("--gpu", options.gpu, "Which of several GPUs, from 0; default: the first")
      ->check(CLI::Range(0, 1023));
  app.add_option("--name", options.name, "Unique in the farm; default: host and process");
  app.add_option("--slots", options.slots, "Tasks held at once, one of them on the device")
      ->check(CLI::Range(uint32_t{1}, common::kSlotsMax))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads of a run; 0: all")
      ->capture_default_str();
  app.add_option("--drain-ms", options.drain_ms,
                 "Time for the task on the device when told to stop; then it is given back")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400'000}))
      ->capture_default_str();
  app.add_flag(
      "--debug-sequential", options.debug_sequential,
      "Wait for each call of a run, and print it with its kernel, blocks and memory first");
  app.add_option("--state", options.state, "Directory of the kernel cache");
  app.add_option("--http", options.http,
                 "HOST:PORT of probes and metrics, for anyone who reaches it");
  app.add_option("--pod", options.pod,
                 "Name of this worker's Kubernetes pod: its deletion cost follows what it does");
  app.add_option("--account", options.cluster.account_directory,
                 "Directory of the pod's service account")
      ->capture_default_str();
  app.add_option("--key", key_file, "File with this worker's CURVE keys; created when missing");
  app.add_option("--farm-key", farm_key, "The coordinator's public CURVE key");
  app.add_option("--log", log, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.add_option("--log-format", log_format,
                 "Lines for people (text) or a JSON object each (json); default: text, or what "
                 "LFARM_LOG_FORMAT says")
      ->check(CLI::IsMember({"text", "json"}));
  app.set_version_flag("--version", std::string(common::build_name()));
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return common::cat("lfarm-worker: ", error.what(), "\n");
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    bool fine = error.get_exit_code() == 0;
    int code = app.exit(error);
    return fine ? code : 2;
  }
  common::Status keys = load_keys(key_file, farm_key, options);
  if (!keys.ok()) {
    std::cerr << "lfarm-worker: " << keys.error().message << "\n";
    return 2;
  }
  options.log = common::parse_log_level(log).value_or(common::LogLevel::kInfo);
  options.log_format = common::parse_log_format(log_format);
  if (options.name.empty()) options.name = default_name();
  if (options.state.empty()) options.state = common::default_state_directory() + "/worker";
  if (options.threads == 0) options.threads = common::usable_processors();
  return options;
}

}  // namespace worker
