#include "coordinator/service/searchers/searching.h"

#include <unordered_map>
#include <utility>

#include "common/base/cat.h"
#include "common/process/priority.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/searchers/search_beginning.h"

namespace coordinator::service {

using common::Result;

namespace {

constexpr int64_t kForEverMs = int64_t{24} * 3'600 * 1'000;

// The coordinator's store, asked over the wire. What was answered is remembered, also that nothing
// is known: what others measure meanwhile must not change the search's course. Used by one thread.
class AskedMeasurements final : public MeasurementSource {
 public:
  AskedMeasurements(const Searching::Send& send, SeatInbox& inbox) : send_(send), inbox_(inbox) {}

  std::optional<int64_t> kernel_ns(const common::Digest& kernel) const override {
    auto [known, is_new] = kernels_.emplace(kernel, std::nullopt);
    if (is_new) known->second = ask({true, TuningRecordKind::kKernel, kernel}).ns;
    return known->second;
  }

  std::optional<TuningRecord> record(TuningRecordKind kind,
                                     const common::Digest& key) const override {
    auto bytes = ask({false, kind, key}).record;
    if (!bytes) return std::nullopt;
    auto kept = decode_tuning_record(*bytes);
    return kept ? std::optional(std::move(kept->record)) : std::nullopt;
  }

 private:
  // Nothing when the search was given up: then nobody learns what comes of it.
  SearchAnswer ask(const SearchQuestion& question) const {
    send_(FrameKind::kLookup, encode(std::vector<SearchQuestion>{question}));
    auto bytes = inbox_.take(kForEverMs);
    if (!bytes.ok()) return {};
    auto frame = parse_frame(common::as_text(bytes->bytes));
    if (!frame.ok() || frame->kind != FrameKind::kAnswers) return {};
    auto answers = decode<std::vector<SearchAnswer>>(frame->body);
    return answers.ok() && answers->size() == 1 ? std::move(answers->front()) : SearchAnswer{};
  }

  const Searching::Send& send_;
  SeatInbox& inbox_;
  mutable std::unordered_map<common::Digest, std::optional<int64_t>> kernels_;
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
