#include "coordinator/service/status.h"

#include <map>
#include <nlohmann/json.hpp>

namespace coordinator::service {

using Json = nlohmann::ordered_json;

namespace {

// What each tenant that the asker may see has used, may use and was saved.
Json tenants_json(const StatusSources& sources) {
  Tenants& tenants = sources.environment.tenants;
  int64_t now_ns = common::wall_clock_ns();
  Json rows = Json::object();
  for (const std::string& name : tenants.names()) {
    if (!sources.asker.may_see(name)) continue;
    const common::TenantPolicy& policy = tenants.policy(name);
    const TenantUsage& usage = tenants.usage(name);
    rows[name] = {{"quota_s", policy.quota_s},  {"used_24h_ms", tenants.used_ms(name, now_ns)},
                  {"used_ms", usage.used_ms},   {"hits", usage.hits},
                  {"saved_ms", usage.saved_ms}, {"policy", common::policy_text(policy)}};
  }
  return rows;
}

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
            {"handshakes_denied", env.connections.denied.load()},
            {"handshakes_bad", env.connections.bad_handshakes.load()},
            {"unread_bytes", env.post.bytes()},
            {"messages_dropped", env.post.dropped()},
            {"disk", disk.trouble.empty() ? "ok" : disk.trouble},
            {"failed_writes", disk.failed_writes},
            {"damaged_files", disk.damaged_files},
            {"tenants", tenants_json(sources)}};
  if (env.shared.enabled()) json["remote"] = env.shared.facts().state;
  return json;
}

// Empty where farms share nothing with this one.
Json shared_json(const SharedTier& shared) {
  SharedTierFacts facts = shared.facts();
  if (facts.address.empty()) return Json();
  return Json{{"address", facts.address},
              {"state", facts.state},
              {"hits", facts.counts.hits},
              {"misses", facts.counts.misses},
              {"late", facts.late},
              {"offered", facts.counts.offered},
              {"not_offered", facts.dropped},
              {"refused", facts.counts.refused},
              {"revoked", facts.counts.revoked},
              {"questions", facts.health.questions},
              {"failures", facts.health.failures},
              {"bytes_in", facts.health.bytes_in},
              {"bytes_out", facts.health.bytes_out}};
}

Json workers_json(const StatusSources& sources) {
  const Environment& env = sources.environment;
  std::map<farm::WorkerId, farm::WorkerView> views;
  for (auto& view : env.dispatcher.scheduler().workers()) views.emplace(view.worker, view);
  int64_t now_ns = env.clock.now_ns();
  Json rows = Json::array();
  for (const WorkerSession* session : env.workers.sessions()) {
    const farm::WorkerView& view = views[session->id];
    rows.push_back({{"worker", session->name},
                    {"target", session->target},
                    {"address", session->address},
                    {"build", session->build},
                    {"slots", session->slots_offered},
                    {"tasks", view.leases},
                    {"tasks_done", session->tasks_done},
                    {"suspended", view.suspended},
                    {"seen_ms_ago", (now_ns - view.last_seen_ns) / 1'000'000},
                    {"up_s", (now_ns - session->since_ns) / 1'000'000'000}});
  }
  return Json{{"workers", std::move(rows)}};
}

Json jobs_json(const StatusSources& sources) {
  int64_t now_ns = sources.environment.clock.now_ns();
  Json rows = Json::array();
  for (const Job* job : sources.jobs.jobs()) {
    const JobRequest& request = job->request();
    if (!sources.asker.may_see(request.tenant)) continue;
    SearchStatus status = job->status();
    rows.push_back({{"job", request.id},
                    {"phase", phase_name(job->phase())},
                    {"stage", status.stage},
                    {"graph", request.key.graph_hash.hex()},
                    {"target", request.key.target.name},
                    {"tenant", request.tenant},
                    {"priority", request.priority},
                    {"clients", job->subscribers().size()},
                    {"candidates", status.candidates},
                    {"completed", status.completed},
                    {"budget", status.budget},
                    {"best_ns", status.best_ns},
                    {"baseline_ns", status.baseline_ns},
                    {"regions", status.regions},
                    {"duplicates", status.duplicates},
                    {"reused", status.reused},
                    {"tasks_open", sources.environment.dispatcher.open_tasks(request.id)},
                    {"elapsed_ms", job->elapsed_ms(now_ns)}});
  }
  return Json{{"jobs", std::move(rows)}};
}

Json cache_json(const StatusSources& sources) {
  auto stats = sources.environment.store.stats();
  if (!stats.ok()) return Json{{"error", stats.error().message}};
  Json json;
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
  json["tenants"] = tenants_json(sources);
  return json;
}

Json topic_json(common::StatusTopic topic, const StatusSources& sources) {
  switch (topic) {
    case common::StatusTopic::kStatus:
      return farm_json(sources);
    case common::StatusTopic::kWorkers:
      return workers_json(sources);
    case common::StatusTopic::kJobs:
      return jobs_json(sources);
    case common::StatusTopic::kCache:
      return cache_json(sources);
  }
  return Json::object();
}

}  // namespace

std::string status_json(common::StatusTopic topic, const StatusSources& sources) {
  return topic_json(topic, sources).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace coordinator::service
