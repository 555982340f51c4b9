// What each tenant has used of the farm and got from its cache, and what it may still use.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "cache/store/tenant_usage.h"
#include "common/base/result.h"
#include "common/wire/security.h"

namespace coordinator::service {

using cache::TenantUsage;

// Not thread-safe. What is used survives restarts once take_changes() has been written.
class Tenants {
 public:
  explicit Tenants(cache::Store& store);

  // As the allow-list says it; what is used stays.
  void set_policies(std::map<std::string, common::TenantPolicy> policies) {
    policies_ = std::move(policies);
  }
  const common::TenantPolicy& policy(const std::string& tenant) const;
  // Tenants whose plans this one may have without being asked.
  std::vector<std::string> sharing_with(const std::string& tenant) const;

  // `worker_ms`: that a task of the tenant took of one worker.
  void charge(const std::string& tenant, uint64_t worker_ms, int64_t wall_ns);
  void note_hit(const std::string& tenant, uint64_t saved_ms);
  // What a search need not find out again.
  void note_saved(const std::string& tenant, uint64_t saved_ms);
  // Of the last 24 hours, to the hour. What is older is forgotten, wherever the clock goes later.
  uint64_t used_ms(const std::string& tenant, int64_t wall_ns);
  // Why the tenant gets no workers now; empty while it does.
  std::string exhausted(const std::string& tenant, int64_t wall_ns);
  // What another replica has written of tenants' usage: of each number the larger one holds.
  void adopt(const std::map<std::string, TenantUsage>& usages);
  // What is to be written for usage to last: of all tenants whose usage has changed since.
  std::vector<cache::Changes::Named> take_changes();
  // Nothing of a tenant that has never used any.
  const TenantUsage& usage(const std::string& tenant) const;
  // That have a policy, or have ever used anything.
  std::vector<std::string> names() const;

 private:
  TenantUsage& of(const std::string& tenant) { return usage_[tenant]; }
  std::map<std::string, common::TenantPolicy> policies_;
  std::map<std::string, TenantUsage> usage_;
  std::set<std::string> changed_;
};

}  // namespace coordinator::service
