#include "clients/report/logs/trace_log.h"

#include <nlohmann/json.hpp>

#include "clients/report/logs/run_lines.h"
#include "clients/report/logs/search.h"
#include "common/base/cat.h"
#include "common/records/record.h"

namespace clients {

using common::cat;
using common::record_text;
using common::Result;
using common::RunLog;
using Json = nlohmann::ordered_json;

namespace {

constexpr double kUsPerS = 1e6, kNsPerMs = 1e6;

std::string text_in(const Json& args, const char* word) {
  return record_text(args.value(word, std::string()));
}

class TraceReader {
 public:
  explicit TraceReader(std::string* lines) : lines_(lines) {}
  void take(const Json& event);

 private:
  void take_candidate(const Json& event, const Json& args);
  void add(const Json& line) {
    *lines_ += line.dump(-1, ' ', false, Json::error_handler_t::replace);
    *lines_ += '\n';
  }

  std::string* lines_;
  int64_t completed_ = 0;  // candidates, by the round whose counters follow
  double best_ms_ = 0, expected_ms_ = 0;
  size_t candidates_ = 0, progress_ = 0;
};

void TraceReader::take(const Json& event) {
  const std::string name = event.value("name", ""), category = event.value("cat", "");
  const Json args = event.value("args", Json::object());
  if (category == "search") completed_ = args.value("completed", completed_);
  if (category == "candidate") take_candidate(event, args);
  bool is_best = name == "best so far", is_expected = name == "expected";
  if (event.value("ph", "") != "C" || !(is_best || is_expected)) return;
  (is_best ? best_ms_ : expected_ms_) = args.value("ns", 0.0) / kNsPerMs;
  if (++progress_ > kProgressMax) return;
  add({{"progress", completed_},
       {"at_s", event.value("ts", 0.0) / kUsPerS},
       {"best_ms", best_ms_},
       {"expected_ms", expected_ms_}});
}

void TraceReader::take_candidate(const Json& event, const Json& args) {
  if (++candidates_ > kCandidatesMax) return;
  Json line{{"candidate", args.value("candidate", uint64_t{0})}};
  if (int64_t region = args.value("region", int64_t{-1}); region >= 0) line["region"] = region;
  line["origin"] = text_in(args, "origin");
  line["outcome"] = text_in(args, "outcome");
  line["at_s"] = (event.value("ts", 0.0) + event.value("dur", 0.0)) / kUsPerS;
  double measured_ns = args.value("measured_ns", 0.0);
  if (measured_ns > 0) line["ms"] = measured_ns / kNsPerMs;
  add(line);
  double kernel_ns = args.value("kernel_ns", 0.0);
  const Json schedule = args.value("schedule", Json::object());
  if (kernel_ns <= 0 || !schedule.is_object() || schedule.empty()) return;
  add({{"kernel", text_in(args, "kernel")}, {"schedule", schedule}, {"ms", kernel_ns / kNsPerMs}});
}

Json head_line(const TracedPlan& found) {
  Json line{{kSearchKind, found.head.name}};
  if (!found.head.machine.empty()) line["machine"] = found.head.machine;
  if (!found.head.device.empty()) line["device"] = found.head.device;
  if (!found.head.note.empty()) line["note"] = found.head.note;
  if (!found.plan.empty()) line["plan"] = found.plan;
  line["best_ms"] = found.best_ms;
  line["baseline_ms"] = found.baseline_ms;
  return line;
}

}  // namespace

Result<RunLog> log_of_trace(std::string_view trace, const TracedPlan& found) {
  RunLog log{found.head.at_ns,
             kSearchKind,
             found.head.name,
             found.head.machine,
             found.head.device,
             cat(head_line(found).dump(-1, ' ', false, Json::error_handler_t::replace), "\n")};
  TraceReader reader(&log.lines);
  try {
    const Json json = Json::parse(trace);
    for (const Json& event : json.at("traceEvents")) reader.take(event);
  } catch (const Json::exception& error) {
    return common::corrupt(cat("the farm's answer is no trace: ", error.what()));
  }
  return log;
}

}  // namespace clients
