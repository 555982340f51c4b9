#include "coordinator/service/plans/stored_tuning_records.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cache/store/records.h"
#include "common/base/cat.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {
namespace {

constexpr size_t kBytesMax = size_t{1} << 20;

// Kernels take some sixty bytes, regions some ten thousand: 160 MB and 4 MB when all places are
// taken. The number in a prefix changes with the record's
// layout.
std::string place_of(TuningRecordKind kind, const common::Digest& key) {
  switch (kind) {
    case TuningRecordKind::kRegion:
      return common::cat(kTuningRecordPrefixes[0], key.prefix64() % 16'384);
    case TuningRecordKind::kKernel:
      return common::cat(kTuningRecordPrefixes[1], key.prefix64() % 65'536);
    case TuningRecordKind::kKin:
      break;
  }
  return common::cat(kTuningRecordPrefixes[2], key.prefix64() % 4'096);
}

// Comes before a genome, where a program would begin with a number of segments.
constexpr std::string_view kGenomeMark = "genome-1";
constexpr uint32_t kGenesMax = 100'000;

std::string encode_genome(const Genome& genome) {
  std::string bytes(kGenomeMark);
  cache::append_u32(bytes, static_cast<uint32_t>(genome.size()));
  for (const auto& [name, value] : genome.genes()) {
    cache::append_u32(bytes, static_cast<uint32_t>(name.kind));
    cache::append_u32(bytes, name.cls);
    cache::append_u32(bytes, name.index);
    cache::append_u64(bytes, static_cast<uint64_t>(value));
  }
  return bytes;
}

std::optional<Genome> decode_genome(std::string_view bytes) {
  cache::FieldReader reader(bytes.substr(kGenomeMark.size()));
  uint32_t count = reader.u32();
  if (count > kGenesMax) return std::nullopt;
  Genome genome;
  for (uint32_t k = 0; k < count && reader.ok(); ++k) {
    uint32_t kind = reader.u32();
    if (kind > static_cast<uint32_t>(GeneKind::kParameter)) return std::nullopt;
    GeneName name{static_cast<GeneKind>(kind), reader.u32(), 0};
    name.index = reader.u32();
    genome.set(name, static_cast<int64_t>(reader.u64()));
  }
  return reader.done() ? std::optional(std::move(genome)) : std::nullopt;
}

// Beside the size of the finder's name, in records with the number of the newest revocation.
constexpr uint32_t kNumbered = 1U << 31;

// As it lies in the store: first whose search found it, and what was revoked by then. Times would
// not tell: the wall clock may be set back between a tuning record and a revocation.
std::string with_finder(const std::string& tenant, uint64_t revocation, const std::string& record) {
  std::string bytes;
  cache::append_u32(bytes, static_cast<uint32_t>(tenant.size()) | kNumbered);
  cache::append_u64(bytes, revocation);
  return bytes + tenant + record;
}

std::optional<StoredTuningRecord> load_from(cache::Store& store, const std::string& place,
                                            const common::Digest& key, const std::string& tenant) {
  auto bytes = store.get_named(place);
  if (!bytes.ok() || !bytes->has_value()) return std::nullopt;
  cache::FieldReader reader(**bytes);
  uint32_t size = reader.u32();
  bool is_numbered = (size & kNumbered) != 0;
  uint64_t known = is_numbered ? reader.u64() : 0;
  std::string finder(reader.take(size & ~kNumbered));
  if (!reader.ok() || !reader.rest().starts_with(cache::key_of(key))) return std::nullopt;
  auto kept = decode_tuning_record(reader.rest());
  if (!kept) return std::nullopt;
  // The release before kept none: numbers are times that no clock had reached when it was found.
  if (!is_numbered) known = static_cast<uint64_t>(std::max<int64_t>(kept->when_wall_ns, 1)) - 1;
  for (const std::string& whose : {finder, tenant}) {
    auto revoked = store.last_revocation(whose);
    if (!revoked.ok() || known < *revoked) return std::nullopt;
  }
  return kept;
}

}  // namespace

std::string encode_tuning_record(const StoredTuningRecord& kept) {
  const TuningRecord& record = kept.record;
  std::string bytes;
  cache::append_digest(bytes, kept.key);
  cache::append_u64(bytes, static_cast<uint64_t>(kept.when_wall_ns));
  cache::append_u64(bytes, static_cast<uint64_t>(record.effort.candidates));
  cache::append_u64(bytes, static_cast<uint64_t>(record.effort.ms));
  cache::append_f64(bytes, record.ns);
  cache::append_f64(bytes, record.worker_ms);
  cache::append_u32(bytes, record.schedule);
  if (record.genome.size() != 0) {
    bytes += encode_genome(record.genome);
  } else if (!record.program.calls.empty()) {
    bytes += common::as_text(common::encode_program(record.program));
  }
  return bytes;
}

std::optional<StoredTuningRecord> decode_tuning_record(std::string_view bytes) {
  cache::FieldReader reader(bytes);
  StoredTuningRecord kept;
  kept.key = reader.digest();
  kept.when_wall_ns = static_cast<int64_t>(reader.u64());
  kept.record.effort.candidates = static_cast<int64_t>(reader.u64());
  kept.record.effort.ms = static_cast<int64_t>(reader.u64());
  kept.record.ns = reader.f64();
  kept.record.worker_ms = reader.f64();
  kept.record.schedule = reader.u32();
  bool is_sound = reader.ok() && std::isfinite(kept.record.ns) &&
                  std::isfinite(kept.record.worker_ms) && kept.record.worker_ms >= 0;
  if (!is_sound) return std::nullopt;
  if (reader.done()) return kept;
  std::string_view rest = reader.rest();
  if (rest.starts_with(kGenomeMark)) {
    auto genome = decode_genome(rest);
    if (!genome) return std::nullopt;
    kept.record.genome = *std::move(genome);
    return kept;
  }
  auto program = common::decode_program(common::as_bytes(rest));
  if (!program.ok()) return std::nullopt;
  kept.record.program = std::move(program).value();
  return kept;
}

std::optional<StoredTuningRecord> load_tuning_record(cache::Store& store, TuningRecordKind kind,
                                                     const common::Digest& key,
                                                     const std::string& tenant) {
  return load_from(store, place_of(kind, key), key, tenant);
}

common::Status keep_tuning_records(cache::Store& store,
                                   const std::map<common::Digest, TuningRecord>& found,
                                   int64_t now_wall_ns, const std::string& tenant) {
  cache::Changes changes;
  LFARM_ASSIGN_OR_RETURN(uint64_t revocation, store.newest_revocation());
  for (const auto& [key, record] : found) {
    std::string place = place_of(record.kind(), key);
    auto there = load_from(store, place, key, tenant);
    if (there && there->record.ns != kWithdrawn && record.ns != kWithdrawn) {
      const Effort &before = there->record.effort, &now = record.effort;
      bool as_thorough = before.candidates >= now.candidates && before.ms >= now.ms;
      if (as_thorough && there->record.ns <= record.ns) continue;
    }
    std::string bytes =
        with_finder(tenant, revocation, encode_tuning_record({key, now_wall_ns, record}));
    if (bytes.size() <= kBytesMax) changes.named.push_back({std::move(place), std::move(bytes)});
  }
  if (changes.named.empty()) return {};
  return store.commit(std::vector<cache::Changes>{std::move(changes)});
}

}  // namespace coordinator::service
