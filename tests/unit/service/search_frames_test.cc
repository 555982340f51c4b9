// Frames between a coordinator and its searchers: if these fail, a step arrives as another than was
// taken, or damaged bytes are taken for a step.
#include "coordinator/service/searchers/search_frames.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "coordinator/service/searchers/seat.h"

namespace coordinator::service {
namespace {

common::Digest digest(const std::string& text) { return common::digest_of(text); }

common::SharedBytes shared(const std::string& text) {
  return common::share(common::to_bytes(common::as_bytes(text)));
}

Candidate candidate(uint64_t id, const std::string& graph) {
  Candidate made;
  made.id = id;
  made.fingerprint = digest(common::cat("program ", id));
  made.region = -1;
  made.origin = "crossover";
  made.predicted_ns = 1.5;
  made.kind = common::TaskKind::kFinalist;
  made.kernels = {digest("a"), digest("b")};
  made.forms = {{common::Template::kTile, digest("body"), {{"mr", 6}, {"nr", 16}}},
                {common::Template::kLoops, digest("other"), {}}};
  made.payload = common::to_bytes(common::as_bytes(common::cat("payload ", id)));
  made.graph_bytes = shared(graph);
  made.graph = common::digest_of(made.graph_bytes.bytes);
  return made;
}

StepResult sample_step() {
  StepResult step;
  step.asked = 7;
  for (uint64_t id : {3, 4}) {
    step.candidates.push_back(std::make_shared<const Candidate>(candidate(id, "graph")));
    static_cast<CandidateFacts&>(step.proposals.emplace_back()) = *step.candidates.back();
    step.proposals.back().kind = common::TaskKind::kFinalist;
  }
  CandidateResult known;
  known.outcome = common::TaskOutcome::kWrong;
  known.message = "differs";
  known.worker = "w1";
  step.proposals.back().known = known;
  step.status.stage = "search";
  step.status.best_ns = 12;
  step.status.saved_ms = 0.25;
  step.finished_after = 9;
  step.learned[17] = {0.5, 3};
  TuningRecord record;
  record.effort = {5, 6};
  record.ns = 77;
  step.tuning_records[digest("key")] = record;
  return step;
}

TEST(SearchFrames, AStepArrivesAsItWasTaken) {
  StepResult step = sample_step();
  KnownGraphs theirs, ours;
  std::string first = encode_step(step, theirs);
  auto read = decode_step(first, ours);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->asked, 7);
  ASSERT_EQ(read->candidates.size(), 2u);
  const Candidate &sent = *step.candidates[1], &came = *read->candidates[1];
  EXPECT_EQ(came.id, sent.id);
  EXPECT_EQ(came.fingerprint, sent.fingerprint);
  EXPECT_EQ(came.region, -1);
  EXPECT_EQ(came.origin, "crossover");
  EXPECT_EQ(came.predicted_ns, 1.5);
  EXPECT_EQ(came.kernels, sent.kernels);
  EXPECT_EQ(came.forms[0].schedule, sent.forms[0].schedule);
  EXPECT_EQ(came.forms[0].form, common::Template::kTile);
  EXPECT_EQ(came.payload, sent.payload);
  EXPECT_EQ(common::as_text(came.graph_bytes.bytes), "graph");
  EXPECT_FALSE(read->proposals[0].known);
  EXPECT_EQ(read->proposals[1].known->message, "differs");
  EXPECT_EQ(read->status.stage, "search");
  EXPECT_EQ(read->status.best_ns, 12);
  EXPECT_EQ(read->status.saved_ms, 0.25);
  EXPECT_EQ(read->finished_after, 9);
  EXPECT_EQ(read->learned.at(17).count, 3);
  EXPECT_EQ(read->tuning_records.at(digest("key")).ns, 77);
  EXPECT_FALSE(read->outcome);
  // The graph is known from now on.
  std::string second = encode_step(step, theirs);
  EXPECT_EQ(second.find("graph"), std::string::npos);
  EXPECT_TRUE(decode_step(second, ours).ok());
  KnownGraphs none;
  EXPECT_EQ(decode_step(second, none).error().code, common::Code::kCorrupt);
}

TEST(SearchFrames, AFailedSearchSaysWhy) {
  StepResult step;
  step.outcome = common::Result<SearchOutcome>(common::internal_error("no plan"));
  KnownGraphs theirs, ours;
  auto read = decode_step(encode_step(step, theirs), ours);
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(read->outcome);
  EXPECT_EQ(read->outcome->error().message, "no plan");
}

TEST(SearchFrames, DamagedStepsAreRefusedOrRead) {
  KnownGraphs theirs;
  const std::string whole = encode_step(sample_step(), theirs);
  for (size_t size = 0; size < whole.size(); ++size) {
    KnownGraphs ours;
    EXPECT_FALSE(decode_step(whole.substr(0, size), ours).ok()) << size;
  }
  common::Random random(7);
  for (int turn = 0; turn < 2'000; ++turn) {
    std::string damaged = whole;
    for (int k = 0; k < 3; ++k) {
      damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    }
    KnownGraphs ours;
    auto read = decode_step(damaged, ours);  // returns, whatever it says
    if (read.ok()) {
      EXPECT_LE(read->candidates.size(), damaged.size());
    }
  }
}

TEST(SearchFrames, ValuesMakeTheRoundTrip) {
  OpenSearch open{4, {{0, "request"}, {1, std::string("gr\0aph", 6)}, {9, ""}}};
  auto opened = decode<OpenSearch>(encode(open));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->records, open.records);
  std::vector<SearchAnswer> answers{{5, std::nullopt}, {std::nullopt, "record"}, {}};
  auto answered = decode<std::vector<SearchAnswer>>(encode(answers));
  ASSERT_TRUE(answered.ok());
  EXPECT_EQ(answered->at(0).ns, 5);
  EXPECT_EQ(answered->at(1).record, "record");
  EXPECT_FALSE(answered->at(2).ns);
  std::string frame = search_frame(FrameKind::kLookup, 77, "body");
  auto read = parse_frame(frame);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->kind, FrameKind::kLookup);
  EXPECT_EQ(read->search, 77u);
  EXPECT_EQ(read->body, "body");
  EXPECT_FALSE(parse_frame("short").ok());
  frame[0] = 99;
  EXPECT_FALSE(parse_frame(frame).ok());
}

TEST(SearchFrames, AnInboxThatIsClosedSaysWhy) {
  SeatInbox inbox;
  inbox.deliver(shared("one"));
  inbox.close("it was silent");
  inbox.close("another reason");
  inbox.deliver(shared("too late"));
  EXPECT_EQ(common::as_text(inbox.take(0).value().bytes), "one");
  EXPECT_EQ(inbox.take(0).error().message, "it was silent");
  SeatInbox quiet;
  EXPECT_EQ(quiet.take(1).error().code, common::Code::kUnavailable);
}

// As long as the seat is taken: what answers reads what the search's job owns.
TEST(SearchFrames, LookupsAreAnsweredUntilTheSeatIsGivenUp) {
  auto inbox = std::make_shared<SeatInbox>();
  EXPECT_FALSE(inbox->answer("nobody answers yet"));
  int answered = 0;
  {
    Seat seat(
        1, "searcher", inbox, [](const std::string&) {}, [] {});
    seat.answer_by([&](std::string_view questions) -> std::optional<std::string> {
      ++answered;
      if (questions == "broken") return std::nullopt;
      return "answers to " + std::string(questions);
    });
    EXPECT_EQ(inbox->answer("two questions"), "answers to two questions");
    EXPECT_FALSE(inbox->answer("broken"));
    EXPECT_EQ(answered, 2);
  }
  EXPECT_FALSE(inbox->answer("too late"));
  EXPECT_EQ(answered, 2);
}

}  // namespace
}  // namespace coordinator::service
