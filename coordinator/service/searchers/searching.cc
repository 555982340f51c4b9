#include "coordinator/service/searchers/searching.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/process/priority.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/searchers/search_beginning.h"

namespace coordinator::service {

using common::Result;

namespace {

constexpr int64_t kForEverMs = int64_t{24} * 3'600 * 1'000;
constexpr size_t kQuestionsMax = 1'024;  // in one frame

// The coordinator's store, asked over the wire. What was answered is remembered, also that nothing
// is known: what others measure meanwhile must not change the search's course. Used by one thread.
class AskedMeasurements final : public MeasurementSource {
 public:
  AskedMeasurements(const Searching::Send& send, SeatInbox& inbox) : send_(send), inbox_(inbox) {}

  std::optional<int64_t> kernel_ns(const common::Digest& kernel) const override {
    auto known = kernels_.find(kernel);
    if (known != kernels_.end()) return known->second;
    MeasurementQuestion question{true, TuningRecordKind::kKernel, kernel};
    ask(std::span(&question, 1));
    return kernels_[kernel];
  }

  // Asked for once each.
  std::optional<TuningRecord> record(TuningRecordKind kind,
                                     const common::Digest& key) const override {
    auto known = records_.find(key);
    if (known == records_.end()) {
      MeasurementQuestion question{false, kind, key};
      ask(std::span(&question, 1));
      known = records_.try_emplace(key).first;
    }
    std::optional<std::string> bytes = std::move(known->second);
    records_.erase(known);
    if (!bytes) return std::nullopt;
    auto kept = decode_tuning_record(*bytes);
    return kept ? std::optional(std::move(kept->record)) : std::nullopt;
  }

  bool is_remote() const override { return true; }
  void prefetch(std::span<const MeasurementQuestion> questions) const override {
    std::vector<MeasurementQuestion> open;
    for (const MeasurementQuestion& one : questions) {
      bool is_known = one.is_kernel ? kernels_.contains(one.key) : records_.contains(one.key);
      if (!is_known) open.push_back(one);
    }
    for (std::span rest(open); !rest.empty();) {
      auto some = rest.first(std::min(rest.size(), kQuestionsMax));
      ask(some);
      rest = rest.subspan(some.size());
    }
  }

 private:
  // Nothing is known when the search was given up: then nobody learns what comes of it.
  void ask(std::span<const MeasurementQuestion> questions) const {
    send_(FrameKind::kLookup,
          encode(std::vector<SearchQuestion>(questions.begin(), questions.end())));
    std::vector<SearchAnswer> answers = answered();
    answers.resize(questions.size());
    for (size_t k = 0; k < questions.size(); ++k) {
      if (questions[k].is_kernel) {
        kernels_.emplace(questions[k].key, answers[k].ns);
      } else {
        records_.emplace(questions[k].key, std::move(answers[k].record));
      }
    }
  }
  std::vector<SearchAnswer> answered() const {
    auto bytes = inbox_.take(kForEverMs);
    if (!bytes.ok()) return {};
    auto frame = parse_frame(common::as_text(bytes->bytes));
    if (!frame.ok() || frame->kind != FrameKind::kAnswers) return {};
    auto answers = decode<std::vector<SearchAnswer>>(frame->body);
    return answers.ok() ? *std::move(answers) : std::vector<SearchAnswer>();
  }

  const Searching::Send& send_;
  SeatInbox& inbox_;
  mutable std::unordered_map<common::Digest, std::optional<int64_t>> kernels_;
  mutable std::unordered_map<common::Digest, std::optional<std::string>> records_;
};

Result<SearchBeginning> beginning_of(std::string_view body) {
  LFARM_ASSIGN_OR_RETURN(OpenSearch open, decode<OpenSearch>(body));
  std::vector<cache::JobRecord> records;
  for (auto& [sequence, bytes] : open.records) records.push_back({sequence, std::move(bytes)});
  LFARM_ASSIGN_OR_RETURN(JournalledJob job, parse_journal(open.job, records));
  if (job.damaged != 0 || !job.start) return common::corrupt("the search's journal is damaged");
  SearchBeginning beginning;
  beginning.request = std::move(job.request);
  beginning.graph = common::share(std::move(job.graph));
  beginning.start = std::move(*job.start);
  beginning.results = std::move(job.results);
  beginning.finish_after = job.finish_after;
  return beginning;
}

}  // namespace

Searching::Searching(SearchFactory create, Send send)
    : create_(std::move(create)), send_(std::move(send)), thread_([this] { run(); }) {}

Searching::~Searching() {
  close();
  thread_.join();
}

void Searching::fail(const common::Error& error) {
  send_(FrameKind::kFailed, encode(SearchFailure{error.code, error.message}));
}

void Searching::run() {
  common::give_way();
  std::unique_ptr<MeasurementSource> source;
  std::shared_ptr<SearchSteps> steps;  // goes before the measurements it reads
  bool is_open = open(source, steps);
  while (is_open) {
    auto bytes = inbox_.take(kForEverMs);
    if (!bytes.ok()) break;
    auto frame = parse_frame(common::as_text(bytes->bytes));
    if (!frame.ok() || frame->kind != FrameKind::kAdvance) break;
    advance(*steps, frame->body);
  }
  is_over_ = true;
}

bool Searching::open(std::unique_ptr<MeasurementSource>& source,
                     std::shared_ptr<SearchSteps>& steps) {
  auto bytes = inbox_.take(kForEverMs);
  if (!bytes.ok()) return false;
  auto frame = parse_frame(common::as_text(bytes->bytes));
  if (!frame.ok() || frame->kind != FrameKind::kOpen) return false;
  auto beginning = beginning_of(frame->body);
  if (!beginning.ok()) {
    fail(beginning.error());
    return false;
  }
  beginning->create = create_;
  source = std::make_unique<AskedMeasurements>(send_, inbox_);
  auto begun = begin_inside(*beginning, *source);
  if (!begun.ok()) {
    fail(begun.error());
    return false;
  }
  steps = std::move(*begun);
  send_(FrameKind::kOpened, encode(SearchOpened{steps->preparation(), steps->status()}));
  return true;
}

void Searching::advance(SearchSteps& steps, std::string_view body) {
  auto asked = decode<AdvanceSearch>(body);
  if (!asked.ok()) return fail(asked.error());
  StepRequest request;
  for (const auto& [id, record] : asked->results) {
    auto result = parse_result_record(record);
    if (!result.ok()) return fail(result.error());
    request.results.emplace_back(id, std::move(result->second));
  }
  request.finish_now = asked->finish_now;
  request.candidates = static_cast<int>(asked->candidates);
  auto step = steps.advance(std::move(request));
  if (!step.ok()) return fail(step.error());
  send_(FrameKind::kStepped, encode_step(*step, graphs_));
}

}  // namespace coordinator::service
