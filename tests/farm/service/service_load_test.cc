// The coordinator under peers that ask for more than they take: if these fail, one of them can fill
// the coordinator's memory, or an urgent job waits behind others.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/cat.h"
#include "common/wire/codec.h"
#include "coordinator/service/status.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::cat;

// Speaks ZeroMQ's protocol by hand, because a ZeroMQ socket reads whether its owner does or not.
class DeafClient {
 public:
  explicit DeafClient(const std::string& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    int small = 4096;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<uint16_t>(std::atoi(endpoint.c_str() + endpoint.rfind(':') + 1)));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
    std::string greeting = "\xff" + std::string(8, '\0') + "\x7f\x03" + '\0' + "NULL";
    write(greeting + std::string(64 - greeting.size(), '\0'));
    read_exactly(64);
    std::string ready =
        std::string("\x05READY") + "\x0bSocket-Type" + std::string(3, '\0') + "\x06" + "DEALER";
    write(std::string("\x04") + static_cast<char>(ready.size()) + ready);
  }
  ~DeafClient() { ::close(fd_); }
  DeafClient(const DeafClient&) = delete;
  DeafClient& operator=(const DeafClient&) = delete;

  void send(const common::Message& message) {
    std::string body(common::as_text(common::encode(message)));
    write(std::string(1, '\0') + static_cast<char>(body.size()) + body);
  }
  // Reads until the text comes.
  bool hears(const std::string& text) {
    std::string heard;
    char bytes[65536];
    while (heard.find(text) == std::string::npos) {
      ssize_t size = ::recv(fd_, bytes, sizeof bytes, 0);
      if (size <= 0) return false;
      heard.erase(0, heard.size() - std::min(heard.size(), text.size()));
      heard.append(bytes, static_cast<size_t>(size));
    }
    return true;
  }

  void take_what_is_there() {
    char bytes[65536];
    while (::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
  }

 private:
  void write(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      ssize_t size = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) throw std::runtime_error("the connection is gone");
      sent += static_cast<size_t>(size);
    }
  }
  void read_exactly(size_t size) {
    std::string bytes(size, '\0');
    if (::recv(fd_, bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
      throw std::runtime_error("no greeting");
    }
  }
  int fd_;
};

uint64_t field(const std::string& json, const std::string& name) {
  size_t at = json.find('"' + name + "\":");
  return at == std::string::npos ? UINT64_MAX
                                 : std::strtoull(json.c_str() + at + name.size() + 3, nullptr, 10);
}

class ServiceLoadTest : public ServiceTest {
 protected:
  static std::string status(FakeClient& client, common::StatusTopic topic,
                            const std::string& after = {}) {
    size_t replies = client.count<common::StatusReply>();
    client.send(common::StatusRequest{1, topic, {}, after});
    if (!converse({&client}, [&] { return client.count<common::StatusReply>() > replies; })) {
      return "";
    }
    return client.last<common::StatusReply>()->json;
  }
  struct Listed {
    std::vector<std::string> names;
    int pages = 0;
    size_t bytes = 0;
  };
  // The rows of a list by their member `id`, or where it is null by their own names.
  static Listed all_pages(FakeClient& client, common::StatusTopic topic, const char* list,
                          const char* id) {
    Listed all;
    std::string after;
    do {
      std::string text = status(client, topic, after);
      auto page = nlohmann::json::parse(text);
      for (const auto& [name, row] : page.at(list).items()) {
        all.names.push_back(id == nullptr            ? name
                            : row.at(id).is_string() ? row.at(id).get<std::string>()
                                                     : row.at(id).dump());
      }
      after = page.value("next", "");
      all.bytes += text.size();
      ++all.pages;
    } while (!after.empty() && all.pages < 10);
    return all;
  }
  // Submits a graph of that size and returns its job's id.
  static uint64_t submit_as(uint32_t priority, FakeWorker& worker, FakeClient& client,
                            int64_t size) {
    common::Submit submit = request();
    submit.priority = priority;
    size_t accepted = client.count<common::Accepted>();
    client.submit(scripted_graph(size), submit);
    EXPECT_TRUE(
        converse({&worker, &client}, [&] { return client.count<common::Accepted>() > accepted; }));
    return client.last<common::Accepted>()->job_id;
  }
};

TEST_F(ServiceLoadTest, AClientThatNeverReadsHoldsLittleMemoryAndIsToldSo) {
  constexpr size_t kQueue = 65'536, kBacklog = 65'536;
  constexpr int kRequests = 1'000;  // in a round
  options_.limits.peer_queue_bytes = kQueue;
  options_.limits.backlog_bytes = kBacklog;
  start();
  DeafClient deaf(endpoint());
  deaf.send(common::ClientHello{"deaf", common::kProtocolVersion, "test"});
  FakeClient other(endpoint());
  // The system's own buffers come first: megabytes, which it hands out little by little.
  constexpr int kRoundsMax = 10'000;
  uint64_t unread = 0;
  for (int round = 0; round < kRoundsMax && unread <= kQueue; ++round) {
    for (int i = 0; i < kRequests; ++i) {
      deaf.send(common::StatusRequest{1, common::StatusTopic::kStatus});
    }
    unread = field(status(other, common::StatusTopic::kStatus), "unread_bytes");
    ASSERT_LE(unread, kQueue + kBacklog);
  }
  ASSERT_GT(unread, kQueue);
  EXPECT_TRUE(deaf.hears("had left answers unread"));
  // Answers to what it asked last are still under way.
  auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (unread >= kQueue / 2 && std::chrono::steady_clock::now() < end) {
    deaf.take_what_is_there();
    unread = field(status(other, common::StatusTopic::kStatus), "unread_bytes");
  }
  EXPECT_LT(unread, kQueue / 2);
}

TEST_F(ServiceLoadTest, RefusalsForLackOfRoomSayWhenToTryAgain) {
  options_.limits.jobs_max = 1;
  options_.limits.subscribers_max = 2;
  options_.times.try_again_ms = 7'000;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 0;
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  client.submit(scripted_graph(8), request());
  uint64_t third = client.submit(scripted_graph(8), request());
  ASSERT_TRUE(
      converse({&worker, &client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->request_id, third);
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  EXPECT_NE(client.last<common::JobFailed>()->message.find("submit again in 7 s"),
            std::string::npos);
  uint64_t other = client.submit(scripted_graph(9), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.count<common::JobFailed>() == 2; }));
  EXPECT_EQ(client.last<common::JobFailed>()->request_id, other);
  EXPECT_NE(client.last<common::JobFailed>()->message.find("submit again in 7 s"),
            std::string::npos);
}

TEST_F(ServiceLoadTest, ListsOfWorkersAndJobsComeByPages) {
  options_.limits.list_bytes = 3'000;
  start();
  std::vector<std::unique_ptr<FakeWorker>> workers;
  FakeClient client(endpoint());
  std::vector<FakePeer*> peers{&client};
  for (int k = 0; k < 7; ++k) {
    workers.push_back(std::make_unique<FakeWorker>(endpoint(), common::cat("w", k), kTestTarget));
    workers.back()->answers_max = 0;
    peers.push_back(workers.back().get());
  }
  for (int64_t size : {8, 9, 10, 11, 12}) client.submit(scripted_graph(size), request());
  ASSERT_TRUE(converse(peers, [&] {
    return client.count<common::Accepted>() == 5 &&
           std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker->welcomes == 1; });
  }));
  for (auto [topic, list, id, count] :
       {std::tuple(common::StatusTopic::kWorkers, "workers", "worker", 7U),
        std::tuple(common::StatusTopic::kJobs, "jobs", "job", 5U)}) {
    Listed listed = all_pages(client, topic, list, id);
    EXPECT_EQ(listed.names.size(), count) << list;
    EXPECT_TRUE(std::is_sorted(listed.names.begin(), listed.names.end())) << list;
    EXPECT_GT(listed.pages, 1) << list;
  }
}

TEST_F(ServiceLoadTest, ThousandsOfWorkersAndTenantsAreListed) {
  constexpr size_t kWorkers = 4'000, kTenants = 3'500;
  start();
  std::set<std::string> workers, tenants;
  for (size_t k = 0; k < kWorkers; ++k) workers.insert(cat(std::string(120, 'w'), k));
  for (size_t k = 0; k < kTenants; ++k) tenants.insert(cat("tenant-", k));
  // Without connections: nobody speaks to them.
  auto simulate = [&](const StatusSources& sources) {
    const Environment& env = sources.environment;
    common::WorkerHello hello{"", kTestTarget, 2, common::kProtocolVersion, std::string(250, 'b')};
    hello.toolchain = hello.machine = std::string(250, 'c');
    for (const std::string& name : workers) {
      hello.worker_id = name;
      env.workers.hello(name, "10.0.0.1", hello);
    }
    for (const std::string& name : tenants) env.tenants.charge(name, 7, common::wall_clock_ns());
    return std::string("done");
  };
  ASSERT_EQ(service().ask(simulate), "done");
  FakeClient client(endpoint());
  Listed listed = all_pages(client, common::StatusTopic::kWorkers, "workers", "worker");
  EXPECT_EQ(std::set(listed.names.begin(), listed.names.end()), workers);
  EXPECT_EQ(listed.names.size(), kWorkers);
  EXPECT_GT(listed.bytes, common::kStatusBytesMax) << "one answer would have held them";
  for (auto topic : {common::StatusTopic::kStatus, common::StatusTopic::kCache}) {
    listed = all_pages(client, topic, "tenants", nullptr);
    EXPECT_EQ(std::set(listed.names.begin(), listed.names.end()), tenants);
    EXPECT_EQ(listed.names.size(), kTenants);
    EXPECT_EQ(listed.pages, 4);
  }
  EXPECT_EQ(field(status(client, common::StatusTopic::kStatus), "omitted"), kTenants - 1'000);
}

TEST_F(ServiceLoadTest, UrgentJobsSearchFirstAndKeepTheirPriority) {
  options_.limits.searches_max = 1;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 0;
  FakeClient client(endpoint());
  auto submit = [&](int64_t size, uint32_t priority) {
    return submit_as(priority, worker, client, size);
  };
  uint64_t first = submit(8, 10);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return worker.tasks.size() == 2; }));
  uint64_t lazy = submit(9, 1);
  uint64_t usual = submit(10, 10);
  uint64_t urgent = submit(11, 100);
  std::string jobs = status(client, common::StatusTopic::kJobs);
  EXPECT_NE(jobs.find("\"priority\":100"), std::string::npos) << jobs;
  stop();

  // What waited waits by its priority again.
  start();
  FakeWorker next(endpoint(), "w2", kTestTarget);
  FakeClient again(endpoint());
  for (int64_t size : {8, 9, 10, 11}) again.submit(scripted_graph(size), request(), false);
  ASSERT_TRUE(converse({&next, &again}, [&] { return again.count<common::PlanReady>() == 4; }));
  std::vector<uint64_t> order;
  for (const common::Packet& packet : again.inbox) {
    if (auto* ready = std::get_if<common::PlanReady>(&packet.message)) {
      order.push_back(ready->job_id);
    }
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{urgent, first, usual, lazy}));
}

TEST_F(ServiceLoadTest, JobsWithoutWorkersKeepNoIdleWorkerWaiting) {
  options_.limits.searches_max = 2;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  common::Submit elsewhere = request();
  elsewhere.target = "cuda-sm_90a";
  // Two that never had a worker, and two whose worker leaves in the middle of their search.
  for (int64_t size : {8, 9}) client.submit(scripted_graph(size), elsewhere);
  elsewhere.target = "cuda-sm_80";
  {
    FakeWorker leaver(endpoint(), "w2", elsewhere.target);
    leaver.answers_max = 0;
    for (int64_t size : {10, 11}) client.submit(scripted_graph(size), elsewhere);
    ASSERT_TRUE(converse({&worker, &leaver, &client}, [&] { return leaver.tasks.size() == 2; }));
    leaver.bye();
  }
  client.submit(scripted_graph(12), request());
  EXPECT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
}

// The second tenant's only job does not wait behind all jobs of the first, however urgent they are.
TEST_F(ServiceLoadTest, TenantsTakeTurnsToSearch) {
  common::KeyPair keys[] = {common::make_key_pair(), common::make_key_pair(),
                            common::make_key_pair()};
  options_.access.secure = true;
  std::string allowed = keys[0].public_key + " first submit\n" + keys[1].public_key +
                        " second submit\n" + keys[2].public_key + " shared worker\n";
  ASSERT_TRUE(common::make_directories(options_.state).ok());
  ASSERT_TRUE(common::write_file_atomic(options_.state + "/allow", common::as_bytes(allowed)).ok());
  options_.limits.searches_max = 2;
  start();
  auto of = [&](int who) { return common::ClientKeys{keys[who], public_key()}; };
  FakeWorker worker(endpoint(), "w1", kTestTarget, 8, of(2));
  worker.answers_max = 0;
  FakeClient first(endpoint(), of(0)), second(endpoint(), of(1));
  auto submit = [&](FakeClient& client, int64_t size, uint32_t priority) {
    return submit_as(priority, worker, client, size);
  };
  uint64_t cancelled = submit(first, 8, 10);
  submit(first, 9, 10);
  for (int64_t size : {10, 11, 12}) submit(first, size, 100);
  submit(second, 13, 1);
  first.send(common::CancelJob{cancelled});
  // Only jobs that search have tasks; one of the first tenant's and this one do.
  auto searches = [](const FakeClient& client) {
    return std::any_of(client.inbox.begin(), client.inbox.end(), [](const auto& packet) {
      auto* progress = std::get_if<common::Progress>(&packet.message);
      return progress != nullptr && progress->stage == "search";
    });
  };
  EXPECT_TRUE(converse({&worker, &first, &second}, [&] { return searches(second); }));
}

}  // namespace
}  // namespace coordinator::service
