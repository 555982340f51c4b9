// What a tenant has used of a farm and got from its cache, as the store keeps it: the one source of
// these counters, for the farm itself and for whoever reads its files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cache {

struct TenantUsage {
  uint64_t hits = 0;      // plans that were there when the tenant asked for them
  uint64_t saved_ms = 0;  // of workers' time that hits made unnecessary
  uint64_t used_ms = 0;   // of workers' time, ever
  // Workers' time by the hour since 1970, of the last 24.
  std::map<int64_t, uint64_t> hours;
};

// The names of named values (Store::put_named) begin with this.
inline constexpr std::string_view kTenantPrefix = "tenant/";
// Under which the store keeps a tenant's usage.
std::string tenant_record_name(const std::string& tenant);
std::string encode_usage(const TenantUsage& usage);
// A damaged record is nothing used.
TenantUsage decode_usage(std::string_view record);

}  // namespace cache
