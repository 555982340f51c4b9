#include "coordinator/service/monitoring.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/base/cat.h"
#include "coordinator/farm/demand.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {
namespace {

using Json = nlohmann::ordered_json;
using common::cat;
using common::GaugeFamily;
using common::MetricLabels;

using Samples = std::vector<std::pair<MetricLabels, double>>;

std::vector<farm::Demand> demands_of(const StatusSources& sources) {
  std::vector<farm::Supply> supplies;
  for (const WorkerSession* session : sources.environment.workers.sessions()) {
    supplies.push_back({session->target, 1, session->slots_offered});
  }
  auto demands = farm::demands(sources.jobs.appetites(), supplies);
  std::map<std::string, int64_t> waiting;
  for (const auto& [target, tasks] : sources.environment.dispatcher.scheduler().tasks_waiting()) {
    waiting[target_of_device(target)] += static_cast<int64_t>(tasks);
  }
  for (farm::Demand& demand : demands) demand.tasks_waiting = waiting[demand.target];
  return demands;
}

GaugeFamily gauge(const std::string& name, const std::string& help, double value) {
  return {name, help, {{{}, value}}};
}

template <class Count>
GaugeFamily by_label(const std::string& name, const std::string& help, const char* label,
                     const std::map<std::string, Count>& values) {
  Samples samples;
  for (const auto& [text, value] : values) {
    samples.push_back({{{label, text}}, static_cast<double>(value)});
  }
  return {name, help, std::move(samples)};
}

void add_workers(const StatusSources& sources, std::vector<GaugeFamily>& out) {
  std::map<std::string, int64_t> workers, slots, leases;
  int64_t suspended = 0;
  for (auto& view : sources.environment.dispatcher.scheduler().workers()) {
    suspended += view.suspended ? 1 : 0;
    leases[target_of_device(view.target)] += static_cast<int64_t>(view.leases);
  }
  for (const WorkerSession* session : sources.environment.workers.sessions()) {
    ++workers[session->target];
    slots[session->target] += session->slots_offered;
  }
  out.push_back(by_label("lfarm_workers", "Connected workers", "target", workers));
  out.push_back(by_label("lfarm_worker_slots", "Tasks that workers take at once", "target", slots));
  out.push_back(by_label("lfarm_leases", "Tasks that workers hold", "target", leases));
  std::map<std::string, double> silence;
  int64_t now_ns = sources.environment.clock.now_ns();
  for (auto& view : sources.environment.dispatcher.scheduler().workers()) {
    double silent_s = static_cast<double>(now_ns - view.last_seen_ns) * 1e-9;
    double& longest = silence[target_of_device(view.target)];
    longest = std::max(longest, silent_s);
  }
  out.push_back(by_label("lfarm_worker_silence_seconds",
                         "Longest time since a connected worker was heard of", "target", silence));
  out.push_back(gauge("lfarm_workers_suspended", "Workers that get no work since they keep failing",
                      static_cast<double>(suspended)));
}

void add_demand(const StatusSources& sources, std::vector<GaugeFamily>& out) {
  std::map<std::string, int64_t> depth, wanted, waiting;
  for (const farm::Demand& demand : demands_of(sources)) {
    depth[demand.target] = demand.queue_depth;
    wanted[demand.target] = demand.wanted_workers;
    waiting[demand.target] = demand.tasks_waiting;
  }
  out.push_back(
      by_label("lfarm_queue_depth", "Tasks that jobs could have under way now", "target", depth));
  out.push_back(
      by_label("lfarm_wanted_workers", "Workers that the queue could keep busy", "target", wanted));
  out.push_back(by_label("lfarm_tasks_waiting", "Tasks that the next worker with room takes",
                         "target", waiting));
}

void add_jobs(const StatusSources& sources, std::vector<GaugeFamily>& out) {
  std::map<std::string, int64_t> phases;
  int64_t oldest_ms = 0, now_ns = sources.environment.clock.now_ns();
  for (const Job* job : sources.jobs.jobs()) {
    if (job->phase() == Phase::kEnded) continue;
    ++phases[phase_name(job->phase())];
    oldest_ms = std::max(oldest_ms, job->elapsed_ms(now_ns));
  }
  out.push_back(by_label("lfarm_jobs", "Jobs that have not ended", "phase", phases));
  out.push_back(gauge("lfarm_oldest_job_seconds", "Age of the oldest job that has not ended",
                      static_cast<double>(oldest_ms) * 1e-3));
  out.push_back(gauge("lfarm_waiting_submits", "Submits that wait for a worker to name a target",
                      static_cast<double>(sources.jobs.parked())));
}

// Of searches under way, taken together: jobs come and go, and a label for each would never end.
void add_searches(const StatusSources& sources, std::vector<GaugeFamily>& out) {
  double completed = 0, budget = 0, flying = 0, speedups = 0, known = 0;
  for (const Job* job : sources.jobs.jobs()) {
    if (job->phase() != Phase::kSearching) continue;
    const SearchStatus& status = job->status();
    completed += static_cast<double>(status.completed);
    if (job->request().budget_candidates != 0) budget += static_cast<double>(status.budget);
    flying += static_cast<double>(sources.environment.dispatcher.open_tasks(job->request().id));
    if (status.expected_ns <= 0 || status.baseline_ns <= 0) continue;
    speedups += static_cast<double>(status.baseline_ns) / static_cast<double>(status.expected_ns);
    ++known;
  }
  out.push_back(gauge("lfarm_searching_completed",
                      "Candidates with a result, of searches under way", completed));
  out.push_back(gauge("lfarm_searching_budget",
                      "Candidates that searches under way may send, of those with such a budget",
                      budget));
  out.push_back(gauge("lfarm_searching_in_flight",
                      "Candidates of searches under way without a result", flying));
  out.push_back(gauge("lfarm_searching_speedup",
                      "Plain plan's time over what searches under way expect, their mean",
                      known > 0 ? speedups / known : 0));
}

// Jobs that search, prepare or wait for their turn: places at searchers that would all be used.
int64_t searches_wanted(const StatusSources& sources) {
  auto jobs = sources.jobs.jobs();
  return std::count_if(jobs.begin(), jobs.end(), [](const Job* job) {
    Phase phase = job->phase();
    return phase == Phase::kQueued || phase == Phase::kPreparing || phase == Phase::kSearching;
  });
}

// Where searches are in processes of their own.
void add_searchers(const StatusSources& sources, std::vector<GaugeFamily>& out) {
  const auto& searchers = sources.environment.threads.searchers;
  if (!searchers) return;
  SearcherCounts counts = searchers->counts();
  auto number = [](auto value) { return static_cast<double>(value); };
  out.push_back(gauge("lfarm_searchers", "Connected searchers", number(counts.searchers)));
  out.push_back(gauge("lfarm_searcher_places", "Searches that searchers take at a time",
                      number(counts.places)));
  out.push_back(
      gauge("lfarm_searches_apart", "Searches that searchers have", number(counts.searches)));
  out.push_back(gauge("lfarm_searches_wanted", "Jobs that search or wait for their turn to",
                      number(searches_wanted(sources))));
  out.push_back(gauge("lfarm_searchers_lost",
                      "Searchers that were lost with searches, since the start",
                      number(counts.lost)));
  out.push_back(gauge("lfarm_searchers_cpu_seconds",
                      "Processor time that connected searchers have used", counts.cpu_s));
}

void add_tenants(const StatusSources& sources, std::vector<GaugeFamily>& out) {
  Tenants& tenants = sources.environment.tenants;
  std::map<std::string, double> used, saved;
  for (const std::string& name : tenants.names()) {
    std::string label = sources.environment.monitored.meters.tenant_label(name);
    used[label] += static_cast<double>(tenants.usage(name).used_ms) * 1e-3;
    saved[label] += static_cast<double>(tenants.usage(name).saved_ms) * 1e-3;
  }
  out.push_back(by_label("lfarm_used_worker_seconds",
                         "Workers' time that a tenant's tasks have taken, ever", "tenant", used));
  out.push_back(by_label("lfarm_saved_worker_seconds",
                         "Workers' time that the cache has saved a tenant, ever", "tenant", saved));
}

Json as_json(const farm::Demand& demand) {
  return {{"queue_depth", demand.queue_depth},
          {"workers", demand.workers},
          {"wanted_workers", demand.wanted_workers},
          {"tasks_waiting", demand.tasks_waiting}};
}

// What a server beside this coordinator was asked. `name`: of its metrics; `server`: in their
// texts.
void add_remote(const std::string& name, const std::string& server,
                const cache::RemoteHealth& health, std::vector<GaugeFamily>& out) {
  auto number = [](auto value) { return static_cast<double>(value); };
  out.push_back(gauge(name + "_questions", cat("Questions to ", server, ", since the start"),
                      number(health.questions)));
  out.push_back(
      gauge(name + "_failures", "Questions that failed, since the start", number(health.failures)));
  out.push_back(by_label(
      name + "_bytes", cat("To and from ", server, ", since the start"), "direction",
      std::map<std::string, uint64_t>{{"in", health.bytes_in}, {"out", health.bytes_out}}));
}

bool is_well(const cache::RemoteHealth& health) {
  return health.trouble.empty() && health.refusing.empty();
}

// Where objects of plans lie apart from them.
void add_object_store(const SharedTierFacts& facts, std::vector<GaugeFamily>& out) {
  if (facts.objects_address.empty()) return;
  out.push_back(gauge("lfarm_object_store_ok",
                      "0 while the object store is not used or takes nothing",
                      is_well(facts.objects_health)));
  add_remote("lfarm_object_store", "the object store", facts.objects_health, out);
}

// The server that holds the shards.
void add_engine(const cache::RemoteHealth& health, bool is_tended, std::vector<GaugeFamily>& out) {
  out.push_back(gauge("lfarm_engine_ok", "0 while the shards' leases or changes are not taken",
                      is_tended && is_well(health)));
  add_remote("lfarm_engine", "the engine", health, out);
}

void add_shards(const ShardKeeper& keeper, const ShardJournals& journals,
                std::vector<GaugeFamily>& out) {
  ShardCounts counts = keeper.counts();
  JournalCounts journalled = journals.counts();
  auto number = [](auto value) { return static_cast<double>(value); };
  out.push_back(gauge("lfarm_shards_held", "Shards whose lease this coordinator has", counts.held));
  out.push_back(gauge("lfarm_shards_served", "Shards that this coordinator serves", counts.served));
  out.push_back(gauge("lfarm_shard_redirects",
                      "Submits sent to another coordinator or told to come again, since the start",
                      number(counts.redirects)));
  out.push_back(gauge("lfarm_shard_writes", "Changes that the engine took, since the start",
                      number(counts.writes)));
  out.push_back(gauge("lfarm_shard_step_downs",
                      "Shards given up because the engine took no write, since the start",
                      number(counts.step_downs)));
  out.push_back(gauge("lfarm_shard_journal_bytes",
                      "Of jobs' journals, brought to the engine since the start",
                      number(journalled.bytes)));
  out.push_back(gauge("lfarm_coordinators", "Coordinators that live, as this one sees it",
                      static_cast<double>(counts.members)));
  out.push_back(by_label(
      "lfarm_shard_fence_refusals",
      "Fences of this coordinator that the engine refused, since the start", "verdict",
      std::map<std::string, uint64_t>{{"behind", counts.behind}, {"stale", counts.stale}}));
}

}  // namespace

std::string metrics_text(const StatusSources& sources) {
  const Environment& env = sources.environment;
  std::vector<GaugeFamily> out = common::process_gauges();
  out.push_back({"lfarm_info",
                 "What runs here",
                 {{{{"farm", env.options.name},
                    {"coordinator", sources.coordinator_id},
                    {"compiler_epoch", env.options.epoch}},
                   1}}});
  add_workers(sources, out);
  add_jobs(sources, out);
  add_demand(sources, out);
  add_searches(sources, out);
  add_searchers(sources, out);
  add_tenants(sources, out);
  farm::Stats stats = env.dispatcher.scheduler().stats();
  cache::StoreHealth disk = env.store.health();
  auto number = [](auto value) { return static_cast<double>(value); };
  out.push_back(gauge("lfarm_tasks_open", "Tasks without a verdict", number(stats.tasks_open)));
  out.push_back(gauge("lfarm_clients", "Connected clients", number(sources.clients.count())));
  out.push_back(gauge("lfarm_graph_bytes", "Graphs of all jobs", number(env.blobs.bytes())));
  out.push_back(
      gauge("lfarm_unread_bytes", "Sent, and not yet read by peers", number(env.outbox.bytes())));
  out.push_back(gauge("lfarm_messages_dropped", "Dropped since peers did not read, since the start",
                      number(env.outbox.dropped())));
  out.push_back(gauge("lfarm_handshakes_denied", "Peers with an unknown key, since the start",
                      number(env.monitored.connections.denied.load())));
  out.push_back(gauge("lfarm_handshakes_bad", "Handshakes that failed, since the start",
                      number(env.monitored.connections.bad_handshakes.load())));
  out.push_back(gauge("lfarm_connections_flooding",
                      "Connections ended for what they sent, since the start",
                      number(env.monitored.connections.flooding.load())));
  out.push_back(
      gauge("lfarm_disk_ok", "0 while the disk takes no writes", disk.trouble.empty() ? 1 : 0));
  out.push_back(gauge("lfarm_disk_failed_writes", "Since the start", number(disk.failed_writes)));
  out.push_back(
      gauge("lfarm_disk_damaged_files", "Set aside since the start", number(disk.damaged_files)));
  if (auto age_s = env.monitored.backups.age_s(common::wall_clock_ns())) {
    out.push_back(gauge("lfarm_backup_age_seconds", "Since the store was last backed up", *age_s));
  }
  if (auto age_s = env.shared.revocations_age_s(env.clock.now_ns())) {
    out.push_back(gauge("lfarm_revocations_age_seconds",
                        "Since other farms' revocations were last read", *age_s));
  }
  add_object_store(env.shared.facts(), out);
  if (const ShardKeeper* keeper = env.shared.keeper()) {
    add_shards(*keeper, *env.shared.journals(), out);
    add_engine(env.shared.engine_health(), keeper->counts().trouble.empty(), out);
  }
  out.push_back(gauge("lfarm_searches_max", "Jobs that search at a time",
                      number(env.threads.searches_max(env.options.limits.searches_max))));
  out.push_back(
      gauge("lfarm_leader", "1 for the coordinator that serves, 0 for one that waits", 1));
  return env.monitored.meters.text(out);
}

std::string demand_json(const StatusSources& sources, const std::string& prefix) {
  std::vector<farm::Demand> all = demands_of(sources);
  Json json = as_json(farm::sum_of(all, prefix));
  if (!prefix.empty()) return json.dump();
  json["searches_wanted"] = searches_wanted(sources);
  Json targets = Json::object();
  for (const farm::Demand& demand : all) targets[demand.target] = as_json(demand);
  json["targets"] = std::move(targets);
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace coordinator::service
