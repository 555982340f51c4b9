// The byte layouts of the store's keys and values. Integers in values are little-endian; those in
// keys big-endian, so that keys sort by number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/store.h"
#include "common/base/digest.h"

namespace cache {

void append_u32(std::string& out, uint32_t value);
void append_u64(std::string& out, uint64_t value);
void append_f64(std::string& out, double value);
void append_digest(std::string& out, const common::Digest& digest);
inline std::string_view key_of(const common::Digest& digest) {
  return common::as_text(digest.bytes);
}

// Reads fields in order; a read beyond the end fails and leaves `ok()` false for good.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  uint8_t u8();
  uint32_t u32();
  uint64_t u64();
  double f64();
  common::Digest digest();
  std::string_view take(size_t size);
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// A blob that a plan needs. The checksum (XXH3) finds accidental damage at a fraction of the
// digest's cost; it proves nothing against somebody who writes to the directory.
struct Need {
  common::Digest digest;
  uint64_t checksum = 0;
};

// The header of a stored plan; the plan's own bytes follow it.
struct PlanHeader {
  common::Digest graph_hash;
  common::Digest plan_id;
  int64_t best_ns = 0;
  int64_t created_wall_ns = 0;
  int64_t search_ms = 0;  // 0 in records of version 1
  std::vector<Need> needs;
  std::vector<common::Digest> names;  // none in records of versions 1 and 2
  size_t size = 0;                    // bytes of the header itself
};
std::string encode_plan(const PlanHeader& header, std::string_view bytes);
// Empty when the record is malformed.
std::optional<PlanHeader> decode_plan_header(std::string_view record);
PlanFacts facts_of(const common::Digest& key, const PlanHeader& header);

// Keys of the plans family.
std::string plan_key(const common::Digest& key);
std::string graph_key(const common::Digest& graph_hash, const common::Digest& key);
inline constexpr std::string_view kPlanPrefix = "P";
inline constexpr std::string_view kGraphPrefix = "G";
// + one of a plan's names + its key; the plan's id is one of them.
inline constexpr std::string_view kNamePrefix = "N";
std::string name_key(const common::Digest& name, const common::Digest& key);
// + a number that is less the later the plan was created + its key: the latest first.
inline constexpr std::string_view kCreatedPrefix = "T";
std::string created_key(int64_t created_wall_ns, const common::Digest& key);
// Where records of versions 1 and 2 have no names.
bool has_names(std::string_view record);
// The digest at the end of a key; empty when the key is too short.
std::optional<common::Digest> trailing_digest(std::string_view key);

// Keys of the meta family.
inline constexpr std::string_view kFormatKey = "F";
inline constexpr std::string_view kCountersKey = "C";       // of plans and kernels
inline constexpr std::string_view kSmallCountersKey = "c";  // of measurements and negatives
inline constexpr std::string_view kUsageKey = "H";
inline constexpr std::string_view kBlobPrefix = "B";   // + blob digest -> BlobNote
inline constexpr std::string_view kUsedPrefix = "U";   // + plan key -> PlanUse
inline constexpr std::string_view kNamedPrefix = "M";  // + name -> bytes
// + owner -> u64 number of the last revocation. A number is the wall clock's ns, or, where the
// clock was set back, the number before and one.
inline constexpr std::string_view kRevokedAtPrefix = "L";
inline constexpr std::string_view kNewestRevocationKey = "N";  // -> u64 number
inline constexpr std::string_view kRevokedPrefix = "R";        // + plan id -> reason
std::string digest_key(std::string_view prefix, const common::Digest& digest);

// When and how often a plan was served.
struct PlanUse {
  int64_t last_wall_ns = 0;
  uint64_t uses = 0;  // 0 in records of earlier releases
};
std::string encode_use(const PlanUse& use);
PlanUse decode_use(std::string_view record);

// What is known of a blob without reading it.
struct BlobNote {
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};
std::string encode_note(const BlobNote& note);
BlobNote decode_note(std::string_view record);

std::string encode_measurement(const StoredMeasurement& measurement);
// Empty when the record is malformed, or what it says is no time.
std::optional<StoredMeasurement> decode_measurement(std::string_view record);

// Keys of the jobs family: one length byte, the job, the sequence number.
std::string job_prefix(std::string_view job);
std::string job_key(std::string_view job, uint64_t sequence);
struct JobKey {
  std::string_view job;
  uint64_t sequence = 0;
};
std::optional<JobKey> parse_job_key(std::string_view key);

}  // namespace cache
