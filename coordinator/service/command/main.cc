// lfarm-coordinator: the command line (command.h) over the service (service.h), with the real
// search; `print` shows a search's stages, `replay` a finished one, `work` what a plan computes and
// `migrate` moves a farm's plans and jobs to another store, instead of serving.
#include <string_view>

#include "coordinator/search/job_search.h"
#include "coordinator/search/passes/passes.h"
#include "coordinator/service/command/command.h"
#include "coordinator/service/inspect/plan_work.h"
#include "coordinator/service/inspect/replay.h"
#include "coordinator/service/migration/migrate_command.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "print") return coordinator::run_print(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "replay") {
    return coordinator::service::run_replay(argc, argv, coordinator::JobSearch::create);
  }
  if (argc > 1 && std::string_view(argv[1]) == "work") {
    return coordinator::service::run_work(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == "migrate") {
    return coordinator::service::run_migrate(argc, argv);
  }
  return coordinator::service::run_coordinator(argc, argv, coordinator::JobSearch::create);
}
