// Full, read-only and damaged disks under a coordinator: if these fail, a disk that was full for a
// minute costs jobs and measurements, or something is told that was never kept.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "cache/store/database.h"
#include "cache/store/store.h"
#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/process/subprocess.h"
#include "coordinator/service/journal/job_journal.h"
#include "tests/farm/service/service_farm.h"
#include "tests/paths/paths.h"
#include "tests/unit/base/small_disk.h"

namespace coordinator::service {
namespace {

using common::Code;

const std::string kBinary = paths::binaries("/../tests/lfarm-coordinator-scripted");

// The state directory is on a disk so small that RocksDB cannot claim room ahead.
class ServiceDiskTest : public ServiceTest {
 protected:
  ServiceDiskTest() : disk_(options_.state + "-disk", size_t{3} << 20) {
    options_.state = disk_.path() + "/state";
    options_.times.disk_wait_ms = 600'000;  // clients of these tests wait until there is room
  }
  ~ServiceDiskTest() override { stop(); }

  // A row of the farm's status.
  std::string row(FakeClient& client, const std::string& name) {
    size_t replies = client.count<common::StatusReply>();
    client.send(common::StatusRequest{1, common::StatusTopic::kStatus});
    EXPECT_TRUE(converse({&client}, [&] { return client.count<common::StatusReply>() > replies; }));
    const std::string& json = client.last<common::StatusReply>()->json;
    size_t at = json.find(common::cat('"', name, "\":"));
    if (at == std::string::npos) return "no such row";
    at += name.size() + 3;
    return json.substr(at, json.find_first_of(",}", at) - at);
  }

  common::SmallDisk disk_;
};

TEST_F(ServiceDiskTest, OnAFullDiskNothingIsToldNothingIsLostAndAllGoesOn) {
  if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
  start();
  constexpr uint64_t kBudget = 12;
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient early(endpoint()), client(endpoint()), late(endpoint());
  early.submit(scripted_graph(4), request());
  ASSERT_TRUE(converse({&worker, &early}, [&] { return early.plan() != nullptr; }));

  size_t answered = worker.answered;
  worker.answers_max = answered + 3;
  client.submit(scripted_graph(8), request(kBudget));
  auto done = [&] {
    const auto* progress = client.last<common::Progress>();
    return progress != nullptr ? progress->candidates_done : 0;
  };
  ASSERT_TRUE(converse({&worker, &client}, [&] { return done() == 3; }));
  EXPECT_EQ(row(client, "disk"), "\"ok\"");
  disk_.fill();
  worker.release();
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    return client.last<common::Progress>()->stage.find("disk") != std::string::npos;
  }));
  EXPECT_NE(
      client.last<common::Progress>()->trouble.find(options_.state + " is full: 0.0 MiB free"),
      std::string::npos)
      << client.last<common::Progress>()->trouble;
  EXPECT_NE(row(client, "disk").find("full"), std::string::npos);
  EXPECT_NE(row(client, "failed_writes"), "0");
  EXPECT_LT(done(), worker.answered - answered);

  late.submit(scripted_graph(16), request());
  ASSERT_TRUE(converse({&late}, [&] { return late.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(late.last<common::JobFailed>()->code, Code::kUnavailable);
  EXPECT_NE(late.last<common::JobFailed>()->message.find("full"), std::string::npos)
      << late.last<common::JobFailed>()->message;
  early.submit(scripted_graph(4), request());
  ASSERT_TRUE(converse({&early}, [&] { return early.count<common::PlanReady>() == 2; }));

  EXPECT_EQ(client.count<common::JobFailed>(), 0u);
  disk_.make_room();
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(client.last<common::PlanReady>()->candidates, kBudget);
  EXPECT_EQ(worker.answered - answered, kBudget);  // nothing was measured twice
  EXPECT_EQ(row(client, "disk"), "\"ok\"");
  late.submit(scripted_graph(16), request());
  ASSERT_TRUE(converse({&worker, &late}, [&] { return late.plan() != nullptr; }));
}

TEST_F(ServiceDiskTest, APlanThatFindsNoRoomIsStoredLater) {
  if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  uint64_t budget = 6;
  worker.judge = [&](const common::Task&) {
    // The finalist is the last: its result, its objects and its plan have to wait.
    if (worker.answered == budget) disk_.fill();
    return common::TaskOutcome::kOk;
  };
  client.submit(scripted_graph(8), request(budget));
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    const auto* progress = client.last<common::Progress>();
    return progress != nullptr && progress->stage.find("disk") != std::string::npos;
  }));
  EXPECT_EQ(client.plan(), nullptr);
  disk_.make_room();
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(worker.answered, budget);
  stop();
  auto store = cache::Store::open(options_.state);
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_TRUE(list_journals(**store).value().open.empty());
}

// Whoever waits is told what is missing; the job loses nothing by that.
TEST_F(ServiceDiskTest, ClientsGiveUpOnAFullDiskAndTheJobDoesNot) {
  if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
  options_.times.disk_wait_ms = 1'000;
  start();
  constexpr uint64_t kBudget = 12;
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint()), patient(endpoint());
  worker.answers_max = 3;
  client.submit(scripted_graph(8), request(kBudget));
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    const auto* progress = client.last<common::Progress>();
    return progress != nullptr && progress->candidates_done == 3;
  }));
  disk_.fill();
  worker.release();
  ASSERT_TRUE(
      converse({&worker, &client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  const auto& failed = *client.last<common::JobFailed>();
  EXPECT_EQ(failed.code, Code::kUnavailable);
  for (const std::string& part : std::vector<std::string>{options_.state, "0.0 MiB free",
                                                          "1.0 MiB needed", "submit it again"}) {
    EXPECT_NE(failed.message.find(part), std::string::npos) << failed.message;
  }
  disk_.make_room();
  // The coordinator tries the disk again ever less often.
  for (int k = 0; k < 1'000 && row(client, "disk") != "\"ok\""; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  patient.submit(scripted_graph(8), request(kBudget));
  ASSERT_TRUE(converse({&worker, &patient}, [&] { return patient.plan() != nullptr; }));
  EXPECT_EQ(worker.answered, kBudget);  // nothing was measured twice
  EXPECT_EQ(client.plan(), nullptr);
}

TEST_F(ServiceDiskTest, ATimeBudgetIsWaitedForEvenOnAFullDisk) {
  if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
  options_.times.disk_wait_ms = 1;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  worker.answers_max = 1;
  common::Submit timed = request(12);
  timed.budget_ms = 3'600'000;
  client.submit(scripted_graph(8), timed);
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    const auto* progress = client.last<common::Progress>();
    return progress != nullptr && progress->candidates_done == 1;
  }));
  disk_.fill();
  worker.release();
  ASSERT_TRUE(converse({&worker, &client},
                       [&] { return !client.last<common::Progress>()->trouble.empty(); }));
  disk_.make_room();
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(client.count<common::JobFailed>(), 0u);
}

// Were the process killed while its disk is full, it takes up what had been told.
TEST_F(ServiceDiskTest, AStopOnAFullDiskKeepsTheJob) {
  if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
  start();
  auto worker = std::make_unique<FakeWorker>(endpoint(), "w1", kTestTarget);
  auto client = std::make_unique<FakeClient>(endpoint());
  worker->answers_max = 3;
  client->submit(scripted_graph(8), request(12));
  ASSERT_TRUE(converse({worker.get(), client.get()}, [&] {
    const auto* progress = client->last<common::Progress>();
    return progress != nullptr && progress->candidates_done == 3;
  }));
  disk_.fill();
  worker->release();
  ASSERT_TRUE(converse({worker.get(), client.get()}, [&] {
    return client->last<common::Progress>()->stage.find("disk") != std::string::npos;
  }));
  uint64_t told = client->last<common::Progress>()->candidates_done;
  EXPECT_LT(told, worker->answered);
  worker.reset();
  stop();
  disk_.make_room();
  uint64_t kept = 0;
  {
    auto store = cache::Store::open(options_.state);
    ASSERT_TRUE(store.ok());
    kept = read_journal(**store, 1).value().results.size();
  }
  EXPECT_GE(kept, told);
  start();
  // Nobody works before the client has joined the job that goes on.
  FakeClient next(endpoint());
  next.submit(scripted_graph(8), request(12), false);
  ASSERT_TRUE(converse({&next}, [&] { return next.last<common::Accepted>() != nullptr; }));
  EXPECT_TRUE(next.last<common::Accepted>()->joined);
  FakeWorker again(endpoint(), "w1", kTestTarget);
  ASSERT_TRUE(converse({&again, &next}, [&] { return next.plan() != nullptr; }));
  EXPECT_EQ(again.answered, 12 - kept);
}

TEST_F(ServiceDiskTest, AReadOnlyStateDirectoryIsRefusedInOneLine) {
  if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
  std::filesystem::create_directories(options_.state);
  disk_.set_read_only(true);
  auto run = common::run_command(
      {kBinary, "--state", options_.state, "--listen", "tcp://127.0.0.1:0", "--log", "off"},
      600'000);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->status.code, 2) << run->output;
  EXPECT_EQ(std::count(run->output.begin(), run->output.end(), '\n'), 1) << run->output;
  EXPECT_NE(run->output.find("cannot write " + options_.state), std::string::npos) << run->output;
  disk_.set_read_only(false);
  disk_.fill();
  auto full = common::run_command(
      {kBinary, "--state", options_.state, "--listen", "tcp://127.0.0.1:0", "--log", "off"},
      600'000);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->status.code, 4) << full->output;
  EXPECT_EQ(std::count(full->output.begin(), full->output.end(), '\n'), 1) << full->output;
  EXPECT_NE(full->output.find("is full"), std::string::npos) << full->output;
}

// A plan whose kernel is damaged on the disk is searched for again, never served.
TEST_F(ServiceTest, ADamagedKernelIsMadeAgain) {
  start();
  auto worker = std::make_unique<FakeWorker>(endpoint(), "w1", kTestTarget);
  auto client = std::make_unique<FakeClient>(endpoint());
  client->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({worker.get(), client.get()}, [&] { return client->plan() != nullptr; }));
  common::PlanReady first = *client->last<common::PlanReady>();
  worker.reset();
  stop();
  std::vector<common::Digest> kernels;
  {
    auto store = cache::Store::open(options_.state);
    ASSERT_TRUE(store.ok());
    kernels = (*store)
                  ->get_plan(common::place_of("local", first.plan_key), cache::Lookup::kInspect)
                  .value()
                  ->needs;
    std::erase(kernels, first.plan);
  }
  ASSERT_FALSE(kernels.empty());
  {
    auto database = cache::Database::open(options_.state, {});
    ASSERT_TRUE(database.ok());
    cache::Batch batch;
    batch.put(cache::Family::kKernels, common::as_text(kernels[0].bytes), "trunc");
    ASSERT_TRUE((*database)->write(batch, true).ok());
  }
  start();
  FakeWorker again(endpoint(), "w1", kTestTarget);
  FakeClient next(endpoint());
  next.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&again, &next}, [&] { return next.plan() != nullptr; }));
  EXPECT_NE(next.last<common::PlanReady>()->cache, common::CacheOutcome::kHit);
  next.send(common::BlobRequest{kernels[0]});
  ASSERT_TRUE(converse({&next}, [&] { return next.last<common::Blob>() != nullptr; }));
  EXPECT_EQ(counters_->searches, 2);
}

// Where a part of `text` stands: compressed tables keep what they cannot shorten as it is.
size_t piece_in(std::string_view bytes, std::string_view text) {
  constexpr size_t kPiece = 12;
  size_t at = std::string_view::npos;
  for (size_t k = 0; k + kPiece <= text.size() && at == std::string_view::npos; ++k) {
    at = bytes.find(text.substr(k, kPiece));
  }
  return at;
}

// The farm has seen the kernel intact, and the disk loses it afterwards.
TEST_F(ServiceTest, AClientThatFindsAKernelGoneSubmits) {
  start();
  auto worker = std::make_unique<FakeWorker>(endpoint(), "w1", kTestTarget);
  auto client = std::make_unique<FakeClient>(endpoint());
  client->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({worker.get(), client.get()}, [&] { return client->plan() != nullptr; }));
  worker.reset();
  client.reset();
  stop();
  {
    auto database = cache::Database::open(options_.state, {});
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->compact(cache::Family::kKernels).ok());
  }
  start();
  common::PlanKey key{common::graph_hash(scripted_graph(8)),
                      {kTestTarget},
                      std::string(common::kDefaultPolicy),
                      std::string(common::kCompilerEpoch)};
  clients::FarmClientOptions options;
  options.endpoint = endpoint();
  std::string object;
  {
    auto farm = clients::FarmClient::connect(options);
    ASSERT_TRUE(farm.ok()) << farm.error().message;
    auto pulled = (*farm)->pull(key);
    ASSERT_TRUE(pulled.ok() && pulled->has_value());
    object = common::as_text((*pulled)->objects.begin()->second.bytes);
  }
  // Without what the farm keeps of it in memory. Whoever asks for the plan alone has it looked at.
  stop();
  start();
  FakeClient reader(endpoint());
  reader.send(common::PullPlan{1, key.digest()});
  ASSERT_TRUE(converse({&reader}, [&] { return reader.plan() != nullptr; }));
  int damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options_.state)) {
    if (entry.path().extension() != ".sst") continue;
    std::string bytes = common::read_file(entry.path()).value();
    size_t at = piece_in(bytes, object);
    if (at == std::string::npos) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(~bytes[at]));
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  options.endpoint = endpoint();
  auto farm = clients::FarmClient::connect(options);
  ASSERT_TRUE(farm.ok()) << farm.error().message;
  auto again = (*farm)->pull(key);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_FALSE(again->has_value());
  FakeWorker maker(endpoint(), "w1", kTestTarget);
  FakeClient next(endpoint());
  next.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&maker, &next}, [&] { return next.plan() != nullptr; }));
  auto healed = (*farm)->pull(key);
  ASSERT_TRUE(healed.ok() && healed->has_value());
  EXPECT_EQ(common::as_text((*healed)->objects.begin()->second.bytes), object);
}

}  // namespace
}  // namespace coordinator::service

int main(int argc, char** argv) {
  common::own_mounts();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
