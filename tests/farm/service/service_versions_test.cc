// Releases side by side: if these fail, updating a farm means stopping all of it at once, or peers
// that cannot understand each other do not say so.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::ProtocolRange;

constexpr uint32_t kNow = common::kProtocolVersion;
constexpr ProtocolRange kToday = common::kProtocolsSpoken;
constexpr ProtocolRange kBefore{kNow - 1, kNow - 1};  // the first release, which knew no range
constexpr ProtocolRange kNext{kNow, kNow + 1};
constexpr ProtocolRange kAfterNext{kNow + 1, kNow + 2};

class ServiceVersionsTest : public ServiceTest {
 protected:
  common::Result<std::unique_ptr<clients::FarmClient>> connect(ProtocolRange protocol) {
    clients::FarmClientOptions options;
    options.endpoint = endpoint();
    options.protocol = protocol;
    return clients::FarmClient::connect(std::move(options));
  }
  static void expect_holds(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

TEST_F(ServiceVersionsTest, PeersOneReleaseApartWorkTogether) {
  struct Case {
    ProtocolRange farm, worker, client;
    uint32_t with_worker, with_client;
  };
  const Case cases[] = {
      {kToday, kBefore, kToday, kNow - 1, kNow},     {kToday, kToday, kBefore, kNow, kNow - 1},
      {kBefore, kToday, kToday, kNow - 1, kNow - 1}, {kToday, kNext, kNext, kNow, kNow},
      {kNext, kToday, kToday, kNow, kNow},           {kNext, kNext, kToday, kNow + 1, kNow}};
  int64_t size = 8;
  for (const Case& one : cases) {
    SCOPED_TRACE(common::cat(one.farm.max, ' ', one.worker.max, ' ', one.client.max));
    options_.protocol = one.farm;
    start();
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, std::nullopt, one.worker);
    FakeClient client(endpoint(), std::nullopt, one.client);
    // Only a hello is read in every version.
    ASSERT_TRUE(
        converse({&worker, &client}, [&] { return client.last<common::Welcome>() != nullptr; }));
    client.submit(scripted_graph(++size), request());
    ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
    EXPECT_EQ(client.last<common::Welcome>()->protocol_version, one.with_client);
    EXPECT_EQ(worker.protocol_version, one.with_worker);
    stop();
  }
}

// The older side's decoder would refuse such a message, and the newer side must not wait for it.
TEST_F(ServiceVersionsTest, WhatTheOtherSideDoesNotKnowIsNotSent) {
  for (ProtocolRange farm : {kToday, kBefore}) {
    for (ProtocolRange protocol : {kToday, kBefore}) {
      SCOPED_TRACE(common::cat(farm.max, ' ', protocol.max));
      options_.protocol = farm;
      start();
      FakeWorker worker(endpoint(), "w1", kTestTarget);
      worker.answers_max = 1;
      FakeClient submitter(endpoint(), std::nullopt, protocol);
      submitter.submit(scripted_graph(4), request());
      ASSERT_TRUE(converse({&worker, &submitter}, [&] {
        return worker.tasks.size() >= 2 && submitter.last<common::Accepted>() != nullptr;
      }));
      uint64_t job = submitter.last<common::Accepted>()->job_id;
      auto client = connect(protocol);
      ASSERT_TRUE(client.ok()) << client.error().message;
      common::Status cancelled = (*client)->cancel(job);
      EXPECT_TRUE(cancelled.ok()) << cancelled.error().message;
      ASSERT_TRUE(converse({&worker, &submitter},
                           [&] { return submitter.last<common::JobFailed>() != nullptr; }));
      EXPECT_FALSE((*client)->cancel(job).ok());
      submitter.submit(scripted_graph(5), request());
      ASSERT_TRUE(converse({&worker, &submitter},
                           [&] { return submitter.count<common::Accepted>() == 2; }));
      submitter.send(common::CancelJob{submitter.last<common::Accepted>()->job_id});
      ASSERT_TRUE(converse({&worker, &submitter},
                           [&] { return submitter.count<common::JobFailed>() == 2; }));
      submitter.send(common::Ping{1});
      ASSERT_TRUE(
          converse({&submitter}, [&] { return submitter.last<common::Pong>() != nullptr; }));
      EXPECT_EQ(submitter.count<common::JobCancelled>(), 1u);
      stop();
    }
  }
}

TEST_F(ServiceVersionsTest, NewsOfPlansAreSentToWhoKnowsThem) {
  options_.times.news_ms = 1;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient older(endpoint(), std::nullopt, kBefore), newer(endpoint());
  common::Graph graph = scripted_graph(4);
  common::PullPlan ask;
  ask.watch = true;
  ask.plan_key =
      common::plan_key_of(graph, {kTestTarget}, std::string(common::kDefaultPolicy)).digest();
  for (FakeClient* client : {&older, &newer}) {
    // Only a hello is read in every version.
    ASSERT_TRUE(converse({client}, [&] { return client->last<common::Welcome>() != nullptr; }));
    client->send(ask);
    ASSERT_TRUE(converse({client}, [&] { return client->last<common::PlanMissing>() != nullptr; }));
  }
  older.submit(graph, request());
  ASSERT_TRUE(converse({&worker, &older, &newer}, [&] {
    return older.plan() != nullptr && newer.last<common::PlanNews>() != nullptr;
  }));
  older.send(common::Ping{1});
  ASSERT_TRUE(converse({&older}, [&] { return older.last<common::Pong>() != nullptr; }));
  EXPECT_EQ(older.count<common::PlanNews>(), 0u);
}

TEST_F(ServiceVersionsTest, ClientsTwoReleasesApartAreRefusedByName) {
  struct Case {
    ProtocolRange farm, client;
    std::string advice;
  };
  for (const Case& one :
       {Case{kToday, kAfterNext, "update the farm"}, Case{kAfterNext, kToday, "update the client"},
        Case{kBefore, kNext, "update the farm"}}) {
    options_.protocol = one.farm;
    start();
    auto client = connect(one.client);
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(client.error().code, common::Code::kUnsupported) << client.error().message;
    expect_holds(client.error().message,
                 common::cat("client speaks ", common::text_of(one.client)));
    expect_holds(client.error().message, common::text_of(one.farm));
    expect_holds(client.error().message, one.advice);
    stop();
  }
}

TEST_F(ServiceVersionsTest, WorkersTwoReleasesApartAreRefusedByName) {
  for (ProtocolRange protocol : {kAfterNext, ProtocolRange{kNow + 7, kNow + 7}}) {
    start();
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, std::nullopt, protocol);
    ASSERT_TRUE(converse({&worker}, [&] { return worker.refusals > 0; }));
    EXPECT_EQ(worker.welcomes, 0u);
    expect_holds(worker.refusal, common::cat("worker speaks ", common::text_of(protocol)));
    expect_holds(worker.refusal, common::text_of(kToday));
    expect_holds(worker.refusal, "update the farm");
    stop();
  }
}

// A release that spoke one version only, and said so in a message that can be read.
TEST_F(ServiceVersionsTest, AHelloWithoutACommonVersionIsRefusedByName) {
  start();
  FakeClient client(endpoint());
  client.send(common::ClientHello{"c", kNow + 5, "test", kNow + 6});
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::Refused>() != nullptr; }));
  expect_holds(client.last<common::Refused>()->message,
               common::cat("this client speaks protocol ", kNow + 5, " to ", kNow + 6));
  expect_holds(client.last<common::Refused>()->message, "update the farm");
}

}  // namespace
}  // namespace coordinator::service
