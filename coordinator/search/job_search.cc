#include "coordinator/search/job_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/kernel_identity.h"
#include "common/plan/policy.h"
#include "coordinator/search/finalists.h"
#include "coordinator/search/interim.h"
#include "coordinator/search/memory/memory_bound.h"
#include "coordinator/search/partition/search_sizes.h"
#include "coordinator/search/search_outcome.h"
#include "coordinator/search/searched_regions.h"
#include "coordinator/search/strategy/early_stopping.h"
#include "coordinator/search/whole_tasks.h"

namespace coordinator {
namespace {

using common::Program;
using common::TaskKind;

constexpr int64_t kMaxFinalists = 3;
constexpr int64_t kMaxVariants = 2;   // of the best program, further ones, under a bound on memory
constexpr double kGiveUpFactor = 6;   // a candidate this much slower than the best is cut short
constexpr int64_t kInterimPause = 6;  // candidates between whole programs, at least
constexpr double kFinalistsShare = 0.3;  // of a limited time, for finalists
constexpr uint32_t kFinalistRepetitions = 30;

// Tells how long stages of the preparation take.
class StageClock {
 public:
  void lap(const char* stage) {
    int64_t now = clock_.now_ns();
    stages_.push_back({stage, static_cast<double>(now - start_ns_) * 1e-6});
    start_ns_ = now;
  }
  const std::vector<StageTime>& stages() const { return stages_; }

 private:
  std::vector<StageTime> stages_;
  common::SteadyClock clock_;
  int64_t start_ns_ = clock_.now_ns();
};

// Candidates that the search may send, by what they are for.
struct Budget {
  int64_t all = 1, regions = 0, finalists = 1;
};

class Search final : public JobSearch {
 public:
  Search(const common::Graph& graph, const SearchOptions& options,
         const MeasurementSource* measurements)
      : options_(options),
        graph_(std::make_shared<const common::Graph>(graph)),
        times_(measurements, search_sizes(graph, options.target), options.priors.get(),
               options.target, options.machine),
        memory_(options_, times_),
        regions_(graph, options_, times_, measurements,
                 [this](const char* stage) { preparation_.lap(stage); }) {
    budget_.all = regions_.budget();
    budget_.finalists = std::clamp<int64_t>(budget_.all / 8, 1, kMaxFinalists);
    if (memory_.is_set() && budget_.all >= 8) budget_.finalists += kMaxVariants;
    budget_.regions = std::max<int64_t>(0, budget_.all - 1 - budget_.finalists);
    if (budget_.all == 1) stage_ = Stage::kEnding;
    preparation_.lap("begin");
  }

  std::vector<CandidateTask> propose(int max) override {
    std::vector<CandidateTask> tasks;
    while (static_cast<int>(tasks.size()) < max && stage_ != Stage::kDone) {
      auto task = next();
      if (!task) break;
      tasks.push_back(std::move(*task));
    }
    return tasks;
  }

  void on_result(uint64_t id, const CandidateResult& result) override {
    const Sent* sent = sent_.answer(id, result, memory_);
    if (sent == nullptr) return;
    if (sent->task.payload.kind == TaskKind::kComparison) choice_->tell(result);
    if (sent->task.region >= 0) {
      regions_.add_worker_ms(static_cast<size_t>(sent->task.region), result.busy_ms);
    }
    if (sent->is_whole()) note_interim(*sent);
    if (stage_ == Stage::kFinalists) maybe_conclude();
  }

  bool done() const override { return stage_ == Stage::kDone; }
  void finish_now() override {
    budget_.regions = 0;
    ending_.how.was_told_to_finish = true;
  }
  const std::vector<StageTime>& preparation() const override { return preparation_.stages(); }
  SearchStatus status() const override;
  std::map<common::Digest, TuningRecord> tuning_records() const override;

  EffectTable learned() const override {
    EffectTable all = times_.effects().learned();
    std::erase_if(all, [](const auto& entry) { return !is_general(entry.first); });
    return all;
  }

  Program best_program() const override { return regions_.assembled(regions_.ranked(0)); }
  std::vector<SearchOutcome> take_interim() override { return interim_.take_plans(); }
  common::Result<SearchOutcome> outcome() const override;

 private:
  // kEnding: only finalists follow, chosen once every result is known.
  enum class Stage { kPlain, kRegions, kEnding, kFinalists, kDone };
  // What became of the first whole program, and of those that are tried in its place.
  struct Plain {
    bool has_failed = false;
    bool has_stand_in = false;  // one is under way, or was right
    bool is_direct_sent = false;
    bool is_lowering_sent = false;  // the lowering was sent, as the plain program or in its place
  };
  // How and when the search for regions' programs ends.
  struct Ending {
    SearchEnd how;
    EarlyStopping stopping;
  };
  // About the best program's kernels, when done.
  struct Found {
    std::vector<double> predictions;  // ns
    KnownKernels::Count kernels;
  };

  const Sent* best() const { return choice_ && done() ? choice_->best() : nullptr; }
  SearchOutcome outcome_of(const Sent& sent, const std::vector<double>& predictions) const;

  // ---- proposals
  std::optional<CandidateTask> next();
  std::optional<CandidateTask> next_of_regions();
  std::optional<CandidateTask> next_of_end();
  std::optional<CandidateTask> next_interim();
  std::optional<CandidateTask> next_comparison();
  std::optional<CandidateTask> send_plain();
  bool needs_stand_in() const { return plain_.has_failed && !plain_.has_stand_in; }
  std::optional<CandidateTask> send_stand_in();
  CandidateTask send_region(SearchedRegions::Proposal proposal);
  CandidateTask send_whole(TaskKind kind, const char* origin, Finalist finalist);
  CandidateTask send(Sent sent);

  // ---- results
  bool learn_until(uint64_t end);
  void learn(const Sent& sent);
  void note_interim(const Sent& sent);

  // ---- the end
  void choose_finalists();
  void add_finalists(const Program& program, const std::vector<Program>& parts, int64_t most);
  int64_t finalists_in_time() const;
  void maybe_conclude();

  SearchOptions options_;
  std::shared_ptr<const common::Graph> graph_;
  KernelTimes times_;
  MemoryBound memory_;
  StageClock preparation_;
  SearchedRegions regions_;
  SentCandidates sent_;
  Stage stage_ = Stage::kPlain;
  Budget budget_;
  Plain plain_;
  Ending ending_;
  InterimPlans interim_;
  FinalistQueue finalists_;
  std::optional<PlanChoice> choice_;  // once every finalist was answered
  Found found_;
};

// ---- Status and outcome ------------------------------------------------------------------------

SearchStatus Search::status() const {
  static constexpr const char* kNames[] = {"baseline", "search", "finalists", "finalists", "done"};
  SearchStatus s;
  s.stage = kNames[static_cast<size_t>(stage_)];
  s.candidates = sent_.candidates();
  s.completed = sent_.completed();
  s.budget = budget_.all;
  s.learned = static_cast<int64_t>(sent_.learned_count());
  s.best_ns = sent_.best_whole_ns();
  s.expected_ns = std::llround(regions_.estimate(true));
  s.baseline_ns = sent_.baseline_ns();
  if (best() != nullptr) {
    const Choice& choice = choice_->choice();
    s.best_ns = s.expected_ns = static_cast<int64_t>(choice.total_ns);
    if (choice.speedup > 0) s.baseline_ns = static_cast<int64_t>(choice.first_ns);
    s.kernels = found_.kernels.all;
    s.known_kernels = found_.kernels.known;
  }
  s.regions = static_cast<int64_t>(regions_.size());
  s.duplicates = regions_.duplicates();
  s.reused = times_.reused();
  s.worker_ms = sent_.worker_ms();
  s.known_regions = regions_.covered();
  s.saved_ms = regions_.saved_ms();
  auto completed = static_cast<double>(s.completed);
  auto pending = static_cast<double>(s.candidates - s.completed);
  s.pending_ms = completed > 0 ? pending * sent_.worker_ms() / completed : 0;
  s.closing_ms = static_cast<double>(finalists_in_time() + 1) * interim_.whole_ms();
  return s;
}

SearchOutcome Search::outcome_of(const Sent& sent, const std::vector<double>& predictions) const {
  SearchOutcome outcome = coordinator::outcome_of(sent, options_, predictions);
  outcome.plan.key.graph_hash = common::graph_hash(*graph_);
  outcome.plan.provenance.baseline_ns = sent_.baseline_ns();
  outcome.plan.provenance.search.candidates = sent_.candidates();
  return outcome;
}

common::Result<SearchOutcome> Search::outcome() const {
  LFARM_CHECK(done(), "the search is not done");
  if (best() == nullptr && memory_.is_unreached()) return memory_.unreached();
  if (best() == nullptr) return nothing_worked(sent_.last_of_whole());
  SearchOutcome outcome = outcome_of(*best(), found_.predictions);
  common::Provenance& provenance = outcome.plan.provenance;
  const Choice& choice = choice_->choice();
  provenance.best_ns = static_cast<int64_t>(choice.total_ns);
  if (choice.speedup > 0) provenance.baseline_ns = static_cast<int64_t>(choice.first_ns);
  provenance.speedup.ratio = choice.speedup;
  provenance.speedup.low = choice.speedup_low;
  provenance.speedup.high = choice.speedup_high;
  provenance.disturbed = choice.disturbed;
  times_.report_rank_correlation(&provenance);
  outcome.note = choice.note;
  return outcome;
}

std::map<common::Digest, TuningRecord> Search::tuning_records() const {
  const common::Digest& whole_key = regions_.whole_key();
  if (const auto& whole = regions_.whole()) {
    if (!sent_.was_wrong()) return {};
    TuningRecord withdrawn = *whole;
    withdrawn.ns = kWithdrawn;
    return {{whole_key, std::move(withdrawn)}};
  }
  const Sent* found = choice_ ? choice_->best_of_parts() : nullptr;
  // Whatever is wrong with the whole, this search does not vouch for its parts.
  if (found == nullptr) {
    if (sent_.was_wrong()) return regions_.withdrawn_records();
    return {};
  }
  std::map<common::Digest, TuningRecord> all = regions_.records(found->parts, ending_.how);
  if (found == best() && options_.strategy == SearchStrategy::kModel) {
    TuningRecord& record = all[whole_key];
    record.effort = {ending_.how.is_settled ? kSettledCandidates : options_.budget, 0};
    if (ending_.how.was_told_to_finish) record.effort = {sent_.candidates(), options_.time_ms};
    record.ns = static_cast<double>(found->ns());
    record.worker_ms = sent_.worker_ms() + regions_.saved_ms();
    record.program = found->task.payload.program;
  }
  return all;
}

// ---- Results -----------------------------------------------------------------------------------

// Lets proposals depend on the results before `end`; false when one is missing.
bool Search::learn_until(uint64_t end) {
  while (sent_.learned_count() < end) {
    const Sent* sent = sent_.next_to_learn(end);
    if (sent == nullptr) return false;
    learn(*sent);
    sent_.learned();
  }
  return true;
}

void Search::learn(const Sent& sent) {
  const common::TaskReport& report = sent.result->report;
  bool is_ok = sent.result->outcome == common::TaskOutcome::kOk;
  bool is_baseline = sent.task.payload.kind == TaskKind::kBaseline;
  if (is_ok)
    times_.record(sent.task.payload.program, sent.task.bodies, report.kernel_ns, report.total_ns);
  if (sent.task.region >= 0) {
    auto ns = is_ok ? std::optional(static_cast<double>(report.total_ns)) : std::nullopt;
    regions_.tell(static_cast<size_t>(sent.task.region), sent.candidate, ns);
  }
  if (is_ok) memory_.learn(sent.task.payload.program, report);
  // A failure of the plain program says nothing of any one of its parts.
  bool is_plain = is_baseline && sent.task.id == 0 && !plain_.has_failed;
  if (is_plain && is_ok) regions_.learn_first();
  plain_.has_failed = plain_.has_failed || (is_plain && !sent.is_ok());
  if (is_baseline && !is_plain && !sent.is_ok()) plain_.has_stand_in = false;
  // Where workers failed it, it may be a finalist yet.
  bool is_judged = sent.result->outcome != common::TaskOutcome::kInfra;
  if (is_plain && is_judged) finalists_.claim(sent.task.payload.program);
  times_.learn();
  using Of = InterimPlans::Of;
  interim_.learned(sent.task.region >= 0 ? Of::kRegion
                   : is_baseline         ? Of::kPlain
                                         : Of::kWhole,
                   *sent.result);
  if (sent.task.region >= 0) ending_.stopping.record(regions_.estimate());
}

// Hands out what was measured just now where it is better; at the end the choice follows at once.
void Search::note_interim(const Sent& sent) {
  if (stage_ >= Stage::kEnding || !sent.is_ok()) return;
  if (interim_.is_better(sent.result->report)) interim_.add_plan(outcome_of(sent, {}));
}

// ---- Proposals ---------------------------------------------------------------------------------

std::optional<CandidateTask> Search::next() {
  auto in_flight = static_cast<uint64_t>(std::max<int64_t>(1, options_.in_flight));
  uint64_t visible = sent_.size() >= in_flight ? sent_.size() + 1 - in_flight : 0;
  if (!learn_until(visible)) return std::nullopt;
  if (stage_ == Stage::kPlain) {
    stage_ = Stage::kRegions;
    return send_plain();
  }
  if (needs_stand_in()) {
    if (auto task = send_stand_in()) return task;
  }
  if (stage_ == Stage::kRegions) {
    if (auto task = next_of_regions()) return task;
    stage_ = Stage::kEnding;
  }
  return next_of_end();
}

// Empty when nothing more is to be tried.
std::optional<CandidateTask> Search::next_of_regions() {
  if (budget_.regions > 0 && ending_.stopping.expects_less_than(options_.stop_gain)) {
    common::log_info(common::cat("the search ends after ", sent_.size(), " candidates, ",
                                 ending_.stopping.results_since_improvement(),
                                 " of them without an improvement"));
    budget_.regions = 0;
    ending_.how.is_settled = true;
  }
  if (auto task = next_interim()) return task;
  while (budget_.regions > 0) {
    std::optional<SearchedRegions::Proposal> proposal;
    if (plain_.has_failed) proposal = regions_.next_part_of_first();
    if (!proposal) proposal = regions_.next();
    if (proposal) {
      --budget_.regions;
      if (memory_.may_hold(*proposal->candidate.program)) return send_region(std::move(*proposal));
      regions_.tell(proposal->region, proposal->candidate, std::nullopt);
      continue;
    }
    if (regions_.are_exhausted()) break;
  }
  return std::nullopt;
}

// A whole program of what is best now, so that clients need not wait for the search's end.
std::optional<CandidateTask> Search::next_interim() {
  bool is_plain_learned = sent_.learned_count() > 0 && !plain_.has_failed;
  double plain_ns = is_plain_learned ? static_cast<double>(sent_.baseline_ns()) : 0;
  double estimate_ns = regions_.estimate();
  bool is_due = budget_.regions > 1 && interim_.is_due(plain_ns, estimate_ns, sent_.candidates());
  if (!is_due) return std::nullopt;
  interim_.sent(estimate_ns, sent_.candidates(), std::max(kInterimPause, options_.in_flight));
  std::vector<Program> parts = regions_.ranked(0);
  std::vector<Program> fitted = memory_.fit(regions_.assembled(parts));
  if (fitted.empty() || !finalists_.claim(fitted.front())) return std::nullopt;
  --budget_.regions;
  return send_whole(TaskKind::kFinalist, "interim", {std::move(fitted.front()), std::move(parts)});
}

std::optional<CandidateTask> Search::next_of_end() {
  if (stage_ == Stage::kEnding) {
    if (!learn_until(sent_.size())) return std::nullopt;
    if (needs_stand_in()) {
      if (auto task = send_stand_in()) return task;
    }
    stage_ = Stage::kFinalists;
    choose_finalists();
    maybe_conclude();  // with what ran before, where no finalist is new
  }
  if (finalists_.empty()) return next_comparison();
  return send_whole(TaskKind::kFinalist, "finalist", finalists_.take());
}

std::optional<CandidateTask> Search::next_comparison() {
  auto comparison = choice_ ? choice_->next() : std::nullopt;
  if (!comparison) return std::nullopt;
  Sent sent;
  sent.task.graph = graph_;
  sent.task.fingerprint = comparison->fingerprint;
  sent.task.origin = "comparison";
  sent.task.payload = std::move(comparison->payload);
  sent.task.bodies = common::body_hashes(sent.task.payload.program);
  return send(std::move(sent));
}

// What the regions' searches would try first, as one program: the first clients run it, and later
// ones are compared with it. Empty where no program keeps the bound on memory.
std::optional<CandidateTask> Search::send_plain() {
  Finalist plain;
  plain.parts = regions_.take_first();
  if (const auto& whole = regions_.whole()) {
    plain.program = whole->program;
    plain.parts.clear();
  } else {
    plain.program = regions_.assembled(plain.parts);
  }
  plain_.is_lowering_sent = common::program_fingerprint(plain.program) ==
                            common::program_fingerprint(regions_.lowering());
  std::vector<Program> fitted = memory_.fit(plain.program);
  if (!fitted.empty()) {
    plain.program = std::move(fitted.front());
    return send_whole(TaskKind::kBaseline, "plain", std::move(plain));
  }
  plain_.has_failed = true;
  auto stand_in = send_stand_in();
  if (!stand_in) stage_ = Stage::kDone;
  return stand_in;
}

// The next program in the plain one's place: with direct sums alone, then the graph as it is.
std::optional<CandidateTask> Search::send_stand_in() {
  auto stand_in = [&](const char* origin, const Program& program) -> std::optional<CandidateTask> {
    std::vector<Program> fitted = memory_.fit(program);
    if (fitted.empty()) return std::nullopt;
    plain_.has_stand_in = true;
    return send_whole(TaskKind::kBaseline, origin, {std::move(fitted.front()), {}});
  };
  if (!std::exchange(plain_.is_direct_sent, true)) {
    auto direct = regions_.direct();
    if (auto task = direct ? stand_in("direct", *direct) : std::nullopt) return task;
  }
  if (std::exchange(plain_.is_lowering_sent, true)) return std::nullopt;
  return stand_in("lowering", regions_.lowering());
}

CandidateTask Search::send_region(SearchedRegions::Proposal proposal) {
  const SearchedRegion& region = regions_[proposal.region];
  Sent sent;
  sent.task.graph = region.graph;
  sent.task.fingerprint = proposal.candidate.fingerprint;
  sent.task.payload.program = *proposal.candidate.program;
  sent.task.bodies = std::move(proposal.candidate.bodies);
  sent.task.predicted_ns = times_.estimate(*proposal.candidate.program, sent.task.bodies).ns;
  sent.task.region = static_cast<int>(proposal.region);
  sent.task.origin = proposal.candidate.origin;
  if (region.search->has_measurement()) {
    sent.task.payload.measure.give_up_ns =
        static_cast<uint64_t>(region.search->best_ns() * kGiveUpFactor);
  }
  sent.candidate = std::move(proposal.candidate);
  return send(std::move(sent));
}

CandidateTask Search::send_whole(TaskKind kind, const char* origin, Finalist finalist) {
  Sent sent;
  // Whatever earlier searches know of its kernels is asked for before its own measurements can
  // have reached them.
  sent.task.bodies = common::body_hashes(finalist.program);
  sent.task.predicted_ns = times_.estimate(finalist.program, sent.task.bodies).ns +
                           overhead_ns(finalist.program, options_.target);
  sent.task.graph = graph_;
  sent.task.fingerprint = common::program_fingerprint(finalist.program, sent.task.bodies);
  sent.task.origin = origin;
  sent.task.payload.kind = kind;
  sent.task.payload.program = std::move(finalist.program);
  if (kind == TaskKind::kFinalist) {
    sent.task.payload.measure.repetitions = kFinalistRepetitions;
  }
  sent.is_found = kind == TaskKind::kFinalist || !plain_.is_lowering_sent;
  sent.parts = std::move(finalist.parts);
  return send(std::move(sent));
}

CandidateTask Search::send(Sent sent) {
  sent.task.payload.verify = verified_sizes(*sent.task.graph);
  sent.task.payload.measure.sizes = times_.sizes();
  bool is_first = sent.task.payload.kind == TaskKind::kBaseline;
  sent.task.payload.verify.references_ms =
      references_ms(sent.is_whole(), is_first, options_.time_ms);
  return sent_.add(std::move(sent)).task;
}

// ---- The end -----------------------------------------------------------------------------------

void Search::choose_finalists() {
  if (const auto& whole = regions_.whole()) {
    add_finalists(whole->program, {}, 1);
    return;
  }
  if (options_.incumbent) add_finalists(*options_.incumbent, {}, 1);
  int64_t left = finalists_in_time();
  int64_t variants = 1 + (memory_.is_set() ? kMaxVariants : 0);
  for (size_t rank = 0; left > 0; ++rank) {
    std::vector<Program> parts = regions_.ranked(rank);
    add_finalists(regions_.assembled(parts), parts, std::min(left, rank == 0 ? variants : 1));
    left -= rank == 0 ? variants : 1;
  }
}

// Adds at most `most` variants of the program that keep the bound on memory.
void Search::add_finalists(const Program& program, const std::vector<Program>& parts,
                           int64_t most) {
  for (Program& fitted : memory_.fit(program)) {
    if (most-- <= 0) return;
    finalists_.add({std::move(fitted), parts});
  }
}

// Of a limited time finalists take a share, and as many are tried as should fit into it.
int64_t Search::finalists_in_time() const {
  bool is_limited = options_.time_ms > 0 && interim_.whole_ms() > 0;
  if (!is_limited) return budget_.finalists;
  double fit = kFinalistsShare * static_cast<double>(options_.time_ms) / interim_.whole_ms();
  return std::clamp<int64_t>(static_cast<int64_t>(fit), 1, budget_.finalists);
}

void Search::maybe_conclude() {
  if (!finalists_.empty() || !sent_.are_answered()) return;
  learn_until(sent_.size());
  if (!choice_) choice_.emplace(sent_, options_.time_ms);
  if (!choice_->is_decided()) return;
  // The lowering is the last resort when it was not tried yet.
  const Sent* best = choice_->best();
  bool has_last_resort = best == nullptr && !std::exchange(plain_.is_lowering_sent, true);
  if (has_last_resort) {
    add_finalists(regions_.lowering(), {}, 1);
    if (!finalists_.empty()) {
      choice_.reset();
      return;
    }
  }
  if (best != nullptr) {
    const Program& program = best->task.payload.program;
    found_ = {times_.predictions_of(program), regions_.count_known(program)};
  }
  stage_ = Stage::kDone;
}

}  // namespace

common::Result<std::unique_ptr<JobSearch>> JobSearch::create(
    const common::Graph& graph, const SearchOptions& options,
    const MeasurementSource* measurements) {
  LFARM_RETURN_IF_ERROR(common::verify(graph));
  if (auto policy = common::parse_plan_policy(options.policy); !policy.ok()) return policy.error();
  return std::unique_ptr<JobSearch>(std::make_unique<Search>(graph, options, measurements));
}

}  // namespace coordinator
