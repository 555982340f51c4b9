#include "farm_fairness.h"

#include "common/base/cat.h"

namespace sim {

using common::cat;
using coordinator::farm::JobId;

namespace {
// Passes are whole numbers: each service may round by 1 in 2^16.
constexpr double kRounding = 0.05;
}  // namespace

void Race::waits(uint64_t who, double weight, int more) {
  Competitor& one = all_[who];
  one.weight = weight;
  bool begins = one.waiting == 0 && more > 0;
  one.waiting += more;
  if (!begins) return;
  for (const auto& [id, other] : all_) {
    if (id == who || other.waiting == 0) continue;
    lead_[{who, id}] = one.served - other.served;
    lead_[{id, who}] = other.served - one.served;
  }
}

std::string Race::served(uint64_t who, double weight, uint32_t cost) {
  Competitor& one = all_[who];
  one.served += cost / weight;
  if (one.waiting == 0) return "";
  for (const auto& [id, other] : all_) {
    if (id == who || other.waiting == 0) continue;
    ++comparisons_;
    double ahead = one.served - other.served - lead_[{who, id}];
    double bound = FairnessWatch::kCostMax / one.weight + FairnessWatch::kCostMax / other.weight;
    if (ahead > bound + kRounding) {
      return cat("number ", who, " is ", ahead, " ahead of number ", id, ", which waits; ", bound,
                 " is fair");
    }
  }
  return "";
}

void FairnessWatch::add(JobId job, const std::string& tenant, uint32_t priority) {
  uint64_t number = tenants_.try_emplace(tenant, tenants_.size() + 1).first->second;
  jobs_[job] = {number, static_cast<double>(priority)};
}

void FairnessWatch::waits(JobId id, const std::string& target, int more) {
  const Job& job = jobs_.at(id);
  tenant_races_[target].waits(job.tenant, 1, more);
  job_races_[{target, job.tenant}].waits(id, job.weight, more);
}

std::string FairnessWatch::served(JobId id, const std::string& target, uint32_t cost) {
  const Job& job = jobs_.at(id);
  std::string unfair = job_races_[{target, job.tenant}].served(id, job.weight, cost);
  if (!unfair.empty()) return cat("among jobs, ", unfair);
  unfair = tenant_races_[target].served(job.tenant, 1, cost);
  return unfair.empty() ? "" : cat("among tenants, ", unfair);
}

size_t FairnessWatch::comparisons() const {
  size_t sum = comparisons_;
  for (const auto& [target, race] : tenant_races_) sum += race.comparisons();
  for (const auto& [target, race] : job_races_) sum += race.comparisons();
  return sum;
}

void FairnessWatch::restart() {
  comparisons_ = comparisons();
  jobs_.clear();
  tenant_races_.clear();
  job_races_.clear();
}

}  // namespace sim
