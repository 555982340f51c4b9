#include "common/http/probes.h"

#include "common/base/cat.h"

namespace common {

std::optional<HttpResponse> answer_probe(const std::string& path, const Health& health) {
  std::string problem;
  if (path == "/startupz") {
    problem = health.unstarted;
  } else if (path == "/readyz" || path == "/livez") {
    if (health.silent_ms > kStuckLoopMs) {
      problem = cat("the loop has not turned for ", health.silent_ms / 1000, " s");
    } else if (path == "/readyz") {
      problem = health.unready;
    }
  } else {
    return std::nullopt;
  }
  return problem.empty() ? HttpResponse{200, "ok\n"} : HttpResponse{503, problem + "\n"};
}

}  // namespace common
