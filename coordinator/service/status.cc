#include "coordinator/service/status.h"

#include <charconv>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "coordinator/service/jobs/job_row.h"

namespace coordinator::service {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kTenantsListedMax = 1'000;  // on a page: members of objects are found one by one

// By tenant, and by what was there.
using Requests = std::map<std::string, std::map<std::string, uint64_t>>;

Json tenant_json(Tenants& tenants, const std::string& name, int64_t now_ns) {
  const common::TenantPolicy& policy = tenants.policy(name);
  const TenantUsage& usage = tenants.usage(name);
  return {{"quota_s", policy.quota_s},  {"used_24h_ms", tenants.used_ms(name, now_ns)},
          {"used_ms", usage.used_ms},   {"hits", usage.hits},
          {"saved_ms", usage.saved_ms}, {"policy", common::policy_text(policy)}};
}

// Those behind a name that the asker may see, in order: all that have a policy, have ever used
// anything, or are among the `requests`.
std::set<std::string> tenant_names(const StatusSources& sources, const std::string& after,
                                   const Requests& requests) {
  const std::vector<std::string> known = sources.environment.tenants.names();
  std::set<std::string> names(known.begin(), known.end());
  for (const auto& [name, results] : requests) names.insert(name);
  std::erase_if(names, [&](const std::string& name) {
    return (!after.empty() && name <= after) || !sources.asker.may_see(name);
  });
  return names;
}

// What each tenant has used, may use and was saved, and its `requests`: as many as a page holds,
// one at least.
void put_tenants(Json& json, const StatusSources& sources, const std::string& after,
                 const Requests& requests) {
  const std::set<std::string> names = tenant_names(sources, after, requests);
  int64_t now_ns = common::wall_clock_ns();
  Json rows = Json::object(), asked = Json::object();
  size_t bytes = 0;
  auto name = names.begin();
  for (; name != names.end() && rows.size() < kTenantsListedMax; ++name) {
    Json row = tenant_json(sources.environment.tenants, *name, now_ns);
    auto its = requests.find(*name);
    Json results = its == requests.end() ? Json() : Json(its->second);
    bytes += 2 * name->size() + row.dump().size() + results.dump().size();
    if (bytes > sources.environment.options.limits.list_bytes && !rows.empty()) break;
    rows[*name] = std::move(row);
    if (!results.is_null()) asked[*name] = std::move(results);
  }
  json["tenants"] = std::move(rows);
  if (!asked.empty()) json["requests"] = std::move(asked);
  if (name == names.end()) return;
  json["omitted"] = std::distance(name, names.end());
  json["next"] = *std::prev(name);
}

void put_health(Json& json, const cache::RemoteHealth& health) {
  json["questions"] = health.questions;
  json["failures"] = health.failures;
  json["bytes_in"] = health.bytes_in;
  json["bytes_out"] = health.bytes_out;
}

// Empty where farms share nothing with this one.
Json shared_json(const SharedTier& shared) {
  SharedTierFacts facts = shared.facts();
  if (facts.address.empty()) return Json();
  Json json{{"address", facts.address},
            {"state", facts.state},
            {"hits", facts.counts.hits},
            {"misses", facts.counts.misses},
            {"late", facts.late},
            {"offered", facts.counts.offered},
            {"not_offered", facts.dropped},
            {"refused", facts.counts.refused},
            {"revoked", facts.counts.revoked}};
  put_health(json, facts.health);
  if (!facts.objects_address.empty()) {
    json["objects"] = {{"address", facts.objects_address}, {"state", facts.objects_state}};
    put_health(json["objects"], facts.objects_health);
  }
  return json;
}

// What a row takes at most: names are printable ASCII, of which a character takes two at most.
size_t row_bytes(const WorkerSession& session) {
  constexpr size_t kRowBytes = 400;  // without the names
  return kRowBytes + 2 * (session.name.size() + session.target.size() + session.machine.size() +
                          session.address.size() + session.software.build.size() +
                          session.software.toolchain.size());
}

// Those behind a name, in the order of names: as many as a page holds, one at least.
Json workers_json(const StatusSources& sources, const std::string& after) {
  std::vector<const WorkerSession*> page;
  size_t bytes = 0, omitted = 0;
  for (const WorkerSession* session : sources.environment.workers.sessions()) {
    if (!after.empty() && session->name <= after) continue;
    bytes += row_bytes(*session);
    if (bytes > sources.environment.options.limits.list_bytes && !page.empty()) {
      ++omitted;
    } else {
      page.push_back(session);
    }
  }
  Json json{{"workers", worker_rows_json(sources, page)}};
  if (omitted != 0) {
    json["omitted"] = omitted;
    json["next"] = page.back()->name;
  }
  return json;
}

// The coordinators that may have jobs, this one first. A client that lists the farm's jobs asks
// each.
Json coordinators_json(const ShardKeeper& keeper) {
  Json rows = Json::array();
  for (const ServingCoordinator& one : keeper.coordinators()) {
    rows.push_back(
        {{"endpoint", one.at.endpoint}, {"server_key", one.at.public_key}, {"shards", one.shards}});
  }
  return rows;
}

// The latest jobs that ended, the oldest first, as far as they fit beside `bytes`.
Json ended_jobs_json(const StatusSources& sources, size_t bytes) {
  const auto& jobs = sources.jobs.history().jobs();
  Json rows = Json::array();
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    if (!sources.asker.may_see((*job)->tenant)) continue;
    bytes += (*job)->row.size();
    if (bytes > sources.environment.options.limits.list_bytes) break;
    Json row = Json::parse((*job)->row, nullptr, false);
    if (row.is_object()) rows.insert(rows.begin(), std::move(row));
  }
  return rows;
}

// Those behind a number, in order: as many as a page holds, one at least.
Json jobs_json(const StatusSources& sources, const std::string& after) {
  constexpr size_t kRowBytes = 1'000;  // without the name, of which a byte may take six
  farm::JobId last = 0;
  std::from_chars(after.data(), after.data() + after.size(), last);
  Json rows = Json::array();
  size_t bytes = 0, omitted = 0;
  for (const Job* job : sources.jobs.jobs()) {
    if (!sources.asker.may_see(job->request().tenant) || job->request().id <= last) continue;
    bytes += kRowBytes + 6 * job->request().name.size();
    if (bytes > sources.environment.options.limits.list_bytes && !rows.empty()) {
      ++omitted;
    } else {
      rows.push_back(job_row(sources.environment, *job));
    }
  }
  Json json{{"jobs", std::move(rows)}};
  if (omitted != 0) {
    json["omitted"] = omitted;
    json["next"] = std::to_string(json["jobs"].back()["job"].get<farm::JobId>());
  }
  json["ended"] = ended_jobs_json(sources, bytes);
  if (const ShardKeeper* keeper = sources.environment.shared.keeper()) {
    json["coordinators"] = coordinators_json(*keeper);
  }
  return json;
}

// What the store will say of them once it is written: the same numbers as in put_tenants().
void count_tenants(const StatusSources& sources, cache::StoreStats* stats) {
  Tenants& tenants = sources.environment.tenants;
  stats->hits = stats->saved_ms = 0;
  for (const std::string& name : tenants.names()) {
    if (!sources.asker.may_see(name)) continue;
    stats->hits += tenants.usage(name).hits;
    stats->saved_ms += tenants.usage(name).saved_ms;
  }
}

// Pages behind the first one are of tenants alone: the store is counted once.
Json cache_json(const StatusSources& sources, const std::string& after) {
  const Requests requests = sources.environment.monitored.meters.plan_requests();
  Json json = Json::object();
  if (!after.empty()) {
    put_tenants(json, sources, after, requests);
    return json;
  }
  common::Result<cache::StoreStats> stats =
      sources.store_stats != nullptr ? *sources.store_stats : sources.environment.store.stats();
  if (!stats.ok()) return Json{{"error", stats.error().message}};
  count_tenants(sources, &*stats);
  for (const cache::StatsField& field : cache::fields(*stats)) {
    if (auto* family = std::get_if<cache::FamilyStats>(&field.value)) {
      json[field.name] = {{"count", family->count}, {"bytes", family->bytes}};
    } else {
      json[field.name] = std::get<uint64_t>(field.value);
    }
  }
  if (Json shared = shared_json(sources.environment.shared); !shared.empty()) {
    json["remote"] = std::move(shared);
  }
  KernelCounts kernels = sources.environment.monitored.meters.kernels();
  json["kernels_compiled"] = kernels.compiled;
  json["kernels_found"] = kernels.found;
  json["requests"] = Json::object();
  put_tenants(json, sources, after, requests);
  return json;
}

Json topic_json(common::StatusTopic topic, const StatusSources& sources, const std::string& after) {
  Json json;
  switch (topic) {
    case common::StatusTopic::kStatus:
      json = farm_json(sources);
      put_tenants(json, sources, after, {});
      return json;
    case common::StatusTopic::kWorkers:
      return workers_json(sources, after);
    case common::StatusTopic::kJobs:
      return jobs_json(sources, after);
    case common::StatusTopic::kCache:
      return cache_json(sources, after);
    case common::StatusTopic::kPlans:  // read from the store
                                       // (coordinator/service/jobs/plan_lists.h)
      break;
  }
  return Json::object();
}

}  // namespace

Json farm_json(const StatusSources& sources) {
  const Environment& env = sources.environment;
  farm::Stats stats = env.dispatcher.scheduler().stats();
  cache::StoreHealth disk = env.store.health();
  Json json{{"name", env.options.name},
            {"coordinator", sources.coordinator_id},
            {"compiler_epoch", env.options.epoch},
            {"workers", env.workers.count()},
            {"clients", sources.clients.count()},
            {"jobs", sources.jobs.jobs().size()},
            {"waiting_submits", sources.jobs.parked()},
            {"tasks_open", stats.tasks_open},
            {"tasks_leased", stats.tasks_leased},
            {"graph_bytes", env.blobs.bytes()},
            {"handshakes_denied", env.monitored.connections.denied.load()},
            {"handshakes_bad", env.monitored.connections.bad_handshakes.load()},
            {"connections_flooding", env.monitored.connections.flooding.load()},
            {"unread_bytes", env.outbox.bytes()},
            {"messages_dropped", env.outbox.dropped()},
            {"disk", disk.trouble.empty() ? "ok" : disk.trouble},
            {"failed_writes", disk.failed_writes},
            {"damaged_files", disk.damaged_files}};
  if (env.shared.enabled()) json["remote"] = env.shared.facts().state;
  return json;
}

Json worker_rows_json(const StatusSources& sources,
                      const std::vector<const WorkerSession*>& sessions) {
  const Environment& env = sources.environment;
  std::map<farm::WorkerId, farm::WorkerView> views;
  for (auto& view : env.dispatcher.scheduler().workers()) views.emplace(view.worker, view);
  int64_t now_ns = env.clock.now_ns();
  Json rows = Json::array();
  for (const WorkerSession* session : sessions) {
    const farm::WorkerView& view = views[session->id];
    rows.push_back({{"worker", session->name},
                    {"target", session->target},
                    {"machine", session->machine},
                    {"address", session->address},
                    {"build", session->software.build},
                    {"toolchain", session->software.toolchain},
                    {"slots", session->slots_offered},
                    {"tasks", view.leases},
                    {"tasks_done", session->tasks_done},
                    {"suspended", view.suspended},
                    {"draining", view.draining},
                    {"seen_ms_ago", (now_ns - view.last_seen_ns) / 1'000'000},
                    {"up_s", (now_ns - session->since_ns) / 1'000'000'000}});
  }
  return rows;
}

std::string status_json(common::StatusTopic topic, const StatusSources& sources,
                        const std::string& after) {
  return topic_json(topic, sources, after).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace coordinator::service
