// The coordinator's command line over a scripted search, for tests that kill the process.
#include "coordinator/service/command/command.h"
#include "tests/farm/service/service_script.h"

int main(int argc, char** argv) {
  auto counters = std::make_shared<coordinator::service::ScriptCounters>();
  return coordinator::service::run_coordinator(argc, argv,
                                               coordinator::service::scripted_searches(counters));
}
