// Probes and metrics over HTTP: if these fail, clusters restart what is well or keep what is not.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/base/cat.h"
#include "common/http/http_client.h"
#include "common/http/http_server.h"
#include "common/http/probes.h"
#include "common/metrics/metrics.h"

namespace common {
namespace {

HttpEndpoint endpoint_of(const HttpServer& server) {
  const std::string& address = server.address();
  size_t colon = address.rfind(':');
  return {address.substr(0, colon), std::stoi(address.substr(colon + 1))};
}

Result<HttpReply> get(const HttpServer& server, const std::string& path) {
  HttpCall call;
  call.path = path;
  return http_call(endpoint_of(server), call);
}

std::unique_ptr<HttpServer> serve(HttpHandler handler) {
  auto server = HttpServer::start("127.0.0.1:0", std::move(handler));
  EXPECT_TRUE(server.ok()) << server.error().message;
  return std::move(server).value();
}

TEST(Http, HandlersGetPathsAndDecodedQueries) {
  auto server = serve([](const HttpRequest& request) {
    auto target = request.query.find("target");
    return HttpResponse{request.path == "/a" ? 200 : 404,
                        target == request.query.end() ? "" : target->second, "text/x"};
  });
  auto reply = get(*server, "/a?target=cpu%20%3Cb%3E&target=second");
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "cpu <b>");
  EXPECT_EQ(reply->headers["Content-Type"], "text/x");
  EXPECT_EQ(get(*server, "/b")->status, 404);
}

TEST(Http, PagesMayRunNothingFromElsewhere) {
  auto server = serve([](const HttpRequest&) { return HttpResponse{200, "<script>"}; });
  auto reply = get(*server, "/");
  ASSERT_TRUE(reply.ok());
  EXPECT_NE(reply->headers["Content-Security-Policy"].find("default-src 'none'"),
            std::string::npos);
  EXPECT_EQ(reply->headers["X-Content-Type-Options"], "nosniff");
}

TEST(Http, OtherMethodsAreRefused) {
  std::atomic<int> calls{0};
  auto server = serve([&](const HttpRequest&) {
    ++calls;
    return HttpResponse{};
  });
  for (const char* method : {"POST", "PUT", "PATCH"}) {
    HttpCall call;
    call.method = method;
    call.body = "{}";
    auto reply = http_call(endpoint_of(*server), call);
    ASSERT_TRUE(reply.ok()) << method;
    EXPECT_GE(reply->status, 400) << method;
  }
  EXPECT_EQ(calls, 0);
}

TEST(Http, AddressesThatCannotBeServedAreNamed) {
  HttpHandler handler = [](const HttpRequest&) { return HttpResponse{}; };
  for (const char* address : {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999",
                              "127.0.0.1:80x", "::1:80", "192.0.2.1:0"}) {
    auto server = HttpServer::start(address, handler);
    ASSERT_FALSE(server.ok()) << address;
    EXPECT_EQ(server.error().code, Code::kInvalidInput);
    EXPECT_NE(server.error().message.find(cat(address)), std::string::npos);
  }
}

TEST(Http, AnAddressHasOneServer) {
  auto server = serve([](const HttpRequest&) { return HttpResponse{}; });
  auto second =
      HttpServer::start(server->address(), [](const HttpRequest&) { return HttpResponse{}; });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kInvalidInput);
}

TEST(Http, AServerThatEndsAtOnceEnds) {
  for (int k = 0; k < 20; ++k) serve([](const HttpRequest&) { return HttpResponse{}; });
}

TEST(Http, OneSlowAnswerHoldsUpNoOther) {
  std::atomic<bool> go{false};
  auto server = serve([&](const HttpRequest& request) {
    while (request.path == "/slow" && !go) std::this_thread::yield();
    return HttpResponse{200, request.path};
  });
  std::thread slow([&] { EXPECT_EQ(get(*server, "/slow")->body, "/slow"); });
  EXPECT_EQ(get(*server, "/livez")->body, "/livez");
  go = true;
  slow.join();
}

TEST(Http, NobodyThereIsUnavailable) {
  HttpEndpoint nowhere;
  {
    auto server = serve([](const HttpRequest&) { return HttpResponse{}; });
    nowhere = endpoint_of(*server);
  }
  auto reply = http_call(nowhere, {});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_NE(reply.error().message.find("GET http://127.0.0.1:"), std::string::npos)
      << reply.error().message;
}

// A probe that says yes too long leaves a stuck process alone; one that says no too early ends one
// that only waits for its farm.
TEST(Probes, EachAsksForItsOwnThing) {
  auto status = [](const char* path, const common::Health& health) {
    return common::answer_probe(path, health)->status;
  };
  const common::Health waits{"has not joined", "the farm is away", common::kStuckLoopMs};
  EXPECT_EQ(status("/startupz", waits), 503);
  EXPECT_EQ(status("/readyz", waits), 503);
  EXPECT_EQ(status("/livez", waits), 200);
  const common::Health stuck{"", "", common::kStuckLoopMs + 1};
  EXPECT_EQ(status("/startupz", stuck), 200);
  EXPECT_EQ(status("/readyz", stuck), 503);
  EXPECT_EQ(status("/livez", stuck), 503);
  EXPECT_EQ(common::answer_probe("/livez", stuck)->body, "the loop has not turned for 60 s\n");
  EXPECT_EQ(status("/readyz", {}), 200);
  EXPECT_FALSE(common::answer_probe("/metrics", {}).has_value());
}

TEST(Metrics, AreWrittenAsPrometheusReadsThem) {
  Metrics metrics;
  metrics.counter("lfarm_tasks_total", "Tasks", {{"outcome", "ok"}}).add();
  metrics.counter("lfarm_tasks_total", "Tasks", {{"outcome", "ok"}}).add(2);
  metrics.counter("lfarm_tasks_total", "Tasks", {{"outcome", "wrong"}}).add();
  metrics.histogram("lfarm_compile_seconds", "Compiling", {0.1, 1}).observe(0.5);
  std::string text = metrics.text({{"lfarm_workers", "Workers", {{{{"target", "a\"b\nc"}}, 3}}}});
  for (const char* line :
       {"# TYPE lfarm_tasks_total counter\n", "lfarm_tasks_total{outcome=\"ok\"} 3\n",
        "lfarm_tasks_total{outcome=\"wrong\"} 1\n", "# TYPE lfarm_workers gauge\n",
        "lfarm_workers{target=\"a\\\"b\\nc\"} 3\n", "lfarm_compile_seconds_bucket{le=\"0.1\"} 0\n",
        "lfarm_compile_seconds_bucket{le=\"1\"} 1\n", "lfarm_compile_seconds_count 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(Metrics, AProcessKnowsItsMemory) {
  for (const GaugeFamily& gauge : process_gauges()) {
    ASSERT_EQ(gauge.samples.size(), 1u);
    bool is_memory = gauge.name == "process_resident_memory_bytes";
    EXPECT_GT(gauge.samples[0].second, is_memory ? 1e6 : 0) << gauge.name;
  }
}

}  // namespace
}  // namespace common
