// Probes and metrics over HTTP: if these fail, clusters restart what is well or keep what is not.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/http/http_client.h"
#include "common/http/http_server.h"
#include "common/http/probes.h"
#include "common/metrics/metrics.h"
#include "common/process/subprocess.h"

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

// Connections that stay open, each with a byte of a request now and then.
class DrippingClients {
 public:
  DrippingClients(const HttpServer& server, int count) {
    HttpEndpoint to = endpoint_of(server);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(to.port));
    ::inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
    for (int k = 0; k < count; ++k) {
      int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      sockets_.push_back(fd);
    }
    thread_ = std::thread([this] {
      constexpr std::string_view kRequest = "GET /slow?a=0123456789";
      for (size_t k = 0; !ended_; k = (k + 1) % kRequest.size()) {
        for (int fd : sockets_) (void)::send(fd, kRequest.data() + k, 1, MSG_NOSIGNAL);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  ~DrippingClients() {
    ended_ = true;
    thread_.join();
    for (int fd : sockets_) ::close(fd);
  }

 private:
  std::vector<int> sockets_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

TEST(Http, ClientsThatDripHoldUpNobody) {
  auto server = serve([](const HttpRequest& request) { return HttpResponse{200, request.path}; });
  DrippingClients clients(*server, 64);
  for (int k = 0; k < 3; ++k) {
    auto reply = get(*server, "/livez");
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->body, "/livez");
  }
}

// Who asks and then does not take the answer is let go.
TEST(Http, AnAnswerThatNobodyTakesIsGivenUp) {
  HttpServerOptions one_thread;
  one_thread.threads = 1;
  std::string large(size_t{64} << 20, 'x');
  auto server = HttpServer::start(
      "127.0.0.1:0",
      [&](const HttpRequest& request) {
        return HttpResponse{200, request.path == "/large" ? large : "small"};
      },
      one_thread);
  ASSERT_TRUE(server.ok());
  HttpEndpoint to = endpoint_of(**server);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(to.port));
  ::inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  constexpr std::string_view kRequest = "GET /large HTTP/1.0\r\n\r\n";
  ASSERT_EQ(::send(fd, kRequest.data(), kRequest.size(), 0), static_cast<ssize_t>(kRequest.size()));
  char first;
  ASSERT_EQ(::recv(fd, &first, 1, 0), 1) << "the answer has not begun";
  auto reply = get(**server, "/small");
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->body, "small");
  ::close(fd);
}

bool make_certificate(const std::string& folder) {
  auto made = run_command(
      {"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
       "-nodes", "-days", "2", "-subj", "/CN=lfarm", "-addext", "subjectAltName=IP:127.0.0.1",
       "-keyout", folder + "/key.pem", "-out", folder + "/certificate.pem"},
      600'000);
  return made.ok() && made->status.code == 0;
}

TEST(Http, AnswersOverTlsWithTheCertificateAsItIsNow) {
  auto scratch = ScratchDirectory::create("lfarm-tls").value();
  if (!make_certificate(scratch.path())) GTEST_SKIP() << "no openssl on this machine";
  HttpServerOptions tls;
  tls.certificate = scratch.path() + "/certificate.pem";
  tls.key = scratch.path() + "/key.pem";
  // Larger than what a socket holds, so that writing has to wait.
  std::string large(size_t{8} << 20, 'x');
  auto server = HttpServer::start(
      "127.0.0.1:0",
      [&](const HttpRequest& request) {
        return HttpResponse{200, request.path == "/large" ? large : request.path};
      },
      tls);
  ASSERT_TRUE(server.ok()) << server.error().message;
  auto ask = [&](const std::string& path, const std::string& authority) {
    HttpEndpoint to = endpoint_of(**server);
    to.tls = true;
    to.ca_file = authority;
    HttpCall call;
    call.path = path;
    return http_call(to, call);
  };
  auto reply = ask("/small", tls.certificate);
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->body, "/small");
  EXPECT_EQ(ask("/large", tls.certificate)->body, large);
  EXPECT_FALSE(get(**server, "/small").ok()) << "answered without TLS";

  std::string before = scratch.path() + "/before.pem";
  ASSERT_TRUE(write_file_atomic(before, as_bytes(*read_file(tls.certificate))).ok());
  ASSERT_TRUE(make_certificate(scratch.path()));
  EXPECT_EQ(ask("/small", tls.certificate)->body, "/small");
  EXPECT_EQ(ask("/small", before).error().code, Code::kVerification);
}

TEST(Http, FilesOfTlsThatCannotBeUsedAreNamed) {
  HttpServerOptions tls;
  tls.certificate = tls.key = "/nonexistent/certificate.pem";
  auto server = HttpServer::start(
      "127.0.0.1:0", [](const HttpRequest&) { return HttpResponse{}; }, tls);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, Code::kInvalidInput);
  EXPECT_NE(server.error().message.find(tls.certificate), std::string::npos);
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
