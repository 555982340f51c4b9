// One model measured beside other runtimes: what each side took, and the ratios that may be told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/peers/peer_process.h"
#include "clients/score/roofline.h"

namespace clients {

inline constexpr const char* kLfarmSide = "lfarm";

// What one of the sides did with a model.
struct SideResult {
  std::string name;        // kLfarmSide, "eager", ...
  std::vector<double> us;  // of each call; empty: it was not run
  std::string settings;    // which of several ways it took
  std::string note;        // why it was not run, or competes with nobody; may be empty
  bool competes = true;    // a ratio against it may be published
};

// What the machine could do at most, and for this model must do at least.
struct RowBound {
  double operations = 0, bytes = 0;              // of one call
  double operations_per_s = 0, bytes_per_s = 0;  // measured
  // The longer of both; 0 where nothing is known.
  double least_ms() const;
  bool is_reads() const;
};

struct ModelRow {
  std::string model, dtype;  // "gpt2_125m_f32", "f32"
  int threads = 1;
  std::vector<SideResult> sides;
  RowBound bound;
  std::string problem;  // why lfarm has no result, or a wrong one; empty: it is right
};

// The side of this name; null when the row has none.
const SideResult* side_of(const ModelRow& row, const std::string& name);

// Milliseconds: the median of a side's calls, and the distance of their quartiles.
std::optional<double> median_ms(const SideResult& side);
double spread_ms(const SideResult& side);

// The fastest peer that competes; null when there is none.
const SideResult* best_peer(const ModelRow& row);
// The best peer's time over lfarm's; empty without either, or when lfarm is wrong.
std::optional<double> ratio_to_best(const ModelRow& row);
// The least time over a side's time.
std::optional<double> roofline_share(const ModelRow& row, const SideResult& side);

// Why no ratio against such a peer may be published; empty: it may. `has_vectors`: the processor
// has AVX2 at least.
std::string refusal_of(const PeerFacts& facts, bool has_vectors);
// "AMD EPYC 9B14, 2 threads: 180 GFLOP/s float32, reads memory at 21.0 GB/s".
std::string roofline_text(const Roofline& roofline);
// "torch 2.14.1, BLAS OpenBLAS (/usr/lib/...), AVX512".
std::string facts_text(const PeerFacts& facts);

}  // namespace clients
