// What searches found out about regions and kernels, kept in the store for the next ones.
//
// The store has a fixed number of places for them; a finding takes the place that its key gives,
// and with it that of whatever other finding was there: forgetting costs a search, nothing else.
// When a plan is revoked, all that its tenant's searches found before is forgotten, and those of
// the tenant use nothing that anybody found before: nobody knows which of it was at fault.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cache/store/store.h"
#include "coordinator/search/findings.h"

namespace coordinator::service {

// The store's names of findings begin with one of these.
inline constexpr std::string_view kFindingPrefixes[] = {"region-2/", "kernel-2/", "kin-2/"};

struct KeptFinding {
  common::Digest key;
  int64_t when_wall_ns = 0;
  Finding finding;
};

std::string encode_finding(const KeptFinding& kept);
// Empty when the bytes cannot be read.
std::optional<KeptFinding> decode_finding(std::string_view bytes);

// For a search of `tenant`. Empty when nothing was found, or it cannot be read. Thread-safe.
std::optional<KeptFinding> load_finding(cache::Store& store, FindingKind kind,
                                        const common::Digest& key, const std::string& tenant);
// Writes what is worth more than what is there: more effort, or as much and faster. Thread-safe.
common::Status keep_findings(cache::Store& store, const std::map<common::Digest, Finding>& found,
                             int64_t now_wall_ns, const std::string& tenant);

}  // namespace coordinator::service
