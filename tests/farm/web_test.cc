// What clusters, scrapers and autoscalers see of the real binaries: if these fail, a farm is
// restarted for being busy, is scaled away with work waiting, or stands by for ever.
#include <gtest/gtest.h>

#include "common/http/http_client.h"
#include "tests/cluster/fake_cluster.h"
#include "tests/farm/cli/cli_testing.h"
#include "tests/paths/paths.h"

namespace cli_testing {
namespace {

class WebTest : public CliTest {
 protected:
  Invocation begin(const std::string& program, std::vector<std::string> arguments) {
    return Invocation(path(""), processes_++ + 1000, std::move(arguments),
                      paths::binaries("/") + program);
  }
  Invocation coordinator(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "--listen", "tcp://127.0.0.1:0", "--state",         path(name),
        "--http",   "127.0.0.1:0",       "--endpoint-file", path(name + ".endpoint")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return begin("lfarm-coordinator", arguments);
  }
  std::string endpoint(const std::string& name) const {
    std::string text = common::read_file(path(name + ".endpoint")).value();
    return text.substr(0, text.find('\n'));
  }
  // Of a process that has said where it serves HTTP.
  static common::HttpEndpoint web(const std::string& printed) {
    size_t at = printed.rfind("http on 127.0.0.1:");
    if (at == std::string::npos) return {"127.0.0.1", 1};
    return {"127.0.0.1", std::stoi(printed.substr(at + 18))};
  }
  static common::HttpReply get(const common::HttpEndpoint& from, const std::string& path) {
    common::HttpCall call;
    call.path = path;
    auto reply = common::http_call(from, call);
    return reply.ok() ? *reply : common::HttpReply{0, reply.error().message, {}};
  }
  // The value of a sample in Prometheus' text; -1 without one.
  static double metric(const common::HttpEndpoint& from, const std::string& sample) {
    std::string text = get(from, "/metrics").body;
    size_t at = text.find("\n" + sample + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + sample.size() + 2));
  }

 private:
  int processes_ = 0;
};

TEST_F(WebTest, DemandFollowsTheWorkAndProbesTheProcess) {
  Invocation farm = coordinator("farm", {"--no-worker-ms", "600000"});
  ASSERT_TRUE(farm.until_out("http on")) << farm.err();
  common::HttpEndpoint at = web(farm.out());
  EXPECT_EQ(get(at, "/startupz").status, 200);
  EXPECT_EQ(get(at, "/readyz").status, 200);
  EXPECT_EQ(get(at, "/livez").status, 200);
  EXPECT_EQ(field(get(at, "/api/v1/demand").body, "wanted_workers"), "0");

  // There is no worker: the submit waits for one, and says so to whoever scales.
  Invocation submit =
      start({"submit", model("mlp"), "--budget", "6", "--json", "--farm", endpoint("farm")});
  ASSERT_TRUE(submit.until(
      [&] { return field(get(at, "/api/v1/demand?target=cpu").body, "wanted_workers") != "0"; }));
  EXPECT_EQ(field(get(at, "/api/v1/demand?target=cuda").body, "wanted_workers"), "0");
  EXPECT_EQ(get(at, "/livez").status, 200);

  Invocation worker = begin("lfarm-worker", {"--farm", endpoint("farm"), "--device", "cpu",
                                             "--state", path("worker"), "--http", "127.0.0.1:0"});
  ASSERT_TRUE(worker.until_err("http on")) << worker.err();
  common::HttpEndpoint there = web(worker.err());
  ASSERT_TRUE(worker.until([&] { return get(there, "/readyz").status == 200; }));
  EXPECT_EQ(get(there, "/startupz").status, 200);
  ASSERT_EQ(submit.wait(), 0) << submit.err();

  EXPECT_GE(metric(at, "lfarm_tasks_total{outcome=\"ok\"}"), 1);
  EXPECT_GE(metric(there, "lfarm_worker_tasks_total{outcome=\"ok\"}"), 1);
  EXPECT_EQ(metric(at, "lfarm_jobs_total{end=\"done\"}"), 1);
  EXPECT_EQ(metric(at, "lfarm_plan_requests_total{result=\"miss\",tenant=\"local\"}"), 1);
  ASSERT_TRUE(
      farm.until([&] { return field(get(at, "/api/v1/demand").body, "wanted_workers") == "0"; }));

  // Without its farm the worker is well, and not ready.
  farm.signal(SIGTERM);
  ASSERT_EQ(farm.wait(), 0) << farm.err();
  ASSERT_TRUE(worker.until([&] { return get(there, "/readyz").status == 503; }));
  EXPECT_EQ(get(there, "/livez").status, 200);
  EXPECT_EQ(get(there, "/startupz").status, 200);
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 0) << worker.err();
}

TEST_F(WebTest, WhatIsNotThereIsNotFound) {
  Invocation farm = coordinator("farm");
  ASSERT_TRUE(farm.until_out("http on")) << farm.err();
  common::HttpEndpoint at = web(farm.out());
  EXPECT_EQ(get(at, "/api/v1/nothing").status, 404);
  EXPECT_EQ(get(at, "/../../etc/passwd").status, 404);
  for (const char* path : {"/api/v1/status", "/api/v1/workers", "/api/v1/jobs", "/api/v1/cache"}) {
    common::HttpReply reply = get(at, path);
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_EQ(reply.body.front(), '{') << path;
  }
  Invocation second =
      begin("lfarm-coordinator", {"--listen", "tcp://127.0.0.1:0", "--state", path("second"),
                                  "--http", common::cat(at.host, ':', at.port)});
  EXPECT_EQ(second.wait(), 2);
  EXPECT_NE(second.err().find("cannot serve HTTP on"), std::string::npos) << second.err();
}

TEST_F(WebTest, OneOfTwoCoordinatorsServesAndTheOtherFollows) {
  auto cluster = cluster_testing::FakeCluster::start(path("cluster"));
  if (!cluster) GTEST_SKIP() << "no openssl on this machine to make a certificate with";
  ::setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", common::cat(cluster->port()).c_str(), 1);
  auto member = [&](const std::string& name) {
    return coordinator(
        name, {"--lease", "coordinator", "--identity", name, "--account", cluster->account()});
  };
  Invocation first = member("first");
  ASSERT_TRUE(first.until_out("http on")) << first.err();
  EXPECT_EQ(cluster->holder("coordinator"), "first");
  EXPECT_EQ(get(web(first.out()), "/readyz").status, 200);

  Invocation second = member("second");
  ASSERT_TRUE(second.until_err("the lease is first's")) << second.err();
  EXPECT_EQ(second.out().find("listening"), std::string::npos);
  // What ends well gives the lease up, and the other need not wait for it to lapse.
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 0) << first.err();
  ASSERT_TRUE(second.until_out("listening on")) << second.err();
  EXPECT_EQ(cluster->holder("coordinator"), "second");

  // Who loses the lease does not serve on.
  cluster->put_lease("coordinator", "somebody", 15);
  EXPECT_EQ(second.wait(), 4);
  EXPECT_NE(second.err().find("the lease coordinator was lost"), std::string::npos) << second.err();
  EXPECT_EQ(cluster->holder("coordinator"), "somebody");
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
}

TEST_F(WebTest, WhoCannotOpenItsStoreDoesNotTakeTheLease) {
  auto cluster = cluster_testing::FakeCluster::start(path("cluster"));
  if (!cluster) GTEST_SKIP() << "no openssl on this machine to make a certificate with";
  ::setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", common::cat(cluster->port()).c_str(), 1);
  Invocation first = coordinator("farm");
  ASSERT_TRUE(first.until_out("http on")) << first.err();
  Invocation second = coordinator(
      "farm", {"--lease", "coordinator", "--identity", "second", "--account", cluster->account()});
  EXPECT_EQ(second.wait(), 4) << second.err();
  EXPECT_EQ(cluster->holder("coordinator"), "none");
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
}

TEST_F(WebTest, WhoIsToldToStopWhileStandingByStops) {
  auto cluster = cluster_testing::FakeCluster::start(path("cluster"));
  if (!cluster) GTEST_SKIP() << "no openssl on this machine to make a certificate with";
  ::setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", common::cat(cluster->port()).c_str(), 1);
  cluster->put_lease("coordinator", "somebody", 3600);
  Invocation waiting = coordinator(
      "farm", {"--lease", "coordinator", "--identity", "me", "--account", cluster->account()});
  ASSERT_TRUE(waiting.until_err("the lease is somebody's")) << waiting.err();
  waiting.signal(SIGTERM);
  EXPECT_EQ(waiting.wait(), 0) << waiting.err();
  EXPECT_EQ(cluster->holder("coordinator"), "somebody");
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
}

TEST_F(WebTest, OutsideOfAClusterALeaseIsAMistake) {
  Invocation lonely = coordinator("farm", {"--lease", "x", "--account", path("nowhere")});
  EXPECT_EQ(lonely.wait(), 2);
  EXPECT_NE(lonely.err().find("this is no pod of a cluster"), std::string::npos) << lonely.err();
}

}  // namespace
}  // namespace cli_testing
