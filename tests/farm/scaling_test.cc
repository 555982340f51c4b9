// A farm whose workers come and go with the work: if these fail, an autoscaler starts too few
// workers, never lets them go, or loses what they were doing.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/http/http_client.h"
#include "tests/farm/cli/cli_testing.h"
#include "tests/farm/service/trace_check.h"
#include "tests/paths/paths.h"

namespace cli_testing {
namespace {

using trace_testing::Json;

// What KEDA and the cluster's autoscaler do for a Deployment, as fast as it can be asked: a worker
// is started for each that is wanted, and told to end by SIGTERM when it is one too many.
class Scaler {
 public:
  using Start = std::function<Invocation(int number)>;
  Scaler(common::HttpEndpoint farm, Start start)
      : farm_(std::move(farm)), start_(std::move(start)) {}

  void step() {
    wanted_ = ask();
    peak_ = std::max(peak_, wanted_);
    auto desired = static_cast<size_t>(std::min(wanted_, limit_));
    while (running_.size() < desired) running_.push_back(start_(started_++));
    while (running_.size() > desired) {
      running_.front().signal(SIGTERM);
      ending_.splice(ending_.end(), running_, running_.begin());
    }
  }
  // Steps until the condition holds; false when the test's patience ends.
  bool until(const std::function<bool()>& condition) {
    auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      step();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  void limit(int64_t workers) { limit_ = workers; }
  int64_t wanted() const { return wanted_; }
  int64_t peak() const { return peak_; }
  int started() const { return started_; }
  size_t running() const { return running_.size(); }
  // Workers that were told to end and have not.
  size_t ending() {
    return static_cast<size_t>(std::count_if(ending_.begin(), ending_.end(),
                                             [](Invocation& one) { return !one.ended(); }));
  }
  std::list<Invocation>& ended() { return ending_; }

 private:
  int64_t ask() {
    common::HttpCall call;
    call.path = "/api/v1/demand?target=cpu";
    auto reply = common::http_call(farm_, call);
    if (!reply.ok() || reply->status != 200) return wanted_;  // as KEDA does
    return Json::parse(reply->body).at("wanted_workers");
  }

  common::HttpEndpoint farm_;
  Start start_;
  std::list<Invocation> running_, ending_;
  int64_t limit_ = 3;
  int64_t wanted_ = 0, peak_ = 0;
  int started_ = 0;
};

class ScalingTest : public CliTest {
 protected:
  ScalingTest()
      : farm_(path(""), 1000,
              {"--listen", "tcp://127.0.0.1:0", "--state", path("farm"), "--http", "127.0.0.1:0",
               "--endpoint-file", path("endpoint"), "--no-worker-ms", "600000"},
              paths::binaries("/lfarm-coordinator")) {}

  std::string endpoint(const std::string& file = "endpoint") const {
    std::string text = common::read_file(path(file)).value();
    return text.substr(0, text.find('\n'));
  }
  common::HttpEndpoint web() const {
    std::string printed = farm_.out();
    size_t at = printed.rfind("http on 127.0.0.1:");
    return {"127.0.0.1", std::stoi(printed.substr(at + 18))};
  }
  std::string get(const std::string& path) const {
    common::HttpCall call;
    call.path = path;
    auto reply = common::http_call(web(), call);
    return reply.ok() ? reply->body : "";
  }
  // All samples of a metric together.
  double sum(const std::string& metric) const {
    std::istringstream lines(get("/metrics"));
    double sum = 0;
    for (std::string line; std::getline(lines, line);) {
      bool is_it = line.starts_with(metric + "{") || line.starts_with(metric + " ");
      if (is_it) sum += std::stod(line.substr(line.rfind(' ')));
    }
    return sum;
  }
  Invocation worker(int number) {
    return Invocation(path(""), 2000 + number,
                      {"--farm", endpoint(), "--device", "cpu", "--threads", "1", "--state",
                       path(common::cat("worker", number)), "--name", common::cat("w", number)},
                      paths::binaries("/lfarm-worker"));
  }

  Invocation farm_;
};

TEST_F(ScalingTest, WorkersComeWithTheWorkAndGoWithItAndNoTaskIsLost) {
  ASSERT_TRUE(farm_.until_out("http on")) << farm_.err();
  Scaler scaler(web(), [this](int number) { return worker(number); });
  scaler.step();
  EXPECT_EQ(scaler.running(), 0u);

  std::vector<Invocation> submits;
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    submits.push_back(start({"submit", model(name), "--budget", "8", "--json", "--farm", endpoint(),
                             "--state", path(name)}));
  }
  ASSERT_TRUE(scaler.until([&] { return scaler.running() == 3; })) << farm_.err();
  ASSERT_TRUE(scaler.until([&] { return sum("lfarm_leases") > 0; })) << farm_.err();

  // Two of three are taken away in the middle of the work, and given again.
  scaler.limit(1);
  ASSERT_TRUE(scaler.until([&] { return scaler.running() <= 1 && scaler.ending() == 0; }));
  scaler.limit(3);
  ASSERT_TRUE(scaler.until([&] {
    return std::all_of(submits.begin(), submits.end(), [](Invocation& one) { return one.ended(); });
  })) << farm_.err();
  ASSERT_TRUE(scaler.until([&] {
    return scaler.wanted() == 0 && scaler.running() == 0 && scaler.ending() == 0 &&
           sum("lfarm_workers") == 0;
  })) << farm_.err();
  EXPECT_GE(scaler.peak(), 3);
  EXPECT_GE(scaler.started(), 3);
  for (Invocation& worker : scaler.ended()) {
    // One that is told to end before it has begun, and so has said nothing, holds nothing either.
    constexpr int kTerminated = 128 + SIGTERM;
    int code = worker.wait();
    if (code == kTerminated && worker.err().empty()) continue;
    EXPECT_EQ(code, 0) << worker.err();
  }

  // Every job has one plan, and a verdict on everything that it sent.
  std::map<std::string, Json> by_graph;
  double candidates = 0;
  for (Invocation& submit : submits) {
    ASSERT_EQ(submit.wait(), 0) << submit.err();
    Json answer = Json::parse(submit.out());
    candidates += answer.at("candidates").get<double>();
    by_graph[answer.at("graph_hash")] = answer;
  }
  ASSERT_EQ(by_graph.size(), 3u);
  EXPECT_EQ(sum("lfarm_jobs_total{end=\"done\"}"), 3);
  EXPECT_EQ(sum("lfarm_jobs_total{end=\"failed\"}"), 0);
  EXPECT_EQ(Json::parse(get("/api/v1/cache")).at("plans").at("count"), 3);
  // Where the worker that had a plan's objects went before they were fetched, the finalist ran
  // again.
  EXPECT_GE(sum("lfarm_tasks_total"), candidates);
  // And finalists are compared, which counts as no candidate.
  EXPECT_LE(sum("lfarm_tasks_total"), candidates + 12);
  EXPECT_EQ(sum("lfarm_tasks_total{outcome=\"infra\"}"), 0);
  EXPECT_EQ(sum("lfarm_tasks_open"), 0);
  for (int job = 1; job <= 3; ++job) {
    Invocation traced = lfarm(
        {"jobs", "trace", std::to_string(job), "--farm", endpoint(), "-o", path("trace.json")});
    ASSERT_EQ(traced.wait(), 0) << traced.err();
    Json trace = Json::parse(common::read_file(path("trace.json")).value());
    EXPECT_EQ(trace_testing::problem(trace), "");
    EXPECT_EQ(trace_testing::marks(trace), std::vector<std::string>{"done"});
    const Json& answer = by_graph.at(trace.at("otherData").at("graph"));
    EXPECT_EQ(trace_testing::of_category(trace, "candidate").size(), answer.at("candidates"));
    EXPECT_NE(traced.out().find("candidates in"), std::string::npos) << traced.out();
    // Real workers say what they did.
    EXPECT_FALSE(trace_testing::of_category(trace, "worker").empty());
  }
}

TEST_F(ScalingTest, LogsForToolsAreObjectsALineWithTheirIds) {
  ::setenv("LFARM_LOG_FORMAT", "json", 1);
  Invocation farm(path(""), 1001,
                  {"--listen", "tcp://127.0.0.1:0", "--state", path("second"), "--endpoint-file",
                   path("endpoint2")},
                  paths::binaries("/lfarm-coordinator"));
  ::unsetenv("LFARM_LOG_FORMAT");
  ASSERT_TRUE(farm.until_out("signing key")) << farm.err();
  Invocation hand(path(""), 2999,
                  {"--farm", endpoint("endpoint2"), "--device", "cpu", "--state", path("worker"),
                   "--name", "hand\"}", "--log-format", "json"},
                  paths::binaries("/lfarm-worker"));
  Invocation submit =
      start({"submit", model("mlp"), "--budget", "2", "--farm", endpoint("endpoint2")});
  ASSERT_EQ(submit.wait(), 0) << submit.err();
  for (Invocation* process : {&hand, &farm}) {
    process->signal(SIGTERM);
    ASSERT_EQ(process->wait(), 0) << process->err();
  }
  std::map<std::string, Json> by_message;
  for (Invocation* process : {&hand, &farm}) {
    std::istringstream lines(process->err());
    for (std::string line; std::getline(lines, line);) {
      Json parsed = Json::parse(line, nullptr, false);
      ASSERT_TRUE(parsed.is_object()) << line;
      for (const char* field : {"time", "level", "process", "pid", "message"}) {
        EXPECT_TRUE(parsed.contains(field)) << line;
      }
      by_message[parsed.at("message")] = parsed;
    }
  }
  EXPECT_EQ(by_message["a worker joined"].value("worker", ""), "hand\"}");
  EXPECT_EQ(by_message["joined a coordinator"].value("worker", ""), "hand\"}");
  EXPECT_EQ(by_message["a job begins"].value("tenant", ""), "local");
  EXPECT_EQ(by_message["a job is done"].value("job", 0),
            by_message["a job begins"].value("job", 1));
  EXPECT_EQ(by_message["a job is done"].value("candidates", 0), 1);
}

}  // namespace
}  // namespace cli_testing
