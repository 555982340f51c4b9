// lfarm-coordinator: the command line (command.h) over the service (service.h), with the real
// search; `print` shows a search's stages instead of serving.
#include <string_view>

#include "coordinator/search/inspect.h"
#include "coordinator/search/job_search.h"
#include "coordinator/service/command.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "print") return coordinator::run_print(argc, argv);
  return coordinator::service::run_coordinator(argc, argv, coordinator::JobSearch::create);
}
