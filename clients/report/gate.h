// Conditions that measurements must meet: "error_rel{backend=lfarm} <= 1e-3".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "clients/report/measured.h"
#include "common/base/result.h"

namespace clients {

// METRIC[{WORD=VALUE,...}] OP NUMBER. Metrics: latency_ms, spread (relative to the median),
// error_abs, error_rel, ratio (Cell::ratio), and of searches gain (the plain plan's time over the
// best one's, after the largest budget, least of all seeds). Words: machine, device, backend,
// model, dtype, sizes, batch; of searches machine, device, model, strategy. OP: <= < >= >.
struct Gate {
  std::string text;  // as it was written
  std::string metric;
  std::map<std::string, std::string> only;
  std::string op;
  double limit = 0;
};

// kInvalidInput says what is wrong with the text.
common::Result<Gate> parse_gate(std::string_view text);
// One gate a line; what follows # is skipped. kInvalidInput naming the line of `name`.
common::Result<std::vector<Gate>> parse_gate_file(std::string_view text, const std::string& name);

// A gate holds when all that it is about meet it, and there is something.
struct GateVerdict {
  bool passed = false;
  size_t met = 0, asked = 0;
  double worst = 0;   // the value furthest from the limit, or closest to it; 0 when asked is 0
  std::string where;  // whose that is
};
GateVerdict judge(const Gate& gate, const Measured& measured);

// "llama, f32, batch 4, lfarm on cpu": a cell in words.
std::string words_of(const CellKey& key);

}  // namespace clients
