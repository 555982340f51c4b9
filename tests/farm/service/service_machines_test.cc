// Machine classes and toolchains: if these fail, a plan that was chosen on one machine passes for
// the choice on another, nobody searches on the right one, or plans of an old compiler stay for
// ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::PlanReady;
using common::Standing;

constexpr const char* kLaptop = "AMD Ryzen 7 PRO 7840U, L2 1 MiB, L3 16 MiB, 16 threads";
constexpr const char* kServer = "AMD EPYC 9554, L2 1 MiB, L3 32 MiB, 64 threads";

class ServiceMachinesTest : public ServiceTest {
 protected:
  std::unique_ptr<FakeWorker> worker(const std::string& name, const FakeMachine& machine,
                                     uint32_t slots = 2) {
    return std::make_unique<FakeWorker>(endpoint(), name, kTestTarget, slots, std::nullopt,
                                        common::kProtocolsSpoken, machine);
  }
  static common::Submit for_machine(const std::string& machine) {
    common::Submit submit = request();
    submit.machine = machine;
    return submit;
  }
  // The answer to one submit.
  static PlanReady answer(FakeClient& client, const std::vector<FakePeer*>& workers,
                          const common::Graph& graph, const std::string& machine) {
    uint64_t id = client.submit(graph, for_machine(machine));
    std::vector<FakePeer*> all = workers;
    all.push_back(&client);
    bool came = converse(all, [&] {
      auto* ready = client.last<PlanReady>();
      return ready != nullptr && ready->request_id == id;
    });
    EXPECT_TRUE(came);
    return came ? *client.last<PlanReady>() : PlanReady{};
  }
  static common::Plan content(const FakeClient& client) {
    auto sealed = common::decode_sealed(client.plan()->blob.bytes);
    auto grant = common::decode_grant(sealed.value().bytes);
    return common::decode_plan(grant.value().plan).value();
  }
  // Null when the farm has no plan.
  static const PlanReady* pull(FakeClient& client, const std::vector<FakePeer*>& workers,
                               const common::Digest& key, const std::string& machine) {
    size_t ready = client.count<PlanReady>(), missing = client.count<common::PlanMissing>();
    client.send(common::PullPlan{1'000, key, false, machine});
    std::vector<FakePeer*> all = workers;
    all.push_back(&client);
    EXPECT_TRUE(converse(all, [&] {
      return client.count<PlanReady>() + client.count<common::PlanMissing>() > ready + missing;
    }));
    return client.count<PlanReady>() > ready ? client.last<PlanReady>() : nullptr;
  }
  // Pulls until the plan is one of the class.
  static void await_final(FakeClient& client, const std::vector<FakePeer*>& workers,
                          const common::Digest& key, const std::string& machine) {
    for (int tries = 0; tries < 3'000; ++tries) {
      const PlanReady* ready = pull(client, workers, key, machine);
      if (ready != nullptr && ready->standing == Standing::kFinal) break;
    }
    ASSERT_NE(client.last<PlanReady>(), nullptr);
    EXPECT_EQ(client.last<PlanReady>()->standing, Standing::kFinal);
    EXPECT_EQ(content(client).provenance.machine, machine);
  }
  // The worker says good-bye, and the farm has heard it.
  static void leave(FakeWorker& worker, FakeClient& client) {
    worker.bye();
    ASSERT_TRUE(converse({&worker, &client}, [&] {
      client.send(common::StatusRequest{7, common::StatusTopic::kStatus});
      auto* status = client.last<common::StatusReply>();
      return status != nullptr && status->json.find("\"workers\":0") != std::string::npos;
    }));
  }
  static int64_t size_of(const common::Task& task) {
    auto payload = common::decode_task_payload(task.payload);
    return payload.value().program.inputs[0].shape[0].constant();
  }
};

TEST_F(ServiceMachinesTest, ANeighboursPlanComesAtOnceAndTheSearchWithTheRightWorker) {
  start();
  auto laptop = worker("w1", {kLaptop});
  FakeClient client(endpoint());
  common::Graph graph = scripted_graph(8);
  PlanReady first = answer(client, {laptop.get()}, graph, kLaptop);
  EXPECT_EQ(first.standing, Standing::kFinal);
  EXPECT_EQ(content(client).provenance.machine, kLaptop);
  size_t tasks = laptop->tasks.size();

  PlanReady neighbour = answer(client, {laptop.get()}, graph, kServer);
  EXPECT_EQ(neighbour.standing, Standing::kNeighbour);
  EXPECT_EQ(neighbour.plan, first.plan);
  EXPECT_EQ(laptop->tasks.size(), tasks);
  EXPECT_EQ(counters_->searches.load(), 1);

  auto server = worker("w2", {kServer});
  await_final(client, {laptop.get(), server.get()}, first.plan_key, kServer);
  EXPECT_EQ(counters_->searches.load(), 2);
  EXPECT_FALSE(server->tasks.empty());
  EXPECT_EQ(laptop->tasks.size(), tasks) << "a task went to a machine of another class";
  // Each class has its own plan from now on.
  ASSERT_NE(pull(client, {laptop.get(), server.get()}, first.plan_key, kLaptop), nullptr);
  EXPECT_EQ(client.last<PlanReady>()->plan, first.plan);
}

TEST_F(ServiceMachinesTest, AWishOutlivesTheCoordinator) {
  start();
  common::Digest key;
  {
    auto laptop = worker("w1", {kLaptop});
    FakeClient client(endpoint());
    key = answer(client, {laptop.get()}, scripted_graph(8), kLaptop).plan_key;
    const PlanReady* pulled = pull(client, {laptop.get()}, key, kServer);
    ASSERT_NE(pulled, nullptr);
    EXPECT_EQ(pulled->standing, Standing::kNeighbour);
  }
  stop();
  start();
  auto server = worker("w2", {kServer});
  FakeClient client(endpoint());
  // Nothing is asked for before the search has begun by itself.
  ASSERT_TRUE(converse({server.get(), &client}, [&] { return server->answered >= 6; }));
  await_final(client, {server.get()}, key, kServer);
  EXPECT_EQ(counters_->searches.load(), 2);
}

TEST_F(ServiceMachinesTest, WithoutAWorkerOfTheClassAnotherClassSearchesForNow) {
  start();
  auto laptop = worker("w1", {kLaptop});
  FakeClient client(endpoint());
  PlanReady ready = answer(client, {laptop.get()}, scripted_graph(8), kServer);
  EXPECT_EQ(ready.standing, Standing::kNeighbour);
  EXPECT_EQ(content(client).provenance.machine, kLaptop);
  auto server = worker("w2", {kServer});
  await_final(client, {laptop.get(), server.get()}, ready.plan_key, kServer);
}

TEST_F(ServiceMachinesTest, AJobThatWaitedForWorkersRunsOnTheClassThatComes) {
  start();
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), for_machine(kServer));
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::Accepted>() != nullptr; }));
  auto laptop = worker("w1", {kLaptop});
  ASSERT_TRUE(converse({&client, laptop.get()}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(client.last<PlanReady>()->standing, Standing::kNeighbour);
  EXPECT_EQ(content(client).provenance.machine, kLaptop);
}

// As after a restart, when clients are back before workers are.
TEST_F(ServiceMachinesTest, ASubmitBeforeWorkersAreBackJoinsTheJobThatGoesOn) {
  start();
  common::Graph graph = scripted_graph(8);
  farm::JobId job = 0;
  {
    auto laptop = worker("w1", {kLaptop});
    laptop->answers_max = 1;
    FakeClient client(endpoint());
    // A class that no worker is of: the laptop searches for now.
    client.submit(graph, for_machine(kServer));
    ASSERT_TRUE(converse({&client, laptop.get()}, [&] { return laptop->answered == 1; }));
    job = client.last<common::Accepted>()->job_id;
  }
  stop();
  start();
  FakeClient again(endpoint()), other(endpoint());
  again.submit(graph, for_machine(kServer));
  other.submit(graph, for_machine(""));
  ASSERT_TRUE(converse({&again, &other}, [&] {
    return again.last<common::Accepted>() != nullptr && other.last<common::Accepted>() != nullptr;
  }));
  EXPECT_EQ(again.last<common::Accepted>()->job_id, job);
  EXPECT_EQ(other.last<common::Accepted>()->job_id, job);
  auto laptop = worker("w1", {kLaptop});
  ASSERT_TRUE(converse({&again, &other, laptop.get()},
                       [&] { return again.plan() != nullptr && other.plan() != nullptr; }));
  EXPECT_EQ(again.last<PlanReady>()->plan, other.last<PlanReady>()->plan);
}

// And before the job that waits for them has begun.
TEST_F(ServiceMachinesTest, ASubmitOnceWorkersAreThereJoinsTheJobThatWaitedForThem) {
  start();
  common::Graph graph = scripted_graph(8);
  FakeClient first(endpoint()), second(endpoint());
  first.submit(graph, for_machine(kServer));
  ASSERT_TRUE(converse({&first}, [&] { return first.last<common::Accepted>() != nullptr; }));
  auto laptop = worker("w1", {kLaptop});
  laptop->answers_max = 0;
  ASSERT_TRUE(converse({&first, laptop.get()}, [&] { return laptop->welcomes > 0; }));
  second.submit(graph, for_machine(kLaptop));
  ASSERT_TRUE(converse({&first, &second, laptop.get()},
                       [&] { return second.last<common::Accepted>() != nullptr; }));
  EXPECT_EQ(second.last<common::Accepted>()->job_id, first.last<common::Accepted>()->job_id);
}

TEST_F(ServiceMachinesTest, TasksGoToTheJobsClassAlone) {
  start();
  auto laptop = worker("w1", {kLaptop}), server = worker("w2", {kServer});
  FakeClient client(endpoint());
  std::vector<FakePeer*> workers{laptop.get(), server.get()};
  ASSERT_TRUE(converse(workers, [&] { return laptop->welcomes > 0 && server->welcomes > 0; }));
  for (int64_t size = 8; size < 14; ++size) {
    bool on_server = size % 2 == 0;
    PlanReady ready = answer(client, workers, scripted_graph(size), on_server ? kServer : kLaptop);
    EXPECT_EQ(ready.standing, Standing::kFinal);
  }
  for (const common::Task& task : laptop->tasks) EXPECT_EQ(size_of(task) % 2, 1);
  for (const common::Task& task : server->tasks) EXPECT_EQ(size_of(task) % 2, 0);
}

TEST_F(ServiceMachinesTest, WithoutAClassThatOfMostSlotsIsMeant) {
  start();
  auto laptop = worker("w1", {kLaptop}, 2), server = worker("w2", {kServer}, 8);
  FakeClient client(endpoint());
  std::vector<FakePeer*> workers{laptop.get(), server.get()};
  ASSERT_TRUE(converse({laptop.get(), server.get(), &client},
                       [&] { return laptop->welcomes > 0 && server->welcomes > 0; }));
  PlanReady ready = answer(client, workers, scripted_graph(8), "");
  EXPECT_EQ(ready.standing, Standing::kFinal);
  EXPECT_EQ(content(client).provenance.machine, kServer);
  // Any class is right for who asks for none.
  ASSERT_NE(pull(client, workers, ready.plan_key, ""), nullptr);
  EXPECT_EQ(client.last<PlanReady>()->standing, Standing::kFinal);
}

TEST_F(ServiceMachinesTest, APlanOfBeforeMachineClassesIsProvisionalForAll) {
  start();
  auto older = worker("w1", {""});
  FakeClient client(endpoint());
  PlanReady before = answer(client, {older.get()}, scripted_graph(8), "");
  EXPECT_EQ(before.standing, Standing::kFinal);
  auto server = worker("w2", {kServer});
  ASSERT_TRUE(converse({server.get(), &client}, [&] { return server->welcomes > 0; }));
  PlanReady neighbour = answer(client, {older.get(), server.get()}, scripted_graph(8), kServer);
  EXPECT_EQ(neighbour.standing, Standing::kNeighbour);
  EXPECT_EQ(neighbour.plan, before.plan);
  await_final(client, {older.get(), server.get()}, before.plan_key, kServer);
}

TEST_F(ServiceMachinesTest, MeasurementsStayWithTheirClass) {
  start();
  auto laptop = worker("w1", {kLaptop}), server = worker("w2", {kServer});
  FakeClient client(endpoint());
  std::vector<FakePeer*> workers{laptop.get(), server.get()};
  ASSERT_TRUE(converse(workers, [&] { return laptop->welcomes > 0 && server->welcomes > 0; }));
  answer(client, workers, scripted_graph(8), kLaptop);
  stop();
  auto store = cache::Store::open(options_.state, {});
  ASSERT_TRUE(store.ok());
  size_t count = 0;
  EXPECT_TRUE((*store)
                  ->for_each_measurement([&](const common::Digest&, std::string_view device,
                                             const cache::StoredMeasurement&) {
                    ++count;
                    EXPECT_EQ(device, common::cat(kTestTarget, '\t', kLaptop));
                  })
                  .ok());
  EXPECT_GT(count, 0u);
}

TEST_F(ServiceMachinesTest, ANewToolchainHasTheMostUsedPlansMadeAnewFirst) {
  constexpr int64_t kPlans = 12;
  start();
  std::map<int64_t, common::Digest> keys;  // by size
  FakeClient client(endpoint());
  {
    auto old = worker("w1", {kServer, "clang 14"});
    for (int64_t size = 1; size <= kPlans; ++size) {
      keys[size] = answer(client, {old.get()}, scripted_graph(size), kServer).plan_key;
    }
    // The larger the graph, the more often its plan is used; sizes 1 and 2 never.
    for (int64_t size = 3; size <= kPlans; ++size) {
      for (int64_t use = 0; use < size; ++use) pull(client, {old.get()}, keys[size], kServer);
    }
    leave(*old, client);
  }
  int searches = counters_->searches.load();
  auto newer = worker("w2", {kServer, "clang 15"});
  newer->object_salt = "15";
  ASSERT_TRUE(converse({newer.get(), &client}, [&] { return newer->answered >= kPlans; }));
  std::vector<int64_t> order;
  for (const common::Task& task : newer->tasks) order.push_back(size_of(task));
  ASSERT_GE(order.size(), 10u);
  for (int64_t k = 0; k < 10; ++k) EXPECT_EQ(order[static_cast<size_t>(k)], kPlans - k);
  // A run with the last answer's objects may still be under way.
  for (int64_t size = 1; size <= kPlans; ++size) {
    for (int tries = 0; tries < 3'000; ++tries) {
      ASSERT_NE(pull(client, {newer.get()}, keys[size], kServer), nullptr);
      if (content(client).provenance.toolchain == "clang 15") break;
    }
    EXPECT_EQ(content(client).provenance.toolchain, "clang 15") << size;
    EXPECT_EQ(content(client).provenance.machine, kServer);
  }
  EXPECT_EQ(newer->tasks.size(), static_cast<size_t>(kPlans)) << "a plan was made anew twice";
  EXPECT_EQ(counters_->searches.load(), searches) << "making plans anew needs no search";
}

TEST_F(ServiceMachinesTest, WhileAWorkerWithTheOldToolchainIsThereNothingIsMadeAnew) {
  start();
  auto old = worker("w1", {kServer, "clang 14"});
  FakeClient client(endpoint());
  common::Digest key = answer(client, {old.get()}, scripted_graph(8), kServer).plan_key;
  size_t tasks = old->tasks.size();
  // Another class's toolchain is nobody else's business, and another target's neither.
  auto newer = worker("w2", {kServer, "clang 15"}), laptop = worker("w3", {kLaptop, "clang 15"});
  std::vector<FakePeer*> workers{old.get(), newer.get(), laptop.get()};
  ASSERT_TRUE(converse({old.get(), newer.get(), laptop.get(), &client},
                       [&] { return newer->welcomes > 0 && laptop->welcomes > 0; }));
  for (int k = 0; k < 20; ++k) pull(client, workers, key, kServer);
  EXPECT_EQ(old->tasks.size() + newer->tasks.size() + laptop->tasks.size(), tasks);
  // It leaves, and what it made is of an old toolchain then.
  old->bye();
  ASSERT_TRUE(converse({old.get(), newer.get(), laptop.get(), &client},
                       [&] { return newer->answered > 0; }));
  EXPECT_TRUE(laptop->tasks.empty());
}

TEST_F(ServiceMachinesTest, AChangeIsNoticedAfterARestart) {
  start();
  common::Digest key;
  {
    auto old = worker("w1", {kServer, "clang 14"});
    FakeClient client(endpoint());
    key = answer(client, {old.get()}, scripted_graph(8), kServer).plan_key;
  }
  stop();
  start();
  auto newer = worker("w1", {kServer, "clang 15"});
  newer->object_salt = "15";
  FakeClient client(endpoint());
  ASSERT_TRUE(converse({newer.get(), &client}, [&] { return newer->answered > 0; }));
  for (int tries = 0; tries < 3'000; ++tries) {
    ASSERT_NE(pull(client, {newer.get()}, key, kServer), nullptr);
    if (content(client).provenance.toolchain == "clang 15") break;
  }
  EXPECT_EQ(content(client).provenance.toolchain, "clang 15");
}

TEST_F(ServiceMachinesTest, APlanThatTheNewToolchainGetsWrongIsSearchedForAgain) {
  start();
  FakeClient client(endpoint());
  common::Graph graph = scripted_graph(8);
  PlanReady before;
  {
    auto old = worker("w1", {kServer, "clang 14"});
    before = answer(client, {old.get()}, graph, kServer);
    leave(*old, client);
  }
  auto newer = worker("w2", {kServer, "clang 15"});
  newer->object_salt = "15";
  newer->judge = [seen = false](const common::Task&) mutable {
    return std::exchange(seen, true) ? common::TaskOutcome::kOk : common::TaskOutcome::kWrong;
  };
  ASSERT_TRUE(converse({newer.get(), &client},
                       [&] { return counters_->searches.load() == 2 && newer->answered >= 7; }));
  for (int tries = 0; tries < 3'000; ++tries) {
    if (pull(client, {newer.get()}, before.plan_key, kServer) != nullptr) break;
  }
  EXPECT_EQ(content(client).provenance.toolchain, "clang 15");
  EXPECT_NE(client.last<PlanReady>()->plan, before.plan);
}

}  // namespace
}  // namespace coordinator::service
