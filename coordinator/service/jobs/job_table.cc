#include "coordinator/service/jobs/job_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/plan/policy.h"
#include "coordinator/service/journal/job_numbers.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Result;
using common::Status;

// ---- Restart -----------------------------------------------------------------------------------

Status JobTable::resume() {
  LFARM_ASSIGN_OR_RETURN(JournalListing journals, read_numbers());
  LFARM_ASSIGN_OR_RETURN(TimelineSegments timelines, list_timelines(env_.store));
  for (farm::JobId id : journals.open) {
    auto journal = read_journal(env_.store, id);
    if (!journal.ok() || !is_current(*journal)) {
      common::log_warning(cat("a job's journal is removed: ",
                              journal.ok() ? "its plan is there or it is of an earlier compiler"
                                           : journal.error().message),
                          {{"job", id}});
      LFARM_RETURN_IF_ERROR(remove_journal(env_.store, id));
      continue;
    }
    go_on(std::move(*journal), timelines[id]);
  }
  return load_history(std::move(timelines));
}

Status JobTable::begin_without_journals() {
  LFARM_ASSIGN_OR_RETURN(JournalListing journals, read_numbers());
  for (farm::JobId id : journals.open) LFARM_RETURN_IF_ERROR(remove_journal(env_.store, id));
  LFARM_ASSIGN_OR_RETURN(TimelineSegments timelines, list_timelines(env_.store));
  return load_history(std::move(timelines));
}

// Numbers of jobs go on behind those that are journalled.
Result<JournalListing> JobTable::read_numbers() {
  LFARM_ASSIGN_OR_RETURN(std::optional<std::string> last, env_.store.get_named(kLastJobRecord));
  if (last) std::from_chars(last->data(), last->data() + last->size(), last_id_);
  LFARM_ASSIGN_OR_RETURN(JournalListing journals, list_journals(env_.store));
  for (farm::JobId closed : journals.closed) last_id_ = std::max(last_id_, closed);
  for (farm::JobId open : journals.open) last_id_ = std::max(last_id_, open);
  return journals;
}

bool JobTable::is_current(const JournalledJob& journal) const {
  const JobRequest& request = journal.request;
  if (request.key.epoch != env_.options.epoch) return false;
  auto plan = env_.plans.find(request.tenant, request.key.digest(),
                              journal.start ? journal.start->machine : request.machine,
                              cache::Lookup::kInspect);
  return !plan.ok() || !plan->has_value() || goes_on(journal, **plan);
}

void JobTable::go_on(JournalledJob journal, const std::vector<uint64_t>& timeline) {
  farm::JobId id = journal.request.id;
  common::log_info(cat("a job goes on with ", journal.results.size(), " known results"),
                   {{"job", id}, {"tenant", journal.request.tenant}});
  by_plan_.emplace(common::place_of(journal.request.tenant, journal.request.key.digest()), id);
  if (journal.start) env_.stamps.go_on_from(journal.start->wall_ns);
  auto job = std::make_unique<Job>(env_, journal.request);
  job->resume(std::move(journal), timeline);
  jobs_.emplace(id, std::move(job));
}

Status JobTable::load_history(TimelineSegments timelines) {
  LFARM_ASSIGN_OR_RETURN(std::optional<std::string> wishes, env_.store.get_named(Wishes::kRecord));
  if (wishes) wished_.wishes.read(*wishes);
  std::set<farm::JobId> open;
  for (const auto& [id, job] : jobs_) open.insert(id);
  return history_.load(std::move(timelines), open);
}

// Whether the plan that is there is none that the job has come to.
bool JobTable::goes_on(const JournalledJob& journal, const ReadyPlan& plan) {
  if (plan.standing == common::Standing::kInterim) return true;
  return plan.plan == journal.request.searches_on_from ||
         (journal.start && plan.plan == journal.start->incumbent_plan);
}

// ---- Submits -----------------------------------------------------------------------------------

void JobTable::submit(const std::string& peer, const common::Principal& who,
                      const common::Submit& request, common::SharedBytes graph) {
  take(peer, who, request, std::move(graph), !env_.shared.enabled());
}

void JobTable::take(const std::string& peer, const common::Principal& who,
                    const common::Submit& request, common::SharedBytes graph, bool asked) {
  const std::string& tenant = who.tenant;
  auto resolved = env_.workers.resolve_target(request.target);
  if (!resolved.ok()) return refuse(peer, request, resolved.error());
  const std::string& target = *resolved;
  auto policy = common::parse_plan_policy(request.policy);
  if (!policy.ok()) return refuse(peer, request, policy.error());
  common::PlanKey key{request.graph_hash, {target}, policy->text(), env_.options.epoch};
  Digest key_digest = key.digest();
  // Of what class a plan is wanted, and on which it would be searched for now.
  const std::string wanted =
      request.machine.empty() ? env_.workers.class_for(target, "") : request.machine;
  std::string machine = env_.workers.class_for(target, wanted);
  bool may_be_old = !asked && !target.empty() && env_.shared.may_be_old(tenant, request.graph_hash);
  if (may_be_old && ask_elsewhere(key_digest, wanted, peer, who, request, graph)) return;
  auto answered = answer_from_cache(peer, tenant, request, target.empty() ? nullptr : &key, wanted);
  if (!answered.ok()) return refuse(peer, request, answered.error());
  if (*answered) return env_.monitored.meters.plan_asked(tenant, "hit");
  if (target.empty()) return park(peer, who, request, std::move(graph));

  Job* job = job_for(tenant, key, machine);
  bool joined = job != nullptr;
  if (joined) machine = class_of(*job);
  if (joined && !is_enough(*job, request)) {
    return park(peer, who, request, std::move(graph), job->request().id);
  }
  if (!joined && !asked && ask_elsewhere(key_digest, wanted, peer, who, request, graph)) return;
  // Where there is a plan of the class, though of too small a search, another class's is no help.
  auto own = env_.plans.find(tenant, key_digest, wanted, cache::Lookup::kInspect);
  if (!own.ok()) return refuse(peer, request, own.error());
  answered = false;
  if (!*own) answered = answer_with_neighbour(peer, who, request, key, wanted, graph);
  if (!answered.ok()) return refuse(peer, request, answered.error());
  if (*answered) return env_.monitored.meters.plan_asked(tenant, "neighbour");
  if (machine != wanted && !wanted.empty()) wished_.wishes.add({tenant, key, wanted});
  if (!joined) {
    // What it learns could not be kept, and those who wait already go on first.
    if (std::string trouble = env_.store.trouble(); !trouble.empty()) {
      return refuse(peer, request, no_room(cat("the farm takes no new jobs: ", trouble)));
    }
    std::string spent = env_.tenants.exhausted(tenant, common::wall_clock_ns());
    if (!spent.empty()) return refuse(peer, request, common::unavailable(spent));
    auto made = make(who, request, std::move(key), machine);
    if (!made.ok()) return refuse(peer, request, made.error());
    job = *made;
    if (job->request().searches_on_from == Digest{}) begin_anew(*job);
  }
  if (job->subscribers().size() >= env_.options.limits.subscribers_max) {
    return refuse(peer, request,
                  no_room(cat(job->subscribers().size(), " requests wait for job ",
                              job->request().id, " already")));
  }
  common::log_info(
      "a request waits for a job",
      {{"request_id", request.request_id}, {"job", job->request().id}, {"tenant", tenant}});
  job->subscribe({peer, request.request_id, joined, who.key_id, request.machine});
  if (job->phase() != Phase::kAwaitingGraph) return;
  // Another client's encoding of the same graph will do, but its digest must be the one asked for.
  if (graph && request.graph == job->request().graph) {
    job->give_graph(std::move(graph));
    if (job->phase() == Phase::kAdmitting) admit(*job);
    return;
  }
  env_.outbox.send(peer, common::BlobRequest{job->request().graph});
}

// True when a PlanReady was sent. Without a key, a plan for any target that the request means.
Result<bool> JobTable::answer_from_cache(const std::string& peer, const std::string& tenant,
                                         const common::Submit& request, const common::PlanKey* key,
                                         const std::string& machine) {
  // A plan that is on its way to the engine might end with this coordinator: who asks joins the
  // job.
  if (key != nullptr && env_.shared.keeper() != nullptr) {
    Job* job = job_for(tenant, *key, machine);
    if (job != nullptr && job->phase() == Phase::kStoring) return false;
  }
  std::string policy =
      request.policy.empty() ? std::string(common::kDefaultPolicy) : request.policy;
  LFARM_ASSIGN_OR_RETURN(std::optional<ReadyPlan> ready,
                         key != nullptr
                             ? env_.plans.find(tenant, key->digest(), machine)
                             : env_.plans.find_any_target(tenant, request.graph_hash, policy,
                                                          env_.options.epoch, request.target));
  if (!ready) return false;
  LFARM_ASSIGN_OR_RETURN(bool covers_it, covers_submit(tenant, *ready, request));
  if (!covers_it) return false;
  common::log_debug(
      "a request is answered from the cache",
      {{"request_id", request.request_id}, {"tenant", tenant}, {"plan", ready->plan.hex()}});
  env_.outbox.send(peer, ready->message(request.request_id), ready->bytes);
  return true;
}

// Whether a plan is an answer: one whose search has ended, and was given as much. A request without
// any budget takes what there is.
Result<bool> JobTable::covers_submit(const std::string& tenant, const ReadyPlan& plan,
                                     const common::Submit& request) {
  if (request.force || plan.standing == common::Standing::kInterim) return false;
  Effort asked{request.budget_candidates, request.budget_ms, request.seed};
  bool has_budget = asked.candidates != 0 || asked.ms != 0;
  if (request.only_reverify || !has_budget || covers(plan.effort, asked)) return true;
  return has_covering_effort(env_.store, common::place_of(tenant, plan.key, plan.machine), asked);
}

// Whether the job's plan will be an answer.
bool JobTable::is_enough(const Job& job, const common::Submit& request) {
  const JobRequest& its = job.request();
  bool has_budget = request.budget_candidates != 0 || request.budget_ms != 0;
  if (request.only_reverify || !has_budget) return true;
  return covers({its.budget_candidates, its.budget_ms, its.seed},
                {request.budget_candidates, request.budget_ms, request.seed});
}

// False when there is no room to wait for the answer.
bool JobTable::ask_elsewhere(const Digest& key, const std::string& machine, const std::string& peer,
                             const common::Principal& who, const common::Submit& request,
                             const common::SharedBytes& graph) {
  Digest place = common::place_of(who.tenant, key, machine);
  if (asking_.size() >= env_.options.limits.jobs_max) return false;
  std::vector<Parked>& waiting = asking_[place];
  std::optional<HeldBlob> held = graph ? env_.blobs.hold(graph) : std::nullopt;
  if ((graph && !held) || waiting.size() >= env_.options.limits.subscribers_max) {
    if (waiting.empty()) asking_.erase(place);
    return false;
  }
  waiting.push_back({peer, who, request, std::move(held), 0, 0});
  if (waiting.size() > 1) return true;
  env_.shared.fetch({who.tenant, key, machine, request.graph_hash},
                    [this, place](bool) { elsewhere_answered(place); });
  return true;
}

void JobTable::elsewhere_answered(const Digest& place) {
  auto found = asking_.find(place);
  if (found == asking_.end()) return;
  std::vector<Parked> waiting = std::move(found->second);
  asking_.erase(found);
  for (Parked& one : waiting) {
    take(one.peer, one.who, one.request,
         one.graph ? env_.blobs.find(one.graph->digest()) : common::SharedBytes{}, true);
  }
}

void JobTable::park(const std::string& peer, const common::Principal& who,
                    const common::Submit& request, common::SharedBytes graph, farm::JobId behind) {
  if (parked_.size() >= env_.options.limits.jobs_max) {
    return refuse(peer, request,
                  no_room(cat(parked_.size(),
                              " submits wait for a worker or for an earlier job's "
                              "end already; start a worker")));
  }
  std::optional<HeldBlob> held;
  if (graph) {
    held = env_.blobs.hold(std::move(graph));
    if (!held) return refuse(peer, request, no_room("the farm holds too many graphs"));
  }
  int64_t deadline_ns =
      env_.clock.now_ns() + env_.options.worker_wait_ms(request.max_wait_ms) * kNsPerMs;
  parked_.push_back({peer, who, request, std::move(held), deadline_ns, behind});
}

void JobTable::try_parked(int64_t now_ns) {
  if (parked_.empty()) return;
  std::vector<Parked> parked;
  parked.swap(parked_);
  for (Parked& one : parked) {
    if (one.behind != 0 && find(one.behind) != nullptr) {
      parked_.push_back(std::move(one));
      continue;
    }
    auto target = env_.workers.resolve_target(one.request.target);
    if (!target.ok() || !target->empty()) {
      submit(one.peer, one.who, one.request,
             one.graph ? env_.blobs.find(one.graph->digest()) : common::SharedBytes{});
    } else if (now_ns >= one.deadline_ns) {
      int64_t waited_ms = env_.options.worker_wait_ms(one.request.max_wait_ms);
      refuse(one.peer, one.request,
             common::unavailable(no_worker_text(env_.workers, one.request.target, waited_ms)));
    } else {
      parked_.push_back(std::move(one));
    }
  }
}

void JobTable::refuse(const std::string& peer, const common::Submit& request, const Error& error) {
  common::log_info(cat("a request is refused: ", error.message),
                   {{"request_id", request.request_id}});
  env_.outbox.send(peer, common::JobFailed{request.request_id, 0, error.code, error.message});
}

Error JobTable::no_room(const std::string& what) const {
  return common::unavailable(cat(what, "; submit again in ", env_.options.try_again_s(), " s"));
}

// Refuses a tenant that has its share of jobs or of graph bytes. Without keys all clients are one
// tenant, which has no share.
Status JobTable::check_share(const std::string& tenant) const {
  if (tenant == common::kLocalTenant) return {};
  size_t jobs = 0, bytes = 0;
  for (const auto& [id, job] : jobs_) {
    if (job->request().tenant != tenant) continue;
    ++jobs;
    bytes += job->graph().bytes.size();
  }
  if (jobs >= env_.options.limits.tenant_jobs_max) {
    return no_room(
        cat("tenant ", tenant, " has ", jobs, " jobs, its share of what the farm takes"));
  }
  if (bytes >= env_.options.limits.tenant_graph_bytes_max) {
    return no_room(cat("the graphs of tenant ", tenant, " take ", bytes >> 20,
                       " MiB, its share of what the farm holds"));
  }
  return {};
}

Result<Job*> JobTable::make(const common::Principal& who, const common::Submit& request,
                            common::PlanKey key, const std::string& machine) {
  if (jobs_.size() >= env_.options.limits.jobs_max) {
    return no_room(cat("the farm has ", jobs_.size(), " jobs, and takes no more"));
  }
  LFARM_RETURN_IF_ERROR(check_share(who.tenant));
  JobRequest job;
  job.id = next_id(who.tenant, key.graph_hash);
  job.key = std::move(key);
  job.graph = request.graph;
  job.tenant = who.tenant;
  job.submitter = who.key_id;
  job.only_reverify = request.only_reverify;
  job.name = request.name;
  job.machine = machine;
  job.budget_candidates = request.budget_candidates;
  job.budget_ms = request.budget_ms;
  if (job.budget_candidates == 0 && job.budget_ms == 0) {
    job.budget_candidates = static_cast<uint64_t>(env_.options.limits.budget_candidates);
  }
  job.seed = request.seed;
  job.max_wait_ms = request.max_wait_ms;
  job.in_flight = request.in_flight;
  job.priority = request.priority;
  auto kept = env_.plans.find(who.tenant, job.key.digest(), machine, cache::Lookup::kInspect);
  if (kept.ok() && *kept && (*kept)->standing != common::Standing::kInterim) {
    job.searches_on_from = (*kept)->plan;
  }
  common::log_info("a job begins", {{"job", job.id},
                                    {"tenant", who.tenant},
                                    {"graph", job.key.graph_hash.hex()},
                                    {"target", job.key.target.name}});
  farm::JobId id = job.id;
  by_plan_.emplace(common::place_of(job.tenant, job.key.digest()), id);
  return jobs_.emplace(id, std::make_unique<Job>(env_, std::move(job))).first->second.get();
}

// ---- Other compilers' plans --------------------------------------------------------------------

// What the tenant has of another compiler is made anew beside the search, and answers first.
void JobTable::begin_anew(const Job& job) {
  const JobRequest& request = job.request();
  auto earlier = env_.plans.find_earlier(request.tenant, request.key, request.machine);
  if (!earlier.ok()) {
    common::log_warning(cat("earlier plans cannot be read: ", earlier.error().message));
    return;
  }
  if (!*earlier) return;
  bool begun = reverifier_.start(
      next_id(request.tenant, request.key.graph_hash), request.tenant, std::move(**earlier),
      common::kPriorityMax,
      [this, id = request.id, key = request.key.digest(),
       machine = request.machine](const Status& status) { made_anew(id, key, machine, status); });
  if (begun && request.only_reverify) held_.insert(request.id);
}

void JobTable::made_anew(farm::JobId id, const Digest& key, const std::string& machine,
                         const Status& status) {
  held_.erase(id);
  rounds_.has_news = true;
  Job* job = find(id);
  if (!status.ok() || job == nullptr) return;
  auto ready = env_.plans.find(job->request().tenant, key, machine, cache::Lookup::kInspect);
  if (!ready.ok() || !ready->has_value()) return;
  bool is_last = job->request().only_reverify;
  job->serve(**ready, is_last ? "made anew from an earlier compiler's winner"
                              : "made anew from an earlier compiler's winner; the search goes on");
  if (is_last) job->close();
}

// Every plan is read, in the background.
void JobTable::reverify(const common::Principal& who, Reverified done) {
  std::string tenant = who.has(common::Role::kAdmin) ? "" : who.tenant;
  env_.threads.background.start([this, tenant, is_stale = stale_check(env_.workers),
                                 epoch = env_.options.epoch, &plans = env_.plans,
                                 done = std::move(done)]() -> Background::Done {
    auto earlier = plans.all_earlier(tenant, epoch, is_stale);
    return [this, earlier = std::move(earlier), done]() mutable {
      if (!earlier.ok()) return done(earlier.error());
      done(make_anew(std::move(*earlier)));
    };
  });
}

std::vector<Digest> JobTable::make_anew(std::vector<std::pair<std::string, EarlierPlan>>&& plans) {
  std::vector<Digest> begun;
  for (auto& [owner, plan] : plans) {
    Digest id = plan.id;
    if (!env_.tenants.exhausted(owner, common::wall_clock_ns()).empty()) continue;
    // A plan of before machine classes is made anew for whichever there is.
    if (plan.machine.empty()) {
      plan.machine = env_.workers.class_for(plan.key.target.name, "");
      auto there = env_.plans.find(owner, plan.key.digest(), plan.machine, cache::Lookup::kInspect);
      if (!plan.machine.empty() && there.ok() && there->has_value()) continue;
    }
    bool is_under_way = reverifier_.works_on(owner, plan);
    if (!is_under_way) {
      farm::JobId job = next_id(owner, plan.key.graph_hash);
      is_under_way = reverifier_.start(job, owner, std::move(plan), common::kPriorityMax,
                                       [](const Status&) {});
    }
    if (is_under_way) begun.push_back(id);
  }
  return begun;
}

void JobTable::cancel(const std::string& peer, const common::Principal& who, farm::JobId id) {
  Job* job = find(id);
  if (job == nullptr) {
    return env_.outbox.refuse(peer, common::Code::kInvalidInput,
                              cat("cannot cancel job ", id, ": no such job is running"));
  }
  Error cancelled = common::unavailable(cat("job ", id, " was cancelled; submit it again"));
  bool waits = job->has_subscriber(peer);
  if (!who.may_see(job->request().tenant)) {
    return env_.outbox.refuse(
        peer, common::Code::kInvalidInput,
        cat("cannot cancel job ", id, ": it is another tenant's; its administrator can"));
  }
  env_.outbox.send(peer, common::JobCancelled{id});
  if (!waits) {
    env_.outbox.send(peer, common::JobFailed{0, id, cancelled.code, cancelled.message});
    return job->cancel(cancelled);
  }
  std::vector<Subscriber> all = job->subscribers();
  bool alone =
      std::all_of(all.begin(), all.end(), [&](const Subscriber& one) { return one.peer == peer; });
  if (alone) return job->cancel(cancelled);
  job->unsubscribe(peer);
  for (const Subscriber& one : all) {
    if (one.peer != peer) continue;
    env_.outbox.send(peer,
                     common::JobFailed{one.request_id, id, cancelled.code, cancelled.message});
  }
}

void JobTable::send_trace(const std::string& peer, const common::Principal& who,
                          const common::AskTrace& request) {
  if (Job* job = find(request.job_id)) job->write_timeline();
  traces_.send(peer, who, request);
}

// Who has gone is no peer any more, so that keys are looked at and not connections.
void JobTable::keep_only(const std::set<std::string>& key_ids) {
  auto is_gone = [&](const Parked& one) { return !key_ids.contains(one.who.key_id); };
  std::erase_if(parked_, is_gone);
  for (auto& [place, waiting] : asking_) std::erase_if(waiting, is_gone);
  for (auto& [id, job] : jobs_) {
    const JobRequest& request = job->request();
    job->unsubscribe_others(key_ids);
    // Without one: of a time without keys.
    bool is_orphan = !request.submitter.empty() && !key_ids.contains(request.submitter);
    if (!is_orphan || !job->subscribers().empty() || job->phase() == Phase::kEnded) continue;
    common::log_warning("a job ends: the key that submitted it was revoked",
                        {{"job", id}, {"tenant", request.tenant}});
    job->fail(common::unavailable("the key that submitted it was revoked"));
  }
  rounds_.has_news = true;
}

// ---- Blobs and results on their way to a job ---------------------------------------------------

void JobTable::graph_arrived(const Digest& digest, const common::SharedBytes& bytes) {
  for (auto& [id, job] : jobs_) {
    if (job->phase() != Phase::kAwaitingGraph || job->request().graph != digest) continue;
    job->give_graph(bytes);
    if (job->phase() == Phase::kAdmitting) admit(*job);
  }
}

void JobTable::graph_missing(const std::string& peer, const Digest& digest) {
  for (auto& [id, job] : jobs_) {
    if (job->phase() != Phase::kAwaitingGraph || job->request().graph != digest) continue;
    if (!job->has_subscriber(peer)) continue;
    job->fail(common::invalid_input("the client does not have the graph that it submitted"));
  }
}

void JobTable::object_arrived(const Digest& digest, const common::SharedBytes& bytes) {
  bool is_wanted = reverifier_.wants_object(digest) ||
                   std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
                     return entry.second->wants_object(digest);
                   });
  if (!is_wanted) return;
  env_.threads.steps.start([this, digest, bytes, &store = env_.store]() -> Background::Done {
    auto kept = store.put_blob(common::as_text(bytes.bytes));
    Status status = kept.ok() ? Status() : Status(kept.error());
    return [this, digest, status] {
      for (auto& [id, job] : jobs_) {
        if (job->wants_object(digest)) job->object_arrived(digest, status);
      }
      reverifier_.object_arrived(digest, status);
    };
  });
}

void JobTable::object_missing(const std::string& worker, const Digest& digest) {
  for (auto& [id, job] : jobs_) job->object_missing(worker, digest);
  reverifier_.object_missing(worker, digest);
}

void JobTable::task_done(TaskDone done) {
  Job* job = find(done.job);
  std::string tenant = job != nullptr ? job->request().tenant : reverifier_.task_done(done);
  if (!tenant.empty()) charge(tenant, done.worker_ns);
  if (job != nullptr) job->task_done(std::move(done));
}

// On its way to the disk before what the result is good for.
void JobTable::charge(const std::string& tenant, int64_t worker_ns) {
  env_.tenants.charge(tenant, static_cast<uint64_t>(worker_ns / kNsPerMs), common::wall_clock_ns());
  write_usage();
}

void JobTable::write_usage() {
  auto records =
      std::make_shared<const std::vector<cache::Changes::Named>>(env_.tenants.take_changes());
  if (records->empty()) return;
  rounds_.usage_ns = env_.clock.now_ns();
  env_.commits.put(
      [records](cache::Changes& changes) {
        changes.named.insert(changes.named.end(), records->begin(), records->end());
      },
      [](const Status&) {});
}

void JobTable::job_stopped(farm::JobId id, uint32_t given_up) {
  reverifier_.job_stopped(id);
  Job* job = find(id);
  if (job == nullptr) return;
  job->fail(common::unavailable(cat("its last ", given_up,
                                    " candidates were given up after failures of workers alone; "
                                    "see the workers' logs, then submit it again")));
}

std::vector<const Job*> JobTable::jobs() const {
  std::vector<const Job*> all;
  for (const auto& [id, job] : jobs_) all.push_back(job.get());
  return all;
}

const Job* JobTable::job(farm::JobId id) const {
  auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

std::vector<farm::Appetite> JobTable::appetites() const {
  const int64_t at_first = SearchOptions().in_flight;
  auto usual = [&](uint32_t in_flight) {
    return in_flight == 0 || in_flight == common::kInFlightAuto ? at_first : in_flight;
  };
  std::vector<farm::Appetite> all;
  for (const auto& [id, job] : jobs_) {
    const JobRequest& request = job->request();
    int64_t tasks = usual(request.in_flight);
    // A job whose plan another farm looks for wants no workers here.
    if (job->phase() == Phase::kEnded || job->phase() == Phase::kElsewhere) continue;
    // What it has measured stays with the worker until the plan's objects are fetched.
    if (job->phase() >= Phase::kFetching) tasks = 1;
    if (job->phase() == Phase::kSearching) {
      tasks = std::max<int64_t>(1, static_cast<int64_t>(env_.dispatcher.open_tasks(id)));
    }
    all.push_back({request.key.target.name, tasks});
  }
  for (const Parked& parked : parked_) {
    const std::string& wanted = parked.request.target;
    all.push_back({wanted.empty() ? "cpu" : wanted, usual(parked.request.in_flight)});
  }
  return all;
}

}  // namespace coordinator::service
