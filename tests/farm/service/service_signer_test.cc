// A farm whose signing key is in another process, and keys that sign for a root key: if these fail,
// the key is in the coordinator after all, a signer that is away loses plans, or a rotation does.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "clients/runtime/farm/pulled_plan.h"
#include "clients/runtime/farm/revocations.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/process/subprocess.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/signing/key_signer.h"
#include "coordinator/service/signing/signer_server.h"
#include "tests/farm/service/service_farm.h"
#include "tests/paths/paths.h"

namespace coordinator::service {
namespace {

using common::cat;

constexpr int64_t kHourNs = int64_t{3'600} * 1'000'000'000;

class ServiceSignerTest : public ServiceTest {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void open_signer() {
    if (!own_) own_ = KeySigner::load(path("signing.key"), path("delegation")).value();
    server_ = SignerServer::start(path("sign"), *own_).value();
  }
  void delegate(const std::string& key_file, const std::string& delegation_file, uint64_t number,
                uint64_t oldest_valid) {
    common::Delegation next;
    next.key = common::load_or_create_signing_key(key_file)->public_key();
    next.number = number;
    next.oldest_valid = oldest_valid;
    next.from_ns = common::wall_clock_ns() - kHourNs;
    next.until_ns = common::wall_clock_ns() + kHourNs;
    next = common::delegate(root_, next);
    ASSERT_TRUE(common::write_delegation_file(delegation_file, next).ok());
  }
  // The plan that a search gives, or that is there.
  static common::Packet plan_of(const std::string& at, const common::Graph& graph) {
    FakeWorker worker(at, "w1", kTestTarget);
    FakeClient client(at);
    client.submit(graph, request());
    EXPECT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
    return *client.plan();
  }
  static common::PublicKey signer_at(const std::string& at) {
    FakeClient client(at);
    EXPECT_TRUE(converse({&client}, [&] { return client.count<common::Welcome>() > 0; }));
    return client.last<common::Welcome>()->signing_key;
  }

  const common::SigningKey root_ = common::make_signing_key();
  std::unique_ptr<KeySigner> own_;
  std::unique_ptr<SignerServer> server_;

 private:
  common::ScratchDirectory folder_ = common::ScratchDirectory::create("signer").value();
};

TEST_F(ServiceSignerTest, PlansAreTheSignersAndItsKeyIsNotInTheStateDirectory) {
  open_signer();
  options_.access.signer = path("sign");
  start();
  common::Packet plan = plan_of(endpoint(), scripted_graph(8));
  EXPECT_EQ(signer_at(endpoint()), own_->authority());
  EXPECT_TRUE(clients::open_signed_plan(plan.blob.bytes, {own_->authority(), "local", {}}).ok());
  EXPECT_FALSE(common::file_exists(options_.state + "/signing.key"));
  EXPECT_GE(server_->signed_count(), 1u);
}

TEST_F(ServiceSignerTest, WithoutItsSignerACoordinatorDoesNotStart) {
  options_.access.signer = path("sign");
  options_.access.signer_wait_ms = 0;
  auto service = Service::create(options_);
  ASSERT_FALSE(service.ok());
  EXPECT_EQ(service.error().code, common::Code::kUnavailable);
  EXPECT_NE(service.error().message.find(path("sign")), std::string::npos);
}

TEST_F(ServiceSignerTest, ASubmitWaitsForASignerThatIsAway) {
  open_signer();
  options_.access.signer = path("sign");
  start();
  server_.reset();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return worker.tasks.size() >= 6; }));
  auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(2'500);
  converse({&worker, &client}, [&] { return std::chrono::steady_clock::now() > later; });
  EXPECT_EQ(client.plan(), nullptr);
  open_signer();
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
}

TEST_F(ServiceSignerTest, PlansOutliveARotationUnderOneRoot) {
  std::filesystem::create_directories(options_.state);
  std::string key = options_.state + "/signing.key", word = options_.state + "/delegation";
  delegate(key, word, 1, 0);
  const clients::PlanTrust trust{root_.public_key(), "local", {}};
  start();
  common::Packet first = plan_of(endpoint(), scripted_graph(8));
  EXPECT_EQ(signer_at(endpoint()), root_.public_key());
  EXPECT_TRUE(clients::open_signed_plan(first.blob.bytes, trust).ok());
  stop();

  // Another key: what the one before signed stays until its delegation ends.
  ASSERT_EQ(::unlink(key.c_str()), 0);
  delegate(key, word, 2, 0);
  start();
  EXPECT_EQ(signer_at(endpoint()), root_.public_key());
  common::Packet second = plan_of(endpoint(), scripted_graph(8));
  EXPECT_EQ(common::digest_of(second.blob.bytes), common::digest_of(first.blob.bytes));
  stop();

  // The one before was stolen: its plans are signed anew, and clients take its no more.
  ASSERT_EQ(::unlink(key.c_str()), 0);
  delegate(key, word, 3, 3);
  start();
  int searches = counters_->searches;
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(counters_->searches, searches);
  const common::Packet& third = *client.plan();
  EXPECT_NE(common::digest_of(third.blob.bytes), common::digest_of(first.blob.bytes));
  clients::PlanTrust warned = trust;
  client.send(common::AskRevocations{1, {}});
  ASSERT_TRUE(converse({&client}, [&] { return client.count<common::RevocationsAre>() > 0; }));
  auto learned =
      clients::Revocations(path("book")).learn(root_.public_key(), client.inbox.back().blob.bytes);
  ASSERT_TRUE(learned.ok()) << learned.error().message;
  EXPECT_EQ(learned->oldest_delegation, 3u);
  warned.revoked = *learned;
  EXPECT_TRUE(clients::open_signed_plan(third.blob.bytes, warned).ok());
  auto refused = clients::open_signed_plan(first.blob.bytes, warned);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("withdrawn"), std::string::npos);
  // As it stays on the client's disk.
  EXPECT_EQ(clients::Revocations(path("book")).known(root_.public_key())->oldest_delegation, 3u);
}

TEST_F(ServiceSignerTest, PlansAreRevokedByTheWorkerThatMadeThemAndTheListIsNumbered) {
  start();
  const clients::PlanTrust trust{signer_at(endpoint()), "local", {}};
  common::Packet first = plan_of(endpoint(), scripted_graph(8));
  common::Packet other = plan_of(endpoint(), scripted_graph(9));
  common::Digest id = common::digest_of(first.blob.bytes);
  clients::Revocations book(path("book"));
  auto revoke = [&](const common::RevokePlan& what) {
    FakeClient admin(endpoint());
    admin.send(what);
    EXPECT_TRUE(converse({&admin}, [&] { return admin.count<common::PlanRevoked>() > 0; }));
    return admin.last<common::PlanRevoked>()->plans;
  };
  auto list = [&] {
    FakeClient client(endpoint());
    client.send(common::AskRevocations{1, {}});
    EXPECT_TRUE(converse({&client}, [&] { return client.count<common::RevocationsAre>() > 0; }));
    return book.learn(trust.signer, client.inbox.back().blob.bytes).value();
  };
  EXPECT_TRUE(revoke({5, {}, "nobody's", {"w2", "", 0, INT64_MAX}}).empty());
  uint64_t number = list().number;
  EXPECT_GT(number, 0u);
  std::vector<common::Digest> revoked = revoke({6, {}, "w1 was lost", {"w1", "", 0, INT64_MAX}});
  EXPECT_EQ(revoked.size(), 2u);
  EXPECT_NE(std::find(revoked.begin(), revoked.end(), id), revoked.end());
  common::RevocationList known = list();
  EXPECT_GT(known.number, number);
  EXPECT_GT(known.until_ns, common::wall_clock_ns());
  EXPECT_TRUE(known.holds(id));
  ASSERT_EQ(known.rules.size(), 2u);
  // Not of what is made from now on.
  EXPECT_LE(known.rules[1].until_ns, common::wall_clock_ns());

  // A copy that the farm does not know of is refused by the rule.
  clients::PlanTrust by_rule = trust;
  by_rule.revoked.rules = known.rules;
  EXPECT_TRUE(clients::open_signed_plan(other.blob.bytes, trust).ok());
  EXPECT_FALSE(clients::open_signed_plan(other.blob.bytes, by_rule).ok());

  stop();
  start();
  EXPECT_GT(list().number, known.number);
  EXPECT_EQ(list().rules, known.rules);
  common::Packet next = plan_of(endpoint(), scripted_graph(8));
  by_rule.revoked = list();
  EXPECT_NE(common::digest_of(next.blob.bytes), id);
  EXPECT_TRUE(clients::open_signed_plan(next.blob.bytes, by_rule).ok());
}

// ---- Processes ---------------------------------------------------------------------------------

// Whether the secret stands somewhere in the process's memory.
bool is_in_memory(pid_t pid, const std::string& secret) {
  std::ifstream maps(cat("/proc/", pid, "/maps"));
  std::ifstream memory(cat("/proc/", pid, "/mem"), std::ios::binary);
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    char mode[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) != 3) continue;
    if (mode[0] != 'r' || mode[1] != 'w') continue;
    std::string bytes(end - begin, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(begin));
    memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (bytes.find(secret) != std::string::npos) return true;
  }
  return false;
}

class SignerProcessTest : public ServiceSignerTest {
 protected:
  // Of the key's file: raw, as a process that signs has it.
  std::string secret(const std::string& file) {
    std::string text = common::read_file(file).value();
    text.pop_back();
    common::Bytes bytes = common::from_hex(text).value();
    return std::string(common::as_text(bytes).substr(0, 32));
  }
  common::Subprocess run(std::vector<std::string> arguments) {
    common::SpawnOptions options;
    options.arguments = {paths::binaries("/../tests/lfarm-coordinator-scripted"), "--log",
                         "warning"};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    auto process = common::Subprocess::start(options);
    if (!process.ok()) throw std::runtime_error(process.error().message);
    return std::move(process).value();
  }
  static void wait_for(const std::string& file) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (!common::file_exists(file)) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error(file + " does not come");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::string coordinator(std::vector<std::string> more, const std::string& name,
                          std::optional<common::Subprocess>* process) {
    std::vector<std::string> arguments = {"--state",         path(name),
                                          "--listen",        "tcp://127.0.0.1:0",
                                          "--endpoint-file", path(name + ".endpoint")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    process->emplace(run(arguments));
    wait_for(path(name + ".endpoint"));
    std::string endpoint = common::read_file(path(name + ".endpoint")).value();
    endpoint.pop_back();
    return endpoint;
  }
};

TEST_F(SignerProcessTest, OnlyTheSignerHasTheKeyInItsMemory) {
  common::Subprocess signer =
      run({"--role", "sign", "--socket", path("sign"), "--key", path("signer.key")});
  wait_for(path("sign"));
  std::optional<common::Subprocess> apart, alone;
  std::string at = coordinator({"--signer", path("sign")}, "apart", &apart);
  common::Packet plan = plan_of(at, scripted_graph(8));
  auto key = common::load_or_create_signing_key(path("signer.key")).value();
  EXPECT_TRUE(clients::open_signed_plan(plan.blob.bytes, {key.public_key(), "local", {}}).ok());
  if (::geteuid() == 0) {
    EXPECT_FALSE(is_in_memory(apart->pid(), secret(path("signer.key"))));
    // Where the search would have found one.
    coordinator({}, "alone", &alone);
    EXPECT_TRUE(is_in_memory(alone->pid(), secret(path("alone/signing.key"))));
  }
  signer.send_signal(SIGTERM);
  auto status = signer.wait(600'000);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 0);
  EXPECT_FALSE(common::file_exists(path("sign")));
}

TEST_F(SignerProcessTest, ACoordinatorWithoutItsSignerEndsWithTheLineThatSaysSo) {
  common::Subprocess process = run({"--state", path("state"), "--listen", "tcp://127.0.0.1:0",
                                    "--signer", path("nobody"), "--signer-wait-ms", "0"});
  auto status = process.wait(600'000);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 4);
}

}  // namespace
}  // namespace coordinator::service
