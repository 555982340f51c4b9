#include "coordinator/service/plans/plan_views.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/llir/load_time.h"
#include "common/plan/plan_ids.h"
#include "common/plan/speedup.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;
using Json = nlohmann::ordered_json;

namespace {

// More are nobody's one plan.
constexpr size_t kPlansFoundMax = 1'000;
// Whoever waits holds a thread of the HTTP server.
constexpr std::chrono::seconds kSourcePatience{3};

int64_t now_ms() { return common::SteadyClock().now_ns() / 1'000'000; }

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json facts_json(const cache::PlanListing& listing) {
  return {{"plan", listing.facts.plan_id.hex()},
          {"graph", listing.facts.graph_hash.hex()},
          {"best_ns", listing.facts.best_ns},
          {"search_ms", listing.facts.search_ms},
          {"bytes", listing.bytes},
          {"created_ns", listing.created_wall_ns},
          {"used_ns", listing.last_used_wall_ns}};
}

Json provenance_json(const common::Provenance& p) {
  Json json{{"farm", p.farm},
            {"worker", p.worker},
            {"machine", p.machine},
            {"toolchain", p.toolchain},
            {"second_worker", p.second_worker},
            {"tenant", p.tenant},
            {"submitter", p.submitter},
            {"calibration", p.prediction.calibration},
            {"rank_correlation", p.prediction.rank_correlation},
            {"constants_correlation", p.prediction.constants_correlation},
            {"predicted_schedules", p.prediction.schedules},
            {"created_ns", p.created_ns},
            {"candidates", p.search.candidates},
            {"seed", p.search.seed}};
  if (!p.origin.imported_by.empty()) json["imported_by"] = p.origin.imported_by;
  if (!p.origin.plan.is_zero()) json["origin"] = p.origin.plan.hex();
  if (!p.origin.found_epoch.empty()) json["found_epoch"] = p.origin.found_epoch;
  return json;
}

std::string library_text(const common::GemmForm& gemm) {
  return cat("matrix product, batch ", gemm.batch.text(), ", ", gemm.m.text(), " x ", gemm.n.text(),
             " x ", gemm.k.text());
}

Json kernel_json(const common::Plan& plan, size_t index, const PlanMaking* making) {
  const common::PlanKernel& kernel = plan.kernels[index];
  Json json{{"kernel", index},
            {"fingerprint", kernel.fingerprint.hex()},
            {"library", kernel.library},
            {"predicted_ns", kernel.predicted_ns},
            {"measured_ns", kernel.measured_ns}};
  if (kernel.library) {
    json["what"] = library_text(kernel.gemm);
  } else {
    json["entry"] = kernel.entry.name;
    json["units"] = kernel.entry.units.text();
    if (kernel.entry.block.threads != 0) json["threads"] = kernel.entry.block.threads;
  }
  if (making == nullptr) return json;
  const common::Kernel* made_from = &making->program.kernels[index];
  json["modules"] = making->origins[index].modules;
  json["sources"] = making->origins[index].sources;
  json["form"] = std::string(common::template_name(made_from->form));
  Json schedule = Json::object();
  for (const common::ScheduleParameter& parameter : made_from->schedule) {
    schedule[parameter.name] = parameter.value;
  }
  json["schedule"] = std::move(schedule);
  json["nodes"] = made_from->body.nodes.size();
  return json;
}

Json kernels_json(const common::Plan& plan, const PlanMaking* making) {
  std::vector<uint64_t> calls(plan.kernels.size()), at_load(plan.kernels.size());
  std::vector<char> is_at_load = common::load_time_calls(plan);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    auto kernel = static_cast<size_t>(plan.calls[c].kernel);
    if (kernel >= calls.size()) continue;
    ++(is_at_load[c] ? at_load : calls)[kernel];
  }
  Json rows = Json::array();
  for (size_t k = 0; k < std::min(plan.kernels.size(), PlanViews::kKernelsMax); ++k) {
    Json row = kernel_json(plan, k, making);
    row["calls"] = calls[k];
    row["calls_at_load"] = at_load[k];
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Result<std::string> PlanViews::list(size_t skip, size_t count) {
  LFARM_ASSIGN_OR_RETURN(cache::StoreStats counts, stats());
  LFARM_ASSIGN_OR_RETURN(cache::PlanPage page, store_.newest_plans({}, count, skip));
  Json rows = Json::array();
  for (const cache::PlanListing& listing : page.plans) {
    Json row = facts_json(listing);
    LFARM_ASSIGN_OR_RETURN(auto stored,
                           store_.get_plan(listing.facts.key, cache::Lookup::kInspect));
    auto owned = stored ? decode_owned(stored->bytes) : common::corrupt("gone");
    if (!owned.ok()) continue;
    const common::Plan& plan = owned->plan;
    row["tenant"] = owned->tenant;
    row["target"] = plan.key.target.name;
    row["policy"] = plan.key.policy;
    row["epoch"] = plan.key.epoch;
    row["baseline_ns"] = plan.provenance.baseline_ns;
    row["kernels"] = plan.kernels.size();
    rows.push_back(std::move(row));
  }
  const uint64_t total = std::max<uint64_t>(counts.plans.count, skip + page.plans.size());
  return text_of({{"total", total}, {"rows", std::move(rows)}});
}

Result<std::optional<Digest>> PlanViews::id_of(std::string_view digits) {
  LFARM_RETURN_IF_ERROR(common::check_plan_digits(digits));
  if (auto whole = Digest::parse(digits)) return whole;
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> all,
                         store_.plans_beginning(digits, kPlansFoundMax));
  std::vector<Digest> found;
  for (const cache::PlanListing& one : all) {
    if (!one.facts.plan_id.hex().starts_with(digits) &&
        !one.facts.graph_hash.hex().starts_with(digits)) {
      continue;
    }
    found.push_back(one.facts.plan_id);
  }
  if (found.empty()) return std::optional<Digest>();
  if (found.size() > 1) return common::ambiguous_digits(digits, found);
  return std::optional(found[0]);
}

Result<std::optional<PlanViews::Found>> PlanViews::find(const Digest& id) {
  LFARM_ASSIGN_OR_RETURN(auto stored, store_.plan_of_id(id));
  if (!stored) return std::optional<Found>();
  LFARM_ASSIGN_OR_RETURN(OwnedPlan owned, decode_owned(stored->bytes));
  auto making = making_of(store_, *stored, owned.plan);
  return std::optional<Found>({std::move(*stored), std::move(owned), std::move(making)});
}

Result<std::string> PlanViews::plan(const Digest& id) {
  LFARM_ASSIGN_OR_RETURN(std::optional<Found> found, find(id));
  if (!found) return std::string();
  const common::Plan& plan = found->owned.plan;
  return text_of({{"plan", id.hex()},
                  {"key", plan.key.digest().hex()},
                  {"tenant", found->owned.tenant},
                  {"graph", plan.key.graph_hash.hex()},
                  {"target", plan.key.target.name},
                  {"policy", plan.key.policy},
                  {"epoch", plan.key.epoch},
                  {"best_ns", plan.provenance.best_ns},
                  {"baseline_ns", plan.provenance.baseline_ns},
                  {"speedup", common::speedup_text(plan.provenance)},
                  {"predicted_ns", plan.provenance.prediction.ns},
                  {"search_ms", found->stored.facts.search_ms},
                  {"calls", plan.calls.size()},
                  {"buffers", plan.buffers.size()},
                  {"objects", plan.objects.size()},
                  {"has_source", found->making.has_value()},
                  {"provenance", provenance_json(plan.provenance)},
                  {"kernels_total", plan.kernels.size()},
                  {"kernels", kernels_json(plan, found->making ? &*found->making : nullptr)}});
}

Result<std::shared_ptr<const KernelSources>> PlanViews::sources(const Digest& id,
                                                                const Found& found) {
  std::unique_lock<std::timed_mutex> lock(sources_mutex_, kSourcePatience);
  if (!lock) return common::unavailable("another plan's source is being written; ask again");
  for (const auto& [known, sources] : sources_) {
    if (known == id) return sources;
  }
  if (sandbox_ == nullptr) {
    sandbox_ = common::Sandbox::find(common::SandboxProfile::kComputing);
  }
  LFARM_ASSIGN_OR_RETURN(KernelSources written,
                         write_sources(found.making->program, found.owned.plan.key.target,
                                       sandbox_.get(), [this] { return !is_stopping_; }));
  auto kept = std::make_shared<const KernelSources>(std::move(written));
  sources_.emplace_front(id, kept);
  if (sources_.size() > kSourcesMax) sources_.pop_back();
  return kept;
}

Result<std::string> PlanViews::source(const Digest& id, int64_t kernel) {
  LFARM_ASSIGN_OR_RETURN(std::optional<Found> found, find(id));
  if (!found) return std::string();
  if (!found->making) {
    return common::invalid_input(
        "this plan came without the program that it was made from: another farm has it");
  }
  LFARM_ASSIGN_OR_RETURN(std::shared_ptr<const KernelSources> all, sources(id, *found));
  bool is_there =
      kernel == -1 || (kernel >= 0 && static_cast<size_t>(kernel) < all->kernels.size());
  if (!is_there) return std::string();
  const std::string& text = kernel < 0 ? all->preamble : all->kernels[static_cast<size_t>(kernel)];
  return text_of({{"text", text.substr(0, kTextBytesMax)},
                  {"bytes", text.size()},
                  {"truncated", text.size() > kTextBytesMax}});
}

Result<cache::StoreStats> PlanViews::stats() {
  std::lock_guard<std::mutex> lock(stats_mutex_);
  if (counted_ms_ == 0 || now_ms() - counted_ms_ > kStatsAgeMs) {
    LFARM_ASSIGN_OR_RETURN(stats_, store_.stats());
    counted_ms_ = now_ms();
  }
  return stats_;
}

}  // namespace coordinator::service
