// What Kubernetes asks a process: whether it has started, whether it can serve, whether it lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/http/http_server.h"

namespace common {

// Of a process whose loop turns every second at least when it has nothing to do. An empty text: it
// is as it should be.
struct Health {
  std::string unstarted;  // why it has not started
  std::string unready;    // why it cannot serve; no reason to start it anew
  int64_t silent_ms = 0;  // since its loop turned
};

// Since when a loop has not turned that never will again: slow disks hold one up for less.
inline constexpr int64_t kStuckLoopMs = 60'000;

// The answer at /startupz, /readyz and /livez; empty at other paths.
std::optional<HttpResponse> answer_probe(const std::string& path, const Health& health);

}  // namespace common
