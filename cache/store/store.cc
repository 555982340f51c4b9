#include "cache/store/store.h"

#include <algorithm>

#include "cache/store/repair.h"
#include "cache/store/store_state.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/hash64.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Digest;
using common::digest_of;
using common::Result;
using common::Status;

namespace {

// 2 added names, by which plans are found, and counts of measurements and negatives; 3 the order in
// which plans were created.
constexpr uint32_t kFormat = 3;
constexpr uint32_t kFormatWithoutNames = 1;

std::string encode_counters(const Counters& counters) {
  std::string out;
  append_u64(out, counters.plans.count);
  append_u64(out, counters.plans.bytes);
  append_u64(out, counters.kernels.count);
  append_u64(out, counters.kernels.bytes);
  return out;
}

Result<Counters> read_counters(const Database& database) {
  LFARM_ASSIGN_OR_RETURN(auto record, database.get(Family::kMeta, kCountersKey));
  Counters counters;
  if (!record) return counters;
  FieldReader fields(*record);
  counters.plans.count = fields.u64();
  counters.plans.bytes = fields.u64();
  counters.kernels.count = fields.u64();
  counters.kernels.bytes = fields.u64();
  return counters;
}

std::string encode_small_counters(const SmallCounters& counters) {
  std::string out;
  for (const FamilyStats& family : {counters.measurements, counters.negatives}) {
    append_u64(out, family.count);
    append_u64(out, family.bytes);
  }
  return out;
}

Result<SmallCounters> read_small_counters(const Database& database) {
  LFARM_ASSIGN_OR_RETURN(auto record, database.get(Family::kMeta, kSmallCountersKey));
  SmallCounters counters;
  if (!record) return counters;
  FieldReader fields(*record);
  for (FamilyStats* family : {&counters.measurements, &counters.negatives}) {
    family->count = fields.u64();
    family->bytes = fields.u64();
  }
  return counters;
}

Status write_format(Database& database) {
  std::string format;
  append_u32(format, kFormat);
  Batch batch;
  batch.put(Family::kMeta, kFormatKey, format);
  return database.write(batch, false);
}

// The store's format, which is this one or an earlier one that can be brought to it.
Result<uint32_t> read_format(Database& database, const std::string& directory) {
  LFARM_ASSIGN_OR_RETURN(auto record, database.get(Family::kMeta, kFormatKey));
  if (!record) {
    if (!database.read_only()) LFARM_RETURN_IF_ERROR(write_format(database));
    return kFormat;
  }
  uint32_t format = FieldReader(*record).u32();
  if (format == kFormat) return format;
  if (format >= kFormatWithoutNames && format < kFormat) {
    if (!database.read_only()) return format;
    return common::unsupported(cat("the store in ", directory,
                                   " is of an earlier release: run "
                                   "something that writes to it, such as `lfarm up`, once"));
  }
  return common::unsupported(cat("the store in ", directory, " has format ", format,
                                 ", this lfarm reads ", kFormat,
                                 ": use the lfarm that wrote it, or another --state"));
}

}  // namespace

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}

Store::~Store() {
  state_->collector.stop();
  state_->uses.flush(*state_->database);
}

Result<std::unique_ptr<Store>> Store::open(const std::string& directory,
                                           const StoreOptions& options) {
  DatabaseOptions settings;
  settings.read_only = options.read_only;
  settings.block_cache_bytes = options.block_cache_bytes;
  LFARM_ASSIGN_OR_RETURN(auto database, Database::open(directory, settings));
  LFARM_ASSIGN_OR_RETURN(const uint32_t format, read_format(*database, directory));
  auto state = std::make_unique<State>();
  state->directory = directory;
  state->options = options;
  if (!state->options.wall_ns) state->options.wall_ns = common::wall_clock_ns;
  state->collect_above = options.max_bytes;
  LFARM_ASSIGN_OR_RETURN(state->counters, read_counters(*database));
  LFARM_ASSIGN_OR_RETURN(state->small, read_small_counters(*database));
  LFARM_RETURN_IF_ERROR(state->uses.read(*database));
  state->database = std::move(database);
  if (format != kFormat) {
    common::log_info(cat("store: bringing ", directory, " to this release's format"));
    if (format == kFormatWithoutNames) LFARM_RETURN_IF_ERROR(state->add_names());
    LFARM_RETURN_IF_ERROR(state->add_created_keys());
    LFARM_RETURN_IF_ERROR(write_format(*state->database));
  }
  LFARM_RETURN_IF_ERROR(state->settle_repairs());
  if (options.collects_in_background && !options.read_only) {
    state->collector.start([it = state.get()] {
      if (Status status = it->collect_now(); !status.ok()) {
        common::log_warning(cat("store: nothing was collected: ", status.error().message));
      }
    });
  }
  return std::unique_ptr<Store>(new Store(std::move(state)));
}

std::string Store::trouble() const { return state_->database->trouble(); }

StoreHealth Store::health() const {
  DatabaseHealth health = state_->database->health();
  return {std::move(health.trouble), health.failed_writes, quarantined_files(state_->directory)};
}

Status Store::State::settle_repairs() {
  if (database->repairs() == repairs_seen) return {};
  std::lock_guard lock(commit);
  uint64_t repairs = database->repairs();
  if (repairs == repairs_seen) return {};
  intact.forget_all();
  LFARM_RETURN_IF_ERROR(recount());
  LFARM_RETURN_IF_ERROR(recount_small());
  LFARM_RETURN_IF_ERROR(add_created_keys());
  repairs_seen = repairs;
  return {};
}

Status Store::sync() { return state_->database->sync(); }

Status Store::checkpoint(const std::string& directory) {
  state_->uses.flush(*state_->database);
  return state_->database->checkpoint(directory);
}

Status Store::refresh() {
  LFARM_RETURN_IF_ERROR(state_->database->refresh());
  if (!state_->database->read_only()) return {};
  std::lock_guard commit(state_->commit);
  LFARM_ASSIGN_OR_RETURN(state_->counters, read_counters(*state_->database));
  LFARM_RETURN_IF_ERROR(state_->uses.read(*state_->database));
  {
    std::lock_guard lock(state_->measuring);
    LFARM_ASSIGN_OR_RETURN(state_->small, read_small_counters(*state_->database));
  }
  state_->intact.forget_all();
  return {};
}

Status Store::State::write_counted(Batch& batch, const Counters& before) {
  batch.put(Family::kMeta, kCountersKey, encode_counters(counters));
  auto status = database->write(batch, false);
  if (!status.ok()) counters = before;
  return status;
}

Status Store::State::write_small(Batch& batch, const SmallCounters& before, bool durable) {
  batch.put(Family::kMeta, kSmallCountersKey, encode_small_counters(small));
  auto status = database->write(batch, durable);
  if (!status.ok()) small = before;
  return status;
}

// --- Blobs
// ----------------------------------------------------------------------------------------

Result<std::optional<BlobNote>> Store::State::blob_note(const Digest& digest) const {
  LFARM_ASSIGN_OR_RETURN(auto note, database->get(Family::kMeta, digest_key(kBlobPrefix, digest)));
  if (!note) return std::optional<BlobNote>();
  return std::optional<BlobNote>(decode_note(*note));
}

template <class IsIntact>
Result<BlobCondition> Store::State::inspect_blob(const Digest& digest, const IsIntact& is_intact,
                                                 std::string* bytes) {
  const uint64_t removals_before = intact.removals();
  auto found = database->get(Family::kKernels, key_of(digest));
  if (!found.ok()) {
    if (found.error().code != common::Code::kCorrupt) return found.error();
    return BlobCondition::kDamaged;
  }
  if (!*found) return BlobCondition::kMissing;
  if (!is_intact(**found)) return BlobCondition::kDamaged;
  if (bytes != nullptr) *bytes = std::move(**found);
  intact.add_unless_removed(digest, removals_before);
  return BlobCondition::kIntact;
}

Result<BlobCondition> Store::State::verify_blob(const Digest& digest, std::string* bytes) {
  return inspect_blob(
      digest, [&](std::string_view found) { return digest_of(found) == digest; }, bytes);
}

Result<BlobCondition> Store::State::check_blob(const Need& need) {
  if (intact.holds(need.digest)) return BlobCondition::kIntact;
  return inspect_blob(
      need.digest, [&](std::string_view found) { return common::hash64(found) == need.checksum; },
      nullptr);
}

Result<std::optional<std::vector<Need>>> Store::State::resolve(const std::vector<Digest>& digests,
                                                               Digest* missing) {
  std::vector<Need> needs;
  needs.reserve(digests.size());
  for (const Digest& digest : digests) {
    LFARM_ASSIGN_OR_RETURN(auto note, blob_note(digest));
    BlobCondition condition = BlobCondition::kMissing;
    if (note) {
      needs.push_back({digest, note->checksum});
      LFARM_ASSIGN_OR_RETURN(condition, check_blob(needs.back()));
    }
    if (condition == BlobCondition::kIntact) continue;
    *missing = digest;
    return std::optional<std::vector<Need>>();
  }
  return std::optional<std::vector<Need>>(std::move(needs));
}

void Store::State::add_removal(Batch& batch, const Digest& blob, uint64_t bytes) {
  batch.remove(Family::kKernels, key_of(blob));
  batch.remove(Family::kMeta, digest_key(kBlobPrefix, blob));
  counters.kernels.remove(bytes);
}

Status Store::State::discard_damaged(const Digest& digest) {
  if (database->read_only()) return {};
  std::lock_guard lock(commit);
  LFARM_ASSIGN_OR_RETURN(BlobCondition condition, verify_blob(digest, nullptr));
  if (condition != BlobCondition::kDamaged) return {};
  common::log_warning(cat("store: removing the damaged kernel ", digest.short_hex()));
  LFARM_ASSIGN_OR_RETURN(auto note, blob_note(digest));
  Counters before = counters;
  Batch batch;
  add_removal(batch, digest, note ? note->bytes : 0);
  LFARM_RETURN_IF_ERROR(write_counted(batch, before));
  intact.forget({&digest, 1});
  return {};
}

Result<Digest> Store::put_blob(std::string_view bytes) {
  State& state = *state_;
  LFARM_RETURN_IF_ERROR(state.settle_repairs());
  if (bytes.size() > kBlobBytesMax) {
    return common::invalid_input(cat("a kernel of ", bytes.size(), " bytes is above the limit of ",
                                     kBlobBytesMax, ": split it"));
  }
  Digest digest = digest_of(bytes);
  {
    std::lock_guard lock(state.commit);
    state.waiting.note(digest, state.now(), bytes.size());
    BlobNote note{bytes.size(), common::hash64(bytes)};
    LFARM_ASSIGN_OR_RETURN(auto old, state.blob_note(digest));
    if (old && old->checksum == note.checksum) {
      LFARM_ASSIGN_OR_RETURN(BlobCondition condition,
                             state.check_blob(Need{digest, note.checksum}));
      if (condition == BlobCondition::kIntact) return digest;
    }
    Counters before = state.counters;
    Batch batch;
    // A note without good bytes belongs to a damaged or lost copy, which this one replaces.
    if (old) state.add_removal(batch, digest, old->bytes);
    batch.put(Family::kKernels, key_of(digest), bytes);
    batch.put(Family::kMeta, digest_key(kBlobPrefix, digest), encode_note(note));
    state.counters.kernels.add(bytes.size());
    LFARM_RETURN_IF_ERROR(state.write_counted(batch, before));
    state.intact.add(digest);
  }
  LFARM_RETURN_IF_ERROR(state.collect_if_full());
  return digest;
}

Result<std::optional<std::string>> Store::get_blob(const Digest& digest) {
  LFARM_RETURN_IF_ERROR(state_->settle_repairs());
  std::string bytes;
  LFARM_ASSIGN_OR_RETURN(BlobCondition condition, state_->verify_blob(digest, &bytes));
  if (condition == BlobCondition::kMissing) return std::optional<std::string>();
  if (condition == BlobCondition::kIntact) return std::optional<std::string>(std::move(bytes));
  state_->intact.forget({&digest, 1});
  LFARM_RETURN_IF_ERROR(state_->discard_damaged(digest));
  return common::corrupt(cat("the kernel ", digest.short_hex(), " in ", state_->directory,
                             " is damaged and was dropped: fetch or compile it again"));
}

Result<bool> Store::has_blob(const Digest& digest) {
  LFARM_RETURN_IF_ERROR(state_->settle_repairs());
  // Before the look: from here on no collection removes it.
  state_->waiting.note(digest, state_->now(), 0);
  LFARM_ASSIGN_OR_RETURN(auto note, state_->blob_note(digest));
  if (note) state_->waiting.note(digest, state_->now(), note->bytes);
  return note.has_value();
}

// --- Usage
// ----------------------------------------------------------------------------------------

void Store::State::note_lookup(const Digest& key, bool is_hit) {
  if (is_hit) {
    uses.note_hit(*database, key, now());
  } else {
    uses.note_miss();
  }
}

}  // namespace cache
