// lfarm-coordinator: the command line (command.h) over the service (service.h), with the real
// search.
#include "coordinator/search/job_search.h"
#include "coordinator/service/command.h"

int main(int argc, char** argv) {
  return coordinator::service::run_coordinator(argc, argv, coordinator::JobSearch::create);
}
