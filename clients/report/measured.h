// What a report says of records: the latest of what was measured alike, side by side.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/records/record.h"

namespace clients {

// What was measured: two records with the same key measure the same thing.
struct CellKey {
  std::string machine, device, model, dtype, sizes;
  int64_t batch = 0;  // 0: none was given
  std::string backend;
  auto fields() const { return std::tie(device, machine, model, dtype, batch, sizes, backend); }
  friend bool operator<(const CellKey& a, const CellKey& b) { return a.fields() < b.fields(); }
  friend bool operator==(const CellKey& a, const CellKey& b) { return a.fields() == b.fields(); }
};

// The latest of each part, which may come from different records.
struct Cell {
  CellKey key;
  std::optional<common::Latency> latency;
  std::optional<common::OutputErrors> error;
  // The fastest other backend's time over this one's: from 1 on nobody is faster. Empty without
  // another one's time. The interpreter competes with nobody.
  std::optional<double> ratio;
  std::vector<common::GateResult> gates;  // of the latest record that has any, by source and name
  int64_t at_ns = 0;                      // of the latest part
};

// What a search had found after a budget.
struct SweepPoint {
  int64_t budget = 0;
  uint64_t seed = 0;
  int64_t candidates = 0;
  double best_ns = 0;
};
struct Sweep {
  std::string machine, device, model, strategy;
  std::vector<SweepPoint> points;  // by seed, then by budget; the latest of each
  double baseline_ns = 0;          // the latest that was measured; 0: none
  double least_ns = 0;             // of all strategies' points of the model on the device
};

struct Measured {
  std::vector<Cell> cells;    // ordered by key
  std::vector<Sweep> sweeps;  // by device, machine, model and strategy
  size_t records = 0;
  int64_t first_ns = 0, last_ns = 0;  // times of the records; 0 without any
};

inline constexpr const char* kInterpreter = "interpreter";

// Of records in the order in which they were appended; of equal times the later counts.
Measured summarise(const std::vector<common::Record>& records);

}  // namespace clients
