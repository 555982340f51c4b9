// lfarm up: a whole farm on this machine.
#include <chrono>
#include <cstdio>
#include <thread>

#include "clients/cli/commands.h"
#include "clients/cli/farm_processes.h"
#include "clients/cli/report.h"
#include "clients/cli/signals.h"

namespace clients {

int up(const UpCommand& command) {
  FarmProcessOptions options;
  options.state.path = command.farm.state;
  options.listen = command.listen;
  options.endpoint_file = options.state.endpoint_file();
  options.device = command.farm.device;
  options.workers = command.farm.workers;
  auto farm = FarmProcesses::start(options);
  if (!farm.ok()) {
    // A state directory that is in use is the user's to change, like a port that is.
    fail(farm.error());
    return farm.error().code == common::Code::kUnavailable ? kExitUsage
                                                           : exit_code(farm.error().code);
  }
  std::printf("farm at %s\n", (*farm)->endpoint().c_str());
  std::printf("%d %s, state in %s, logs in %s; Ctrl-C stops it\n", options.workers,
              options.workers == 1 ? "worker" : "workers", options.state.path.c_str(),
              options.state.logs().c_str());
  if (!(*farm)->public_key().empty()) {
    std::printf("public key %s, for --farm-key; clients' keys go into %s\n",
                (*farm)->public_key().c_str(), options.state.allow_file().c_str());
  }
  std::fflush(stdout);
  while (stop_signal() == 0) {
    common::Status status = (*farm)->tend();
    if (!status.ok()) return fail(status.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  (*farm)->stop();
  return kExitDone;
}

}  // namespace clients
