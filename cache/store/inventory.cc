#include "cache/store/inventory.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "cache/store/records.h"

namespace cache {

using common::Digest;
using common::Result;
using common::Status;

namespace {

// Plans whose uses are looked up together.
constexpr size_t kPlansInPart = 1'024;

bool goes_before(const AgedPlan& a, const AgedPlan& b) {
  return std::tie(a.last_used_wall_ns, a.key) < std::tie(b.last_used_wall_ns, b.key);
}

// The next plans from the key `from` on, which is moved behind them; none at the end.
Result<std::vector<AgedPlan>> next_plans(const Database& database, std::string& from) {
  std::vector<AgedPlan> plans;
  std::string last;
  LFARM_RETURN_IF_ERROR(
      database.scan_from(Family::kPlans, from, [&](std::string_view name, std::string_view record) {
        if (!name.starts_with(kPlanPrefix) || plans.size() >= kPlansInPart) return false;
        last = name;
        auto key = trailing_digest(name);
        if (!key) return true;
        // A malformed record has no last use and is the first to go.
        auto header = decode_plan_header(record);
        int64_t created_ns = header ? header->created_wall_ns : 0;
        plans.push_back({*key, created_ns, created_ns});
        return true;
      }));
  if (!last.empty()) from = last + '\0';
  return plans;
}

// Uses lie in the order of plans.
Status add_uses(const Database& database, std::vector<AgedPlan>& plans) {
  auto plan = plans.begin();
  return database.scan_from(Family::kMeta, digest_key(kUsedPrefix, plan->key),
                            [&](std::string_view name, std::string_view use) {
                              auto key = name.starts_with(kUsedPrefix) ? trailing_digest(name)
                                                                       : std::nullopt;
                              if (!key) return false;
                              while (plan != plans.end() && plan->key < *key) ++plan;
                              if (plan == plans.end()) return false;
                              bool is_its = plan->key == *key && plan->created_wall_ns != 0;
                              if (is_its) plan->last_used_wall_ns = decode_use(use).last_wall_ns;
                              return true;
                            });
}

}  // namespace

Result<BlobCounts> BlobCounts::after(const Database& database, const std::optional<Digest>& last,
                                     size_t count) {
  BlobCounts counts;
  std::string from = last ? digest_key(kBlobPrefix, *last) + '\0' : std::string(kBlobPrefix);
  LFARM_RETURN_IF_ERROR(
      database.scan_from(Family::kMeta, from, [&](std::string_view name, std::string_view note) {
        if (!name.starts_with(kBlobPrefix) || counts.blobs_.size() >= count) return false;
        if (auto digest = trailing_digest(name)) {
          counts.blobs_.push_back({*digest, decode_note(note).bytes, 0});
        }
        return true;
      }));
  return counts;
}

Result<BlobCounts> BlobCounts::of(const Database& database, std::vector<Digest> digests) {
  std::sort(digests.begin(), digests.end());
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
  BlobCounts counts;
  for (const Digest& digest : digests) {
    LFARM_ASSIGN_OR_RETURN(auto note, database.get(Family::kMeta, digest_key(kBlobPrefix, digest)));
    if (note) counts.blobs_.push_back({digest, decode_note(*note).bytes, 0});
  }
  return counts;
}

Status BlobCounts::count(const Database& database) {
  return database.scan(Family::kPlans, kPlanPrefix, [&](std::string_view, std::string_view record) {
    auto header = decode_plan_header(record);
    if (!header) return true;
    for (const Need& need : header->needs) {
      if (CountedBlob* blob = find(need.digest)) ++blob->references;
    }
    return true;
  });
}

CountedBlob* BlobCounts::find(const Digest& digest) {
  auto blob = std::lower_bound(
      blobs_.begin(), blobs_.end(), digest,
      [](const CountedBlob& one, const Digest& wanted) { return one.digest < wanted; });
  return blob != blobs_.end() && blob->digest == digest ? &*blob : nullptr;
}

Result<std::vector<AgedPlan>> oldest_plans(const Database& database, size_t count) {
  std::vector<AgedPlan> oldest;  // a heap with the latest of them in front
  std::string from(kPlanPrefix);
  while (true) {
    LFARM_ASSIGN_OR_RETURN(std::vector<AgedPlan> plans, next_plans(database, from));
    if (plans.empty()) break;
    LFARM_RETURN_IF_ERROR(add_uses(database, plans));
    for (const AgedPlan& plan : plans) {
      if (oldest.size() == count) {
        if (count == 0 || !goes_before(plan, oldest.front())) continue;
        std::pop_heap(oldest.begin(), oldest.end(), goes_before);
        oldest.pop_back();
      }
      oldest.push_back(plan);
      std::push_heap(oldest.begin(), oldest.end(), goes_before);
    }
  }
  std::sort_heap(oldest.begin(), oldest.end(), goes_before);
  return oldest;
}

Result<std::vector<Digest>> needs_of(const Database& database, std::vector<AgedPlan>& plans,
                                     size_t count) {
  std::vector<Digest> needs;
  for (size_t k = 0; k < plans.size(); ++k) {
    auto record = database.get(Family::kPlans, plan_key(plans[k].key));
    if (!record.ok() && record.error().code != common::Code::kCorrupt) return record.error();
    auto header = record.ok() && *record ? decode_plan_header(**record) : std::nullopt;
    if (!header) continue;
    if (k > 0 && needs.size() + header->needs.size() > count) {
      plans.resize(k);
      break;
    }
    for (const Need& need : header->needs) needs.push_back(need.digest);
  }
  return needs;
}

}  // namespace cache
