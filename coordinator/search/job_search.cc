// Long because one class is the machine: all stages of a search share what was sent and learned.
#include "coordinator/search/job_search.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/load_time.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/budget.h"
#include "coordinator/search/cost/cost_model.h"
#include "coordinator/search/final_choice.h"
#include "coordinator/search/interim.h"
#include "coordinator/search/kin.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/layout_assignment.h"
#include "coordinator/search/records/known_kernels.h"
#include "coordinator/search/strategy/early_stopping.h"
#include "coordinator/search/strategy/known_region.h"
#include "coordinator/search/strategy/region_search.h"
#include "coordinator/search/whole_tasks.h"

namespace coordinator {
namespace {

using common::Program;
using common::TaskKind;
using common::TaskOutcome;

constexpr int64_t kMaxFinalists = 3;
constexpr double kGiveUpFactor = 6;  // a candidate this much slower than the best is cut short
// A region of known kernels may still cut them otherwise: this share of the budget looks for that.
constexpr double kNoveltyMin = 0.1;
constexpr double kKinNovelty = 0.25;     // of a region that was searched at other sizes
constexpr int64_t kInterimPause = 6;     // candidates between whole programs, at least
constexpr double kFinalistsShare = 0.3;  // of a limited time, for finalists

class Search final : public JobSearch {
 public:
  Search(const common::Graph& graph, const SearchOptions& options,
         const MeasurementSource* measurements)
      : options_(options),
        graph_(std::make_shared<const common::Graph>(graph)),
        hash_(common::graph_hash(graph)),
        times_(measurements, representative_sizes(graph.symbols), options.priors.get(),
               options.target, options.machine) {
    common::SteadyClock clock;
    int64_t start = clock.now_ns();
    auto stage = [&](const char* name) {
      int64_t now = clock.now_ns();
      preparation_.push_back({name, static_cast<double>(now - start) * 1e-6});
      start = now;
    };
    common::Graph rolled = common::roll(assign_layouts(graph, common::machine_of(options.target)));
    stage("roll");
    cut_ = cut_into_regions(rolled);
    stage("cut");
    for (const Region& region : cut_.regions) {
      region_graphs_.push_back(std::make_shared<const common::Graph>(region.graph));
      plain_.push_back(plain_program_of(region.graph));
    }
    size_t count = cut_.regions.size();
    known_.resize(count);
    whole_key_ = whole_key(graph, options.target, options.policy, options.machine);
    kin_.resize(count);
    bool looks = measurements != nullptr && options.strategy == SearchStrategy::kModel;
    if (looks) look_up(*measurements);
    spaces_.resize(count);
    searches_.resize(count);
    covered_.assign(count, 0);
    tried_.assign(count, 0);
    exhausted_.assign(count, 0);
    worker_ms_.assign(count, 0);
    for (size_t r = 0; r < count; ++r) {
      if (!known_[r]) open_space(r, clock);
    }
    stage("saturate");
    for (size_t r = 0; r < count; ++r) {
      if (known_[r] || !looks) continue;
      kin_[r] = find_kin(*measurements, *spaces_[r], options);
    }
    for (size_t r = 0; r < count; ++r) {
      if (!known_[r]) searches_[r] = begin_search(r);
    }
    stage("decode");
    std::vector<Effort> efforts = expected_efforts(options, region_times());
    for (size_t r = 0; r < count; ++r) {
      if (!known_[r]) continue;
      covered_[r] = exhausted_[r] = known_[r]->effort.covers(efforts[r]);
      if (!covered_[r]) open_space(r, clock);
      searches_[r] =
          std::make_unique<KnownRegion>(*known_[r], covered_[r] ? nullptr : begin_search(r));
    }
    for (size_t r = 0; r < searches_.size(); ++r) {
      for (const FusionDecision& decision : searches_[r]->fusion_decisions()) {
        common::log_debug(common::cat("fusion gate of ", options.target.name, ", region ", r, ": ",
                                      print(decision)));
      }
    }
    share_out_budget(efforts);
    stage("begin");
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
    if (id >= sent_.size() || sent_[id].result) return;
    sent_[id].result = result;
    ++completed_;
    total_worker_ms_ += result.busy_ms;
    if (sent_[id].region >= 0) worker_ms_[static_cast<size_t>(sent_[id].region)] += result.busy_ms;
    if (sent_[id].task.payload.kind == TaskKind::kComparison) {
      ++compared_;
      choice_->tell(result);
    } else if (sent_[id].region < 0) {
      auto ns = static_cast<int64_t>(result.report.total_ns);
      bool is_ok = result.outcome == TaskOutcome::kOk;
      if (is_ok) best_whole_ns_ = std::min(best_whole_ns_.value_or(ns), ns);
      note_interim(sent_[id]);
    }
    if (stage_ == Stage::kFinalists) maybe_conclude();
  }

  bool done() const override { return stage_ == Stage::kDone; }
  void finish_now() override {
    region_budget_ = 0;
    was_told_to_finish_ = true;
  }
  const std::vector<StageTime>& preparation() const override { return preparation_; }

  SearchStatus status() const override {
    static constexpr const char* kNames[] = {"baseline", "search", "finalists", "done"};
    SearchStatus s;
    s.stage = kNames[static_cast<size_t>(stage_)];
    s.candidates = candidates();
    s.completed = completed_ - compared_;
    s.budget = budget_;
    s.learned = static_cast<int64_t>(applied_);
    s.best_ns =
        best_ ? static_cast<int64_t>(choice_->choice().total_ns) : best_whole_ns_.value_or(0);
    s.expected_ns = best_ ? s.best_ns : std::llround(estimate(true));
    bool is_compared = best_ && choice_->choice().speedup > 0;
    s.baseline_ns = is_compared ? static_cast<int64_t>(choice_->choice().first_ns) : baseline_ns();
    s.regions = static_cast<int64_t>(cut_.regions.size());
    for (const auto& search : searches_) s.duplicates += search->duplicates() + search->composed();
    s.reused = times_.reused();
    s.worker_ms = total_worker_ms_;
    for (size_t r = 0; r < known_.size(); ++r) {
      if (!covered_[r]) continue;
      ++s.known_regions;
      s.saved_ms += known_[r]->worker_ms;
    }
    if (whole_) s.saved_ms += whole_->worker_ms;
    double regions = static_cast<double>(s.completed);
    double pending = static_cast<double>(s.candidates - s.completed);
    s.pending_ms = regions > 0 ? pending * total_worker_ms_ / regions : 0;
    s.closing_ms = static_cast<double>(finalists_in_time() + 1) * interim_.whole_ms();
    s.kernels = plan_kernels_.all;
    s.known_kernels = plan_kernels_.known;
    return s;
  }

  std::map<common::Digest, TuningRecord> tuning_records() const override {
    std::map<common::Digest, TuningRecord> all;
    if (whole_) {
      if (!was_wrong()) return all;
      all[whole_key_] = *whole_;
      all[whole_key_].ns = kWithdrawn;
      return all;
    }
    const Sent* found = best_of_parts();
    if (found != nullptr && found == best_ && options_.strategy == SearchStrategy::kModel) {
      TuningRecord& record = all[whole_key_];
      record.effort = {is_settled_ ? kSettledCandidates : options_.budget, 0};
      if (was_told_to_finish_) record.effort = {status().candidates, options_.time_ms};
      record.ns = static_cast<double>(found->result->report.total_ns);
      record.worker_ms = total_worker_ms_ + status().saved_ms;
      record.program = found->task.payload.program;
    }
    for (size_t r = 0; r < searches_.size(); ++r) {
      common::Digest key =
          region_key(*region_graphs_[r], options_.target, options_.policy, options_.machine);
      if (found == nullptr) {
        // Whatever is wrong with the whole, this search does not vouch for its parts.
        if (!known_[r] || !was_wrong()) continue;
        all[key] = *known_[r];
        all[key].ns = kWithdrawn;
        continue;
      }
      if (covered_[r]) continue;
      TuningRecord& record = all[key];
      record.effort = spent_on(r);
      record.ns = searches_[r]->best_ns();
      record.worker_ms = worker_ms_[r] + (known_[r] ? known_[r]->worker_ms : 0);
      record.program = finalist_of_.at(found)[r];
      add_kernels(record, times_, options_, all);
      Genome genome = searches_[r]->best_genome();
      if (genome.size() == 0) continue;
      TuningRecord kin{record.effort, record.ns, record.worker_ms, 0, {}, std::move(genome)};
      add_kin(*spaces_[r], options_, std::move(kin), all);
    }
    return all;
  }

  EffectTable learned() const override {
    EffectTable all = times_.effects().learned();
    std::erase_if(all, [](const auto& entry) { return !is_general(entry.first); });
    return all;
  }

  Program best_program() const override { return whole_of(ranked_parts(0)); }

  std::vector<SearchOutcome> take_interim() override { return std::exchange(interim_plans_, {}); }

  common::Result<SearchOutcome> outcome() const override {
    LFARM_CHECK(done(), "the search is not done");
    if (!best_) return failure();
    SearchOutcome outcome = outcome_of(*best_, best_predictions_);
    common::Provenance& provenance = outcome.plan.provenance;
    const Choice& choice = choice_->choice();
    provenance.best_ns = static_cast<int64_t>(choice.total_ns);
    if (choice.speedup > 0) provenance.baseline_ns = static_cast<int64_t>(choice.first_ns);
    provenance.speedup = choice.speedup;
    provenance.speedup_low = choice.speedup_low;
    provenance.speedup_high = choice.speedup_high;
    provenance.disturbed = choice.disturbed;
    times_.report_rank_correlation(&provenance);
    outcome.note = choice.note;
    return outcome;
  }

 private:
  enum class Stage { kBaseline, kRegions, kFinalists, kDone };
  struct Sent {
    CandidateTask task;
    int region = -1;            // -1: the whole graph
    RegionCandidate candidate;  // of a region
    std::optional<CandidateResult> result;
  };

  // The plan of a whole program that ran and was right. `predictions`: ns of its kernels; may be
  // empty.
  SearchOutcome outcome_of(const Sent& sent, const std::vector<double>& predictions) const {
    const common::TaskReport& report = sent.result->report;
    const Program& program = sent.task.payload.program;
    SearchOutcome outcome{{}, sent.result->worker, sent.task.id, ""};
    common::Plan& plan = outcome.plan;
    plan.key = {hash_, options_.target, options_.policy, std::string(common::kCompilerEpoch)};
    plan.symbols = program.symbols;
    plan.inputs = program.inputs;
    plan.outputs = program.outputs;
    plan.buffers = program.buffers;
    plan.calls = program.calls;
    plan.kernels = report.kernels;
    if (!predictions.empty()) {
      double predicted_ns = overhead_ns(program);
      std::vector<char> at_load = common::load_time_calls(program);
      for (size_t c = 0; c < program.calls.size(); ++c) {
        if (at_load[c]) continue;
        predicted_ns += predictions[static_cast<size_t>(program.calls[c].kernel)];
      }
      plan.provenance.predicted_ns = std::llround(predicted_ns);
    }
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      if (k < predictions.size()) plan.kernels[k].predicted_ns = std::llround(predictions[k]);
      if (k < report.kernel_ns.size()) {
        plan.kernels[k].measured_ns = static_cast<int64_t>(report.kernel_ns[k]);
      }
    }
    plan.objects = report.objects;
    plan.provenance.best_ns = static_cast<int64_t>(report.total_ns);
    plan.provenance.baseline_ns = baseline_ns();
    plan.provenance.candidates = candidates();
    plan.provenance.seed = options_.seed;
    plan.provenance.budget_candidates = options_.budget;
    plan.provenance.budget_ms = options_.time_ms;
    plan.provenance.disturbed = report.disturbed;
    plan.provenance.worker = sent.result->worker;
    return outcome;
  }

  // Of what was sent, without comparisons.
  int64_t candidates() const { return static_cast<int64_t>(sent_.size()) - comparisons_; }

  // ---- What earlier searches found -------------------------------------------------------------

  void look_up(const MeasurementSource& source) {
    for (size_t r = 0; r < known_.size(); ++r) {
      const common::Graph& region = *region_graphs_[r];
      known_[r] = known_kernels_.take(
          source, region_key(region, options_.target, options_.policy, options_.machine), region);
    }
    // Of the same graph written in another way: only whether it is right is left to find out.
    whole_ = known_kernels_.take(source, whole_key_, *graph_);
    if (whole_ && !whole_->effort.covers({options_.budget, options_.time_ms})) whole_.reset();
    for (size_t r = 0; whole_ && r < known_.size(); ++r) {
      known_[r] = TuningRecord{{kSettledCandidates, 0}, 0, 0, 0, plain_[r], {}};
    }
  }

  void open_space(size_t r, const common::Clock& clock) {
    spaces_[r] = std::make_unique<RegionSpace>(*region_graphs_[r], clock,
                                               numerics_of(options_.policy), times_.machine());
  }
  std::unique_ptr<RegionSearch> begin_search(size_t r) {
    return RegionSearch::create(*spaces_[r], times_, common::combine64(options_.seed + 1, r),
                                options_.strategy, kin_[r] ? &kin_[r]->genome : nullptr);
  }

  // In one run of the graph; for regions that are not known as predicted.
  double region_ns(size_t r) const {
    return static_cast<double>(cut_.executions[r]) *
           (searches_[r] ? searches_[r]->expected_ns() : known_[r]->ns);
  }

  std::vector<double> region_times() const {
    std::vector<double> ns;
    for (size_t r = 0; r < searches_.size(); ++r) ns.push_back(region_ns(r));
    return ns;
  }

  // What was spent on the region, by this search and those before it.
  Effort spent_on(size_t r) const {
    Effort spent = known_[r] ? known_[r]->effort : Effort{};
    if (is_settled_ || is_out_of_ideas_.count(r) != 0) spent.candidates = kSettledCandidates;
    spent.candidates += tried_[r];
    if (was_told_to_finish_ && options_.time_ms > 0) {
      int64_t all = std::accumulate(tried_.begin(), tried_.end(), int64_t{0});
      double share =
          static_cast<double>(tried_[r]) / static_cast<double>(std::max<int64_t>(1, all));
      spent.ms += std::llround(static_cast<double>(options_.time_ms) * share);
    }
    return spent;
  }

  // What is known already takes its share of the time off the budget.
  void share_out_budget(const std::vector<Effort>& efforts) {
    double all = 0, fresh = 0;
    for (size_t r = 0; r < searches_.size(); ++r) {
      all += region_ns(r);
      if (covered_[r]) continue;
      double novelty = searches_[r]->novelty(efforts[r]);
      if (kin_[r] && kin_[r]->effort.covers(efforts[r])) novelty *= kKinNovelty;
      fresh += region_ns(r) * std::max(kNoveltyMin, novelty);
    }
    bool is_known = std::all_of(exhausted_.begin(), exhausted_.end(), [](char e) { return e; });
    budget_ = budget_for(options_.budget, all, fresh, is_known);
    finalist_budget_ = std::clamp<int64_t>(budget_ / 8, 1, kMaxFinalists);
    region_budget_ = std::max<int64_t>(0, budget_ - 1 - finalist_budget_);
    stage_ = budget_ == 1 ? Stage::kFinalists : Stage::kBaseline;
  }

  // Lets the proposer see the results before `end`, in order; false when one is missing.
  bool apply_until(uint64_t end) {
    while (applied_ < end) {
      Sent& sent = sent_[applied_];
      if (!sent.result) return false;
      apply(sent);
      ++applied_;
    }
    return true;
  }

  void apply(const Sent& sent) {
    bool is_ok = sent.result->outcome == TaskOutcome::kOk;
    const common::TaskReport& report = sent.result->report;
    if (is_ok) times_.record(sent.task.payload.program, report.kernel_ns, report.total_ns);
    if (sent.region >= 0) {
      searches_[static_cast<size_t>(sent.region)]->tell(
          sent.candidate,
          is_ok ? std::optional(static_cast<double>(report.total_ns)) : std::nullopt);
    }
    bool is_baseline = sent.task.payload.kind == TaskKind::kBaseline;
    if (&sent == &sent_.front() && is_baseline) learn_from_first(sent);
    times_.learn();
    using Of = InterimPlans::Of;
    interim_.learned(sent.region >= 0 ? Of::kRegion
                     : is_baseline    ? Of::kFirst
                                      : Of::kWhole,
                     sent.result->busy_ms);
    if (sent.region >= 0) early_stopping_.record(estimate());
  }

  std::optional<CandidateTask> next() {
    auto in_flight = static_cast<uint64_t>(std::max<int64_t>(1, options_.in_flight));
    uint64_t visible = sent_.size() >= in_flight ? sent_.size() + 1 - in_flight : 0;
    if (!apply_until(visible)) return std::nullopt;
    if (stage_ == Stage::kBaseline) {
      stage_ = Stage::kRegions;
      return send_first();
    }
    if (first_failed_ && !std::exchange(plain_sent_, true)) {
      return send_whole(TaskKind::kBaseline, plain_program(), "lowering");
    }
    if (stage_ == Stage::kRegions) {
      if (region_budget_ > 0 && early_stopping_.expects_less_than(options_.stop_gain)) {
        common::log_info(common::cat("the search ends after ", sent_.size(), " candidates, ",
                                     early_stopping_.results_since_improvement(),
                                     " of them without an improvement"));
        region_budget_ = 0;
        is_settled_ = true;
      }
      if (auto task = next_interim()) return task;
      while (region_budget_ > 0) {
        if (auto task = next_part_of_first()) return task;
        if (auto task = next_region_candidate()) return task;
        if (std::count(exhausted_.begin(), exhausted_.end(), 0) == 0) break;
      }
      stage_ = Stage::kFinalists;
    }
    if (!finalists_chosen_) {
      if (!apply_until(sent_.size())) return std::nullopt;
      choose_finalists();
      maybe_conclude();  // with what ran before, where no finalist is new
    }
    if (next_finalist_ == finalists_.size()) return next_comparison();
    CandidateTask task = send_whole(TaskKind::kFinalist, std::move(finalists_[next_finalist_]));
    bool has_parts =
        next_finalist_ < finalist_parts_.size() && !finalist_parts_[next_finalist_].empty();
    if (has_parts) {
      finalist_of_[&sent_.back()] = std::move(finalist_parts_[next_finalist_]);
    }
    ++next_finalist_;
    return task;
  }

  // What the regions' searches would try first, as one program: the first clients run it, and later
  // ones compare with it.
  CandidateTask send_first() {
    std::vector<Program> parts;
    first_.resize(searches_.size());
    for (size_t r = 0; r < searches_.size(); ++r) {
      if (!known_[r]) first_[r] = searches_[r]->propose();
      if (first_[r]) ++tried_[r];
      parts.push_back(first_[r] ? *first_[r]->program : searches_[r]->ranked(0));
    }
    Program program = whole_ ? whole_->program : whole_of(parts);
    plain_sent_ =
        common::program_fingerprint(program) == common::program_fingerprint(plain_program());
    is_first_found_ = !plain_sent_;
    CandidateTask task = send_whole(TaskKind::kBaseline, std::move(program), "plain");
    if (!whole_ && is_first_found_) finalist_of_[&sent_.back()] = std::move(parts);
    return task;
  }

  // What the first program's time says of its parts. A failure says nothing of any one of them:
  // each is tried by itself.
  void learn_from_first(const Sent& sent) {
    if (sent.result->outcome != TaskOutcome::kOk) {
      first_failed_ = true;
      return;
    }
    for (size_t r = 0; r < first_.size(); ++r) {
      if (!first_[r]) continue;
      searches_[r]->tell(*first_[r], times_.estimate(*first_[r]->program).ns);
      first_[r].reset();
    }
  }

  // A part of the first program, which failed.
  std::optional<CandidateTask> next_part_of_first() {
    for (size_t r = 0; first_failed_ && r < first_.size(); ++r) {
      if (!first_[r]) continue;
      --region_budget_;
      RegionCandidate candidate = std::move(*first_[r]);
      first_[r].reset();
      return send_region(r, std::move(candidate));
    }
    return std::nullopt;
  }

  std::optional<CandidateTask> next_comparison() {
    auto comparison = choice_ ? choice_->next() : std::nullopt;
    if (!comparison) return std::nullopt;
    ++comparisons_;
    Sent sent;
    sent.task.graph = graph_;
    sent.task.fingerprint = comparison->fingerprint;
    sent.task.origin = "comparison";
    sent.task.payload = std::move(comparison->payload);
    return send(std::move(sent));
  }

  // A whole program of what is best now, so that clients need not wait for the search's end.
  std::optional<CandidateTask> next_interim() {
    double estimate_ns = estimate();
    bool is_due =
        region_budget_ > 1 && interim_.is_due(baseline_ns_learned(), estimate_ns, candidates());
    if (!is_due) return std::nullopt;
    interim_.sent(estimate_ns, candidates(), std::max(kInterimPause, options_.in_flight));
    std::vector<Program> parts = ranked_parts(0);
    Program program = whole_of(parts);
    if (!interim_fingerprints_.insert(common::program_fingerprint(program)).second) {
      return std::nullopt;
    }
    --region_budget_;
    CandidateTask task = send_whole(TaskKind::kFinalist, std::move(program));
    sent_.back().task.origin = task.origin = "interim";
    finalist_of_[&sent_.back()] = std::move(parts);
    return task;
  }

  // Hands out what was measured just now where it is better; at the end the choice follows at once.
  void note_interim(const Sent& sent) {
    if (stage_ == Stage::kFinalists || sent.result->outcome != TaskOutcome::kOk) return;
    if (interim_.is_better(sent.result->report)) interim_plans_.push_back(outcome_of(sent, {}));
  }

  // The region where a candidate promises most: time it takes in a run, over candidates tried.
  std::optional<CandidateTask> next_region_candidate() {
    size_t chosen = 0;
    double most = -1;
    for (size_t r = 0; r < searches_.size(); ++r) {
      if (exhausted_[r]) continue;
      double weight = static_cast<double>(cut_.executions[r]) * searches_[r]->best_ns() /
                      static_cast<double>(1 + tried_[r]);
      if (weight > most) {
        most = weight;
        chosen = r;
      }
    }
    if (most < 0) return std::nullopt;
    auto candidate = searches_[chosen]->propose();
    if (!candidate) {
      exhausted_[chosen] = 1;
      is_out_of_ideas_.insert(chosen);
      return std::nullopt;
    }
    ++tried_[chosen];
    // What is computed once need be right, not fast.
    if (cut_.executions[chosen] == 0) exhausted_[chosen] = 1;
    --region_budget_;
    return send_region(chosen, std::move(*candidate));
  }

  CandidateTask send_region(size_t r, RegionCandidate candidate) {
    Sent sent;
    sent.region = static_cast<int>(r);
    sent.task.graph = region_graphs_[r];
    sent.task.fingerprint = candidate.fingerprint;
    sent.task.payload.program = *candidate.program;
    sent.task.predicted_ns = times_.estimate(*candidate.program).ns;
    sent.task.region = sent.region;
    sent.task.origin = candidate.origin;
    if (searches_[r]->has_measurement()) {
      sent.task.payload.measure.give_up_ns =
          static_cast<uint64_t>(searches_[r]->best_ns() * kGiveUpFactor);
    }
    sent.candidate = std::move(candidate);
    return send(std::move(sent));
  }

  CandidateTask send_whole(TaskKind kind, Program program, const char* origin = "finalist") {
    Sent sent;
    // Whatever earlier searches know of its kernels is asked for before its own measurements can
    // have reached them.
    sent.task.predicted_ns = times_.estimate(program).ns + overhead_ns(program);
    sent.task.graph = graph_;
    sent.task.fingerprint = common::program_fingerprint(program);
    sent.task.payload.kind = kind;
    sent.task.origin = origin;
    sent.task.payload.program = std::move(program);
    if (kind == TaskKind::kFinalist) sent.task.payload.measure.repetitions = 30;
    return send(std::move(sent));
  }

  CandidateTask send(Sent sent) {
    sent.task.id = sent_.size();
    sent.task.payload.verify.sizes = verified_sizes(graph_->symbols);
    sent_.push_back(std::move(sent));
    return sent_.back().task;
  }

  Program plain_program() const {
    std::vector<const Program*> parts;
    for (const Program& plain : plain_) parts.push_back(&plain);
    return assemble(cut_, parts);
  }

  std::vector<Program> ranked_parts(size_t rank) const {
    std::vector<Program> programs;
    for (const auto& search : searches_) programs.push_back(search->ranked(rank));
    return programs;
  }
  Program whole_of(const std::vector<Program>& programs) const {
    std::vector<const Program*> parts;
    for (const Program& program : programs) parts.push_back(&program);
    return assemble(cut_, parts);
  }

  void choose_finalists() {
    finalists_chosen_ = true;
    std::vector<common::Digest> known(interim_fingerprints_.begin(), interim_fingerprints_.end());
    bool has_first =
        !first_failed_ && !sent_.empty() && sent_[0].task.payload.kind == TaskKind::kBaseline;
    if (has_first) known.push_back(sent_[0].task.fingerprint);
    if (whole_) {
      if (!common::contains(known, common::program_fingerprint(whole_->program))) {
        finalists_.push_back(whole_->program);
      }
      return;
    }
    if (options_.incumbent) {
      known.push_back(common::program_fingerprint(*options_.incumbent));
      finalists_.push_back(*options_.incumbent);
      finalist_parts_.emplace_back();
    }
    for (int64_t rank = 0; rank < finalists_in_time(); ++rank) {
      std::vector<Program> parts = ranked_parts(static_cast<size_t>(rank));
      Program program = whole_of(parts);
      common::Digest fingerprint = common::program_fingerprint(program);
      if (common::contains(known, fingerprint)) continue;
      known.push_back(fingerprint);
      finalists_.push_back(std::move(program));
      finalist_parts_.push_back(std::move(parts));
    }
  }

  // Of a limited time finalists take a share, and as many are tried as should fit into it.
  int64_t finalists_in_time() const {
    bool is_limited = options_.time_ms > 0 && interim_.whole_ms() > 0;
    if (!is_limited) return finalist_budget_;
    double fit = kFinalistsShare * static_cast<double>(options_.time_ms) / interim_.whole_ms();
    return std::clamp<int64_t>(static_cast<int64_t>(fit), 1, finalist_budget_);
  }

  void maybe_conclude() {
    if (!finalists_chosen_ || next_finalist_ != finalists_.size()) return;
    if (completed_ != static_cast<int64_t>(sent_.size())) return;
    apply_until(sent_.size());
    if (!choice_) begin_choice();
    if (choice_ && !choice_->is_decided()) return;
    if (choice_) best_ = contenders_[choice_->choice().contender];
    if (!best_ && !fallback_sent_) {
      // The lowering is the last resort when it was not tried yet.
      fallback_sent_ = true;
      if (!std::exchange(plain_sent_, true)) {
        finalists_.push_back(plain_program());
        return;
      }
    }
    if (best_) {
      best_predictions_ = times_.predictions_of(best_->task.payload.program);
      plan_kernels_ = known_kernels_.count(best_->task.payload.program);
    }
    stage_ = Stage::kDone;
  }

  // Whether a program of what was found was judged, and not right.
  bool was_wrong() const {
    return std::any_of(sent_.begin(), sent_.end(), [&](const Sent& sent) {
      bool is_found = sent.task.payload.kind == TaskKind::kFinalist ||
                      (is_first_found_ && &sent == &sent_.front());
      return is_found && sent.result && sent.result->outcome != TaskOutcome::kOk &&
             sent.result->outcome != TaskOutcome::kInfra;
    });
  }

  // The best that is made of the regions' best, if one of them ran and was right: the choice, or
  // the one that took least.
  const Sent* best_of_parts() const {
    const Sent* found = nullptr;
    for (const Sent* sent : contenders_) {
      if (finalist_of_.count(sent) == 0) continue;
      if (sent == best_) return sent;
      bool is_quicker =
          found == nullptr || sent->result->report.total_ns < found->result->report.total_ns;
      if (is_quicker) found = sent;
    }
    return found;
  }

  // The first program, or the plain one where that failed, then everything else of the whole graph
  // that ran and was right.
  void begin_choice() {
    contenders_.clear();
    for (const Sent& sent : sent_) {
      if (sent.region >= 0 || sent.result->outcome != TaskOutcome::kOk) continue;
      bool is_baseline = sent.task.payload.kind == TaskKind::kBaseline;
      contenders_.insert(is_baseline ? contenders_.begin() : contenders_.end(), &sent);
    }
    if (contenders_.empty()) return;
    std::vector<Contender> programs;
    std::set<common::Digest> known;
    std::erase_if(contenders_,
                  [&](const Sent* sent) { return !known.insert(sent->task.fingerprint).second; });
    for (const Sent* sent : contenders_) {
      programs.push_back({sent->task.payload.program, sent->result->report.total_ns});
    }
    choice_.emplace(std::move(programs), options_.time_ms);
  }

  double overhead_ns(const Program& program) const {
    return program_overhead_ns(program, representative_sizes(program.symbols),
                               device_terms(options_.target));
  }

  common::Error failure() const {
    const CandidateResult* last = nullptr;
    for (const Sent& sent : sent_) {
      if (sent.region < 0 && sent.result) last = &*sent.result;
    }
    return nothing_worked(last);
  }

  // The same once proposals may depend on it.
  double baseline_ns_learned() const {
    return applied_ > 0 && !first_failed_ ? static_cast<double>(baseline_ns()) : 0;
  }

  int64_t baseline_ns() const {
    for (const Sent& sent : sent_) {
      if (sent.task.payload.kind == TaskKind::kBaseline && sent.result &&
          sent.result->outcome == TaskOutcome::kOk) {
        return static_cast<int64_t>(sent.result->report.total_ns);
      }
    }
    return 0;
  }

  // Of the whole graph, from its regions; 0 before every region was measured, unless it `predicts`.
  double estimate(bool predicts = false) const {
    double sum = 0;
    for (size_t r = 0; r < searches_.size(); ++r) {
      if (cut_.executions[r] == 0) continue;
      if (!predicts && !searches_[r]->has_measurement()) return 0;
      sum += searches_[r]->best_ns() * static_cast<double>(cut_.executions[r]);
    }
    return std::isfinite(sum) ? sum : 0;
  }

  SearchOptions options_;
  std::shared_ptr<const common::Graph> graph_;
  common::Digest hash_;
  KernelTimes times_;
  KnownKernels known_kernels_{times_};
  std::vector<StageTime> preparation_;
  Cut cut_;
  std::vector<std::shared_ptr<const common::Graph>> region_graphs_;
  std::vector<std::unique_ptr<RegionSpace>> spaces_;
  std::vector<std::unique_ptr<RegionSearch>> searches_;
  std::vector<Program> plain_;                      // of each region
  std::vector<std::optional<TuningRecord>> known_;  // of each region
  std::vector<std::optional<TuningRecord>> kin_;    // of regions that are not known
  common::Digest whole_key_;
  std::optional<TuningRecord> whole_;  // an equal graph's program
  std::vector<int64_t> tried_;
  std::vector<char> exhausted_;
  std::vector<char> covered_;         // known, and well enough
  std::set<size_t> is_out_of_ideas_;  // regions
  bool is_settled_ = false, was_told_to_finish_ = false;
  std::vector<double> worker_ms_;  // of each region's candidates
  double total_worker_ms_ = 0;
  KnownKernels::Count plan_kernels_;
  int64_t budget_ = 1;
  Stage stage_ = Stage::kBaseline;
  int64_t region_budget_ = 0;
  int64_t finalist_budget_ = 1;
  std::deque<Sent> sent_;  // stable addresses
  uint64_t applied_ = 0;
  int64_t completed_ = 0;
  EarlyStopping early_stopping_;
  std::vector<Program> finalists_;
  std::vector<std::vector<Program>> finalist_parts_;         // the regions' programs
  std::map<const Sent*, std::vector<Program>> finalist_of_;  // the same, when they were sent
  size_t next_finalist_ = 0;
  bool finalists_chosen_ = false;
  std::vector<std::optional<RegionCandidate>> first_;  // in the first program, until it was learned
  bool is_first_found_ = false;                        // it is not the plain program
  bool first_failed_ = false, plain_sent_ = false;
  bool fallback_sent_ = false;
  std::vector<const Sent*> contenders_;  // for the choice
  std::optional<FinalChoice> choice_;
  int64_t comparisons_ = 0, compared_ = 0;  // sent, answered
  const Sent* best_ = nullptr;
  std::optional<int64_t> best_whole_ns_;  // by their own times
  // Whole programs that are measured on the way, and plans to hand out.
  std::set<common::Digest> interim_fingerprints_;
  InterimPlans interim_;
  std::vector<SearchOutcome> interim_plans_;
  std::vector<double> best_predictions_;  // of the best's kernels, when done
};

}  // namespace

common::Result<std::unique_ptr<JobSearch>> JobSearch::create(
    const common::Graph& graph, const SearchOptions& options,
    const MeasurementSource* measurements) {
  LFARM_RETURN_IF_ERROR(common::verify(graph));
  if (!common::is_policy(options.policy)) {
    return common::invalid_input(
        common::cat("no numerics policy is called '", options.policy, "'; strict and relaxed are"));
  }
  return std::unique_ptr<JobSearch>(std::make_unique<Search>(graph, options, measurements));
}

}  // namespace coordinator
