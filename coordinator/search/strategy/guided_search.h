// Steady-state genetic search over a region's structures, with a learned model for their schedules.
//
// A program takes what its kernels take, so one candidate tries many things at once: a structure
// (choices and stores), bred from what worked, and a new schedule for each of its costlier kernels.
// Each kernel's time is learned by itself, and a structure is worth the sum of its kernels' best.
// Children are ranked by measured and predicted times; schedules are drawn as if their effects were
// what the model thinks possible (Thompson 1933), so that what is uncertain is tried, too.
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>

#include "common/base/random.h"
#include "coordinator/search/space/lowering_gate.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {

class GuidedSearch final : public RegionSearch {
 public:
  GuidedSearch(RegionSpace& space, KernelTimes& times, uint64_t seed, const Genome* kin = nullptr);

  std::optional<RegionCandidate> propose() override;
  void tell(const RegionCandidate& candidate, std::optional<double> ns) override;
  common::Program ranked(size_t rank) const override;
  std::optional<common::Program> direct() override;
  Genome best_genome() const override;
  double best_ns() const override;
  bool has_measurement() const override { return !elite_.empty(); }
  double expected_ns() override { return worth(seeds_.all.front().second).ns; }
  double novelty(const Effort& effort) override;

 private:
  // A structure with its kernels' numbers.
  struct Layout {
    std::shared_ptr<const Structure> structure;
    std::vector<KernelId> kernels;
    std::vector<double> calls;  // of each kernel in every run; 0: it runs when weights are bound
    double held_ns = 0;         // what keeping values computed from weights counts for
  };
  struct Member {
    Genome genome;
    Layout layout;
    double ns = 0;
  };
  struct Worth {
    double ns = 0;
    bool known = true;  // follows from measurements alone
  };
  // An untried schedule and what it might take.
  struct Pick {
    ScheduleCode code = 0;
    double ns = 0;  // infinity: every schedule was tried
  };
  // Of the proposal that is being made.
  struct Present {
    bool is_seed = false;  // its structure
    uint64_t draw = 0;
    double temperature = 1;
    std::map<KernelId, Pick> picks = {};
  };
  struct Structures {
    std::set<common::Digest> sent;
    std::set<common::Digest> known;  // composed or measured
  };
  struct Seeds {
    std::vector<std::pair<Genome, Layout>> all;
    size_t next = 0;
    std::optional<Genome> kin;  // what was best elsewhere, until it was proposed
    bool kin_waits = false;     // until another was
  };
  enum Operator : size_t { kSchedules, kStructures, kCrossover, kOperatorCount };
  static constexpr std::string_view kOrigins[] = {"schedules", "structures", "crossover"};

  Layout lay_out(const Genome& genome);
  // What the structure's kernels take with their fastest measured schedules, else with the default
  // ones by prediction: the least prediction of many schedules would favour kernels that have many.
  double default_ns(const Layout& layout);
  KernelShares default_shares(const Layout& layout);
  Worth worth(const Layout& layout);
  const Pick& pick(KernelId id);
  Pick make_pick(KernelId id);
  bool finish_pick(KernelId id, Pick chosen);
  void pick_all(std::span<const KernelId> ids);
  std::vector<ScheduleCode> schedules_to_consider(KernelId id);
  void make_seeds();
  // The genome with the fastest direct sum in place of a minimal filter; empty where there is none.
  std::optional<Genome> with_direct_sum(const Genome& genome);
  bool next_structure(Genome& genome, Layout& layout);
  // Whether the structure is new and may be among the best.
  bool may_send(const Layout& layout);
  void climb(Genome& genome, Layout& layout);
  bool mutate(Genome& genome, const std::vector<Site>& sites);
  Genome cross(const Member& mother, const Member& father);
  const Member& tournament();
  Operator choose_operator();
  std::optional<RegionCandidate> fill_in(const Genome& genome, const Layout& layout, bool force);
  std::optional<RegionCandidate> propose_kin();
  std::optional<RegionCandidate> make(const Genome& genome, const Layout& layout,
                                      const std::vector<ScheduleCode>& codes);
  void refuse(const Layout& layout, const common::Error& error);
  void enlist(const Genome& genome, const Layout& layout, double ns);
  void revalue();
  std::vector<ScheduleCode> best_codes(const Member& member) const;
  common::Result<common::Program> program_of(const Member& member) const;

  RegionSpace& space_;
  KernelTimes& times_;
  common::Random random_;
  Seeds seeds_;
  std::vector<Genome> packings_;  // tried when the first structures are known
  std::vector<Member> elite_;     // distinct structures, best first
  Structures structures_;
  std::map<common::Digest, Operator> in_flight_;
  int64_t refused_ = 0;  // structures whose programs do not verify
  std::array<double, kOperatorCount> credit_{0.3, 0.3, 0.3};
  Operator last_operator_ = kSchedules;
  Present present_;
  int64_t since_improvement_ = 0;
  double default_ns_ = 0;
};

}  // namespace coordinator
