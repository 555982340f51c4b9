#include "cache/store/records.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/check.h"

namespace cache {

using common::Digest;

namespace {
constexpr uint8_t kPlanRecordVersion = 3;

template <class Number>
void append_little(std::string& out, Number value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

template <class Number>
Number read_little(std::string_view bytes) {
  Number value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<Number>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}
}  // namespace

void append_u32(std::string& out, uint32_t value) { append_little(out, value); }
void append_u64(std::string& out, uint64_t value) { append_little(out, value); }
void append_f64(std::string& out, double value) { append_u64(out, std::bit_cast<uint64_t>(value)); }
void append_digest(std::string& out, const Digest& digest) { out += key_of(digest); }

std::string_view FieldReader::take(size_t size) {
  if (size > rest_.size()) {
    ok_ = false;
    rest_ = {};
    return {};
  }
  std::string_view field = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return field;
}
uint8_t FieldReader::u8() { return read_little<uint8_t>(take(1)); }
uint32_t FieldReader::u32() { return read_little<uint32_t>(take(4)); }
uint64_t FieldReader::u64() { return read_little<uint64_t>(take(8)); }
double FieldReader::f64() { return std::bit_cast<double>(u64()); }
Digest FieldReader::digest() {
  Digest digest;
  std::string_view bytes = take(digest.bytes.size());
  if (!bytes.empty()) std::memcpy(digest.bytes.data(), bytes.data(), bytes.size());
  return digest;
}

std::string encode_plan(const PlanHeader& header, std::string_view bytes) {
  std::string record;
  record.reserve(96 + 40 * header.needs.size() + bytes.size());
  record += static_cast<char>(kPlanRecordVersion);
  append_digest(record, header.graph_hash);
  append_digest(record, header.plan_id);
  append_u64(record, static_cast<uint64_t>(header.best_ns));
  append_u64(record, static_cast<uint64_t>(header.created_wall_ns));
  append_u64(record, static_cast<uint64_t>(header.search_ms));
  append_u32(record, static_cast<uint32_t>(header.needs.size()));
  append_u64(record, bytes.size());
  for (const Need& need : header.needs) {
    append_digest(record, need.digest);
    append_u64(record, need.checksum);
  }
  append_u32(record, static_cast<uint32_t>(header.names.size()));
  for (const Digest& name : header.names) append_digest(record, name);
  record += bytes;
  return record;
}

std::optional<PlanHeader> decode_plan_header(std::string_view record) {
  FieldReader fields(record);
  PlanHeader header;
  uint8_t version = fields.u8();
  if (version == 0 || version > kPlanRecordVersion) return std::nullopt;
  header.graph_hash = fields.digest();
  header.plan_id = fields.digest();
  header.best_ns = static_cast<int64_t>(fields.u64());
  header.created_wall_ns = static_cast<int64_t>(fields.u64());
  if (version > 1) header.search_ms = static_cast<int64_t>(fields.u64());
  size_t needs = fields.u32();
  uint64_t plan_bytes = fields.u64();
  if (!fields.ok() || needs > fields.rest().size() / 40) return std::nullopt;
  header.needs.reserve(needs);
  for (size_t i = 0; i < needs; ++i) {
    Need& need = header.needs.emplace_back();
    need.digest = fields.digest();
    need.checksum = fields.u64();
  }
  size_t names = version > 2 ? fields.u32() : 0;
  if (!fields.ok() || names > fields.rest().size() / 32) return std::nullopt;
  for (size_t i = 0; i < names; ++i) header.names.push_back(fields.digest());
  if (!fields.ok() || fields.rest().size() != plan_bytes) return std::nullopt;
  header.size = record.size() - fields.rest().size();
  return header;
}

PlanFacts facts_of(const Digest& key, const PlanHeader& header) {
  return {key, header.graph_hash, header.plan_id, header.best_ns, header.search_ms};
}

std::string plan_key(const Digest& key) { return digest_key(kPlanPrefix, key); }
std::string graph_key(const Digest& graph_hash, const Digest& key) {
  std::string out = digest_key(kGraphPrefix, graph_hash);
  append_digest(out, key);
  return out;
}

std::string name_key(const Digest& name, const Digest& key) {
  std::string out = digest_key(kNamePrefix, name);
  append_digest(out, key);
  return out;
}
std::string created_key(int64_t created_wall_ns, const Digest& key) {
  std::string out(kCreatedPrefix);
  const uint64_t inverted = ~static_cast<uint64_t>(created_wall_ns);
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(inverted >> shift);
  append_digest(out, key);
  return out;
}
bool has_names(std::string_view record) {
  return !record.empty() && static_cast<uint8_t>(record.front()) > 2;
}

std::string digest_key(std::string_view prefix, const Digest& digest) {
  std::string out(prefix);
  append_digest(out, digest);
  return out;
}

std::string encode_use(const PlanUse& use) {
  std::string record;
  append_u64(record, static_cast<uint64_t>(use.last_wall_ns));
  append_u64(record, use.uses);
  return record;
}

PlanUse decode_use(std::string_view record) {
  FieldReader fields(record);
  PlanUse use;
  use.last_wall_ns = static_cast<int64_t>(fields.u64());
  if (!fields.rest().empty()) use.uses = fields.u64();
  return use;
}

std::string encode_note(const BlobNote& note) {
  std::string record;
  append_u64(record, note.bytes);
  append_u64(record, note.checksum);
  return record;
}

BlobNote decode_note(std::string_view record) {
  FieldReader fields(record);
  BlobNote note;
  note.bytes = fields.u64();
  note.checksum = fields.u64();
  return note;
}

std::string encode_measurement(const StoredMeasurement& measurement) {
  std::string record;
  append_f64(record, measurement.ns);
  append_u32(record, measurement.samples);
  append_u64(record, static_cast<uint64_t>(measurement.when_wall_ns));
  return record;
}

std::optional<StoredMeasurement> decode_measurement(std::string_view record) {
  FieldReader fields(record);
  StoredMeasurement measurement;
  measurement.ns = fields.f64();
  measurement.samples = fields.u32();
  measurement.when_wall_ns = static_cast<int64_t>(fields.u64());
  // Whoever reads it makes a whole number of it.
  bool is_time = std::isfinite(measurement.ns) && measurement.ns >= 0 && measurement.ns < 1e18;
  if (!fields.done() || !is_time) return std::nullopt;
  return measurement;
}

std::optional<Digest> trailing_digest(std::string_view key) {
  Digest digest;
  if (key.size() < digest.bytes.size()) return std::nullopt;
  key.remove_prefix(key.size() - digest.bytes.size());
  std::memcpy(digest.bytes.data(), key.data(), key.size());
  return digest;
}

std::string job_prefix(std::string_view job) {
  LFARM_CHECK(job.size() <= 255, "a job name is longer than 255 bytes");
  std::string out(1, static_cast<char>(job.size()));
  out += job;
  return out;
}

std::string job_key(std::string_view job, uint64_t sequence) {
  std::string out = job_prefix(job);
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(sequence >> shift);
  return out;
}

std::optional<JobKey> parse_job_key(std::string_view key) {
  if (key.empty()) return std::nullopt;
  size_t size = static_cast<unsigned char>(key[0]);
  if (key.size() != 1 + size + 8) return std::nullopt;
  JobKey parsed;
  parsed.job = key.substr(1, size);
  for (char byte : key.substr(1 + size)) {
    parsed.sequence = (parsed.sequence << 8) | static_cast<unsigned char>(byte);
  }
  return parsed;
}

}  // namespace cache
