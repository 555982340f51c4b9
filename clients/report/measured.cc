#include "clients/report/measured.h"

#include <algorithm>

namespace clients {

using common::Record;

namespace {

// The latest so far of what goes into one cell.
struct Growing {
  Cell cell;
  int64_t latency_ns = -1, error_ns = -1;  // when it was measured
  std::map<std::string, std::pair<int64_t, common::GateResult>> gates;
};

CellKey key_of(const Record& record) {
  return {record.machine,           record.device, record.model, record.dtype, record.sizes,
          record.batch.value_or(0), record.backend};
}

void take(const Record& record, Growing* into) {
  Cell& cell = into->cell;
  if (record.latency && record.at_ns >= into->latency_ns) {
    cell.latency = record.latency;
    into->latency_ns = record.at_ns;
  }
  if (record.error && record.at_ns >= into->error_ns) {
    cell.error = record.error;
    into->error_ns = record.at_ns;
  }
  for (const common::GateResult& gate : record.gates) {
    auto [place, is_new] = into->gates.try_emplace(gate.name, record.at_ns, gate);
    if (!is_new && record.at_ns >= place->second.first) place->second = {record.at_ns, gate};
  }
  cell.at_ns = std::max(cell.at_ns, record.at_ns);
}

// Cells of one group differ in their backends only, and follow one another.
bool is_same_group(const CellKey& a, const CellKey& b) {
  CellKey other = b;
  other.backend = a.backend;
  return a == other;
}

void compare_backends(std::vector<Cell>* cells) {
  for (size_t begin = 0; begin < cells->size();) {
    size_t end = begin;
    while (end < cells->size() && is_same_group((*cells)[begin].key, (*cells)[end].key)) ++end;
    for (size_t i = begin; i < end; ++i) {
      Cell& cell = (*cells)[i];
      if (!cell.latency || cell.key.backend == kInterpreter) continue;
      double best = 0;
      for (size_t k = begin; k < end; ++k) {
        const Cell& other = (*cells)[k];
        if (k == i || !other.latency || other.key.backend == kInterpreter) continue;
        if (best == 0 || other.latency->median_ns < best) best = other.latency->median_ns;
      }
      if (best > 0) cell.ratio = best / cell.latency->median_ns;
    }
    begin = end;
  }
}

struct GrowingSweep {
  Sweep sweep;
  int64_t baseline_at_ns = -1;
  std::map<std::pair<uint64_t, int64_t>, std::pair<int64_t, SweepPoint>> points;
};

void take(const Record& record, GrowingSweep* into) {
  const common::SearchPoint& found = *record.search;
  SweepPoint point{found.budget, found.seed, found.candidates, found.best_ns};
  auto [place, is_new] = into->points.try_emplace({found.seed, found.budget}, record.at_ns, point);
  if (!is_new && record.at_ns >= place->second.first) place->second = {record.at_ns, point};
  if (found.baseline_ns > 0 && record.at_ns >= into->baseline_at_ns) {
    into->sweep.baseline_ns = found.baseline_ns;
    into->baseline_at_ns = record.at_ns;
  }
}

void find_least(std::vector<Sweep>* sweeps) {
  std::map<std::tuple<std::string, std::string, std::string>, double> least;
  for (const Sweep& sweep : *sweeps) {
    double& best = least[{sweep.device, sweep.machine, sweep.model}];
    for (const SweepPoint& point : sweep.points) {
      if (best == 0 || point.best_ns < best) best = point.best_ns;
    }
  }
  for (Sweep& sweep : *sweeps) {
    sweep.least_ns = least[{sweep.device, sweep.machine, sweep.model}];
  }
}

}  // namespace

Measured summarise(const std::vector<Record>& records) {
  Measured measured;
  std::map<CellKey, Growing> cells;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, GrowingSweep> sweeps;
  for (const Record& record : records) {
    bool is_first = measured.records++ == 0;
    measured.first_ns = is_first ? record.at_ns : std::min(measured.first_ns, record.at_ns);
    measured.last_ns = std::max(measured.last_ns, record.at_ns);
    if (record.latency || record.error || !record.gates.empty()) {
      take(record, &cells[key_of(record)]);
    }
    if (record.search) {
      take(record, &sweeps[{record.device, record.machine, record.model, record.search->strategy}]);
    }
  }
  for (auto& [key, growing] : cells) {
    growing.cell.key = key;
    for (auto& [name, gate] : growing.gates) growing.cell.gates.push_back(gate.second);
    measured.cells.push_back(std::move(growing.cell));
  }
  compare_backends(&measured.cells);
  for (auto& [key, growing] : sweeps) {
    Sweep& sweep = growing.sweep;
    std::tie(sweep.device, sweep.machine, sweep.model, sweep.strategy) = key;
    for (auto& [place, point] : growing.points) sweep.points.push_back(point.second);
    measured.sweeps.push_back(std::move(sweep));
  }
  find_least(&measured.sweeps);
  return measured;
}

}  // namespace clients
