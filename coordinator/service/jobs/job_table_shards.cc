// Jobs of shards: left to the coordinator that takes a shard over, and taken from the one before.
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/shard/shard.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/journal/job_numbers.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Status;

void JobTable::take_over(const common::Fence& fence, std::vector<ShardJournal> journals,
                         std::function<void()> done) {
  if (journals.empty()) return done();
  auto left = std::make_shared<std::vector<LeftJob>>();
  for (ShardJournal& journal : journals) left->push_back({std::move(journal)});
  env_.threads.background.start([this, fence, left, done = std::move(done)]() -> Background::Done {
    for (LeftJob& job : *left) job.journal = parse_journal_as(0, job.there.records);
    return [this, fence, left, done] {
      if (env_.shared.keeper()->holds(fence.shard) != fence) return;  // whoever has it reads them
      for (LeftJob& job : *left) take_over(fence.shard, std::move(job));
      done();
    };
  });
}

void JobTable::take_over(uint32_t shard, LeftJob left) {
  const ShardJournal& there = left.there;
  common::Result<JournalledJob>& journal = left.journal;
  farm::JobId id = common::job_number_after(last_id_, shard);
  if (journal.ok()) journal->request.id = id;
  bool is_whole = journal.ok() && is_current(*journal);
  // Two journals of one job, where the removal of one was cut short.
  if (!is_whole || has_job(journal->request)) {
    common::log_info(cat("nobody goes on with a job of shard ", shard, ": ",
                         journal.ok() ? "its plan is there or it is of an earlier compiler"
                                      : journal.error().message));
    return env_.shared.remove_journal(shard, there);
  }
  last_id_ = id;
  env_.shared.journals()->go_on(journal_name(id), shard, there);
  auto records =
      std::make_shared<const std::vector<cache::JobRecord>>(std::move(left.there.records));
  env_.commits.put(
      [request = journal->request, records, id](cache::Changes& changes) {
        journal_copy(changes, request, *records);
        changes.named.push_back({kLastJobRecord, cat(id)});
      },
      [id](const Status& written) {
        if (written.ok()) return;
        common::log_warning(cat("a job's journal is incomplete: ", written.error().message),
                            {{"job", id}});
      });
  go_on(std::move(*journal), {});
  rounds_.has_news = true;
}

// Where several coordinators serve, a job's number says its shard, and with it whom to ask.
farm::JobId JobTable::next_id(const std::string& tenant, const Digest& graph_hash) {
  uint32_t shard = common::shard_of(tenant, graph_hash);
  last_id_ =
      env_.shared.keeper() == nullptr ? last_id_ + 1 : common::job_number_after(last_id_, shard);
  return last_id_;
}

// What is on its way to the disk goes to the engine, too.
void JobTable::leave_journal(farm::JobId id) {
  ShardJournals* shared = env_.shared.journals();
  if (shared == nullptr) return;
  shared->leave(journal_name(id));
  env_.commits.put([](cache::Changes&) {},
                   [shared, id](const Status&) { shared->left(journal_name(id)); });
}

void JobTable::end_shards(const std::function<bool(uint32_t shard)>& ends, const Error& error,
                          uint32_t again_ms) {
  auto is_there = [&](const std::string& tenant, const Digest& graph_hash) {
    return ends(common::shard_of(tenant, graph_hash));
  };
  for (auto& [id, job] : jobs_) {
    const JobRequest& request = job->request();
    if (!is_there(request.tenant, request.key.graph_hash)) continue;
    if (job->phase() == Phase::kEnded) continue;
    leave_journal(id);
    job->hand_over(error, again_ms);
  }
  auto send_away = [&](std::vector<Parked>& waiting) {
    std::erase_if(waiting, [&](const Parked& one) {
      if (!is_there(one.who.tenant, one.request.graph_hash)) return false;
      env_.outbox.send(one.peer, common::JobFailed{one.request.request_id, 0, error.code,
                                                   error.message, "", "", again_ms});
      return true;
    });
  };
  send_away(parked_);
  for (auto& [place, waiting] : asking_) send_away(waiting);
  rounds_.has_news = true;
}

}  // namespace coordinator::service
