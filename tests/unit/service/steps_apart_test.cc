// Searches in searchers' processes, without a farm around them: if these fail, what is found
// depends on where the search was, a searcher's end loses or repeats what was measured, or a search
// goes on with what a broken searcher says.
#include "coordinator/service/searchers/steps_apart.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/searchers/searcher.h"
#include "tests/farm/service/service_script.h"

namespace coordinator::service {
namespace {

using common::cat;

constexpr int kInFlight = 12;

common::Graph two_layers() {
  common::GraphBuilder b;
  common::NodeId h = b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 16}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    common::NodeId y = h;
    for (common::UnaryOp op : {common::UnaryOp::kTanh, common::UnaryOp::kSigmoid}) {
      common::NodeId w =
          b.input(common::InputKind::kWeight, common::DType::kFloat32, {16, 16}, "w");
      y = b.unary(op, b.matmul(y, w));
    }
    h = b.binary(common::BinaryOp::kSub, y, b.reduce(common::ReduceOp::kMax, y, {1}, true));
  }
  b.output(h);
  return b.finish();
}

SearchBeginning beginning(KernelAnswers known = {}) {
  common::Graph graph = two_layers();
  SearchBeginning made;
  made.graph = common::share(common::encode_graph(graph));
  made.request.id = 1;
  made.request.key.graph_hash = common::graph_hash(graph);
  made.request.key.target.name = "cpu-test";
  made.request.key.policy = std::string(common::kDefaultPolicy);
  made.request.key.epoch = std::string(common::kCompilerEpoch);
  made.request.graph = common::digest_of(made.graph.bytes);
  made.request.tenant = "local";
  made.request.budget_candidates = 40;
  made.start.wall_ns = 1;
  made.start.in_flight = kInFlight;
  made.measurements =
      std::make_shared<JobMeasurements>(nullptr, "cpu-test", "local", 1, std::move(known));
  made.create = JobSearch::create;
  return made;
}

// A searcher's process, forked: it has nothing of this one's threads and sockets.
class SearcherProcess {
 public:
  explicit SearcherProcess(const std::string& endpoint) : pid_(::fork()) {
    if (pid_ != 0) return;
    SearcherSetup setup{endpoint, std::nullopt, "forked", 2, JobSearch::create};
    SearcherState state;
    (void)run_searcher(setup, state, [] { return false; });
    ::_exit(1);
  }
  ~SearcherProcess() { end(); }
  SearcherProcess(const SearcherProcess&) = delete;
  SearcherProcess& operator=(const SearcherProcess&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void hang() const { ::kill(pid_, SIGSTOP); }

 private:
  pid_t pid_;
};

// What a search came to and by which candidates.
struct Course {
  std::vector<std::pair<uint64_t, common::Digest>> sent;
  std::vector<uint64_t> interim;
  std::optional<int64_t> finished_after;
  common::Bytes plan;
  uint64_t candidate = 0;
  std::string failure;
  KernelAnswers measured;  // by fingerprint
};

struct Driving {
  // Called before the step that follows so many results.
  size_t results = SIZE_MAX;
  std::function<void()> then;
  bool finishes = false;  // the search is told to end in that step
};

// As a job drives its search, with a farm that answers three candidates between two steps.
Course drive(SearchSteps& steps, Driving driving = {}) {
  Course course;
  std::deque<std::shared_ptr<const Candidate>> open;
  StepRequest next;
  size_t answered = 0;
  while (true) {
    if (driving.then && answered >= driving.results) {
      std::exchange(driving.then, {})();
      next.finish_now = driving.finishes;
    }
    next.candidates = kInFlight - static_cast<int>(open.size());
    auto step = steps.advance(std::exchange(next, {}));
    if (!step.ok()) {
      course.failure = step.error().message;
      return course;
    }
    for (auto& candidate : step->candidates) {
      course.sent.emplace_back(candidate->id, candidate->fingerprint);
      open.push_back(candidate);
    }
    for (const SearchOutcome& plan : step->interim) course.interim.push_back(plan.candidate);
    if (step->finished_after) course.finished_after = step->finished_after;
    if (step->outcome) {
      if (!step->outcome->ok()) {
        course.failure = step->outcome->error().message;
        return course;
      }
      course.plan = common::encode_plan((*step->outcome)->plan);
      course.candidate = (*step->outcome)->candidate;
      return course;
    }
    if (open.empty()) {
      course.failure = "it neither proposes nor ends";
      return course;
    }
    for (int k = 0; k < 3 && !open.empty(); ++k) {
      CandidateResult result;
      result.outcome = common::TaskOutcome::kOk;
      result.worker = "w1";
      result.busy_ms = 1;
      result.report = scripted_report(open.front()->payload).report;
      const std::vector<common::Digest>& kernels = open.front()->kernels;
      for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
        uint64_t ns = result.report.kernel_ns.at(kernel);
        if (ns != 0) course.measured.emplace(kernels[kernel], static_cast<int64_t>(ns));
      }
      next.results.emplace_back(open.front()->id, std::move(result));
      open.pop_front();
      ++answered;
    }
  }
}

class StepsApartTest : public testing::Test {
 protected:
  StepsApartTest() {
    auto scratch = common::ScratchDirectory::create("steps_apart");
    if (!scratch.ok()) throw std::runtime_error(scratch.error().message);
    scratch_.emplace(std::move(scratch).value());
    options_.listen = "ipc://" + scratch_->path() + "/socket";
    options_.seat_wait_ms = 200;
  }
  // Searchers are forked before, while this process has one thread.
  void start_hub() {
    auto hub = SearcherHub::start(context_, {options_.listen, {}, {}}, options_.silence_ms);
    if (!hub.ok()) throw std::runtime_error(hub.error().message);
    hub_ = std::move(hub).value();
  }
  void wait_for(size_t searchers) {
    while (hub_->counts().searchers != searchers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::shared_ptr<SearchSteps> begin_apart(KernelAnswers known = {}) {
    auto seat = hub_->take_seat(60'000);
    if (!seat) throw std::runtime_error("no searcher has room");
    auto steps = StepsApart::begin(*hub_, std::move(seat), beginning(std::move(known)), options_);
    if (!steps.ok()) throw std::runtime_error(steps.error().message);
    return *steps;
  }
  static Course inside(Driving driving = {}, KernelAnswers known = {}) {
    auto steps = begin_inside(beginning(std::move(known)));
    if (!steps.ok()) throw std::runtime_error(steps.error().message);
    Course course = drive(**steps, std::move(driving));
    EXPECT_EQ(course.failure, "");
    EXPECT_FALSE(course.plan.empty());
    return course;
  }
  static void expect_same(const Course& course, const Course& expected) {
    EXPECT_EQ(course.failure, expected.failure);
    EXPECT_EQ(course.sent, expected.sent);
    EXPECT_EQ(course.interim, expected.interim);
    EXPECT_EQ(course.finished_after, expected.finished_after);
    EXPECT_EQ(course.plan, expected.plan);
    EXPECT_EQ(course.candidate, expected.candidate);
  }

  SearcherOptions options_;
  std::optional<common::ScratchDirectory> scratch_;
  common::WireContext context_;
  std::unique_ptr<SearcherHub> hub_;
};

TEST_F(StepsApartTest, ASearchElsewhereComesToTheSamePlan) {
  Course expected = inside();
  SearcherProcess searcher(options_.listen);
  start_hub();
  {
    auto steps = begin_apart();
    EXPECT_TRUE(steps->is_apart());
    EXPECT_FALSE(steps->preparation().empty());
    EXPECT_EQ(hub_->counts().searches, 1u);
    expect_same(drive(*steps), expected);
  }
  EXPECT_EQ(hub_->counts().searches, 0u);
  EXPECT_EQ(hub_->counts().lost, 0u);
}

// Asked for in groups, under the guess that nothing is known, which is often wrong here.
TEST_F(StepsApartTest, WhatEarlierSearchesMeasuredIsUsedAsInside) {
  Course first = inside();
  KernelAnswers known;
  for (const auto& [kernel, ns] : first.measured) {
    if (kernel.prefix64() % 3 != 0) known.emplace(kernel, ns);
  }
  Course expected = inside({}, known);
  EXPECT_NE(expected.sent, first.sent) << "what is known changes nothing";
  SearcherProcess searcher(options_.listen);
  start_hub();
  auto steps = begin_apart(known);
  expect_same(drive(*steps), expected);
}

TEST_F(StepsApartTest, AKilledSearchersSearchGoesOnAtAnother) {
  Course expected = inside();
  SearcherProcess first(options_.listen);
  SearcherProcess second(options_.listen);
  start_hub();
  wait_for(2);
  auto one = begin_apart(), other = begin_apart();  // one at each
  Driving driving{15, [&] { first.end(); }};
  expect_same(drive(*one, driving), expected);
  expect_same(drive(*other), expected);
  EXPECT_EQ(hub_->counts().lost, 1u);
  EXPECT_EQ(hub_->counts().searchers, 1u);
}

TEST_F(StepsApartTest, WithoutAnotherItGoesOnInThisProcess) {
  Course expected = inside();
  SearcherProcess only(options_.listen);
  start_hub();
  auto steps = begin_apart();
  expect_same(drive(*steps, {15, [&] { only.end(); }}), expected);
  EXPECT_EQ(hub_->counts().searchers, 0u);
}

TEST_F(StepsApartTest, ASearcherThatHangsIsLost) {
  options_.silence_ms = 3'000;
  Course expected = inside();
  SearcherProcess only(options_.listen);
  start_hub();
  auto steps = begin_apart();
  expect_same(drive(*steps, {15, [&] { only.hang(); }}), expected);
  EXPECT_EQ(hub_->counts().lost, 1u);
}

// It is told to end in the step that is lost.
TEST_F(StepsApartTest, AnEndThatWasLostIsWhereItWouldHaveBeen) {
  Course expected = inside({18, [] {}, true});
  ASSERT_TRUE(expected.finished_after);
  SearcherProcess only(options_.listen);
  start_hub();
  auto steps = begin_apart();
  expect_same(drive(*steps, {18, [&] { only.end(); }, true}), expected);
}

// A searcher that this test speaks for.
class FakeSearcher {
 public:
  explicit FakeSearcher(const std::string& endpoint)
      : dealer_(common::FrameDealer::connect(context_, endpoint, std::nullopt).value()) {}
  void send(FrameKind kind, uint64_t search, std::string body) {
    dealer_.send(search_frame(kind, search, std::move(body)));
  }
  void hello(const std::string& build = searcher_build()) {
    send(FrameKind::kHello, 0, encode(SearcherHello{build, "fake", 1}));
  }
  // The next frame, by its kind; its search in `search`.
  FrameKind next(uint64_t* search = nullptr) {
    std::vector<common::SharedBytes> frames;
    while (frames.empty()) {
      dealer_.wait(100, waker_.fd());
      dealer_.receive(frames, 1);
      send(FrameKind::kBeat, 0, encode(SearcherBeat{}));
    }
    SearchFrame frame = parse_frame(common::as_text(frames[0].bytes)).value();
    if (search != nullptr) *search = frame.search;
    return frame.kind;
  }

 private:
  common::WireContext context_;
  common::Waker waker_;
  common::FrameDealer dealer_;
};

TEST_F(StepsApartTest, WhatABrokenSearcherSaysIsNotBelieved) {
  options_.seat_wait_ms = 60'000;
  start_hub();
  FakeSearcher broken(options_.listen);
  broken.hello();
  ASSERT_EQ(broken.next(), FrameKind::kWelcome);
  std::thread conversation([&] {
    uint64_t search = 0;
    EXPECT_EQ(broken.next(&search), FrameKind::kOpen);
    broken.send(FrameKind::kOpened, search, encode(SearchOpened{}));
    EXPECT_EQ(broken.next(), FrameKind::kAdvance);
    broken.send(FrameKind::kStepped, search, "no step");
    EXPECT_EQ(broken.next(), FrameKind::kClose);
    EXPECT_EQ(broken.next(&search), FrameKind::kOpen);
    broken.send(FrameKind::kWelcome, search, "");
    EXPECT_EQ(broken.next(), FrameKind::kClose);
    EXPECT_EQ(broken.next(&search), FrameKind::kOpen);
    broken.send(FrameKind::kOpened, search, "nothing");
    EXPECT_EQ(broken.next(), FrameKind::kClose);
  });
  auto steps = begin_apart();
  Course course = drive(*steps);
  conversation.join();
  EXPECT_NE(course.failure.find("has lost 3 searchers"), std::string::npos) << course.failure;
}

TEST_F(StepsApartTest, ASearcherOfAnotherBuildIsRefused) {
  start_hub();
  FakeSearcher other(options_.listen);
  other.hello("lfarm 9.9.9");
  EXPECT_EQ(other.next(), FrameKind::kRefused);
  EXPECT_EQ(hub_->counts().searchers, 0u);
  EXPECT_EQ(hub_->take_seat(0), nullptr);
}

// Where the search itself fails, another searcher would fail, too.
TEST_F(StepsApartTest, AGraphThatCannotBeSearchedIsAnErrorAtOnce) {
  SearcherProcess searcher(options_.listen);
  start_hub();
  SearchBeginning sloppy = beginning();
  sloppy.request.key.policy = "sloppy";
  auto steps = StepsApart::begin(*hub_, hub_->take_seat(60'000), sloppy, options_);
  ASSERT_FALSE(steps.ok());
  EXPECT_EQ(steps.error().code, common::Code::kInvalidInput);
  EXPECT_EQ(hub_->counts().lost, 0u);
}

TEST_F(StepsApartTest, AHubThatClosesEndsTheWaiting) {
  SearcherProcess searcher(options_.listen);
  start_hub();
  auto steps = begin_apart();
  Course course = drive(*steps, {15, [&] { hub_->close(); }});
  EXPECT_NE(course.failure, "");
  EXPECT_EQ(hub_->take_seat(0), nullptr);
}

}  // namespace
}  // namespace coordinator::service
