#include <algorithm>

#include "cache/store/store_state.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

StoredPlan to_plan(const Digest& key, const PlanHeader& header, std::string record) {
  StoredPlan plan;
  plan.facts = facts_of(key, header);
  plan.created_wall_ns = header.created_wall_ns;
  plan.needs.reserve(header.needs.size());
  for (const Need& need : header.needs) plan.needs.push_back(need.digest);
  record.erase(0, header.size);
  plan.bytes = std::move(record);
  return plan;
}

// The digests at the ends of the keys that begin so, in order.
Result<std::vector<Digest>> listed_under(const Database& database, Family family,
                                         std::string_view prefix) {
  std::vector<Digest> listed;
  LFARM_RETURN_IF_ERROR(database.scan(family, prefix, [&](std::string_view key, std::string_view) {
    if (auto digest = trailing_digest(key)) listed.push_back(*digest);
    return true;
  }));
  return listed;
}

Status validate(const NewPlan& plan, bool only_if_better) {
  std::string name = cat("plan ", plan.facts.key.short_hex());
  if (plan.facts.best_ns < 0 || (only_if_better && plan.facts.best_ns == 0)) {
    return common::invalid_input(
        cat(name, " has the time ", plan.facts.best_ns, " ns: measure it before it is stored"));
  }
  if (plan.needs.size() > kNeedsMax || plan.bytes.size() > kBlobBytesMax) {
    return common::invalid_input(cat(name, " has ", plan.needs.size(), " kernels and ",
                                     plan.bytes.size(), " bytes, above the limits of ", kNeedsMax,
                                     " and ", kBlobBytesMax));
  }
  return {};
}

}  // namespace

void Store::State::add_plan_removal(Batch& batch, const Digest& key, const PlanHeader& header,
                                    size_t record_bytes) {
  batch.remove(Family::kPlans, plan_key(key));
  batch.remove(Family::kPlans, graph_key(header.graph_hash, key));
  batch.remove(Family::kPlans, created_key(header.created_wall_ns, key));
  batch.remove(Family::kPlans, name_key(header.plan_id, key));
  for (const Digest& name : header.names) batch.remove(Family::kPlans, name_key(name, key));
  batch.remove(Family::kMeta, digest_key(kUsedPrefix, key));
  counters.plans.remove(record_bytes);
}

Status Store::State::discard_plan(const Digest& key, const std::string& record) {
  if (database->read_only()) return {};
  std::lock_guard lock(commit);
  auto current = database->get(Family::kPlans, plan_key(key));
  bool unreadable = !current.ok() && current.error().code == common::Code::kCorrupt;
  if (!current.ok() && !unreadable) return current.error();
  if (!unreadable && (!*current || **current != record)) return {};
  common::log_warning(cat("store: dropping plan ", key.short_hex(),
                          ": it is damaged or one of its kernels is gone"));
  Counters before = counters;
  Batch batch;
  // Of an unreadable record neither graph nor size is known; its index entry is skipped by readers.
  auto header = unreadable ? std::nullopt : decode_plan_header(record);
  add_plan_removal(batch, key, header.value_or(PlanHeader()), record.size());
  return write_counted(batch, before);
}

// Adds what it takes to keep the plan. Returns whether it is to be kept.
Result<bool> Store::State::add_plan(Batch& batch, const NewPlan& plan, bool only_if_better) {
  const Digest& key = plan.facts.key;
  PlanHeader header;
  header.graph_hash = plan.facts.graph_hash;
  header.plan_id = plan.facts.plan_id;
  header.best_ns = plan.facts.best_ns;
  header.search_ms = plan.facts.search_ms;
  LFARM_ASSIGN_OR_RETURN(auto revoked,
                         database->get(Family::kMeta, digest_key(kRevokedPrefix, header.plan_id)));
  if (revoked) {
    return common::Error{common::Code::kVerification,
                         cat("plan ", header.plan_id.short_hex(), " was revoked (", *revoked,
                             "): compile the model again")};
  }
  Digest missing;
  LFARM_ASSIGN_OR_RETURN(auto needs, resolve(plan.needs, &missing));
  if (!needs) {
    return common::invalid_input(cat("plan ", key.short_hex(), " needs the kernel ",
                                     missing.short_hex(), ", which is not in ", directory,
                                     ": put it first"));
  }
  header.needs = std::move(*needs);
  header.names = plan.names;
  auto existing = database->get(Family::kPlans, plan_key(key));
  if (!existing.ok() && existing.error().code != common::Code::kCorrupt) return existing.error();
  if (existing.ok() && *existing) {
    auto old = decode_plan_header(**existing);
    if (old && only_if_better && old->best_ns > 0 && old->best_ns <= header.best_ns) {
      bool usable = true;
      for (const Need& need : old->needs) {
        LFARM_ASSIGN_OR_RETURN(BlobCondition condition, check_blob(need));
        usable = usable && condition == BlobCondition::kIntact;
      }
      if (usable) return false;
    }
    add_plan_removal(batch, key, old.value_or(PlanHeader()), (*existing)->size());
  }
  header.created_wall_ns = now();
  std::string record = encode_plan(header, plan.bytes);
  std::string used = encode_use({header.created_wall_ns, written_uses(*database, key)});
  batch.put(Family::kPlans, plan_key(key), record);
  batch.put(Family::kPlans, graph_key(header.graph_hash, key), {});
  batch.put(Family::kPlans, created_key(header.created_wall_ns, key), {});
  batch.put(Family::kPlans, name_key(header.plan_id, key), {});
  for (const Digest& name : header.names) batch.put(Family::kPlans, name_key(name, key), {});
  batch.put(Family::kMeta, digest_key(kUsedPrefix, key), used);
  counters.plans.add(record.size());
  return true;
}

// Returns whether any was kept.
Result<bool> Store::State::commit_plans(std::span<const NewPlan> plans, bool only_if_better) {
  for (const NewPlan& plan : plans) LFARM_RETURN_IF_ERROR(validate(plan, only_if_better));
  LFARM_RETURN_IF_ERROR(settle_repairs());
  bool any = false;
  {
    std::lock_guard lock(commit);
    Counters before = counters;
    Batch batch;
    for (const NewPlan& plan : plans) {
      auto kept = add_plan(batch, plan, only_if_better);
      if (!kept.ok()) {
        counters = before;
        return kept.error();
      }
      any = any || *kept;
    }
    if (!any) return false;
    LFARM_RETURN_IF_ERROR(write_counted(batch, before));
    for (const NewPlan& plan : plans) waiting.end_wait(plan.needs);
  }
  // The blobs were written to the same log before the plans, so this brings them along.
  auto is_durable = [](const NewPlan& plan) { return plan.is_durable; };
  if (std::any_of(plans.begin(), plans.end(), is_durable)) {
    LFARM_RETURN_IF_ERROR(database->sync());
  }
  LFARM_RETURN_IF_ERROR(collect_if_full());
  return true;
}

Result<std::optional<Store::State::Found>> Store::State::find_plan(const Digest& key,
                                                                   bool with_blobs) {
  LFARM_RETURN_IF_ERROR(settle_repairs());
  auto record = database->get(Family::kPlans, plan_key(key));
  if (!record.ok()) {
    if (record.error().code != common::Code::kCorrupt) return record.error();
    LFARM_RETURN_IF_ERROR(discard_plan(key, {}));
    return std::optional<Found>();
  }
  if (!*record) return std::optional<Found>();
  Found found;
  found.record = std::move(**record);
  auto header = decode_plan_header(found.record);
  bool usable = header.has_value();
  if (usable) {
    found.header = std::move(*header);
    for (const Need& need : found.header.needs) {
      if (with_blobs) found.blobs.emplace_back();
      LFARM_ASSIGN_OR_RETURN(
          BlobCondition condition,
          with_blobs ? verify_blob(need.digest, &found.blobs.back()) : check_blob(need));
      if (condition == BlobCondition::kIntact) continue;
      usable = false;
      if (condition == BlobCondition::kDamaged) LFARM_RETURN_IF_ERROR(discard_damaged(need.digest));
      break;
    }
  }
  if (usable) return std::optional<Found>(std::move(found));
  LFARM_RETURN_IF_ERROR(discard_plan(key, found.record));
  return std::optional<Found>();
}

Status Store::put_plan(const NewPlan& plan) {
  auto kept = state_->commit_plans({&plan, 1}, false);
  if (!kept.ok()) return kept.error();
  return {};
}

Result<bool> Store::put_plan_if_better(const NewPlan& plan) {
  return state_->commit_plans({&plan, 1}, true);
}

Status Store::put_plans_if_better(std::span<const NewPlan> plans) {
  auto kept = state_->commit_plans(plans, true);
  if (!kept.ok()) return kept.error();
  return {};
}

Result<std::optional<StoredPlan>> Store::get_plan(const Digest& key, Lookup lookup) {
  LFARM_ASSIGN_OR_RETURN(auto found, state_->find_plan(key, false));
  if (lookup == Lookup::kServe) state_->note_lookup(key, found.has_value());
  if (!found) return std::optional<StoredPlan>();
  return std::optional<StoredPlan>(to_plan(key, found->header, std::move(found->record)));
}

Result<std::optional<PlanBundle>> Store::get_bundle(const Digest& key) {
  LFARM_ASSIGN_OR_RETURN(auto found, state_->find_plan(key, true));
  state_->note_lookup(key, found.has_value());
  if (!found) return std::optional<PlanBundle>();
  PlanBundle bundle;
  bundle.plan = to_plan(key, found->header, std::move(found->record));
  bundle.blobs = std::move(found->blobs);
  return std::optional<PlanBundle>(std::move(bundle));
}

Result<std::vector<Digest>> Store::plans_of_graph(const Digest& graph_hash) {
  LFARM_ASSIGN_OR_RETURN(
      std::vector<Digest> listed,
      listed_under(*state_->database, Family::kPlans, digest_key(kGraphPrefix, graph_hash)));
  std::vector<Digest> keys;
  for (const Digest& key : listed) {
    LFARM_ASSIGN_OR_RETURN(auto record, state_->database->get(Family::kPlans, plan_key(key)));
    if (record) keys.push_back(key);
  }
  return keys;
}

Result<std::vector<Digest>> Store::plans_named(const Digest& name) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> listed, listed_under(*state_->database, Family::kPlans,
                                                                  digest_key(kNamePrefix, name)));
  // Where a record could not be read when its plan was replaced, its names have stayed.
  std::vector<Digest> keys;
  for (const Digest& key : listed) {
    LFARM_ASSIGN_OR_RETURN(auto record, state_->database->get(Family::kPlans, plan_key(key)));
    auto header = record ? decode_plan_header(*record) : std::nullopt;
    bool has_it = header && (header->plan_id == name || common::contains(header->names, name));
    if (has_it) keys.push_back(key);
  }
  return keys;
}

Result<std::optional<StoredPlan>> Store::plan_of_id(const Digest& plan_id) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> keys, plans_named(plan_id));
  for (const Digest& key : keys) {
    LFARM_ASSIGN_OR_RETURN(auto stored, get_plan(key, Lookup::kInspect));
    if (stored && stored->facts.plan_id == plan_id) return stored;
  }
  return std::optional<StoredPlan>();
}

Result<bool> Store::remove_plan(const Digest& key) {
  State& state = *state_;
  std::lock_guard lock(state.commit);
  LFARM_ASSIGN_OR_RETURN(auto record, state.database->get(Family::kPlans, plan_key(key)));
  if (!record) return false;
  Counters before = state.counters;
  Batch batch;
  state.add_plan_removal(batch, key, decode_plan_header(*record).value_or(PlanHeader()),
                         record->size());
  LFARM_RETURN_IF_ERROR(state.write_counted(batch, before));
  return true;
}

Status Store::State::add_revocation_number(Batch& batch, std::string_view owner) const {
  LFARM_ASSIGN_OR_RETURN(uint64_t before, newest_revocation());
  std::string number;
  append_u64(number, std::max(before + 1, static_cast<uint64_t>(now())));
  batch.put(Family::kMeta, std::string(kRevokedAtPrefix).append(owner), number);
  batch.put(Family::kMeta, kNewestRevocationKey, number);
  return {};
}

Result<uint64_t> Store::State::newest_revocation() const {
  LFARM_ASSIGN_OR_RETURN(auto known, database->get(Family::kMeta, kNewestRevocationKey));
  if (known) return FieldReader(*known).u64();
  // None yet, or only by a release that did not note it.
  uint64_t newest = 0;
  LFARM_RETURN_IF_ERROR(database->scan(Family::kMeta, kRevokedAtPrefix,
                                       [&](std::string_view, std::string_view number) {
                                         newest = std::max(newest, FieldReader(number).u64());
                                         return true;
                                       }));
  return newest;
}

void Store::State::add_revocation(Batch& batch, const Digest& plan_id, std::string_view reason) {
  for (Family family : {Family::kMeta, Family::kPlans}) {
    batch.put(family, digest_key(kRevokedPrefix, plan_id), reason);
  }
}

Result<std::map<Digest, std::string>> Store::State::revoked_plans() const {
  std::map<Digest, std::string> plans;
  for (Family family : {Family::kMeta, Family::kPlans}) {
    LFARM_RETURN_IF_ERROR(
        database->scan(family, kRevokedPrefix, [&](std::string_view key, std::string_view reason) {
          if (auto plan = trailing_digest(key)) plans.emplace(*plan, reason);
          return true;
        }));
  }
  return plans;
}

Result<uint64_t> Store::revoke(const Digest& plan_id, std::string_view reason,
                               std::string_view owner) {
  State& state = *state_;
  uint64_t removed = 0;
  {
    std::lock_guard lock(state.commit);
    Counters before = state.counters;
    Batch batch;
    LFARM_ASSIGN_OR_RETURN(std::vector<Digest> keys, plans_named(plan_id));
    for (const Digest& key : keys) {
      LFARM_ASSIGN_OR_RETURN(auto record, state.database->get(Family::kPlans, plan_key(key)));
      auto header = record ? decode_plan_header(*record) : std::nullopt;
      if (!header || header->plan_id != plan_id) continue;
      state.add_plan_removal(batch, key, *header, record->size());
      ++removed;
    }
    State::add_revocation(batch, plan_id, reason);
    LFARM_RETURN_IF_ERROR(state.add_revocation_number(batch, owner));
    LFARM_RETURN_IF_ERROR(state.write_counted(batch, before));
  }
  LFARM_RETURN_IF_ERROR(state.database->sync());
  return removed;
}

Result<std::optional<std::string>> Store::revocation(const Digest& plan_id) {
  return state_->database->get(Family::kMeta, digest_key(kRevokedPrefix, plan_id));
}

Result<uint64_t> Store::last_revocation(std::string_view owner) {
  uint64_t last = 0;
  for (std::string_view whose : {std::string_view(), owner}) {
    std::string key = std::string(kRevokedAtPrefix).append(whose);
    LFARM_ASSIGN_OR_RETURN(auto number, state_->database->get(Family::kMeta, key));
    if (number) last = std::max(last, FieldReader(*number).u64());
  }
  return last;
}

Result<uint64_t> Store::newest_revocation() { return state_->newest_revocation(); }

Result<std::vector<Digest>> Store::revocations() {
  return listed_under(*state_->database, Family::kMeta, kRevokedPrefix);
}

}  // namespace cache
