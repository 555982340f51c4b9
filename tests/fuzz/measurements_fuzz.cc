// Goal: what other programs measured and logged is taken whole or refused in one line, and no name
// of theirs becomes markup of a report.
// Method: measurements, logs of runs, profiles, scorecards, rooflines and gates, damaged; each
// input is read as all of these, and what is taken is shown.
#include <string_view>

#include "clients/report/bundle.h"
#include "clients/report/gate.h"
#include "clients/report/import.h"
#include "clients/report/logs/runs.h"
#include "clients/report/page.h"
#include "clients/score/other_runtime.h"
#include "clients/score/scorecard_text.h"
#include "common/base/check.h"
#include "tests/fuzz/fuzz.h"

namespace {

// Two lines; and a search with a gate.
constexpr const char* kMeasured =
    R"({"device":"cpu","backend":"eager","model":"<script>a</script>","latency_ms":2,"batch":4})"
    "\n"
    R"({"device":"cpu","backend":"lfarm","model":"<b>\"onerror=\"","dtype":"f32","spread_ms":1,)"
    R"("at":"2026-11-21T22:45:36Z","latency_ms":1,"error_abs":0.5,"error_rel":0.125})";
constexpr const char* kSearched =
    R"({"device":"cpu","backend":"lfarm","model":"m","strategy":"<img>","budget":10,"best_ms":2,)"
    R"("seed":3,"baseline_ms":4,"gates":[{"name":"fast","passed":false,"detail":"x"}]})";

constexpr const char* kTrained =
    R"({"training":"<script>a</script>","at":"2026-11-21T22:45:36Z","note":"<img>","device":"cpu"})"
    "\n"
    R"({"step":1,"values":{"loss/<b>":0.5,"error":null}})"
    "\n"
    R"({"step":2,"values":{"loss/<b>":0.25}})"
    "\n"
    R"({"map":"<b>","step":2,"rows":"<b>","columns":"<img>","values":[[1,-2],[3,null]]})"
    "\n"
    R"({"part":"<b>","parameters":3,"bytes":{"<img>":12}})"
    "\n"
    R"({"landscape":"<b>","x":"<b>","y":"<b>","at_x":[-1,0],"at_y":[0],"values":[[2,1]]})";
constexpr const char* kValidated =
    R"({"validation":"<b>","teacher":"<img>","device":"cpu"})"
    "\n"
    R"({"variant":"<img>","batch":1,"latency_ms":1,"error":0.5})"
    "\n"
    R"({"variant":"<b>","batch":1,"latency_ms":2,"spread_ms":0.5,"error":0})";

constexpr const char* kCourse =
    R"({"search":"<b>","plan":"<img>","best_ms":1,"baseline_ms":2})"
    "\n"
    R"({"progress":2,"at_s":1,"best_ms":2,"expected_ms":1})"
    "\n"
    R"({"candidate":1,"region":0,"origin":"<b>","outcome":"<img>","at_s":1,"ms":3})"
    "\n"
    R"({"kernel":"<b>","schedule":{"<b>":4},"ms":1})"
    "\n"
    R"({"plan_memory":"<b>","id":"<img>"})"
    "\n"
    R"({"memory":{"<b>":64}})"
    "\n"
    R"({"kernel":"<b>","modules":"<i>","sources":"<u>","calls":1,"ms":2})";

clients::Roofline device() {
  clients::Roofline roofline;
  roofline.device = "device";
  roofline.source = "given";
  roofline.operations_per_s = 1e9;
  roofline.reads = {{100, 2e9}, {0, 1e9}};
  return roofline;
}

clients::PlanRun sample_run() {
  clients::PlanRun run;
  run.graph = "g";
  run.target = "cpu";
  run.latency = {1e6, 1e4, 5};
  clients::KernelRun kernel;
  kernel.name = "k";
  kernel.id = "id";
  kernel.operation = "matmul";
  kernel.latency = run.latency;
  kernel.operations = 10;
  run.kernels = {kernel};
  return run;
}

template <class T>
void check_refusal(const common::Result<T>& result) {
  if (result.ok()) return;
  LFARM_CHECK(result.error().message.find('\n') == std::string::npos, "an error is one line");
}

void show(const std::vector<common::Record>& records, const std::vector<common::RunLog>& logs) {
  for (const common::Record& record : records) {
    LFARM_CHECK(common::check_record(record).ok(), "a record that none may be");
  }
  for (const common::RunLog& log : logs) {
    LFARM_CHECK(common::check_run_log(log).ok(), "a log that none may be");
  }
  clients::Runs runs = clients::read_runs(logs);
  LFARM_CHECK(runs.unread.empty(), "a log that was taken cannot be read");
  clients::Measured measured = clients::summarise(records);
  (void)clients::report_json(measured, {}, "records.db", runs);
  std::string page = clients::report_page(measured, {}, "records.db", runs);
  for (const char* markup : {"<script", "<img", "<b>", "onerror=\""}) {
    LFARM_CHECK(page.find(markup) == std::string::npos, "a name became markup");
  }
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {kMeasured,
          kSearched,
          kTrained,
          kValidated,
          kCourse,
          R"({"runtime":"onnxruntime","runs":4,"operators":[{"name":"MatMul","ms":8}]})",
          R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","tid":1,"ts":1,"dur":3}]})",
          R"([{"cat":"Node","name":"m_kernel_time","dur":20,"args":{"op_name":"MatMul"}}])",
          "latency_ms{model=llama} <= 5 # slow\nratio >= 1e0\n",
          clients::json_of(clients::score(sample_run(), device(), {}, nullptr)),
          clients::encode_roofline(device())};
}

size_t fuzz::heap_bytes_max() { return size_t{32} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  std::string_view text = common::as_text(bytes);
  auto records = clients::parse_measurements(text, "m.json", 1);
  check_refusal(records);
  if (records.ok()) show(*records, {});
  auto logs = clients::import_logs(text, "r.jsonl", 1);
  check_refusal(logs);
  if (logs.ok()) show({}, *logs);
  auto other = clients::parse_other_runtime(text, "p.json");
  check_refusal(other);
  clients::PlanRun run = sample_run();
  if (other.ok()) (void)clients::markdown_of(clients::score(run, device(), {}, &*other));
  auto gates = clients::parse_gate_file(text, "gates");
  check_refusal(gates);
  if (gates.ok()) {
    for (const clients::Gate& gate : *gates) {
      LFARM_CHECK(!clients::judge(gate, {}).passed, "a gate that holds of nothing");
    }
  }
  auto earlier = clients::parse_scorecard(text, "s.json", run);
  check_refusal(earlier);
  if (earlier.ok()) (void)clients::regressions(run, {*earlier});
  auto roofline = clients::decode_roofline(text);
  check_refusal(roofline);
  if (!roofline.ok()) return;
  auto again = clients::decode_roofline(clients::encode_roofline(*roofline));
  LFARM_CHECK(again.ok() && *again == *roofline, "a roofline changed on its way");
}
