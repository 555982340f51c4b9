#include "coordinator/search/searched_regions.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "coordinator/search/budget.h"
#include "coordinator/search/kin.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/partition.h"
#include "coordinator/search/strategy/known_region.h"

namespace coordinator {
namespace {

// A region of known kernels may still cut them otherwise: this share of the budget looks for that.
constexpr double kNoveltyMin = 0.1;
constexpr double kKinNovelty = 0.25;  // of a region that was searched at other sizes

}  // namespace

SearchedRegions::SearchedRegions(const common::Graph& graph, const SearchOptions& options,
                                 KernelTimes& times, const MeasurementSource* earlier,
                                 const std::function<void(const char* stage)>& lap)
    : options_(options),
      times_(times),
      known_kernels_(times),
      whole_key_(coordinator::whole_key(graph, options.target, options.policy, options.machine)) {
  common::SteadyClock clock;
  cut_ = partition(graph, common::machine_of(options.target), lap).cut;
  regions_.resize(cut_.regions.size());
  for (size_t r = 0; r < size(); ++r) {
    regions_[r].graph = std::make_shared<const common::Graph>(cut_.regions[r].graph);
    regions_[r].executions = cut_.executions[r];
    regions_[r].lowering = plain_program_of(cut_.regions[r].graph);
  }
  bool looks = earlier != nullptr && options.strategy == SearchStrategy::kModel;
  if (looks) look_up(graph, *earlier);
  for (SearchedRegion& region : regions_) {
    if (!region.known) open_space(region, clock);
  }
  lap("saturate");
  for (SearchedRegion& region : regions_) {
    if (!region.known && looks) region.kin = find_kin(*earlier, *region.space, options);
  }
  for (size_t r = 0; r < size(); ++r) {
    if (!regions_[r].known) regions_[r].search = begin_search(r);
  }
  lap("decode");
  std::vector<double> region_ns;
  for (const SearchedRegion& region : regions_) region_ns.push_back(ns_of(region));
  efforts_ = expected_efforts(options, region_ns);
  for (size_t r = 0; r < size(); ++r) {
    SearchedRegion& region = regions_[r];
    if (!region.known) continue;
    region.is_covered = region.is_exhausted = region.known->effort.covers(efforts_[r]);
    if (!region.is_covered) open_space(region, clock);
    region.search =
        std::make_unique<KnownRegion>(*region.known, region.is_covered ? nullptr : begin_search(r));
  }
  for (size_t r = 0; r < size(); ++r) {
    for (const FusionDecision& decision : regions_[r].search->fusion_decisions()) {
      common::log_debug(common::cat("fusion gate of ", options.target.name, ", region ", r, ": ",
                                    print(decision)));
    }
  }
}

void SearchedRegions::look_up(const common::Graph& graph, const MeasurementSource& source) {
  for (SearchedRegion& region : regions_) {
    region.known = known_kernels_.take(source, key_of(region), *region.graph);
  }
  // Of the same graph written in another way: only whether it is right is left to find out.
  whole_ = known_kernels_.take(source, whole_key_, graph);
  if (whole_ && !whole_->effort.covers({options_.budget, options_.time_ms})) whole_.reset();
  if (!whole_) return;
  for (SearchedRegion& region : regions_) {
    region.known = TuningRecord{{kSettledCandidates, 0}, 0, 0, 0, region.lowering, {}};
  }
}

void SearchedRegions::open_space(SearchedRegion& region, const common::Clock& clock) const {
  region.space = std::make_unique<RegionSpace>(*region.graph, clock, numerics_of(options_.policy),
                                               times_.machine());
}

std::unique_ptr<RegionSearch> SearchedRegions::begin_search(size_t r) const {
  const SearchedRegion& region = regions_[r];
  return RegionSearch::create(*region.space, times_, common::combine64(options_.seed + 1, r),
                              options_.strategy, region.kin ? &region.kin->genome : nullptr);
}

common::Digest SearchedRegions::key_of(const SearchedRegion& region) const {
  return region_key(*region.graph, options_.target, options_.policy, options_.machine);
}

// In one run of the graph; for regions that are not known as predicted.
double SearchedRegions::ns_of(const SearchedRegion& region) const {
  return static_cast<double>(region.executions) *
         (region.search ? region.search->expected_ns() : region.known->ns);
}

int64_t SearchedRegions::budget() const {
  double all = 0, fresh = 0;
  for (size_t r = 0; r < size(); ++r) {
    const SearchedRegion& region = regions_[r];
    all += ns_of(region);
    if (region.is_covered) continue;
    double novelty = region.search->novelty(efforts_[r]);
    if (region.kin && region.kin->effort.covers(efforts_[r])) novelty *= kKinNovelty;
    fresh += ns_of(region) * std::max(kNoveltyMin, novelty);
  }
  return budget_for(options_.budget, all, fresh, are_exhausted());
}

// ---- Programs ----------------------------------------------------------------------------------

common::Program SearchedRegions::assembled(const std::vector<common::Program>& parts) const {
  std::vector<const common::Program*> all;
  for (const common::Program& part : parts) all.push_back(&part);
  return assemble(cut_, all);
}

common::Program SearchedRegions::lowering() const {
  std::vector<const common::Program*> all;
  for (const SearchedRegion& region : regions_) all.push_back(&region.lowering);
  return assemble(cut_, all);
}

std::optional<common::Program> SearchedRegions::direct() const {
  std::vector<common::Program> parts;
  bool has_filters = false;
  for (const SearchedRegion& region : regions_) {
    auto direct = region.search->direct();
    has_filters = has_filters || direct;
    parts.push_back(direct ? *std::move(direct) : region.search->ranked(0));
  }
  if (!has_filters) return std::nullopt;
  return assembled(parts);
}

std::vector<common::Program> SearchedRegions::ranked(size_t rank) const {
  std::vector<common::Program> parts;
  for (const SearchedRegion& region : regions_) parts.push_back(region.search->ranked(rank));
  return parts;
}

std::vector<common::Program> SearchedRegions::take_first() {
  std::vector<common::Program> parts;
  for (SearchedRegion& region : regions_) {
    if (!region.known) region.first = region.search->propose();
    if (region.first) ++region.tried;
    parts.push_back(region.first ? *region.first->program : region.search->ranked(0));
  }
  return parts;
}

void SearchedRegions::learn_first() {
  for (SearchedRegion& region : regions_) {
    if (!region.first) continue;
    region.search->tell(*region.first,
                        times_.estimate(*region.first->program, region.first->bodies).ns);
    region.first.reset();
  }
}

// ---- Candidates --------------------------------------------------------------------------------

std::optional<SearchedRegions::Proposal> SearchedRegions::next_part_of_first() {
  for (size_t r = 0; r < size(); ++r) {
    if (!regions_[r].first) continue;
    Proposal proposal{r, std::move(*regions_[r].first)};
    regions_[r].first.reset();
    return proposal;
  }
  return std::nullopt;
}

std::optional<SearchedRegions::Proposal> SearchedRegions::next() {
  SearchedRegion* chosen = nullptr;
  double most = -1;
  for (SearchedRegion& region : regions_) {
    if (region.is_exhausted) continue;
    double weight = static_cast<double>(region.executions) * region.search->best_ns() /
                    static_cast<double>(1 + region.tried);
    if (weight > most) {
      most = weight;
      chosen = &region;
    }
  }
  if (chosen == nullptr) return std::nullopt;
  auto candidate = chosen->search->propose();
  if (!candidate) {
    chosen->is_exhausted = chosen->is_out_of_ideas = true;
    return std::nullopt;
  }
  ++chosen->tried;
  // What is computed once need be right, not fast.
  if (chosen->executions == 0) chosen->is_exhausted = true;
  return Proposal{static_cast<size_t>(chosen - regions_.data()), std::move(*candidate)};
}

bool SearchedRegions::are_exhausted() const {
  return std::all_of(regions_.begin(), regions_.end(),
                     [](const SearchedRegion& region) { return region.is_exhausted; });
}

void SearchedRegions::tell(size_t region, const RegionCandidate& candidate,
                           std::optional<double> ns) {
  regions_[region].search->tell(candidate, ns);
}

// ---- What is known -----------------------------------------------------------------------------

double SearchedRegions::estimate(bool predicts) const {
  double sum = 0;
  for (const SearchedRegion& region : regions_) {
    if (region.executions == 0) continue;
    if (!predicts && !region.search->has_measurement()) return 0;
    sum += region.search->best_ns() * static_cast<double>(region.executions);
  }
  return std::isfinite(sum) ? sum : 0;
}

int64_t SearchedRegions::duplicates() const {
  int64_t sum = 0;
  for (const SearchedRegion& region : regions_) {
    sum += region.search->duplicates() + region.search->composed();
  }
  return sum;
}

int64_t SearchedRegions::covered() const {
  return std::count_if(regions_.begin(), regions_.end(),
                       [](const SearchedRegion& region) { return region.is_covered; });
}

double SearchedRegions::saved_ms() const {
  double sum = whole_ ? whole_->worker_ms : 0;
  for (const SearchedRegion& region : regions_) {
    if (region.is_covered) sum += region.known->worker_ms;
  }
  return sum;
}

// ---- What is left to later searches ------------------------------------------------------------

// By this search and those before it.
Effort SearchedRegions::spent_on(const SearchedRegion& region, const SearchEnd& end) const {
  Effort spent = region.known ? region.known->effort : Effort{};
  if (end.is_settled || region.is_out_of_ideas) spent.candidates = kSettledCandidates;
  spent.candidates += region.tried;
  if (end.was_told_to_finish && options_.time_ms > 0) {
    int64_t all = 0;
    for (const SearchedRegion& other : regions_) all += other.tried;
    double share =
        static_cast<double>(region.tried) / static_cast<double>(std::max<int64_t>(1, all));
    spent.ms += std::llround(static_cast<double>(options_.time_ms) * share);
  }
  return spent;
}

std::map<common::Digest, TuningRecord> SearchedRegions::records(
    const std::vector<common::Program>& parts, const SearchEnd& end) const {
  std::map<common::Digest, TuningRecord> all;
  for (size_t r = 0; r < size(); ++r) {
    const SearchedRegion& region = regions_[r];
    if (region.is_covered) continue;
    TuningRecord& record = all[key_of(region)];
    record.effort = spent_on(region, end);
    record.ns = region.search->best_ns();
    record.worker_ms = region.worker_ms + (region.known ? region.known->worker_ms : 0);
    record.program = parts[r];
    add_kernels(record, times_, options_, all);
    Genome genome = region.search->best_genome();
    if (genome.size() == 0) continue;
    TuningRecord kin{record.effort, record.ns, record.worker_ms, 0, {}, std::move(genome)};
    add_kin(*region.space, options_, std::move(kin), all);
  }
  return all;
}

std::map<common::Digest, TuningRecord> SearchedRegions::withdrawn_records() const {
  std::map<common::Digest, TuningRecord> all;
  for (const SearchedRegion& region : regions_) {
    if (!region.known) continue;
    TuningRecord& record = all[key_of(region)];
    record = *region.known;
    record.ns = kWithdrawn;
  }
  return all;
}

}  // namespace coordinator
