#include "coordinator/service/plans/tenants.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;

namespace {

constexpr int64_t kHourNs = int64_t{3'600} * 1'000'000'000;
constexpr int64_t kHours = 24;

int64_t hour_of(int64_t wall_ns) { return wall_ns / kHourNs; }

void forget_old(TenantUsage& usage, int64_t now_hour) {
  std::erase_if(usage.hours, [now_hour](const auto& entry) {
    // A clock that was set back must not keep what is charged for ever.
    return entry.first <= now_hour - kHours || entry.first > now_hour + 1;
  });
}

}  // namespace

Tenants::Tenants(cache::Store& store) {
  auto usages = store.tenant_usages();
  if (usages.ok()) {
    usage_ = std::move(*usages);
  } else {
    common::log_warning(cat("what tenants have used: ", usages.error().message));
  }
}

const common::TenantPolicy& Tenants::policy(const std::string& tenant) const {
  static const common::TenantPolicy kNone;
  auto found = policies_.find(tenant);
  return found == policies_.end() ? kNone : found->second;
}

std::vector<std::string> Tenants::sharing_with(const std::string& tenant) const {
  std::vector<std::string> owners;
  for (const auto& [owner, policy] : policies_) {
    if (owner != tenant && policy.shares_with(tenant)) owners.push_back(owner);
  }
  return owners;
}

void Tenants::charge(const std::string& tenant, uint64_t worker_ms, int64_t wall_ns) {
  TenantUsage& usage = of(tenant);
  changed_.insert(tenant);
  usage.used_ms += worker_ms;
  usage.hours[hour_of(wall_ns)] += worker_ms;
  forget_old(usage, hour_of(wall_ns));
}

void Tenants::note_saved(const std::string& tenant, uint64_t saved_ms) {
  if (saved_ms == 0) return;
  changed_.insert(tenant);
  of(tenant).saved_ms += saved_ms;
}

void Tenants::note_hit(const std::string& tenant, uint64_t saved_ms) {
  TenantUsage& usage = of(tenant);
  changed_.insert(tenant);
  ++usage.hits;
  usage.saved_ms += saved_ms;
}

const TenantUsage& Tenants::usage(const std::string& tenant) const {
  static const TenantUsage kNone;
  auto found = usage_.find(tenant);
  return found == usage_.end() ? kNone : found->second;
}

uint64_t Tenants::used_ms(const std::string& tenant, int64_t wall_ns) {
  auto found = usage_.find(tenant);
  if (found == usage_.end()) return 0;
  forget_old(found->second, hour_of(wall_ns));
  uint64_t sum = 0;
  for (const auto& [hour, ms] : found->second.hours) sum += ms;
  return sum;
}

std::string Tenants::exhausted(const std::string& tenant, int64_t wall_ns) {
  int64_t quota_s = policy(tenant).quota_s;
  if (quota_s == 0) return {};
  uint64_t used = used_ms(tenant, wall_ns);
  if (used < static_cast<uint64_t>(quota_s) * 1000) return {};
  return cat("tenant ", tenant, " has used ", used / 1000, " of its ", quota_s,
             " worker-seconds in 24 hours; submit again later, or ask the farm's administrator "
             "for more");
}

void Tenants::adopt(const std::map<std::string, TenantUsage>& usages) {
  for (const auto& [tenant, theirs] : usages) {
    TenantUsage& usage = of(tenant);
    changed_.insert(tenant);
    usage.hits = std::max(usage.hits, theirs.hits);
    usage.saved_ms = std::max(usage.saved_ms, theirs.saved_ms);
    usage.used_ms = std::max(usage.used_ms, theirs.used_ms);
    for (const auto& [hour, ms] : theirs.hours) {
      uint64_t& known = usage.hours[hour];
      known = std::max(known, ms);
    }
  }
}

std::vector<cache::Changes::Named> Tenants::take_changes() {
  std::vector<cache::Changes::Named> records;
  for (const std::string& tenant : std::exchange(changed_, {})) {
    records.push_back({cache::tenant_record_name(tenant), cache::encode_usage(of(tenant))});
  }
  return records;
}

std::vector<std::string> Tenants::names() const {
  std::set<std::string> names;
  for (const auto& [name, policy] : policies_) names.insert(name);
  for (const auto& [name, usage] : usage_) names.insert(name);
  return {names.begin(), names.end()};
}

}  // namespace coordinator::service
