// egraph --suite NAME [--explain]: the e-graph engine on the suites that published engines are
// measured on, if wanted with explanations kept.
#include <cstdio>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/unit/egraph_suites.h"

namespace bench {

int run_egraph(const std::vector<std::string>& arguments) {
  bool explanations = arguments.size() == 3 && arguments[2] == "--explain";
  if ((arguments.size() != 2 && !explanations) || arguments[0] != "--suite") {
    std::fprintf(stderr, "lfarm-bench: egraph takes --suite mathmicroN|acN|chainN [--explain]\n");
    return 2;
  }
  common::SteadyClock clock;
  auto report = egraph_suites::run_suite(arguments[1], clock, explanations);
  if (!report.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", report.error().message.c_str());
    return 2;
  }
  std::printf(
      "{\"suite\":\"%s\",\"enodes\":%llu,\"eclasses\":%llu,\"seconds\":%.6f,\"search_s\":%.6f,"
      "\"apply_s\":%.6f,\"rebuild_s\":%.6f,\"peak_mb\":%.1f,\"stop\":\"%s\"}\n",
      arguments[1].c_str(), static_cast<unsigned long long>(report->nodes),
      static_cast<unsigned long long>(report->classes), report->seconds, report->search_s,
      report->apply_s, report->rebuild_s, peak_mb(), coordinator::stop_reason_name(report->stop));
  return 0;
}

}  // namespace bench
