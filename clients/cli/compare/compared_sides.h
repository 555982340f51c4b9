// The sides of a comparison, which take turns: lfarm's plan in this process, and peers in processes
// of their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/cli/compare/compared_row.h"
#include "clients/cli/compare/measured_model.h"
#include "clients/peers/peer_process.h"
#include "clients/score/roofline.h"
#include "common/base/result.h"

namespace clients {

struct PeerSetup {
  std::vector<std::string> python;  // see PeerOptions
  int threads = 1;
  double load_s = 1200;  // that a peer may take to compile a model
};

// One peer while a row is measured.
struct PeerSide {
  SideResult result;
  PeerFacts facts;
  PeerRates rates;                                 // of eager, where it runs
  std::optional<PeerProcess> process;              // empty: it failed, and the result says why
  common::Code failure = common::Code::kInternal;  // of a peer that failed
  std::vector<common::HostTensor> outputs;         // of the first call

  void fail(const common::Error& why);
};

// lfarm's side of a row; without a plan, or once it failed, `side` is empty.
struct OwnSide {
  SideResult result;
  std::optional<LfarmSide> side;
  std::string problem;  // why there is no result, or a wrong one

  void fail(const std::string& why);
};

// Starts a peer's process, which loads its libraries. A peer that fails, here or below, says so in
// its result; the other sides go on.
PeerSide start_peer(const PeerSetup& setup, const std::string& backend);
// Sends it the model, which it compiles and calls once.
void load_peer(const MeasuredModel& model, PeerSide* peer);

// What PyTorch gave: of this run's eager, else of the case's folder.
common::Result<std::vector<common::HostTensor>> expected_outputs(
    const MeasuredModel& model, const std::vector<PeerSide>& peers);
// Peers whose first outputs are others compete with nobody. Frees the outputs.
void check_peers(const MeasuredModel& model,
                 const common::Result<std::vector<common::HostTensor>>& expected,
                 std::vector<PeerSide>* peers);
// lfarm's side, its first outputs compared.
OwnSide open_own(const MeasuredModel& model, const common::Result<PulledPlan>& plan, int threads,
                 const common::Result<std::vector<common::HostTensor>>& expected);

// Measures what PyTorch's products take, then all sides in turns, of which another begins each
// round, and each once the others' threads have gone to sleep. `model` of more bytes than the
// roofline's caches hold: memory's bandwidth is measured in the same rounds. The error is that of a
// signal that asked to stop.
common::Result<RowBound> measure_rounds(const MeasuredModel& model, const Roofline& roofline,
                                        int rounds, int threads, OwnSide* own,
                                        std::vector<PeerSide>* peers);

}  // namespace clients
