#include "coordinator/search/strategy/guided_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/log.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/llir/kernel_identity.h"

namespace coordinator {
namespace {

constexpr size_t kElite = 24;
constexpr size_t kPackAfter = 8;    // structures known before packings are tried
constexpr int kAttempts = 6;        // structures looked at for one proposal
constexpr int kTrials = 40;         // genes tried on the way to a child
constexpr size_t kUntriedMax = 12;  // measured kernels that get a new schedule in one candidate
constexpr int kFresh = 24;          // schedules drawn at random for one pick,
constexpr int kNear = 24;           // and near the best
constexpr double kHeat = 0.05;      // of the time, that a step may seem to lose
constexpr double kAlike = 0.25;     // chance that a mutation changes all genes of its kind
constexpr double kCreditDecay = 0.92;
constexpr double kCreditFloor = 0.1;
constexpr int64_t kStagnation = 12;  // results without improvement per step of escalation
constexpr int64_t kEscalationMax = 4;
constexpr size_t kTrustModelAfter = 40;  // measurements, without priors
// Greatest ratio of predicted times, of the kin's structure to the first seed's, at which the kin's
// genome is proposed first: another structure may have been right at the kin's sizes.
constexpr double kKinMargin = 1.25;

// A structure is sent to a worker only if its expected time is at most so many times the best known
// one. A small graph runs out of good structures, and the next one may compute a whole row again
// for each of its elements. Errors of the cost model are smaller than this factor.
constexpr double kHopeless = 20;

// The schedule genes of a kernel rooted at `root`.
void set_schedule(ClassId root, common::Template form, ScheduleCode code, Genome& genome) {
  const auto& choices = common::schedule_parameters(form);
  for (size_t p = 0; p < choices.size(); ++p) {
    size_t digit = schedule_digit(form, code, p);
    if (digit != 0) genome.set(parameter_gene(root, form, p), choices[p].values[digit]);
  }
}

Genome without_schedules(const Genome& genome) {
  Genome structure;
  for (const auto& [name, value] : genome.genes()) {
    if (name.kind != GeneKind::kParameter) structure.set(name, value);
  }
  return structure;
}

}  // namespace

GuidedSearch::GuidedSearch(RegionSpace& space, KernelTimes& times, uint64_t seed, const Genome* kin)
    : space_(space), times_(times), random_(seed) {
  make_seeds();
  if (kin == nullptr) return;
  seeds_.kin = *kin;
  const double kin_ns = default_ns(lay_out(without_schedules(*kin)));
  seeds_.kin_waits = kin_ns > kKinMargin * default_ns(seeds_.all.front().second);
}

GuidedSearch::Layout GuidedSearch::lay_out(const Genome& genome) {
  Layout layout;
  layout.structure = space_.structure(genome);
  const FusedProgram& fused = layout.structure->fused;
  layout.kernels.resize(fused.kernels.size());
  layout.calls.assign(fused.kernels.size(), 0);
  if (times_.asks_remotely()) {
    std::vector<std::pair<common::Template, common::Digest>> bodies;
    for (const auto& built : fused.kernels) bodies.emplace_back(built->kernel.form, built->body);
    times_.prefetch(bodies);
  }
  std::vector<char> met(fused.kernels.size(), 0);
  for (size_t c = 0; c < fused.shell.calls.size(); ++c) {
    const common::Call& call = fused.shell.calls[c];
    auto k = static_cast<size_t>(call.kernel);
    if (!met[k]) {
      met[k] = 1;
      layout.kernels[k] = times_.intern(fused.kernels[k]->kernel, fused.kernels[k]->body, call);
    }
    if (!fused.at_load[c]) ++layout.calls[k];
  }
  layout.held_ns = fused.held_bytes * common::kHeldByteNs;
  return layout;
}

double GuidedSearch::novelty(const Effort& effort) {
  const Layout& layout = seeds_.all.front().second;
  double all = 0, fresh = 0;
  for (size_t k = 0; k < layout.kernels.size(); ++k) {
    if (layout.calls[k] == 0) continue;
    auto best = times_.best(layout.kernels[k]);
    double ns = layout.calls[k] * (best ? best->ns : pick(layout.kernels[k]).ns);
    all += ns;
    if (!times_.is_covered(layout.kernels[k], effort)) fresh += ns;
  }
  return all > 0 && std::isfinite(all) ? fresh / all : 1;
}

// ---- What things are worth ---------------------------------------------------------------------

KernelShares GuidedSearch::default_shares(const Layout& layout) {
  std::vector<std::pair<KernelId, ScheduleCode>> asked;
  for (KernelId id : layout.kernels) asked.emplace_back(id, 0);
  times_.prefetch(asked);
  KernelShares shares;
  for (size_t k = 0; k < layout.kernels.size(); ++k) {
    if (layout.calls[k] == 0) continue;
    const KernelId id = layout.kernels[k];
    times_.measured(id, 0);  // earlier searches' measurements count
    auto best = times_.best(id);
    shares[id] += layout.calls[k] * (best ? best->ns : times_.predicted(id, 0));
  }
  return shares;
}

double GuidedSearch::default_ns(const Layout& layout) {
  double ns = layout.held_ns;
  for (const auto& [id, share] : default_shares(layout)) ns += share;
  return ns;
}

GuidedSearch::Worth GuidedSearch::worth(const Layout& layout) {
  Worth total;
  total.ns = layout.held_ns;
  std::vector<KernelId> unknown;
  for (size_t k = 0; k < layout.kernels.size(); ++k) {
    if (layout.calls[k] != 0 && !times_.best(layout.kernels[k])) {
      unknown.push_back(layout.kernels[k]);
    }
  }
  pick_all(unknown);
  for (size_t k = 0; k < layout.kernels.size(); ++k) {
    if (layout.calls[k] == 0) continue;
    auto best = times_.best(layout.kernels[k]);
    if (!best) {
      pick(layout.kernels[k]);  // may find it in earlier searches' measurements
      best = times_.best(layout.kernels[k]);
    }
    if (!best) total.known = false;
    total.ns += layout.calls[k] * (best ? best->ns : pick(layout.kernels[k]).ns);
  }
  return total;
}

std::vector<ScheduleCode> GuidedSearch::schedules_to_consider(KernelId id) {
  common::Template form = times_.form(id);
  common::Machine machine = times_.machine();
  ScheduleCode count = schedule_count(form, machine);
  std::vector<ScheduleCode> codes{0};
  if (count <= kFresh + kNear) {
    for (ScheduleCode number = 1; number < count; ++number) {
      codes.push_back(schedule_code(form, machine, number));
    }
    return codes;
  }
  for (int k = 0; k < kFresh; ++k) {
    auto number = static_cast<ScheduleCode>(random_.below(count));
    codes.push_back(schedule_code(form, machine, number));
  }
  auto best = times_.best(id);
  std::vector<size_t> parameters = schedule_parameters_on(form, machine);
  for (int k = 0; k < kNear; ++k) {
    ScheduleCode code = best ? best->code : 0;
    for (uint64_t changes = 1 + random_.below(2); changes > 0; --changes) {
      size_t p = parameters[random_.below(parameters.size())];
      code = with_digit(form, code, p,
                        random_.below(common::schedule_parameters(form)[p].values.size()));
    }
    codes.push_back(code);
  }
  return codes;
}

GuidedSearch::Pick GuidedSearch::make_pick(KernelId id) {
  Pick chosen{0, std::numeric_limits<double>::infinity()};
  const EffectModel& effects = times_.effects();
  bool trusts = effects.has_priors() || effects.measurements() >= kTrustModelAfter;
  if (!trusts && !times_.is_tried(id, 0)) return {0, times_.predicted(id, 0)};
  for (ScheduleCode code : schedules_to_consider(id)) {
    if (times_.is_tried(id, code)) continue;
    double ns = times_.drawn(id, code, present_.draw, present_.temperature);
    if (ns < chosen.ns) chosen = {code, ns};
  }
  return chosen;
}

const GuidedSearch::Pick& GuidedSearch::pick(KernelId id) {
  auto it = present_.picks.find(id);
  if (it != present_.picks.end()) return it->second;
  finish_pick(id, make_pick(id));
  return present_.picks.at(id);
}

// What an earlier search measured is known at once; look for something else. False where it was.
bool GuidedSearch::finish_pick(KernelId id, Pick chosen) {
  bool is_first = true;
  for (int k = 0; k < 4 && std::isfinite(chosen.ns) && times_.measured(id, chosen.code); ++k) {
    chosen = make_pick(id);
    is_first = false;
  }
  present_.picks.emplace(id, chosen);
  return is_first;
}

// Where earlier measurements are in another process: as pick() of each in turn, with one question
// for several. Each pick is made as if no time were known of those before it in the group. After
// one that was, the rest of the group is made again, so that random numbers are drawn as by pick(),
// and the next group is as large as what was right of this one.
void GuidedSearch::pick_all(std::span<const KernelId> ids) {
  if (!times_.asks_remotely()) return;
  std::vector<KernelId> open;
  for (KernelId id : ids) {
    bool is_there =
        present_.picks.contains(id) || std::find(open.begin(), open.end(), id) != open.end();
    if (!is_there) open.push_back(id);
  }
  size_t group = open.size();
  for (size_t from = 0; from < open.size();) {
    group = std::min(group, open.size() - from);
    std::vector<std::pair<KernelId, ScheduleCode>> asked;
    std::vector<std::pair<Pick, common::Random>> guesses;
    for (size_t k = 0; k < group; ++k) {
      Pick guess = make_pick(open[from + k]);
      if (std::isfinite(guess.ns)) asked.emplace_back(open[from + k], guess.code);
      guesses.emplace_back(guess, random_);
    }
    times_.prefetch(asked);
    size_t done = 0;
    for (bool was_right = true; was_right && done < group; ++done) {
      random_ = guesses[done].second;
      was_right = finish_pick(open[from + done], guesses[done].first);
    }
    from += done;
    group = done < group ? done : 2 * group;
  }
}

// ---- Breeding ----------------------------------------------------------------------------------

const GuidedSearch::Member& GuidedSearch::tournament() {
  size_t a = random_.below(elite_.size());
  size_t b = random_.below(elite_.size());
  return elite_[std::min(a, b)];
}

// Changes one gene, or all that are in the same position: models repeat themselves, and what is
// good for one of eight experts is good for all.
bool GuidedSearch::mutate(Genome& genome, const std::vector<Site>& sites) {
  const EGraph& graph = *space_.saturated().graph;
  std::array<std::vector<const Site*>, 2> of_kind;
  for (const Site& site : sites) of_kind[static_cast<size_t>(site.name.kind)].push_back(&site);
  for (int attempt = 0; attempt < 8; ++attempt) {
    const auto& candidates = of_kind[random_.below(2)];
    if (candidates.empty()) continue;
    const Site& site = *candidates[random_.below(candidates.size())];
    int64_t value = site.values[random_.below(site.values.size())];
    if (value == site.current) continue;
    set_choice(space_, sites, site, value, genome);
    if (!random_.chance(kAlike)) return true;
    for (const Site* other : candidates) {
      if (other->head != site.head || other->current == value) continue;
      for (int64_t v : other->values) {
        bool is_same =
            site.name.kind == GeneKind::kStore
                ? v == value
                : graph.head(static_cast<NodeId>(v)) == graph.head(static_cast<NodeId>(value));
        if (is_same) genome.set(other->name, v);
      }
    }
    return true;
  }
  return false;
}

// A stretch of the graph comes from the father.
Genome GuidedSearch::cross(const Member& mother, const Member& father) {
  std::vector<ClassId> order;
  for (const Site& site : mother.layout.structure->sites) {
    if (site.name.kind == GeneKind::kStore) order.push_back(site.name.cls);
  }
  Genome child = mother.genome;
  if (order.empty()) return child;
  size_t from = random_.below(order.size());
  size_t length = 1 + random_.below(order.size());
  std::set<ClassId> stretch;
  for (size_t k = 0; k < length; ++k) stretch.insert(order[(from + k) % order.size()]);
  for (const auto& [name, value] : mother.genome.genes()) {
    if (stretch.count(name.cls) != 0) child.erase(name);
  }
  for (const auto& [name, value] : father.genome.genes()) {
    if (stretch.count(name.cls) != 0) child.set(name, value);
  }
  return child;
}

// Anneals the genome against measured and predicted times, and leaves the best that it came by
// whose time is not known yet: worse programs are passed through early on, so that a search can
// leave a valley without sending anybody there.
void GuidedSearch::climb(Genome& genome, Layout& layout) {
  Genome at_genome = genome;
  Layout at = layout;
  double now = worth(layout).ns;
  double found = std::numeric_limits<double>::infinity();
  double heat =
      kHeat * static_cast<double>(1 + std::min(since_improvement_ / kStagnation, kEscalationMax));
  for (int trial = 0; trial < kTrials; ++trial) {
    Genome changed = at_genome;
    if (!mutate(changed, at.structure->sites)) return;
    Layout other = lay_out(changed);
    if (other.structure->fingerprint == at.structure->fingerprint) {
      ++duplicates_;
      continue;
    }
    Worth value = worth(other);
    bool is_new = structures_.sent.count(other.structure->fingerprint) == 0 && !value.known;
    if (value.known) enlist(changed, other, value.ns);
    if (is_new && value.ns < found) {
      found = value.ns;
      genome = changed;
      layout = other;
    }
    double cooled = heat * (1 - static_cast<double>(trial) / kTrials);
    if (value.ns > now * (1 + cooled * random_.unit())) continue;
    now = value.ns;
    at_genome = std::move(changed);
    at = std::move(other);
  }
}

GuidedSearch::Operator GuidedSearch::choose_operator() {
  double sum = 0;
  for (double credit : credit_) sum += kCreditFloor + credit;
  double point = random_.unit() * sum;
  for (size_t k = 0; k + 1 < kOperatorCount; ++k) {
    point -= kCreditFloor + credit_[k];
    if (point < 0) return static_cast<Operator>(k);
  }
  return kCrossover;
}

// False when what was bred is known or on its way already, so that only its schedules could be new,
// or hopeless.
bool GuidedSearch::next_structure(Genome& genome, Layout& layout) {
  present_.is_seed = seeds_.next < seeds_.all.size();
  if (present_.is_seed) {
    last_operator_ = kStructures;
    std::tie(genome, layout) = seeds_.all[seeds_.next++];
    return true;
  }
  if (elite_.empty()) {
    last_operator_ = kStructures;
    std::tie(genome, layout) = seeds_.all[random_.below(seeds_.all.size())];
    climb(genome, layout);
    return may_send(layout);
  }
  if (!packings_.empty() && elite_.size() >= kPackAfter) {
    last_operator_ = kStructures;
    genome = std::move(packings_.back());
    packings_.pop_back();
    layout = lay_out(genome);
    return may_send(layout);
  }
  last_operator_ = choose_operator();
  const Member& mother = last_operator_ == kSchedules ? elite_.front() : tournament();
  genome = mother.genome;
  layout = mother.layout;
  if (last_operator_ == kSchedules) return true;
  if (last_operator_ == kCrossover && elite_.size() > 1) {
    genome = cross(mother, tournament());
    layout = lay_out(genome);
  }
  climb(genome, layout);
  return may_send(layout);
}

bool GuidedSearch::may_send(const Layout& layout) {
  if (structures_.sent.count(layout.structure->fingerprint) != 0) return false;
  const double least = elite_.empty() ? default_ns(seeds_.all.front().second) : elite_.front().ns;
  return worth(layout).ns <= kHopeless * least;
}

// ---- Candidates --------------------------------------------------------------------------------

// Schedules for a structure. Empty when nothing in it would be new.
std::optional<RegionCandidate> GuidedSearch::fill_in(const Genome& genome, const Layout& layout,
                                                     bool force) {
  std::vector<ScheduleCode> codes(layout.kernels.size(), 0);
  std::vector<std::pair<double, size_t>> gains;
  bool is_new = false;
  std::vector<KernelId> called;
  for (size_t k = 0; k < layout.kernels.size(); ++k) {
    if (layout.calls[k] != 0) called.push_back(layout.kernels[k]);
  }
  pick_all(called);
  for (size_t k = 0; k < layout.kernels.size(); ++k) {
    if (layout.calls[k] == 0) continue;
    KernelId id = layout.kernels[k];
    Pick other = pick(id);
    auto best = times_.best(id);
    if (!best) {
      codes[k] = other.code;
      is_new = is_new || std::isfinite(other.ns);
      continue;
    }
    codes[k] = best->code;
    if (!std::isfinite(other.ns)) continue;
    double gain = (best->ns - other.ns) * layout.calls[k];
    if (gain > 0 || force) gains.emplace_back(-gain, k);
  }
  std::sort(gains.begin(), gains.end());
  if (gains.size() > kUntriedMax) gains.resize(kUntriedMax);
  for (const auto& [gain, k] : gains) codes[k] = present_.picks.at(layout.kernels[k]).code;
  if (gains.empty() && !is_new) return std::nullopt;
  return make(genome, layout, codes);
}

// A structure that no worker could run is not looked at again.
void GuidedSearch::refuse(const Layout& layout, const common::Error& error) {
  structures_.sent.insert(layout.structure->fingerprint);
  if (refused_++ == 0) common::log_error(error.message);
}

// Empty when the program does not verify.
std::optional<RegionCandidate> GuidedSearch::make(const Genome& genome, const Layout& layout,
                                                  const std::vector<ScheduleCode>& codes) {
  RegionCandidate candidate;
  candidate.genome = genome;
  auto verified = RegionSpace::program(*layout.structure, codes);
  if (!verified.ok()) {
    refuse(layout, verified.error());
    return std::nullopt;
  }
  common::Program program = *std::move(verified);
  for (size_t k = 0; k < codes.size(); ++k) {
    KernelId id = layout.kernels[k];
    set_schedule(layout.structure->fused.genes[k], program.kernels[k].form, codes[k],
                 candidate.genome);
    candidate.kernels.emplace_back(id, codes[k]);
    if (layout.calls[k] == 0) continue;
    auto known = times_.measured(id, codes[k]);
    candidate.predicted_ns += layout.calls[k] * (known ? *known : times_.predicted(id, codes[k]));
    if (!times_.is_tried(id, codes[k])) candidate.untried.push_back(k);
  }
  for (size_t k : candidate.untried) times_.mark_tried(layout.kernels[k], codes[k]);
  for (const auto& built : layout.structure->fused.kernels) candidate.bodies.push_back(built->body);
  candidate.fingerprint = common::program_fingerprint(program, candidate.bodies);
  candidate.origin = present_.is_seed ? "seed" : kOrigins[last_operator_];
  candidate.program = std::make_shared<const common::Program>(std::move(program));
  structures_.sent.insert(layout.structure->fingerprint);
  in_flight_[candidate.fingerprint] = last_operator_;
  return candidate;
}

// What was best elsewhere, as it was there.
std::optional<RegionCandidate> GuidedSearch::propose_kin() {
  Genome best = *std::exchange(seeds_.kin, std::nullopt);
  Genome genome = without_schedules(best);
  Layout layout = lay_out(genome);
  present_.is_seed = true;
  last_operator_ = kStructures;
  auto candidate = make(genome, layout, space_.schedules(*layout.structure, best));
  if (candidate) candidate->origin = "kin";
  return candidate;
}

std::optional<RegionCandidate> GuidedSearch::propose() {
  if (seeds_.kin && !std::exchange(seeds_.kin_waits, false)) {
    if (auto candidate = propose_kin()) return candidate;
  }
  present_.draw = random_.next();
  present_.temperature =
      1 + 0.25 * static_cast<double>(std::min(since_improvement_ / kStagnation, kEscalationMax));
  present_.picks.clear();
  Genome genome;
  Layout layout;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!next_structure(genome, layout)) continue;
    if (auto candidate = fill_in(genome, layout, false)) return candidate;
    ++duplicates_;
  }
  last_operator_ = kSchedules;
  present_.is_seed = false;
  if (elite_.empty()) return fill_in(seeds_.all[0].first, seeds_.all[0].second, true);
  for (const Member& member : elite_) {
    if (auto candidate = fill_in(member.genome, member.layout, true)) return candidate;
  }
  return std::nullopt;
}

// ---- Learning ----------------------------------------------------------------------------------

void GuidedSearch::enlist(const Genome& genome, const Layout& layout, double ns) {
  if (!structures_.known.insert(layout.structure->fingerprint).second) return;
  if (structures_.sent.count(layout.structure->fingerprint) == 0) ++composed_;
  Member member{genome, layout, ns};
  auto place = std::upper_bound(elite_.begin(), elite_.end(), member,
                                [](const Member& a, const Member& b) { return a.ns < b.ns; });
  elite_.insert(place, std::move(member));
  if (elite_.size() <= kElite) return;
  // It may come back when a schedule makes it faster.
  structures_.known.erase(elite_.back().layout.structure->fingerprint);
  elite_.pop_back();
}

void GuidedSearch::revalue() {
  for (Member& member : elite_) {
    member.ns = member.layout.held_ns;
    for (size_t k = 0; k < member.layout.kernels.size(); ++k) {
      if (member.layout.calls[k] == 0) continue;
      member.ns += member.layout.calls[k] * times_.best(member.layout.kernels[k])->ns;
    }
  }
  std::stable_sort(elite_.begin(), elite_.end(),
                   [](const Member& a, const Member& b) { return a.ns < b.ns; });
}

void GuidedSearch::tell(const RegionCandidate& candidate, std::optional<double> ns) {
  auto flight = in_flight_.find(candidate.fingerprint);
  LFARM_CHECK(flight != in_flight_.end(), "a result of a candidate that was not proposed");
  Operator bred_by = flight->second;
  in_flight_.erase(flight);
  double before = elite_.empty() ? std::numeric_limits<double>::infinity() : elite_.front().ns;
  if (ns) {
    present_.picks.clear();
    Genome genome = without_schedules(candidate.genome);
    Layout layout = lay_out(genome);
    for (size_t k = 0; k < candidate.kernels.size(); ++k) {
      auto [id, code] = candidate.kernels[k];
      // A worker that timed the whole only leaves the split to the prediction.
      if (times_.best(id) || layout.calls[k] == 0) continue;
      double share = times_.predicted(id, code) / candidate.predicted_ns;
      times_.record(id, code, *ns * share);
    }
    revalue();
    enlist(genome, layout, worth(layout).ns);
  } else {
    for (size_t k : candidate.untried) {
      auto [id, code] = candidate.kernels[k];
      times_.blame(id, code, candidate.untried.size() - 1);
    }
  }
  bool improved = !elite_.empty() && elite_.front().ns < before * 0.999;
  since_improvement_ = improved ? 0 : since_improvement_ + 1;
  credit_[bred_by] = kCreditDecay * credit_[bred_by] + (1 - kCreditDecay) * (improved ? 1 : 0);
}

std::vector<ScheduleCode> GuidedSearch::best_codes(const Member& member) const {
  std::vector<ScheduleCode> codes;
  for (KernelId id : member.layout.kernels) {
    auto best = times_.best(id);
    codes.push_back(best ? best->code : 0);
  }
  return codes;
}

common::Result<common::Program> GuidedSearch::program_of(const Member& member) const {
  return RegionSpace::program(*member.layout.structure, best_codes(member));
}

Genome GuidedSearch::best_genome() const {
  if (elite_.empty()) return {};
  const Member& best = elite_.front();
  std::vector<ScheduleCode> codes = best_codes(best);
  const FusedProgram& fused = best.layout.structure->fused;
  Genome genome = best.genome;
  for (size_t k = 0; k < codes.size(); ++k) {
    set_schedule(fused.genes[k], fused.kernels[k]->kernel.form, codes[k], genome);
  }
  return genome;
}

common::Program GuidedSearch::ranked(size_t rank) const {
  if (elite_.empty()) return whole_program(seeds_.all[0].second.structure->fused);
  // Programs put together from measured kernels were never verified as a whole.
  for (size_t k = std::min(rank, elite_.size() - 1); k < elite_.size(); ++k) {
    auto program = program_of(elite_[k]);
    if (program.ok()) return *std::move(program);
  }
  return space_.plain();
}

double GuidedSearch::best_ns() const { return elite_.empty() ? default_ns_ : elite_.front().ns; }

}  // namespace coordinator
