#include "coordinator/service/jobs/traces.h"

#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "coordinator/service/observe/timeline.h"
#include "coordinator/service/observe/trace_json.h"
#include "coordinator/service/plans/plan_making.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Result;

// A trace that is another tenant's is none: who asks learns nothing of others' jobs.
Result<std::string> find_trace(cache::Store& store, const common::Principal& who, farm::JobId job) {
  auto timeline = read_timeline(store, job);
  bool is_there = timeline.ok() && who.may_see(timeline->head.tenant);
  if (is_there) {
    const TimelineHead& head = timeline->head;
    return trace_json(*timeline,
                      origins_by_name(store, head.tenant, head.graph, head.target, head.policy));
  }
  if (!timeline.ok() && timeline.error().code != common::Code::kInvalidInput &&
      who.has(common::Role::kAdmin)) {
    return timeline.error();
  }
  return common::invalid_input(cat("there is no trace of job ", job,
                                   ": no such job of yours has begun, or it ended so long "
                                   "ago that its trace was let go"));
}

}  // namespace

void Traces::send(const std::string& peer, const common::Principal& who,
                  const common::AskTrace& request) {
  if (reading_ >= kAtOnce) {
    env_.outbox.send(
        peer, common::JobFailed{request.request_id, request.job_id, common::Code::kUnavailable,
                                "the farm reads other traces now; ask again"});
    return;
  }
  ++reading_;
  // While the disk takes nothing, what it has is the answer.
  if (!env_.store.trouble().empty()) return read(peer, who, request);
  env_.commits.put([](cache::Changes&) {},
                   [this, peer, who, request](const common::Status&) { read(peer, who, request); });
}

void Traces::read(const std::string& peer, const common::Principal& who,
                  const common::AskTrace& request) {
  env_.threads.background.start(
      [this, peer, who, request, &store = env_.store]() -> Background::Done {
        auto found = std::make_shared<Result<std::string>>(find_trace(store, who, request.job_id));
        common::JobTrace answer{request.request_id, {}};
        if (found->ok()) answer.trace = common::digest_of(common::as_bytes(**found));
        return [this, peer, request, answer, found] {
          --reading_;
          if (found->ok()) {
            auto owner = std::make_shared<const std::string>(std::move(*found).value());
            env_.outbox.send(peer, answer, {common::as_bytes(*owner), owner});
          } else {
            env_.outbox.send(peer, common::JobFailed{request.request_id, request.job_id,
                                                     found->error().code, found->error().message});
          }
        };
      });
}

}  // namespace coordinator::service
