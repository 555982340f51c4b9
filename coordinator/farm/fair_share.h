// Decides whose turn it is: workers are shared equally between tenants, and within a tenant in
// proportion to job priorities.
//
// Stride scheduling (Waldspurger and Weihl 1995) on two levels: everyone has a pass that grows by
// cost / weight when served, the smallest pass is next. Who joins late starts at the present pass,
// so that idling saves nothing up. Between two jobs of a tenant that both have work all the time,
// served cost / priority differs by at most cost_max / smaller priority.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "coordinator/farm/types.h"

namespace coordinator::farm {

// All operations are O(log n). Not thread-safe.
class FairShare {
 public:
  // `weight` >= 1. The job starts idle. The id must be new.
  void add(JobId job, const std::string& tenant, uint32_t weight);
  void remove(JobId job);
  bool contains(JobId job) const { return jobs_.count(job) != 0; }
  // A job is ready while it has tasks waiting.
  void set_ready(JobId job, bool ready);
  bool empty() const { return ready_tenants_.empty(); }
  // The ready job to serve; not to be called when empty.
  JobId next() const;
  // Records that a ready job was served.
  void charge(JobId job, uint32_t cost);

 private:
  using Ready = std::set<std::pair<uint64_t, uint64_t>>;  // (pass, tenant number or job id)
  struct Tenant {
    std::string name;
    uint64_t pass = 0;
    uint64_t now = 0;  // pass of the job served last
    size_t jobs = 0;
    Ready ready;
  };
  struct Job {
    uint64_t tenant = 0;
    uint32_t weight = 1;
    uint64_t pass = 0;
    bool ready = false;
  };

  uint64_t now_ = 0;  // pass of the tenant served last
  uint64_t tenants_made_ = 0;
  std::map<std::string, uint64_t> tenant_numbers_;
  std::unordered_map<uint64_t, Tenant> tenants_;
  std::unordered_map<JobId, Job> jobs_;
  Ready ready_tenants_;
};

}  // namespace coordinator::farm
