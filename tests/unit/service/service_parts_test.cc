// The coordinator's parts on their own: if these fail, a restart loses or misreads jobs, graphs
// leak, or background results get lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <set>
#include <stdexcept>

#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/loop/clients.h"
#include "coordinator/service/loop/commits.h"
#include "coordinator/service/loop/stage_clock.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/workers/blob_table.h"
#include "coordinator/service/workers/dispatcher.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::TaskKind;
using common::TaskOutcome;

class JournalTest : public testing::Test {
 protected:
  JournalTest() : scratch_(scratch()), store_(open()) {}

  static JobRequest request() {
    JobRequest request;
    request.id = 7;
    request.key = {common::digest_of("graph"), {"cpu-test"}, "strict \"quoted\"\n", "1"};
    request.graph = common::digest_of("encoded");
    request.tenant = "team";
    request.budget_candidates = UINT64_MAX;
    request.seed = 3;
    request.priority = 70;
    return request;
  }
  static CandidateResult right() {
    CandidateResult result;
    result.worker = "worker one";
    result.report.kernels.resize(1);
    result.report.kernels[0].fingerprint = common::digest_of("kernel");
    result.report.kernels[0].object = 0;
    result.report.kernels[0].entry.name = "lf_1";
    result.report.objects = {common::digest_of("object")};
    result.report.kernel_ns = {12};
    result.report.total_ns = 34;
    result.report.runs = 5;
    result.report.toolchain = "clang";
    return result;
  }
  static CandidateResult wrong() {
    CandidateResult result;
    result.outcome = TaskOutcome::kWrong;
    result.message = "output 0 differs";
    result.worker = "w2";
    return result;
  }
  template <class Add>
  void write(const Add& add) {
    std::array<cache::Changes, 1> changes;
    add(changes[0]);
    ASSERT_TRUE(store_->commit(changes).ok());
  }
  static ResultKey key(std::string_view name, TaskKind kind = TaskKind::kCandidate) {
    return {kind, common::digest_of(name)};
  }

 private:
  static common::ScratchDirectory scratch() {
    auto made = common::ScratchDirectory::create("journal");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }
  common::ScratchDirectory scratch_;

 protected:
  std::unique_ptr<cache::Store> open() {
    auto store = cache::Store::open(scratch_.path());
    if (!store.ok()) throw std::runtime_error(store.error().message);
    return std::move(store).value();
  }
  std::unique_ptr<cache::Store> store_;
};

TEST_F(JournalTest, AJobComesBackAsItWas) {
  write([&](auto& to) { journal_job(to, request(), common::as_bytes("encoded")); });
  write([&](auto& to) { journal_result(to, 7, 0, key("a"), right()); });
  write([&](auto& to) { journal_result(to, 7, 1, key("a", TaskKind::kFinalist), wrong()); });
  auto job = read_journal(*store_, 7);
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->request.id, 7u);
  EXPECT_EQ(job->request.key, request().key);
  EXPECT_EQ(job->request.graph, request().graph);
  EXPECT_EQ(job->request.tenant, "team");
  EXPECT_EQ(job->request.budget_candidates, UINT64_MAX);
  EXPECT_EQ(job->request.seed, 3u);
  EXPECT_EQ(job->request.priority, 70u);
  EXPECT_EQ(common::as_text(job->graph), "encoded");
  EXPECT_EQ(job->next_record, 2u);
  ASSERT_EQ(job->results.size(), 2u);
  const CandidateResult& first = job->results.at(key("a"));
  EXPECT_EQ(first.report, right().report);
  EXPECT_EQ(first.worker, "worker one");
  const CandidateResult& second = job->results.at(key("a", TaskKind::kFinalist));
  EXPECT_EQ(second.outcome, TaskOutcome::kWrong);
  EXPECT_EQ(second.message, "output 0 differs");

  ASSERT_TRUE(remove_journal(*store_, 7).ok());
  EXPECT_EQ(read_journal(*store_, 7).error().code, common::Code::kCorrupt);
}

TEST_F(JournalTest, AJobRemovedInTheGroupThatBroughtItIsGone) {
  std::array<cache::Changes, 2> group;
  journal_job(group[0], request(), common::as_bytes("encoded"));
  journal_result(group[0], 7, 0, key("a"), right());
  journal_removal(group[0], 7);
  JobRequest other = request();
  other.id = 70;
  journal_job(group[1], other, common::as_bytes("encoded"));
  ASSERT_TRUE(store_->commit(group).ok());
  EXPECT_EQ(list_journals(*store_).value().open, std::vector<farm::JobId>{70});
}

TEST_F(JournalTest, AGroupWithATakenNumberIsNotWritten) {
  std::array<cache::Changes, 2> group;
  journal_job(group[0], request(), common::as_bytes("encoded"));
  journal_result(group[0], 7, 0, key("a"), right());
  journal_result(group[1], 7, 0, key("b"), right());
  EXPECT_EQ(store_->commit(group).error().code, common::Code::kInvalidInput);
  EXPECT_TRUE(list_journals(*store_).value().open.empty());
}

TEST_F(JournalTest, OfMeasurementsInOneGroupTheFirstStays) {
  std::array<cache::Changes, 2> group;
  common::Digest kernel = common::digest_of("kernel");
  group[0].measurements.push_back({kernel, "cpu-test", {10, 1, 5}});
  group[1].measurements.push_back({kernel, "cpu-test", {20, 1, 6}});
  ASSERT_TRUE(store_->commit(group).ok());
  ASSERT_TRUE(store_->commit(std::span(group).subspan(1)).ok());
  EXPECT_EQ(store_->get_measurement(kernel, "cpu-test").value()->ns, 10);
}

TEST_F(JournalTest, WhatIsCommittedIsToldInOrderAndOnlyThen) {
  std::vector<int> told;
  {
    Commits commits(*store_);
    for (int i = 0; i < 20; ++i) {
      commits.put(
          [i](cache::Changes& to) {
            to.named.push_back({"number", common::cat(i)});
          },
          [i, &told](const common::Status& written) {
            EXPECT_TRUE(written.ok());
            told.push_back(i);
          });
    }
    commits.flush();
    EXPECT_TRUE(told.empty());
    commits.deliver();
  }
  EXPECT_EQ(told.size(), 20u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(store_->get_named("number").value(), "19");
}

// Notes whose tasks are handed out.
class Grants final : public WorkerLink, public TaskSink {
 public:
  explicit Grants(const Dispatcher& dispatcher) : dispatcher_(dispatcher) {}
  void send_task(farm::WorkerId, const common::Task& task) override {
    ++of_job[dispatcher_.task(task.lease.task_id)->job];
  }
  void revoke(farm::WorkerId worker, const common::TaskLease&) override { ++revoked[worker]; }
  void ask_for_hello(farm::WorkerId) override {}
  void lost(farm::WorkerId, bool) override {}
  void refused(farm::WorkerId, farm::Refusal) override {}
  std::string name(farm::WorkerId) const override { return "worker"; }
  void task_done(TaskDone done) override { ended.insert(done.candidate->id); }
  void job_stopped(farm::JobId, uint32_t) override {}

  std::map<farm::JobId, int> of_job;
  std::map<farm::WorkerId, int> revoked;
  std::set<uint64_t> ended;  // candidates

 private:
  const Dispatcher& dispatcher_;
};

TEST_F(JournalTest, TenantsShareEquallyAndTheirJobsByPriority) {
  common::SteadyClock clock;
  DispatcherOptions options;
  options.run_limit_ms = 1000;
  Meters meters;
  Dispatcher dispatcher(options, clock, *store_, meters);
  Grants grants(dispatcher);
  dispatcher.connect(grants, grants);
  dispatcher.add_job(1, "a", 30);
  dispatcher.add_job(2, "a", 10);
  dispatcher.add_job(3, "b", 10);
  constexpr int kSlots = 240;
  for (farm::JobId job : {1, 2, 3}) {
    for (int i = 0; i < kSlots; ++i) {
      Candidate candidate;
      candidate.id = static_cast<uint64_t>(i);
      dispatcher.add_task({job, "cpu-test", std::make_shared<const Candidate>(candidate)});
    }
  }
  dispatcher.feed(farm::WorkerHello{1, 1, "cpu-test", kSlots});
  EXPECT_NEAR(grants.of_job[1], 90, 1);
  EXPECT_NEAR(grants.of_job[2], 30, 1);
  EXPECT_NEAR(grants.of_job[3], 120, 1);
}

TEST_F(JournalTest, WhatNoWorkerHasBegunIsGivenUp) {
  common::SteadyClock clock;
  DispatcherOptions options;
  options.run_limit_ms = 1000;
  Meters meters;
  Dispatcher dispatcher(options, clock, *store_, meters);
  Grants grants(dispatcher);
  dispatcher.connect(grants, grants);
  dispatcher.add_job(1, "a", 10);
  for (uint64_t id = 0; id < 10; ++id) {
    Candidate candidate;
    candidate.id = id;
    dispatcher.add_task({1, "cpu-test", std::make_shared<const Candidate>(candidate)});
    if (id == 3) dispatcher.feed(farm::WorkerHello{1, 1, "cpu-test", 3});
    if (id == 6) dispatcher.feed(farm::WorkerHello{2, 1, "cpu-test", 3});
  }
  ASSERT_EQ(grants.of_job[1], 6);
  // The first worker has 0 to 2 and the second 3 to 5: the last of each has not begun. 9 stays.
  dispatcher.give_up_tasks(
      1, Dispatcher::GiveUp::kWaiting, [](const TaskSpec& task) { return task.candidate->id != 9; },
      "enough");
  EXPECT_EQ(grants.ended, (std::set<uint64_t>{2, 5, 6, 7, 8}));
  EXPECT_EQ(grants.revoked, (std::map<farm::WorkerId, int>{{1, 1}, {2, 1}}));
  EXPECT_EQ(dispatcher.open_tasks(1), 5u);
  const std::string metrics = meters.text({});
  EXPECT_NE(metrics.find("lfarm_tasks_total{outcome=\"withdrawn\"} 5"), std::string::npos);
  EXPECT_NE(metrics.find("lfarm_tasks_total{outcome=\"infra\"} 0"), std::string::npos);
}

TEST_F(JournalTest, DamagedResultsAreLeftOutAndDamagedRequestsRefused) {
  write([&](auto& to) { journal_job(to, request(), common::as_bytes("encoded")); });
  write([&](auto& to) { journal_result(to, 7, 0, key("a"), right()); });
  std::array<cache::JobRecord, 3> damaged{cache::JobRecord{3, ""}, cache::JobRecord{4, "9 x\n"},
                                          cache::JobRecord{5, std::string(80, '0') + "\nx"}};
  ASSERT_TRUE(store_->append_job("job-7", damaged, false).ok());
  write([&](auto& to) { journal_result(to, 7, 4, key("b"), wrong()); });
  auto job = read_journal(*store_, 7);
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->results.size(), 2u);
  EXPECT_EQ(job->next_record, 5u);
  EXPECT_EQ(job->damaged, 3u);

  for (const char* text : {"", "{", "[]", "{\"version\":2}", "{\"version\":2,\"job\":\"x\"}"}) {
    ASSERT_TRUE(store_->remove_job("job-8").ok());
    std::array<cache::JobRecord, 2> records{cache::JobRecord{0, text}, cache::JobRecord{1, "g"}};
    ASSERT_TRUE(store_->append_job("job-8", records, false).ok());
    EXPECT_FALSE(read_journal(*store_, 8).ok()) << text;
  }
  // A journal that was copied under another name must not answer for that job.
  ASSERT_TRUE(store_->remove_job("job-8").ok());
  auto records = store_->read_job("job-7");
  ASSERT_TRUE(records.ok());
  ASSERT_TRUE(store_->append_job("job-8", *records, false).ok());
  EXPECT_FALSE(read_journal(*store_, 8).ok());
}

TEST_F(JournalTest, WhatASearchWasToldComesBack) {
  write([&](auto& to) { journal_job(to, request(), common::as_bytes("encoded")); });
  JobStart start{1234, 40, {{7, {0.5, 10}}, {8, {-1, 2}}}};
  write([&](auto& to) { journal_start(to, 7, 0, start); });
  std::vector<std::pair<common::Digest, int64_t>> answers{{common::digest_of("k1"), 10},
                                                          {common::digest_of("k2"), 20}};
  write([&](auto& to) { journal_answers(to, 7, 1, answers); });
  write([&](auto& to) { journal_result(to, 7, 2, key("a"), wrong()); });
  write([&](auto& to) { journal_finish(to, 7, 3, 17); });
  write([&](auto& to) { journal_result(to, 7, 4, key("a"), right()); });
  auto job = read_journal(*store_, 7);
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->damaged, 0u);
  ASSERT_TRUE(job->start.has_value());
  EXPECT_EQ(job->start->wall_ns, 1234);
  EXPECT_EQ(job->start->in_flight, 40);
  EXPECT_EQ(job->start->priors, start.priors);
  EXPECT_EQ(job->start->machine, "");
  EXPECT_EQ(job->answers, KernelAnswers(answers.begin(), answers.end()));
  EXPECT_EQ(job->finish_after, 17);
  EXPECT_EQ(job->results.at(key("a")).outcome, TaskOutcome::kOk);  // the later one
}

TEST_F(JournalTest, TheClassOfASearchIsKept) {
  JobRequest asked = request();
  asked.machine = "asked for";
  JobStart start{1234, 40, {{7, {0.5, 10}}}, "settled"};
  write([&](auto& to) { journal_job(to, asked, common::as_bytes("encoded")); });
  write([&](auto& to) { journal_start(to, 7, 0, start); });
  auto job = read_journal(*store_, 7);
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->damaged, 0u);
  EXPECT_EQ(job->request.machine, "asked for");
  ASSERT_TRUE(job->start.has_value());
  EXPECT_EQ(job->start->machine, "settled");
  EXPECT_EQ(job->start->priors, start.priors);
}

TEST_F(JournalTest, ClosedJournalsStayForReplaysUpToABound) {
  for (farm::JobId id : {7, 8, 9, 10}) {
    JobRequest job = request();
    job.id = id;
    write([&](auto& to) { journal_job(to, job, common::as_bytes("encoded")); });
  }
  JobEnd end;
  end.plan = common::digest_of("plan");
  end.farm = "farm \"x\"";
  end.created_ns = 99;
  end.tenant = "team";
  end.submitter = "key";
  end.toolchain = "clang";
  end.machine = "a class";
  end.second_worker = "w2";
  end.rerun = right().report;
  end.plan_id = common::digest_of("signed");
  for (farm::JobId id : {9, 7, 10}) ASSERT_TRUE(journal_end(*store_, id, end, 2).ok());
  auto all = list_journals(*store_);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->open, std::vector<farm::JobId>{8});
  EXPECT_EQ(all->closed, (std::vector<farm::JobId>{9, 10}));
  auto back = read_end(*store_, 10);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->plan, end.plan);
  EXPECT_EQ(back->plan_id, end.plan_id);
  EXPECT_EQ(back->second_worker, end.second_worker);
  EXPECT_EQ(back->farm, end.farm);
  EXPECT_EQ(back->created_ns, 99);
  EXPECT_EQ(back->tenant, "team");
  EXPECT_EQ(back->submitter, "key");
  EXPECT_EQ(back->toolchain, "clang");
  EXPECT_EQ(back->machine, "a class");
  EXPECT_EQ(back->rerun, end.rerun);
  EXPECT_EQ(read_end(*store_, 8).error().code, common::Code::kInvalidInput);
  EXPECT_EQ(read_journal(*store_, 7).error().code, common::Code::kCorrupt);
}

// A number like that is none that a count or a time could be converted to.
TEST_F(JournalTest, NumbersBeyondEveryIntegerAreDamage) {
  cache::Changes changes;
  journal_job(changes, request(), common::as_bytes("encoded"));
  std::vector<cache::JobRecord> records;
  for (cache::Changes::Record& record : changes.records) {
    records.push_back(std::move(record.record));
  }
  ASSERT_TRUE(parse_journal(7, records).ok());
  std::string& text = records[0].bytes;
  size_t seed = text.find("\"seed\":");
  ASSERT_NE(seed, std::string::npos);
  text.insert(seed + 7, "1e300, \"was\":");
  EXPECT_EQ(parse_journal(7, records).error().code, common::Code::kCorrupt);
  std::string plan = common::digest_of("plan").hex();
  cache::JobRecord end{0, cat(R"({"plan":")", plan, R"(","farm":"f","created_ns":1e300})")};
  EXPECT_EQ(parse_end(7, std::span(&end, 1)).error().code, common::Code::kCorrupt);
}

TEST_F(JournalTest, ASearchIsNotToldWhatWasMeasuredAfterItBegan) {
  common::Digest old = common::digest_of("old"), young = common::digest_of("young");
  ASSERT_TRUE(store_->put_measurement(old, "cpu-test", {50, 3, 1'000}).ok());
  ASSERT_TRUE(store_->put_measurement(young, "cpu-test", {60, 3, 2'000}).ok());
  common::Digest answered = common::digest_of("answered");
  JobMeasurements measurements(store_.get(), "cpu-test", "local", 2'000, {{answered, 70}});
  EXPECT_EQ(measurements.kernel_ns(old), 50);
  EXPECT_EQ(measurements.kernel_ns(young), std::nullopt);
  EXPECT_EQ(measurements.kernel_ns(answered), 70);
  auto fresh = measurements.take_fresh();
  ASSERT_EQ(fresh.size(), 1u);
  EXPECT_EQ(fresh[0].first, old);
  EXPECT_EQ(measurements.kernel_ns(old), 50);
  EXPECT_TRUE(measurements.take_fresh().empty());
}

TEST_F(JournalTest, PriorsAddUpPerTargetAndOutliveTheStore) {
  ASSERT_TRUE(merge_priors(*store_, "cpu-a", {{7, {0.5, 10}}, {8, {-1, 2}}}).ok());
  ASSERT_TRUE(merge_priors(*store_, "cpu-a", {{7, {-0.5, 30}}}).ok());
  store_.reset();
  store_ = open();
  EffectTable expected{{7, {-0.25, 40}}, {8, {-1, 2}}};
  EXPECT_EQ(load_priors(*store_, "cpu-a"), expected);
  EXPECT_TRUE(load_priors(*store_, "cpu-b").empty());
}

TEST_F(JournalTest, DamagedPriorsAreIgnored) {
  ASSERT_TRUE(merge_priors(*store_, "cpu-a", {{7, {0.5, 10}}}).ok());
  auto bytes = store_->get_named("effects-2/cpu-a");
  ASSERT_TRUE(bytes.ok() && bytes->has_value());
  ASSERT_TRUE(store_->put_named("effects-2/cpu-a", (*bytes)->substr(0, 20)).ok());
  EXPECT_TRUE(load_priors(*store_, "cpu-a").empty());
}

TEST(BlobTable, HoldsEachBlobOnceAndWithinItsBound) {
  BlobTable table(10);
  auto bytes = [](std::string_view text) {
    return common::share(common::to_bytes(common::as_bytes(text)));
  };
  auto first = table.hold(bytes("123456"));
  auto twin = table.hold(bytes("123456"));
  ASSERT_TRUE(first && twin);
  EXPECT_EQ(table.bytes(), 6u);
  EXPECT_FALSE(table.hold(bytes("abcdef")));
  first.reset();
  EXPECT_EQ(common::as_text(table.find(twin->digest()).bytes), "123456");
  common::Digest digest = twin->digest();
  twin.reset();
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_EQ(table.count(), 0u);
  EXPECT_FALSE(table.find(digest));
  EXPECT_TRUE(table.hold(bytes("abcdef")));
}

TEST(Clients, TheSilentMakeRoom) {
  Clients clients(4);
  for (int i = 0; i < 4; ++i) clients.hello(cat("peer", i), {cat("c", i), 1, ""}, i);
  EXPECT_TRUE(clients.touch("peer0", 10));
  clients.hello("peer4", {"c4", 1, ""}, 11);
  EXPECT_LE(clients.count(), 4u);
  EXPECT_TRUE(clients.touch("peer0", 12));
  EXPECT_TRUE(clients.touch("peer4", 12));
  EXPECT_FALSE(clients.touch("peer1", 12));
}

TEST(Clients, ThoseThatHaveGoneAreForgottenOnceTheyAreSilent) {
  Clients clients(8);
  for (const char* peer : {"there", "gone", "busy"}) clients.hello(peer, {peer, 1, ""}, 0);
  std::vector<std::string> asked;
  auto reaches = [&](const std::string& peer) {
    asked.push_back(peer);
    return peer != "gone";
  };
  clients.probe(Clients::kProbeNs - 1, reaches);
  EXPECT_TRUE(asked.empty()) << "nobody has been silent for long enough";
  EXPECT_TRUE(clients.touch("busy", Clients::kProbeNs));
  clients.probe(2 * Clients::kProbeNs - 1, reaches);
  EXPECT_EQ(asked.size(), 2u) << "who has just sent something is there";
  EXPECT_EQ(clients.count(), 2u);
  EXPECT_FALSE(clients.touch("gone", 2 * Clients::kProbeNs));
  asked.clear();
  clients.probe(3 * Clients::kProbeNs - 2, reaches);
  EXPECT_EQ(asked, std::vector<std::string>{"busy"})
      << "who was reached is not asked again so soon";
}

TEST(StageClock, AddsUpWhatAStageTookInAllItsTurns) {
  StageClock clock;
  clock.enter("a", 0);
  clock.enter("a", 1'000'000);
  clock.enter("b", 2'000'000);
  clock.enter("a", 5'000'000);
  clock.end(6'000'000);
  clock.add("c", 0.5);
  ASSERT_EQ(clock.times().size(), 3u);
  EXPECT_EQ(clock.times()[0], (common::StageTime{"a", 3}));
  EXPECT_EQ(clock.times()[1], (common::StageTime{"b", 3}));
  EXPECT_EQ(clock.times()[2], (common::StageTime{"c", 0.5}));
}

TEST(Background, WhatComesFirstPassesWhatWaits) {
  Background background(1);
  std::promise<void> begun, goes_on;
  std::string order;
  auto work = [&](char name) {
    return [&order, name]() -> Background::Done {
      order += name;
      return [] {};
    };
  };
  background.start([&]() -> Background::Done {
    begun.set_value();
    goes_on.get_future().wait();
    return [] {};
  });
  begun.get_future().wait();
  background.start(work('a'));
  background.start(work('b'));
  background.start_first(work('c'));
  goes_on.set_value();
  ASSERT_TRUE(background.finish(std::chrono::minutes(1)));
  EXPECT_EQ(order, "cab");
}

TEST(Background, EveryResultIsDeliveredOnTheCallersThread) {
  Background background(2);
  common::Poller poller;
  poller.watch_fd(background.fd());
  std::set<int> delivered;
  std::thread::id here = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    background.start([&, i]() -> Background::Done {
      bool elsewhere = std::this_thread::get_id() != here;
      return [&, i, elsewhere] {
        EXPECT_TRUE(elsewhere);
        EXPECT_EQ(std::this_thread::get_id(), here);
        delivered.insert(i);
      };
    });
  }
  while (delivered.size() < 100) {
    ASSERT_TRUE(poller.wait(600'000).ok());
    ASSERT_TRUE(poller.ready(0));
    background.deliver();
  }
  EXPECT_FALSE(background.busy());
}

}  // namespace
}  // namespace coordinator::service
