#include "coordinator/service/job/job_scope.h"

#include <utility>

#include "common/base/cat.h"

namespace coordinator::service {

JobScope::JobScope(Environment& environment, JobRequest what)
    : env(environment),
      request(std::move(what)),
      machine(request.machine),
      started_ns(env.clock.now_ns()),
      record({request.id, request.tenant, request.key.graph_hash.hex(), request.key.target.name,
              request.key.policy, 0},
             env.options.kept.trace_rows_max, started_ns),
      notes(env.commits, request.id) {}

common::Error JobScope::too_many_graphs() const {
  return common::unavailable(common::cat("the farm holds too many graphs; submit it again in ",
                                         env.options.try_again_s(), " s"));
}

}  // namespace coordinator::service
