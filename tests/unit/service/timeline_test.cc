// What is kept of a job's time, and the trace made of it: if these fail, traces are damaged, grow
// without bound, or no viewer opens them.
#include "coordinator/service/observe/timeline.h"

#include <gtest/gtest.h>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "coordinator/service/observe/trace_json.h"
#include "tests/farm/service/trace_check.h"

namespace coordinator::service {
namespace {

using common::cat;
using trace_testing::Json;

constexpr int64_t kMs = 1'000'000;
// Some moment in 2026.
constexpr int64_t kWall = 1'790'000'000'000'000'000;

TimelineTask task(uint64_t candidate, int64_t from_ms) {
  TimelineTask row;
  row.task = (uint64_t{1} << 32) + candidate;
  row.candidate = candidate;
  row.region = 2;
  row.origin = "seed";
  row.fingerprint = common::digest_of("program");
  row.measured_ns = 1234;
  row.queued_ns = kWall + from_ms * kMs;
  row.ended_ns = row.queued_ns + 50 * kMs;
  row.kept_ns = row.ended_ns + 3 * kMs;
  row.leases = {{"w1", row.queued_ns + 5 * kMs, row.queued_ns + 15 * kMs, "worker lost"},
                {"w2", row.queued_ns + 20 * kMs, row.ended_ns, "result"}};
  row.spans = {
      {"fetch", 0, 1}, {"compile", 1, 10}, {"run", 12, 16}, {"verify", 14, 4}, {"measure", 18, 10}};
  row.slowest = {"tile 0123", "mr=6,nr=16", 900};
  return row;
}

std::vector<TimelineRow> one_of_each() {
  return {task(3, 7), TimelineStage{"search", false, kWall, kWall + 9 * kMs},
          TimelineRound{kWall, kWall + kMs, 1, 2, 3, 4, 5, 6}, TimelineMark{kWall + kMs, "done"}};
}

TEST(TimelineRows, SurviveTheDisk) {
  for (const TimelineRow& row : one_of_each()) {
    auto read = decode_row(encode_row(row));
    ASSERT_TRUE(read) << row.index();
    EXPECT_TRUE(*read == row) << row.index();
  }
}

TEST(TimelineRows, RoundsOfEarlierVersionsSayNothingOfWhatWasExpected) {
  TimelineRound round{kWall, kWall + kMs, 1, 2, 3, 4, 5, 6};
  std::string bytes = encode_row(round);
  auto read = decode_row(std::string_view(bytes).substr(0, bytes.size() - sizeof(uint64_t)));
  round.expected_ns = 0;
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == TimelineRow(round));
}

TEST(TimelineRows, TasksOfEarlierVersionsNameNoKernel) {
  TimelineTask row = task(3, 7);
  row.slowest = {};
  std::string bytes = encode_row(row);
  size_t added = 2 * sizeof(uint32_t) + sizeof(uint64_t);
  auto read = decode_row(std::string_view(bytes).substr(0, bytes.size() - added));
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == TimelineRow(row));
}

TEST(TimelineRows, DamageIsNoticedOrHarmless) {
  common::Random random(7);
  for (const TimelineRow& row : one_of_each()) {
    std::string bytes = encode_row(row);
    for (size_t length = 0; length < bytes.size(); ++length) {
      auto read = decode_row(std::string_view(bytes).substr(0, length));
      // Without what a later version added, a row is one of the version before.
      const auto* round = read ? std::get_if<TimelineRound>(&*read) : nullptr;
      const auto* task = read ? std::get_if<TimelineTask>(&*read) : nullptr;
      bool is_earlier = (round != nullptr && round->expected_ns == 0) ||
                        (task != nullptr && task->slowest == TimelineKernel());
      EXPECT_TRUE(!read || is_earlier) << length;
    }
    for (int trial = 0; trial < 2000; ++trial) {
      std::string damaged = bytes;
      damaged[random.below(damaged.size())] = static_cast<char>(random.next());
      auto read = decode_row(damaged);
      if (!read) continue;
      // Whatever it says now, a trace can be made of it.
      StoredTimeline timeline;
      timeline.rows = {*read, row};
      EXPECT_FALSE(trace_json(timeline).empty());
    }
  }
}

class TimelineStoreTest : public testing::Test {
 protected:
  TimelineStoreTest()
      : scratch_(common::ScratchDirectory::create("timeline").value()),
        store_(cache::Store::open(scratch_.path()).value()) {}
  void write(Timeline& timeline) {
    cache::Changes changes;
    timeline.take()(changes);
    ASSERT_TRUE(store_->commit({&changes, 1}).ok());
  }
  static TimelineHead head() { return {7, "team \"a\"\n", "abc", "cpu-test", "strict", 0}; }

  common::ScratchDirectory scratch_;
  std::unique_ptr<cache::Store> store_;
};

// Ten thousand rows must not take the room of ten thousand where a hundred are allowed.
TEST_F(TimelineStoreTest, TheLatestRowsStayWithinTheBound) {
  constexpr size_t kRows = 100;
  Timeline timeline(head(), kRows, kWall, 0);
  for (int i = 0; i < 1'000; ++i) {
    timeline.mark(i * kMs, cat("mark ", i));
    if (i % 7 == 0) write(timeline);
  }
  write(timeline);
  auto stored = read_timeline(*store_, 7);
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  EXPECT_EQ(stored->head.tenant, head().tenant);
  ASSERT_EQ(stored->rows.size(), kRows);
  EXPECT_EQ(stored->dropped, 900u);
  EXPECT_EQ(stored->damaged, 0u);
  EXPECT_EQ(std::get<TimelineMark>(stored->rows.front()).text, "mark 900");
  EXPECT_EQ(std::get<TimelineMark>(stored->rows.back()).text, "mark 999");
  // One more row begins a segment, and the oldest one goes.
  timeline.mark(0, "mark 1000");
  write(timeline);
  EXPECT_EQ(read_timeline(*store_, 7)->rows.size(), kRows * 3 / 4 + 1);
  EXPECT_EQ(list_timelines(*store_)->at(7), timeline.segments());
}

TEST_F(TimelineStoreTest, AnotherCoordinatorGoesOnWithTheSameTrace) {
  {
    Timeline timeline(head(), 12, kWall, 5 * kMs);
    timeline.mark(6 * kMs, "before");
    write(timeline);
  }
  // Also one that keeps more, or fewer: what is written is never written over.
  for (size_t rows : {12, 12, 40, 8}) {
    Timeline timeline(head(), rows, kWall + 100 * kMs, 0);
    timeline.go_on(*store_, list_timelines(*store_)->at(7));
    timeline.mark(kMs, cat("after ", rows));
    write(timeline);
  }
  auto stored = read_timeline(*store_, 7);
  ASSERT_TRUE(stored.ok());
  ASSERT_EQ(stored->rows.size(), 5u);
  EXPECT_TRUE(stored->rows[0] == TimelineRow(TimelineMark{kWall + kMs, "before"}));
  EXPECT_TRUE(stored->rows[1] == TimelineRow(TimelineMark{kWall + 101 * kMs, "after 12"}));
  EXPECT_TRUE(stored->rows[4] == TimelineRow(TimelineMark{kWall + 101 * kMs, "after 8"}));
}

TEST_F(TimelineStoreTest, NoRowsAreAskedForAndNoneAreKept) {
  Timeline timeline(head(), 0, kWall, 0);
  timeline.mark(kMs, "mark");
  EXPECT_FALSE(timeline.has_news());
  write(timeline);
  EXPECT_EQ(read_timeline(*store_, 7).error().code, common::Code::kInvalidInput);
  EXPECT_TRUE(list_timelines(*store_)->empty());
}

TEST_F(TimelineStoreTest, ARemovedTraceIsGone) {
  Timeline timeline(head(), 5, kWall, 0);
  timeline.mark(kMs, "mark");
  write(timeline);
  EXPECT_EQ(*list_timelines(*store_), (TimelineSegments{{7, {0}}}));
  cache::Changes changes;
  remove_timeline(changes, 7, timeline.segments());
  ASSERT_TRUE(store_->commit({&changes, 1}).ok());
  EXPECT_TRUE(list_timelines(*store_)->empty());
}

StoredTimeline busy_job() {
  StoredTimeline timeline;
  timeline.head = {7, "team", "abc", "cpu-test", "strict", 0};
  timeline.rows.push_back(TimelineStage{"queue", false, kWall, kWall + 4 * kMs});
  timeline.rows.push_back(TimelineStage{"search", false, kWall + 4 * kMs, kWall + 500 * kMs});
  timeline.rows.push_back(TimelineRound{kWall + 5 * kMs, kWall + 6 * kMs, 0, 12, 0, 900, 12, 800});
  for (uint64_t i = 0; i < 40; ++i) timeline.rows.push_back(task(i, static_cast<int64_t>(i) * 9));
  timeline.rows.push_back(TimelineMark{kWall + 510 * kMs, "done"});
  return timeline;
}

TEST(TraceJson, IsWhatViewersDraw) {
  Json trace = Json::parse(trace_json(busy_job()));
  EXPECT_EQ(trace_testing::problem(trace), "");
  EXPECT_EQ(trace_testing::of_category(trace, "candidate").size(), 40u);
  EXPECT_EQ(trace_testing::of_category(trace, "job").at(0).at("dur"), 510'000.0);
  EXPECT_EQ(trace_testing::of_category(trace, "stage").size(), 2u);
  EXPECT_EQ(trace_testing::of_category(trace, "search").size(), 1u);
  // Two leases of each, on the coordinator's side and on the workers'.
  EXPECT_EQ(trace_testing::of_category(trace, "lease").size(), 160u);
  EXPECT_EQ(trace_testing::marks(trace), std::vector<std::string>{"done"});
  // What a worker says is in the middle of its lease: 28 ms of 30 were told.
  std::vector<Json> parts = trace_testing::of_category(trace, "worker");
  ASSERT_EQ(parts.size(), 200u);
  EXPECT_EQ(parts[0].at("name"), "fetch");
  EXPECT_EQ(parts[0].at("ts"), 21'000.0);
}

// Of one candidate: what its time went on is all of its time.
TEST(TraceJson, PartsOfACandidateSumToTheWhole) {
  StoredTimeline timeline;
  timeline.rows = {task(1, 0)};
  Json trace = Json::parse(trace_json(timeline));
  double parts = 0;
  for (const auto& [place, spans] : trace_testing::threads(trace)) {
    for (const Json& span : spans) {
      bool is_part = span.at("cat") == "queue" || span.at("cat") == "commit" ||
                     (span.at("cat") == "lease" && place.first == 1);
      if (is_part) parts += span.at("dur").get<double>();
    }
  }
  EXPECT_DOUBLE_EQ(parts, trace_testing::of_category(trace, "candidate").at(0).at("dur"));
}

TEST(TraceJson, NamesTheSlowestKernelWithItsSchedule) {
  StoredTimeline timeline;
  TimelineTask damaged = task(2, 0);
  damaged.slowest.schedule = "mr=x,,=,kc=8";
  TimelineTask unknown = task(3, 0);
  unknown.slowest = {};
  timeline.rows = {task(1, 0), damaged, unknown};
  Json trace = Json::parse(trace_json(timeline));
  auto candidates = trace_testing::of_category(trace, "candidate");
  const Json& args = candidates.at(0).at("args");
  EXPECT_EQ(args.at("kernel"), "tile 0123");
  EXPECT_EQ(args.at("kernel_ns"), 900);
  EXPECT_EQ(args.at("schedule"), (Json{{"mr", 6}, {"nr", 16}}));
  EXPECT_EQ(candidates.at(1).at("args").at("schedule"), (Json{{"kc", 8}}));
  EXPECT_FALSE(candidates.at(2).at("args").contains("kernel"));
  EXPECT_FALSE(args.contains("modules"));
}

// As far as the plan that came of the job tells.
TEST(TraceJson, NamesTheModulesThatTheSlowestKernelServes) {
  StoredTimeline timeline;
  TimelineTask other = task(2, 0);
  other.slowest.kernel = "loops 89ab";
  timeline.rows = {task(1, 0), other};
  Json trace = Json::parse(trace_json(timeline, {{"tile 0123", {"layers.*.up", "model.py:12"}}}));
  auto candidates = trace_testing::of_category(trace, "candidate");
  EXPECT_EQ(candidates.at(0).at("args").at("modules"), "layers.*.up");
  EXPECT_EQ(candidates.at(0).at("args").at("sources"), "model.py:12");
  EXPECT_FALSE(candidates.at(1).at("args").contains("modules"));
  for (const Json& lease : trace_testing::of_category(trace, "lease")) {
    if (!lease.at("args").contains("kernel")) continue;
    EXPECT_EQ(lease.at("args").contains("modules"), lease.at("args").at("kernel") == "tile 0123");
  }
}

// A worker whose clock runs ahead, or who lies, cannot break the file.
TEST(TraceJson, WorkersCannotReachBeyondTheirLease) {
  StoredTimeline timeline;
  TimelineTask row = task(1, 0);
  row.spans = {{"compile", 0, 100}, {"run", 5, 1e6}, {"measure", 90, 50}, {"late", 1e6, 1}};
  row.leases[1].worker = "w2\"}\n\x01\xff";
  timeline.rows = {row};
  timeline.head.tenant = "\xc3(\"\n";
  std::string text = trace_json(timeline);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  Json trace = Json::parse(text);
  EXPECT_EQ(trace_testing::problem(trace), "");
  EXPECT_EQ(trace_testing::of_category(trace, "worker").size(), 2u);
}

TEST(TraceJson, AnEmptyTimelineIsATraceToo) {
  Json trace = Json::parse(trace_json({}));
  EXPECT_EQ(trace_testing::problem(trace), "");
}

}  // namespace
}  // namespace coordinator::service
