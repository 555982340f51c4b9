// Who may do what on a farm with keys, over real sockets with CURVE: if these fail, one tenant sees
// or stops another's work, or a key that was taken away still opens the door.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/cat.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Code;

// A farm with an allow-list that the test changes as an administrator would.
class ServiceSecurityTest : public ServiceTest {
 protected:
  ServiceSecurityTest() {
    options_.access.secure = true;
    options_.listen = "tcp://127.0.0.1:*";
  }

  // A new key on the list.
  common::KeyPair grant(const std::string& tenant, const std::string& roles) {
    common::KeyPair keys = common::make_key_pair();
    lines_[keys.public_key] = cat(keys.public_key, ' ', tenant, ' ', roles, '\n');
    write_list();
    return keys;
  }
  void revoke(const common::KeyPair& keys) {
    lines_.erase(keys.public_key);
    write_list();
  }
  void write_list(const std::string& more = "") {
    std::string text = more;
    for (const auto& [key, line] : lines_) text += line;
    ASSERT_TRUE(common::make_directories(options_.state).ok());
    ASSERT_TRUE(common::write_file_atomic(options_.state + "/allow", common::as_bytes(text)).ok());
  }
  common::ClientKeys at_farm(const common::KeyPair& keys) const { return {keys, public_key()}; }
  std::unique_ptr<FakeClient> client(const common::KeyPair& keys) {
    return std::make_unique<FakeClient>(endpoint(), at_farm(keys));
  }
  std::string status(FakeClient& asker, common::StatusTopic topic) {
    size_t replies = asker.count<common::StatusReply>();
    asker.send(common::StatusRequest{1, topic});
    EXPECT_TRUE(converse({&asker}, [&] { return asker.count<common::StatusReply>() > replies; }));
    return asker.last<common::StatusReply>()->json;
  }
  // The jobs that have not ended, as JSON.
  std::string open_jobs(FakeClient& asker) {
    return nlohmann::json::parse(status(asker, common::StatusTopic::kJobs)).at("jobs").dump();
  }
  bool is_open(FakeClient& asker, uint64_t job) {
    return open_jobs(asker).find(cat("\"job\":", job, ",")) != std::string::npos;
  }
  // Whether a job does within the test's patience.
  bool ends(FakeClient& asker, uint64_t job) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (std::chrono::steady_clock::now() < end) {
      if (!is_open(asker, job)) return true;
    }
    return false;
  }
  // What the farm answers instead of doing it.
  common::Refused refusal(FakeClient& asker, const common::Message& message) {
    size_t refusals = asker.count<common::Refused>();
    asker.send(message);
    EXPECT_TRUE(converse({&asker}, [&] { return asker.count<common::Refused>() > refusals; }))
        << common::message_name(message) << " is not refused";
    return *asker.last<common::Refused>();
  }

 private:
  std::map<std::string, std::string> lines_;
};

TEST_F(ServiceSecurityTest, WithoutAListNobodyIsServed) {
  auto refused = Service::create(options_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidInput);
  EXPECT_NE(refused.error().message.find("lfarm keys grant"), std::string::npos);
}

TEST_F(ServiceSecurityTest, WhatAKeyMayNotSendIsRefusedByName) {
  common::Submit submit = request();
  submit.request_id = 1;
  submit.graph_hash = submit.graph = common::digest_of("graph");
  const common::Message messages[] = {
      common::WorkerHello{"w", kTestTarget, 1, common::kProtocolVersion, "test"},
      common::Credit{1},
      common::Heartbeat{},
      common::TaskResult{},
      common::LeaseReturned{},
      common::WorkerBye{},
      submit,
      common::CancelJob{1},
      common::PullPlan{1, common::digest_of("key")},
      common::StatusRequest{1, common::StatusTopic::kJobs},
      common::BlobRequest{common::digest_of("blob")},
      common::RevokePlan{1, common::digest_of("plan"), "no reason"},
      common::Welcome{"c", 1, {}, "e", "t"},
      common::Task{},
      common::PlanMissing{1}};
  std::map<std::string, common::KeyPair> keys;
  for (const char* role : {"submit", "read", "worker", "admin"}) keys[role] = grant("team", role);
  start();
  size_t refused = 0;
  for (const auto& [role, pair] : keys) {
    common::Principal who{"team", *common::parse_roles(role)};
    auto one = client(pair);
    for (const common::Message& message : messages) {
      if (common::may_send(who, message) || !common::validate(message).ok()) continue;
      common::Refused answer = refusal(*one, message);
      EXPECT_EQ(answer.code, Code::kInvalidInput);
      EXPECT_EQ(answer.message, cat("this key may not send ", common::message_name(message),
                                    "; ask the farm's administrator for the role"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 30u);
}

TEST_F(ServiceSecurityTest, ATenantsJobsAreItsOwn) {
  common::KeyPair a = grant("team-a", "submit,read"), b = grant("team-b", "submit,read");
  common::KeyPair boss = grant("operators", "read,admin"), hand = grant("workers", "worker");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
  worker.answers_max = 0;
  auto first = client(a), second = client(b), admin = client(boss), colleague = client(a);
  first->submit(scripted_graph(8), request());
  second->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, first.get(), second.get()}, [&] {
    return first->last<common::Accepted>() != nullptr &&
           second->last<common::Accepted>() != nullptr;
  }));
  EXPECT_EQ(first->last<common::Welcome>()->tenant, "team-a");
  uint64_t job = first->last<common::Accepted>()->job_id;
  uint64_t other = second->last<common::Accepted>()->job_id;
  // The same graph is searched for each of them: nobody watches another's search.
  EXPECT_NE(job, other);
  EXPECT_FALSE(second->last<common::Accepted>()->joined);

  std::string of_b = status(*second, common::StatusTopic::kJobs);
  EXPECT_NE(of_b.find(cat("\"job\":", other, ",")), std::string::npos) << of_b;
  EXPECT_EQ(of_b.find("team-a"), std::string::npos) << of_b;
  std::string of_admin = status(*admin, common::StatusTopic::kJobs);
  EXPECT_NE(of_admin.find("team-a"), std::string::npos) << of_admin;
  EXPECT_NE(of_admin.find("team-b"), std::string::npos) << of_admin;

  common::Refused refused = refusal(*second, common::CancelJob{job});
  EXPECT_EQ(refused.code, Code::kInvalidInput);
  EXPECT_NE(refused.message.find("it is another tenant's"), std::string::npos) << refused.message;
  EXPECT_EQ(first->last<common::JobFailed>(), nullptr);
  // Of its own tenant, on another connection; and the administrator, of any.
  colleague->send(common::CancelJob{job});
  admin->send(common::CancelJob{other});
  ASSERT_TRUE(converse({&worker, first.get(), second.get(), colleague.get(), admin.get()}, [&] {
    return first->last<common::JobFailed>() != nullptr &&
           second->last<common::JobFailed>() != nullptr;
  }));
  for (const common::Packet& packet : second->inbox) {
    auto* progress = std::get_if<common::Progress>(&packet.message);
    EXPECT_FALSE(progress != nullptr && progress->job_id == job) << "a look at another's search";
  }
}

TEST_F(ServiceSecurityTest, ATenantHasItsShareOfJobsAndSearches) {
  common::KeyPair a = grant("team-a", "submit,read"), b = grant("team-b", "submit,read");
  common::KeyPair boss = grant("operators", "read,admin"), hand = grant("workers", "worker");
  options_.limits.searches_max = 2;
  options_.limits.tenant_jobs_max = 2;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
  worker.answers_max = 0;
  auto first = client(a), second = client(b), admin = client(boss);
  auto phases = [&](const std::string& tenant) {
    std::map<std::string, int> found;
    auto jobs = nlohmann::json::parse(status(*admin, common::StatusTopic::kJobs));
    for (const auto& row : jobs["jobs"]) {
      if (row["tenant"] == tenant) ++found[row["phase"]];
    }
    return found;
  };
  for (int64_t size : {8, 9, 10}) first->submit(scripted_graph(size), request());
  ASSERT_TRUE(converse({&worker, first.get()}, [&] {
    return first->last<common::JobFailed>() != nullptr && phases("team-a")["searching"] == 1;
  }));
  EXPECT_EQ(first->last<common::JobFailed>()->code, Code::kUnavailable);
  EXPECT_NE(first->last<common::JobFailed>()->message.find("tenant team-a has 2 jobs"),
            std::string::npos)
      << first->last<common::JobFailed>()->message;
  // One slot is left for others, although the first tenant's second job waits.
  second->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, first.get(), second.get()},
                       [&] { return phases("team-b")["searching"] == 1; }));
  EXPECT_EQ(phases("team-a"), (std::map<std::string, int>{{"queued", 1}, {"searching", 1}}));
}

TEST_F(ServiceSecurityTest, ATenantsGraphsTakeItsShareOfMemory) {
  common::KeyPair a = grant("team-a", "submit"), b = grant("team-b", "submit");
  options_.limits.tenant_graph_bytes_max = 1;
  start();
  auto first = client(a), second = client(b);
  first->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({first.get()}, [&] { return first->last<common::Accepted>() != nullptr; }));
  first->submit(scripted_graph(9), request());
  second->submit(scripted_graph(9), request());
  ASSERT_TRUE(converse({first.get(), second.get()}, [&] {
    return first->last<common::JobFailed>() != nullptr &&
           second->last<common::Accepted>() != nullptr;
  }));
  EXPECT_NE(first->last<common::JobFailed>()->message.find("the graphs of tenant team-a"),
            std::string::npos);
}

TEST_F(ServiceSecurityTest, ATenantsPlansAreItsOwn) {
  common::KeyPair a = grant("team-a", "submit"), reader = grant("team-a", "read");
  common::KeyPair b = grant("team-b", "submit,read"), hand = grant("workers", "worker");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
  auto owner = client(a), other = client(b), colleague = client(reader);
  owner->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, owner.get()}, [&] { return owner->plan() != nullptr; }));
  common::PlanReady ready = *owner->last<common::PlanReady>();
  common::Bytes blob = common::to_bytes(owner->plan()->blob.bytes);

  other->send(common::PullPlan{1, ready.plan_key});
  colleague->send(common::PullPlan{1, ready.plan_key});
  ASSERT_TRUE(converse({other.get(), colleague.get()}, [&] {
    return other->last<common::PlanMissing>() != nullptr && colleague->plan() != nullptr;
  }));
  EXPECT_EQ(colleague->last<common::PlanReady>()->plan, ready.plan);
  EXPECT_EQ(other->plan(), nullptr);
  // Not by its digest either, if that should leak.
  common::Refused refused = refusal(*other, common::BlobRequest{ready.plan});
  EXPECT_NE(refused.message.find("is another tenant's"), std::string::npos) << refused.message;
  // And not from a copy.
  clients::PlanTrust trust{owner->last<common::Welcome>()->signing_key, "team-a", {}};
  EXPECT_TRUE(clients::open_signed_plan(blob, trust).ok());
  trust.tenant = "team-b";
  auto opened = clients::open_signed_plan(blob, trust);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kVerification);
  EXPECT_NE(opened.error().message.find("is for tenant team-a"), std::string::npos);
  // A graph is for workers.
  size_t asked = worker.tasks.size();
  EXPECT_GT(asked, 0u);
  other->send(common::BlobRequest{worker.tasks[0].blobs.at(0)});
  ASSERT_TRUE(
      converse({other.get()}, [&] { return other->last<common::BlobMissing>() != nullptr; }));
}

TEST_F(ServiceSecurityTest, ARevokedKeyLosesItsConnections) {
  common::KeyPair a = grant("team-a", "submit,read"), thief = grant("team-a", "read");
  common::KeyPair first_hand = grant("workers", "worker"), second_hand = grant("workers", "worker");
  start();
  auto owner = client(a), stolen = client(thief);
  FakeWorker doomed(endpoint(), "doomed", kTestTarget, 2, at_farm(first_hand));
  doomed.answers_max = 1;
  owner->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&doomed, owner.get(), stolen.get()}, [&] {
    return doomed.tasks.size() >= 2 && stolen->last<common::Welcome>() != nullptr;
  }));
  // Neither says anything more: the farm drops them, not their next message.
  doomed.heartbeats = false;
  revoke(first_hand);
  revoke(thief);
  ASSERT_TRUE(converse({&doomed, owner.get(), stolen.get()}, [&] {
    return doomed.socket().counters().denied.load() > 0 &&
           stolen->socket().counters().denied.load() > 0;
  }));
  EXPECT_NE(status(*owner, common::StatusTopic::kWorkers).find("\"workers\":[]"),
            std::string::npos);
  std::string farm = status(*owner, common::StatusTopic::kStatus);
  EXPECT_EQ(farm.find("\"handshakes_denied\":0"), std::string::npos) << farm;
  // What the worker held goes to others.
  FakeWorker heir(endpoint(), "heir", kTestTarget, 2, at_farm(second_hand));
  ASSERT_TRUE(converse({&heir, owner.get()}, [&] { return owner->plan() != nullptr; }));
}

TEST_F(ServiceSecurityTest, WhatARevokedKeyHadSubmittedEnds) {
  common::KeyPair a = grant("team-a", "submit,read"), thief = grant("team-a", "submit,read");
  common::KeyPair hand = grant("workers", "worker"), watch = grant("team-a", "read");
  start();
  auto owner = client(a), stolen = client(thief), watcher = client(watch);
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
  worker.answers_max = 1;
  stolen->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, stolen.get()}, [&] { return worker.tasks.size() >= 2; }));
  // For this one somebody else waits, too.
  stolen->submit(scripted_graph(16), request());
  ASSERT_TRUE(
      converse({&worker, stolen.get()}, [&] { return stolen->count<common::Accepted>() == 2; }));
  owner->submit(scripted_graph(16), request());
  ASSERT_TRUE(converse({&worker, stolen.get(), owner.get()},
                       [&] { return owner->last<common::Accepted>() != nullptr; }));
  revoke(thief);
  ASSERT_TRUE(converse({&worker, stolen.get(), owner.get()},
                       [&] { return stolen->socket().counters().denied.load() > 0; }));
  ASSERT_TRUE(converse({&worker, owner.get()}, [&] { return !worker.revoked.empty(); }));
  EXPECT_FALSE(is_open(*watcher, 1)) << open_jobs(*watcher);
  EXPECT_TRUE(is_open(*watcher, 2)) << open_jobs(*watcher);
  worker.release();
  ASSERT_TRUE(converse({&worker, owner.get()}, [&] { return owner->plan() != nullptr; }));
}

// A laptop that was lost: its owner submits, goes, and only then the key is taken away.
TEST_F(ServiceSecurityTest, WhatARevokedKeyHadSubmittedEndsAlsoWhenItsOwnerHasGone) {
  common::KeyPair lost = grant("team-a", "submit,read"), other = grant("team-a", "submit,read");
  common::KeyPair hand = grant("workers", "worker");
  start();
  auto gone = client(lost), stays = client(other);
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
  worker.answers_max = 1;
  gone->submit(scripted_graph(8), request());
  stays->submit(scripted_graph(16), request());
  ASSERT_TRUE(converse({&worker, gone.get(), stays.get()}, [&] {
    return worker.tasks.size() >= 2 && gone->last<common::Accepted>() != nullptr &&
           stays->last<common::Accepted>() != nullptr;
  }));
  uint64_t orphan = gone->last<common::Accepted>()->job_id;
  uint64_t heirs = stays->last<common::Accepted>()->job_id;
  gone.reset();
  revoke(lost);
  EXPECT_TRUE(ends(*stays, orphan));
  EXPECT_TRUE(is_open(*stays, heirs));
  worker.release();
  ASSERT_TRUE(converse({&worker, stays.get()}, [&] { return stays->plan() != nullptr; }));
}

// The same where the key was taken away while the coordinator was down.
TEST_F(ServiceSecurityTest, AJobOfARevokedKeyIsNotTakenUpAgain) {
  common::KeyPair lost = grant("team-a", "submit,read"), other = grant("team-a", "submit,read");
  common::KeyPair hand = grant("workers", "worker");
  start();
  uint64_t orphan = 0, heirs = 0;
  {
    auto gone = client(lost), stays = client(other);
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
    worker.answers_max = 1;
    gone->submit(scripted_graph(8), request());
    stays->submit(scripted_graph(16), request());
    ASSERT_TRUE(converse({&worker, gone.get(), stays.get()}, [&] {
      return gone->last<common::Accepted>() != nullptr &&
             stays->last<common::Accepted>() != nullptr;
    }));
    orphan = gone->last<common::Accepted>()->job_id;
    heirs = stays->last<common::Accepted>()->job_id;
  }
  stop();
  revoke(lost);
  start();
  auto watcher = client(other);
  EXPECT_TRUE(ends(*watcher, orphan));
  EXPECT_TRUE(is_open(*watcher, heirs));
}

TEST_F(ServiceSecurityTest, ABrokenListLeavesTheOldOneInForce) {
  common::KeyPair a = grant("team-a", "submit,read");
  start();
  auto before = client(a);
  ASSERT_TRUE(converse({before.get()}, [&] { return before->last<common::Welcome>() != nullptr; }));
  write_list("this is no list\n");
  auto after = client(a);
  ASSERT_TRUE(converse({after.get()}, [&] { return after->last<common::Welcome>() != nullptr; }));
  // Mended, with a newcomer: only now has the farm read it for certain.
  common::KeyPair b = grant("team-b", "read");
  bool is_welcome = false;
  while (!is_welcome) {
    auto newcomer = client(b);
    ASSERT_TRUE(converse({newcomer.get()}, [&] {
      is_welcome = newcomer->last<common::Welcome>() != nullptr;
      return is_welcome || newcomer->socket().counters().denied.load() > 0;
    }));
  }
  EXPECT_NE(status(*before, common::StatusTopic::kStatus), "");
  EXPECT_EQ(before->socket().counters().denied.load(), 0u);
}

TEST_F(ServiceSecurityTest, FailedHandshakesAreCounted) {
  common::KeyPair a = grant("team-a", "read");
  start();
  auto known = client(a);
  EXPECT_NE(status(*known, common::StatusTopic::kStatus)
                .find("\"handshakes_denied\":0,\"handshakes_bad\":0"),
            std::string::npos);
  FakeClient stranger(endpoint(), at_farm(common::make_key_pair()));
  FakeClient mistaken(endpoint(), common::ClientKeys{a, common::make_key_pair().public_key});
  ASSERT_TRUE(converse({&stranger, &mistaken}, [&] {
    return stranger.socket().counters().denied.load() > 0 &&
           mistaken.socket().counters().bad_handshakes.load() > 0;
  }));
  EXPECT_TRUE(stranger.inbox.empty());
  std::string counted;
  ASSERT_TRUE(converse({known.get(), &stranger, &mistaken}, [&] {
    counted = status(*known, common::StatusTopic::kStatus);
    return counted.find("\"handshakes_denied\":0") == std::string::npos &&
           counted.find("\"handshakes_bad\":0") == std::string::npos;
  })) << counted;
}

// Long before ZeroMQ would notice: whoever is there accepts connections and says nothing.
TEST_F(ServiceSecurityTest, ASilentListenerIsNoFarm) {
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 16), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  clients::FarmClientOptions options;
  options.endpoint = common::cat("tcp://127.0.0.1:", ntohs(address.sin_port));
  auto client = clients::FarmClient::connect(options);
  ::close(listener);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, common::Code::kUnavailable);
  EXPECT_NE(client.error().message.find("does not answer as a farm does"), std::string::npos)
      << client.error().message;
}

TEST_F(ServiceSecurityTest, ARevokedPlanIsServedNoMore) {
  common::KeyPair a = grant("team-a", "submit,read"), boss = grant("operators", "admin");
  common::KeyPair hand = grant("workers", "worker");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
  auto owner = client(a), admin = client(boss);
  for (int64_t size : {8, 9}) owner->submit(scripted_graph(size), request());
  ASSERT_TRUE(
      converse({&worker, owner.get()}, [&] { return owner->count<common::PlanReady>() == 2; }));
  std::vector<common::PlanReady> plans;
  for (const common::Packet& packet : owner->inbox) {
    if (auto* ready = std::get_if<common::PlanReady>(&packet.message)) plans.push_back(*ready);
  }
  EXPECT_TRUE(plans[0].revocations.is_zero());
  admin->send(common::RevokePlan{5, plans[0].plan_key, "it is slow"});
  ASSERT_TRUE(
      converse({admin.get()}, [&] { return admin->last<common::PlanRevoked>() != nullptr; }));
  EXPECT_EQ(admin->last<common::PlanRevoked>()->plans, std::vector<common::Digest>{plans[0].plan});

  auto check = [&] {
    auto late = client(a);
    late->send(common::PullPlan{1, plans[0].plan_key});
    late->send(common::PullPlan{2, plans[1].plan_key});
    ASSERT_TRUE(converse({late.get()}, [&] {
      return late->last<common::PlanMissing>() != nullptr && late->plan() != nullptr;
    }));
    common::Refused refused = refusal(*late, common::BlobRequest{plans[0].plan});
    EXPECT_EQ(refused.code, Code::kVerification);
    EXPECT_NE(refused.message.find("was revoked (it is slow)"), std::string::npos)
        << refused.message;
    // The other plan's answer names the list, which the farm has signed.
    common::Digest list = late->last<common::PlanReady>()->revocations;
    late->send(common::BlobRequest{list});
    ASSERT_TRUE(converse({late.get()}, [&] { return late->last<common::Blob>() != nullptr; }));
    auto outer = common::decode_sealed(late->inbox.back().blob.bytes);
    ASSERT_TRUE(outer.ok());
    EXPECT_TRUE(common::check_revocations(*outer, late->last<common::Welcome>()->signing_key).ok());
    EXPECT_TRUE(common::decode_revocations(outer->bytes)->holds(plans[0].plan));
  };
  check();
  stop();
  start();
  check();
}

TEST_F(ServiceSecurityTest, PlansOfAnEarlierSigningKeyAreSearchedAnew) {
  common::KeyPair a = grant("team-a", "submit,read"), hand = grant("workers", "worker");
  common::Digest first;
  for (int life = 0; life < 2; ++life) {
    start();
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
    auto owner = client(a);
    owner->submit(scripted_graph(8), request());
    ASSERT_TRUE(converse({&worker, owner.get()}, [&] { return owner->plan() != nullptr; }));
    common::PublicKey signer = owner->last<common::Welcome>()->signing_key;
    clients::PlanTrust trust{signer, "team-a", {}};
    EXPECT_TRUE(clients::open_signed_plan(owner->plan()->blob.bytes, trust).ok());
    if (life == 0) first = owner->last<common::PlanReady>()->plan;
    EXPECT_EQ(owner->last<common::PlanReady>()->plan == first, life == 0);
    stop();
    ASSERT_EQ(::unlink((options_.state + "/signing.key").c_str()), 0);
  }
}

TEST_F(ServiceSecurityTest, PlansOfAnEarlierKeyThatIsNamedAreSignedAnew) {
  common::KeyPair a = grant("team-a", "submit,read"), hand = grant("workers", "worker");
  start();
  common::PlanReady first;
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand));
    auto owner = client(a);
    owner->submit(scripted_graph(8), request());
    ASSERT_TRUE(converse({&worker, owner.get()}, [&] { return owner->plan() != nullptr; }));
    first = *owner->last<common::PlanReady>();
    options_.access.earlier_keys = {owner->last<common::Welcome>()->signing_key};
  }
  stop();
  ASSERT_EQ(::unlink((options_.state + "/signing.key").c_str()), 0);
  start();
  // Nobody works here now: the plan is the one that there was.
  auto owner = client(a);
  owner->send(common::PullPlan{1, first.plan_key});
  ASSERT_TRUE(converse({owner.get()}, [&] { return owner->plan() != nullptr; }));
  common::PublicKey signer = owner->last<common::Welcome>()->signing_key;
  EXPECT_NE(signer, options_.access.earlier_keys[0]);
  clients::PlanTrust trust{signer, "team-a", {}};
  EXPECT_TRUE(clients::open_signed_plan(owner->plan()->blob.bytes, trust).ok());
  EXPECT_NE(owner->last<common::PlanReady>()->plan, first.plan);
  EXPECT_EQ(owner->last<common::PlanReady>()->best_ns, first.best_ns);
}

}  // namespace
}  // namespace coordinator::service
