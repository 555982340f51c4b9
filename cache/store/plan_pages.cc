// Lists of plans, of which no call reads more than it returns.
#include <algorithm>
#include <set>
#include <utility>

#include "cache/store/store_state.h"
#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

// Plans that are visited between two looks into the database: half a megabyte of small ones.
constexpr size_t kPlansAtOnce = 1'024;
// A page's `next`: the key of the index behind its prefix, as hexadecimal digits.
constexpr size_t kCursorBytes = 8 + sizeof(Digest);

using Uses = std::unordered_map<Digest, PlanUse>;

// `use`: none where the plan was put by a release that did not note it.
PlanListing listing_from(const Digest& key, const PlanHeader& header, size_t record_bytes,
                         const std::optional<PlanUse>& use) {
  PlanListing listing;
  listing.facts = facts_of(key, header);
  listing.bytes = record_bytes - header.size;
  listing.needs = header.needs.size();
  listing.created_wall_ns = header.created_wall_ns;
  listing.last_used_wall_ns = use ? use->last_wall_ns : header.created_wall_ns;
  listing.uses = use ? use->uses : 0;
  return listing;
}

// The lowest digest that begins with these digits.
std::optional<Digest> lowest_beginning(std::string_view digits) {
  std::string padded(digits.substr(0, 2 * sizeof(Digest)));
  padded.resize(2 * sizeof(Digest), '0');
  return Digest::parse(padded);
}

std::string cursor_text(std::string_view index_key) {
  return common::to_hex(common::as_bytes(index_key.substr(kCreatedPrefix.size())));
}

}  // namespace

Result<std::vector<PlanListing>> Store::plans_after(const std::optional<Digest>& key,
                                                    size_t count) {
  State& state = *state_;
  std::string from = key ? plan_key(*key) + '\0' : std::string(kPlanPrefix);
  std::vector<PlanListing> plans;
  LFARM_RETURN_IF_ERROR(state.database->scan_from(
      Family::kPlans, from, [&](std::string_view name, std::string_view record) {
        if (!name.starts_with(kPlanPrefix) || plans.size() >= count) return false;
        auto header = decode_plan_header(record);
        auto digest = trailing_digest(name);
        if (header && digest) {
          plans.push_back(listing_from(*digest, *header, record.size(), std::nullopt));
        }
        return true;
      }));
  if (plans.empty()) return plans;
  // Uses lie in the same order.
  Uses used;
  const std::string last = digest_key(kUsedPrefix, plans.back().facts.key);
  LFARM_RETURN_IF_ERROR(
      state.database->scan_from(Family::kMeta, digest_key(kUsedPrefix, plans.front().facts.key),
                                [&](std::string_view name, std::string_view value) {
                                  if (name > last) return false;
                                  if (auto digest = trailing_digest(name))
                                    used[*digest] = decode_use(value);
                                  return true;
                                }));
  state.uses.add_to(used);
  for (PlanListing& plan : plans) {
    auto use = used.find(plan.facts.key);
    if (use == used.end()) continue;
    plan.last_used_wall_ns = use->second.last_wall_ns;
    plan.uses = use->second.uses;
  }
  return plans;
}

Status Store::for_each_plan(const std::function<Status(const PlanListing&)>& visit) {
  std::optional<Digest> last;
  while (true) {
    LFARM_ASSIGN_OR_RETURN(std::vector<PlanListing> some, plans_after(last, kPlansAtOnce));
    for (const PlanListing& plan : some) LFARM_RETURN_IF_ERROR(visit(plan));
    if (some.empty()) return {};
    last = some.back().facts.key;
  }
}

Result<std::vector<PlanListing>> Store::list_plans() {
  std::vector<PlanListing> all;
  LFARM_RETURN_IF_ERROR(for_each_plan([&all](const PlanListing& plan) -> Status {
    all.push_back(plan);
    return {};
  }));
  return all;
}

Result<std::optional<PlanListing>> Store::State::listing_of(const Digest& key) {
  auto record = database->get(Family::kPlans, plan_key(key));
  if (!record.ok() && record.error().code != common::Code::kCorrupt) return record.error();
  auto header = record.ok() && *record ? decode_plan_header(**record) : std::nullopt;
  if (!header) return std::optional<PlanListing>();
  LFARM_ASSIGN_OR_RETURN(auto written, database->get(Family::kMeta, digest_key(kUsedPrefix, key)));
  auto use = written ? std::optional(decode_use(*written)) : std::nullopt;
  return std::optional(listing_from(key, *header, (*record)->size(), uses.with_pending(key, use)));
}

Result<PlanPage> Store::newest_plans(const std::string& from, size_t count, size_t skip) {
  std::string begin(kCreatedPrefix);
  if (!from.empty()) {
    auto bytes = common::from_hex(from);
    if (!bytes || bytes->size() != kCursorBytes) {
      return common::invalid_input(cat("no page of plans begins at '", from, "'"));
    }
    begin.append(common::as_text(*bytes)).push_back('\0');
  }
  std::vector<Digest> keys;
  PlanPage page;
  std::string last;
  LFARM_RETURN_IF_ERROR(state_->database->scan_from(Family::kPlans, begin,
                                                    [&](std::string_view name, std::string_view) {
                                                      if (!name.starts_with(kCreatedPrefix))
                                                        return false;
                                                      if (skip > 0) {
                                                        --skip;
                                                        return true;
                                                      }
                                                      if (keys.size() >= count) {
                                                        page.next = cursor_text(last);
                                                        return false;
                                                      }
                                                      last = name;
                                                      if (auto digest = trailing_digest(name))
                                                        keys.push_back(*digest);
                                                      return true;
                                                    }));
  for (const Digest& key : keys) {
    LFARM_ASSIGN_OR_RETURN(auto listing, state_->listing_of(key));
    if (listing) page.plans.push_back(*listing);
  }
  return page;
}

Result<std::vector<PlanListing>> Store::plans_beginning(std::string_view digits, size_t count) {
  auto lowest = lowest_beginning(digits);
  if (!lowest) return common::invalid_input(cat("'", digits, "' are no hexadecimal digits"));
  std::set<Digest> keys;
  for (std::string_view prefix : {kNamePrefix, kGraphPrefix}) {
    size_t seen = 0;
    LFARM_RETURN_IF_ERROR(state_->database->scan_from(
        Family::kPlans, digest_key(prefix, *lowest), [&](std::string_view name, std::string_view) {
          if (!name.starts_with(prefix)) return false;
          FieldReader fields(name.substr(prefix.size()));
          if (!fields.digest().hex().starts_with(digits)) return false;
          if (auto key = trailing_digest(name)) keys.insert(*key);
          return ++seen < count;
        }));
  }
  std::vector<PlanListing> plans;
  for (const Digest& key : keys) {
    if (plans.size() >= count) break;
    LFARM_ASSIGN_OR_RETURN(auto listing, state_->listing_of(key));
    if (listing) plans.push_back(*listing);
  }
  return plans;
}

Status Store::State::add_created_keys() {
  // One that was added before is added again alike.
  std::string bound(kPlanPrefix);
  while (true) {
    Batch batch;
    size_t seen = 0;
    std::string last;
    LFARM_RETURN_IF_ERROR(database->scan_from(
        Family::kPlans, bound, [&](std::string_view name, std::string_view record) {
          if (!name.starts_with(kPlanPrefix) || seen >= kPlansAtOnce) return false;
          auto header = decode_plan_header(record);
          auto key = trailing_digest(name);
          if (header && key) {
            batch.put(Family::kPlans, created_key(header->created_wall_ns, *key), {});
          }
          last = name;
          ++seen;
          return true;
        }));
    if (seen == 0) return {};
    LFARM_RETURN_IF_ERROR(database->write(batch, false));
    bound = last + '\0';
  }
}

}  // namespace cache
