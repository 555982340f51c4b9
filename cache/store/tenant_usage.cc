#include "cache/store/tenant_usage.h"

#include "cache/store/records.h"

namespace cache {

namespace {
constexpr uint64_t kRecordVersion = 1;
}  // namespace

std::string tenant_record_name(const std::string& tenant) {
  return std::string(kTenantPrefix) + tenant;
}

std::string encode_usage(const TenantUsage& usage) {
  std::string out;
  append_u64(out, kRecordVersion);
  append_u64(out, usage.hits);
  append_u64(out, usage.saved_ms);
  append_u64(out, usage.used_ms);
  for (const auto& [hour, ms] : usage.hours) {
    append_u64(out, static_cast<uint64_t>(hour));
    append_u64(out, ms);
  }
  return out;
}

TenantUsage decode_usage(std::string_view record) {
  FieldReader reader(record);
  if (reader.u64() != kRecordVersion) return {};
  TenantUsage usage;
  usage.hits = reader.u64();
  usage.saved_ms = reader.u64();
  usage.used_ms = reader.u64();
  while (reader.ok() && !reader.done()) {
    auto hour = static_cast<int64_t>(reader.u64());
    usage.hours[hour] = reader.u64();
  }
  return reader.ok() ? usage : TenantUsage{};
}

}  // namespace cache
