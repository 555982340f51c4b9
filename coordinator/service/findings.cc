#include "coordinator/service/findings.h"

#include <cmath>
#include <vector>

#include "cache/store/records.h"
#include "common/base/cat.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {
namespace {

// Kernels take some sixty bytes, regions some ten thousand.
constexpr uint64_t kRegionPlaces = 4'096;
constexpr uint64_t kKernelPlaces = 65'536;
constexpr size_t kBytesMax = size_t{1} << 20;

// The number changes with the record's layout.
std::string region_place(const common::Digest& key) {
  return common::cat("region-1/", key.prefix64() % kRegionPlaces);
}
std::string kernel_place(const common::Digest& key) {
  return common::cat("kernel-1/", key.prefix64() % kKernelPlaces);
}

std::optional<KeptFinding> load_from(cache::Store& store, const std::string& place,
                                     const common::Digest& key) {
  auto bytes = store.get_named(place);
  if (!bytes.ok() || !bytes->has_value()) return std::nullopt;
  if ((*bytes)->compare(0, key.bytes.size(), cache::key_of(key)) != 0) return std::nullopt;
  return decode_finding(**bytes);
}

}  // namespace

std::string encode_finding(const KeptFinding& kept) {
  const Finding& finding = kept.finding;
  std::string bytes;
  cache::append_digest(bytes, kept.key);
  cache::append_u64(bytes, static_cast<uint64_t>(kept.when_wall_ns));
  cache::append_u64(bytes, static_cast<uint64_t>(finding.effort.candidates));
  cache::append_u64(bytes, static_cast<uint64_t>(finding.effort.ms));
  cache::append_f64(bytes, finding.ns);
  cache::append_f64(bytes, finding.worker_ms);
  cache::append_u32(bytes, finding.schedule);
  if (!finding.program.calls.empty()) {
    bytes += common::as_text(common::encode_program(finding.program));
  }
  return bytes;
}

std::optional<KeptFinding> decode_finding(std::string_view bytes) {
  cache::FieldReader reader(bytes);
  KeptFinding kept;
  kept.key = reader.digest();
  kept.when_wall_ns = static_cast<int64_t>(reader.u64());
  kept.finding.effort.candidates = static_cast<int64_t>(reader.u64());
  kept.finding.effort.ms = static_cast<int64_t>(reader.u64());
  kept.finding.ns = reader.f64();
  kept.finding.worker_ms = reader.f64();
  kept.finding.schedule = reader.u32();
  bool is_sound = reader.ok() && std::isfinite(kept.finding.ns) &&
                  std::isfinite(kept.finding.worker_ms) && kept.finding.worker_ms >= 0;
  if (!is_sound) return std::nullopt;
  if (reader.done()) return kept;
  auto program = common::decode_program(common::as_bytes(reader.rest()));
  if (!program.ok()) return std::nullopt;
  kept.finding.program = std::move(program).value();
  return kept;
}

std::optional<KeptFinding> load_finding(cache::Store& store, const common::Digest& key) {
  auto kept = load_from(store, region_place(key), key);
  return kept ? kept : load_from(store, kernel_place(key), key);
}

common::Status keep_findings(cache::Store& store, const std::map<common::Digest, Finding>& found,
                             int64_t now_wall_ns) {
  cache::Changes changes;
  for (const auto& [key, finding] : found) {
    std::string place = finding.program.calls.empty() ? kernel_place(key) : region_place(key);
    auto there = load_from(store, place, key);
    if (there && there->finding.ns != kWithdrawn && finding.ns != kWithdrawn) {
      const Effort &before = there->finding.effort, &now = finding.effort;
      bool as_thorough = before.candidates >= now.candidates && before.ms >= now.ms;
      if (as_thorough && there->finding.ns <= finding.ns) continue;
    }
    std::string bytes = encode_finding({key, now_wall_ns, finding});
    if (bytes.size() <= kBytesMax) changes.named.push_back({std::move(place), std::move(bytes)});
  }
  if (changes.named.empty()) return {};
  return store.commit(std::vector<cache::Changes>{std::move(changes)});
}

}  // namespace coordinator::service
