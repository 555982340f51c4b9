// What several replicas of a coordinator share: plans that were found, and which of them were
// withdrawn. It answers nobody at times; what a replica could not write then it writes later.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace sim {

// A plan is named by a number of its own; a model that is searched for again has another one.
struct SharedStore {
  std::map<uint64_t, uint64_t> plans;  // by the client's key
  std::set<uint64_t> revoked;
  int64_t out_until_ms = 0;
  bool answers(int64_t now_ms) const { return now_ms >= out_until_ms; }
};

}  // namespace sim
