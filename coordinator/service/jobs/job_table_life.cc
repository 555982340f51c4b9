// The life of jobs in the table: admitted, journalled, prepared, given their turn, swept away.
#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/shard/shard.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/journal/job_numbers.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/searchers/search_beginning.h"
#include "coordinator/service/searchers/steps_apart.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Result;
using common::Status;

namespace {

constexpr int64_t kRoundMs = 10;
// How often a farm looks whether the one that searches has found the plan or gone.
constexpr int64_t kLooksInATerm = 10;
constexpr int64_t kLookMsMax = 1'000;
constexpr int64_t kUsageMs = 1'000;
// Searches at most, with those whose workers have left, for each that may run.
constexpr size_t kSearchesWithoutWorkers = 4;

Status check_graph(common::ByteView bytes, const Digest& expected) {
  LFARM_ASSIGN_OR_RETURN(common::Graph graph, common::decode_graph(bytes));
  Digest actual = common::graph_hash(graph);
  if (actual == expected) return {};
  return common::invalid_input(cat("the graph's hash is ", actual.short_hex(),
                                   ", not the submitted ", expected.short_hex(),
                                   "; client and farm may be of different versions"));
}

struct Prepared {
  SearchBeginning beginning;
  std::unique_ptr<Seat> seat;  // at a searcher; null: the search is in this process
  std::shared_ptr<SearchSteps> steps;
};

// 0 and "as many as there are slots" are settled here, once for the job. By default, of a budget of
// candidates a fifth at most is proposed before the search has learned something.
int64_t settle_in_flight(const JobRequest& request, size_t slots) {
  constexpr uint64_t kBudgetShare = 5;
  const int64_t smallest = SearchOptions().in_flight;
  uint64_t most = common::kInFlightMax;
  if (request.in_flight == 0) {
    if (request.budget_candidates != 0) {
      most = std::min(most, request.budget_candidates / kBudgetShare);
    }
  } else if (request.in_flight != common::kInFlightAuto) {
    return request.in_flight;
  }
  return std::max(smallest, static_cast<int64_t>(std::min<uint64_t>(slots, most)));
}

}  // namespace

void JobTable::admit(Job& job) {
  farm::JobId id = job.request().id;
  env_.threads.background.start(
      [this, id, request = job.request(), graph = job.graph()]() -> Background::Done {
        Status status = check_graph(graph.bytes, request.key.graph_hash);
        return [this, id, status] {
          Job* job = find(id);
          rounds_.has_news = true;
          if (job == nullptr) return;  // it was cancelled meanwhile
          status.ok() ? journal(*job) : job->fail(status.error());
        };
      });
}

// An id is on the disk with the first job that has it: others may have it again after a restart.
void JobTable::journal(Job& job) {
  farm::JobId id = job.request().id;
  if (ShardJournals* shared = env_.shared.journals()) {
    const JobRequest& request = job.request();
    shared->begin(journal_name(id), common::shard_of(request.tenant, request.key.graph_hash));
  }
  env_.commits.put(
      [request = job.request(), graph = job.graph(), last = last_id_](cache::Changes& changes) {
        journal_job(changes, request, graph.bytes);
        changes.named.push_back({kLastJobRecord, cat(last)});
      },
      [this, id](const Status& written) {
        Job* job = find(id);
        rounds_.has_news = true;
        if (job != nullptr) return written.ok() ? job->admitted() : job->fail(written.error());
        // It was cancelled meanwhile.
        env_.commits.put([id](cache::Changes& changes) { journal_removal(changes, id); },
                         [](const Status&) {});
      });
}

void JobTable::prepare(Job& job) {
  job.begin_preparing();
  farm::JobId id = job.request().id;
  auto prepared = std::make_shared<Prepared>();
  SearchBeginning& beginning = prepared->beginning;
  const std::optional<JobStart>& journalled = job.journalled_start();
  if (journalled) {
    beginning.start = *journalled;
  } else {
    settle_start(job, beginning.start);
  }
  std::string device = device_name(job.request().key.target.name, job.machine());
  beginning.request = job.request();
  beginning.graph = job.graph();
  beginning.measurements = std::make_shared<JobMeasurements>(
      &env_.store, device, job.request().tenant, beginning.start.wall_ns, job.journalled_answers(),
      job.journalled_tuning_records());
  beginning.results = job.take_journalled_results();
  beginning.finish_after = job.journalled_finish();
  beginning.create = env_.options.create_search;
  Threads& threads = env_.threads;
  if (threads.searchers) prepared->seat = threads.searchers->take_seat();
  Background& preparers = prepared->seat ? threads.waits : threads.background;
  preparers.start([this, id, prepared, device, is_new = !journalled.has_value(),
                   &store = env_.store, hub = threads.searchers.get(),
                   &options = env_.options.searchers]() -> Background::Done {
    // Nothing of the job may be touched here.
    SearchBeginning& beginning = prepared->beginning;
    if (is_new) beginning.start.priors = load_priors(store, device);
    Result<std::shared_ptr<SearchSteps>> steps =
        prepared->seat ? StepsApart::begin(*hub, std::move(prepared->seat), beginning, options)
                       : begin_inside(beginning);
    std::optional<Error> error;
    if (steps.ok()) {
      prepared->steps = std::move(steps).value();
    } else {
      error = steps.error();
    }
    return [this, id, prepared, error] {
      Job* job = find(id);
      rounds_.has_news = true;
      if (job == nullptr) return;
      if (error) return job->fail(*error);
      job->start_search(std::move(prepared->steps), prepared->beginning.start);
    };
  });
}

// Of a job that begins now.
void JobTable::settle_start(Job& job, JobStart& start) {
  const JobRequest& request = job.request();
  const std::string& target = request.key.target.name;
  start.wall_ns = env_.stamps.now_ns();
  start.machine = env_.workers.class_for(target, request.machine);
  start.in_flight = settle_in_flight(request, env_.workers.slots(target, start.machine));
  settle(job, start.machine);
  take_incumbent(job, start);
}

// The plan that is there, whose program the search's outcome has to beat.
void JobTable::take_incumbent(const Job& job, JobStart& start) {
  auto made = env_.plans.find_made(job.request().tenant, job.request().key, start.machine);
  if (!made.ok()) return common::log_warning(made.error().message);
  if (!*made) return;
  start.incumbent_plan = (*made)->id;
  start.incumbent = std::move((*made)->recipe.payload);
}

void JobTable::turn(int64_t now_ns) {
  // Hits are many, and a sync for each would cost more than they save.
  if (now_ns - rounds_.usage_ns >= kUsageMs * kNsPerMs) {
    rounds_.usage_ns = now_ns;
    write_usage();
  }
  for (farm::JobId id : searching_) {
    Job& job = *jobs_.at(id);
    job.drive();
    rounds_.has_news = rounds_.has_news || job.phase() == Phase::kEnded;
  }
  // Thousands of jobs may wait; only the few that search are looked at on every turn.
  if (!rounds_.has_news && now_ns - rounds_.looked_ns < kRoundMs * kNsPerMs) return;
  rounds_.has_news = false;
  rounds_.looked_ns = now_ns;
  try_parked(now_ns);
  reverifier_.tick(now_ns);
  renewal_.turn(jobs_.empty());
  grant_wish(now_ns);
  for (auto& [id, job] : jobs_) job->tick(now_ns);
  sweep();
  begin_queued();
}

// The tenant with the fewest searches under way is next, with its most urgent job; then the oldest.
void JobTable::begin_queued() {
  std::map<std::string_view, size_t> searches;
  for (farm::JobId id : searching_) ++searches[jobs_.at(id)->request().tenant];
  // A search whose workers have left takes nobody's turn; when they are back, some more go on at a
  // time.
  size_t running = 0;
  for (farm::JobId id : searching_) running += has_workers(*jobs_.at(id));
  size_t searches_max = env_.threads.searches_max(env_.options.limits.searches_max);
  size_t share = env_.options.limits.tenant_searches_max;
  if (share == 0) share = std::max<size_t>(1, searches_max - 1);
  auto has_its_share = [&](const std::string& tenant) {
    return tenant != common::kLocalTenant && searches[tenant] >= share;
  };
  while (running + rights_.asked < searches_max &&
         searching_.size() < kSearchesWithoutWorkers * searches_max) {
    Job* next = nullptr;
    auto rank = [&](const JobRequest& request) {
      return std::make_tuple(searches[request.tenant], UINT32_MAX - request.priority, request.id);
    };
    for (auto& [id, job] : jobs_) {
      if (job->phase() != Phase::kQueued && job->phase() != Phase::kElsewhere) continue;
      if (has_its_share(job->request().tenant)) continue;
      if (is_held_back(id) || waits_for_winner(*job) || !is_startable(*job)) continue;
      if (next == nullptr || rank(job->request()) < rank(next->request())) next = job.get();
    }
    if (next == nullptr) return;
    if (!may_begin(*next)) continue;
    searching_.insert(next->request().id);
    ++searches[next->request().tenant];
    ++running;
    prepare(*next);
  }
}

bool JobTable::has_workers(const Job& job) const {
  return env_.workers.has(job.request().key.target.name, job.machine());
}

// An earlier compiler's winner is made anew first, unless workers came that are of another class.
bool JobTable::waits_for_winner(const Job& job) const {
  return held_.contains(job.request().id) &&
         (has_workers(job) || !env_.workers.has_target(job.request().key.target.name));
}

// The workers that the class needs are there; other farms may have the plan without any.
bool JobTable::is_startable(const Job& job) const {
  auto right = rights_.by_job.find(job.request().id);
  bool asks_first =
      env_.shared.enabled() && (right == rights_.by_job.end() || !right->second.is_ours);
  return asks_first ||
         (job.journalled_start() ? has_workers(job)
                                 : env_.workers.has_target(job.request().key.target.name));
}

// A job that waited for its workers runs on the class that came.
void JobTable::settle(Job& job, const std::string& machine) {
  const JobRequest& request = job.request();
  job.settle_machine(machine);
  if (machine == request.machine) return;
  if (!request.machine.empty()) wished_.wishes.add({request.tenant, request.key, request.machine});
}

bool JobTable::is_held_back(farm::JobId id) const {
  auto right = rights_.by_job.find(id);
  if (right == rights_.by_job.end()) return false;
  return right->second.is_asked || env_.clock.now_ns() < right->second.again_ns;
}

// Where plans are shared: once it is this farm that is to search.
bool JobTable::may_begin(const Job& job) {
  if (!env_.shared.enabled()) return true;
  farm::JobId id = job.request().id;
  Right& right = rights_.by_job[id];
  if (right.is_ours) return true;
  right.is_asked = true;
  ++rights_.asked;
  env_.shared.claim(
      {job.request().tenant, job.request().key.digest(), job.machine(),
       job.request().key.graph_hash},
      [this, id, place = job.request().place()](Claim claim) { claimed(id, place, claim); });
  return false;
}

void JobTable::claimed(farm::JobId id, const Digest& place, Claim claim) {
  --rights_.asked;
  rounds_.has_news = true;
  Job* job = find(id);
  auto right = rights_.by_job.find(id);
  // It was cancelled meanwhile, maybe before the right came.
  if (job == nullptr || right == rights_.by_job.end()) return env_.shared.release(place);
  right->second.is_asked = false;
  // What is searched on from is found, too.
  bool is_new = job->request().searches_on_from == Digest{};
  if (claim == Claim::kFound && is_new) return job->found_elsewhere();
  right->second.is_ours = claim != Claim::kTheirs;
  if (right->second.is_ours) return;
  job->wait_for_others();
  int64_t pause_ms = std::min(env_.options.shared.claim_ms / kLooksInATerm, kLookMsMax);
  right->second.again_ns = env_.clock.now_ns() + pause_ms * kNsPerMs;
}

void JobTable::sweep() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    if (it->second->phase() != Phase::kEnded) {
      ++it;
      continue;
    }
    history_.keep(*it->second);
    wish_job_ended(*it->second);
    searching_.erase(it->first);
    // Also where it never came: it may be on its way.
    if (rights_.by_job.erase(it->first) != 0) env_.shared.release(it->second->request().place());
    held_.erase(it->first);
    env_.shared.end_journal(journal_name(it->first));
    const JobRequest& request = it->second->request();
    auto [from, to] = by_plan_.equal_range(common::place_of(request.tenant, request.key.digest()));
    by_plan_.erase(std::find_if(from, to, [&](const auto& e) { return e.second == it->first; }));
    it = jobs_.erase(it);
  }
}

void JobTable::interrupt(const Error& error) {
  write_usage();
  write_wishes();
  for (auto& [id, job] : jobs_) job->interrupt(error);
  for (const Parked& one : parked_) refuse(one.peer, one.request, error);
  parked_.clear();
  for (const auto& [place, waiting] : asking_) {
    for (const Parked& one : waiting) refuse(one.peer, one.request, error);
  }
  asking_.clear();
}

}  // namespace coordinator::service
