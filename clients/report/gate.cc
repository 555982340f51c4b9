#include "clients/report/gate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Result;

namespace {

constexpr const char* kMetrics[] = {"latency_ms", "spread", "error_abs",
                                    "error_rel",  "ratio",  "gain"};
constexpr const char* kCellWords[] = {"machine", "device", "backend", "model",
                                      "dtype",   "sizes",  "batch"};
constexpr const char* kSweepWords[] = {"machine", "device", "model", "strategy"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

template <size_t N>
bool is_one_of(const std::string& word, const char* const (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// "model=llama, sizes=s0=4": a value may hold '='.
common::Status parse_words(std::string_view text, Gate* gate) {
  while (!text.empty()) {
    size_t end = text.find(',');
    std::string_view part = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    size_t equals = part.find('=');
    std::string word(trimmed(part.substr(0, equals)));
    bool known =
        gate->metric == "gain" ? is_one_of(word, kSweepWords) : is_one_of(word, kCellWords);
    if (!known || equals == std::string_view::npos) {
      return invalid_input(cat("'", part, "' is no WORD=VALUE of ", gate->metric));
    }
    if (!gate->only.emplace(word, trimmed(part.substr(equals + 1))).second) {
      return invalid_input(cat("'", word, "' comes twice"));
    }
  }
  return {};
}

// By the locale of no country: as JSON writes numbers, and "1e-3".
std::optional<double> parse_number(std::string_view text) {
  auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_number()) return std::nullopt;
  auto value = json.get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Result<Gate> parse(std::string_view text) {
  Gate gate;
  gate.text = std::string(text);
  size_t metric_end = text.find_first_of("{<> \t");
  gate.metric = std::string(text.substr(0, metric_end));
  if (!is_one_of(gate.metric, kMetrics)) {
    return invalid_input(cat("'", gate.metric, "' is none of latency_ms, spread, error_abs, ",
                             "error_rel, ratio, gain"));
  }
  text = trimmed(text.substr(gate.metric.size()));
  if (!text.empty() && text[0] == '{') {
    size_t close = text.find('}');
    if (close == std::string_view::npos) return invalid_input("'{' is not closed");
    LFARM_RETURN_IF_ERROR(parse_words(text.substr(1, close - 1), &gate));
    text = trimmed(text.substr(close + 1));
  }
  size_t op_end = text.find_first_not_of("<>=");
  gate.op = std::string(text.substr(0, op_end));
  if (gate.op != "<=" && gate.op != "<" && gate.op != ">=" && gate.op != ">") {
    return invalid_input("there is no <=, <, >= or >");
  }
  auto limit = parse_number(trimmed(text.substr(gate.op.size())));
  if (!limit) return invalid_input("what follows the comparison is no number");
  gate.limit = *limit;
  return gate;
}

std::optional<double> value_of(const std::string& metric, const Cell& cell) {
  if (metric == "ratio") return cell.ratio;
  if (cell.latency && metric == "latency_ms") return cell.latency->median_ns / 1e6;
  if (cell.latency && metric == "spread") {
    return cell.latency->spread_ns / cell.latency->median_ns;
  }
  if (cell.error && metric == "error_abs") return cell.error->absolute;
  if (cell.error && metric == "error_rel") return cell.error->relative;
  return std::nullopt;
}

// Of the largest budget, the least over its seeds.
std::optional<double> gain_of(const Sweep& sweep) {
  if (sweep.baseline_ns <= 0) return std::nullopt;
  int64_t budget = 0;
  double worst = 0;
  for (const SweepPoint& point : sweep.points) {
    if (point.budget < budget) continue;
    worst = point.budget > budget ? point.best_ns : std::max(worst, point.best_ns);
    budget = point.budget;
  }
  return sweep.baseline_ns / worst;
}

bool is_asked(const Gate& gate, const std::map<std::string, std::string>& about) {
  return std::all_of(gate.only.begin(), gate.only.end(), [&](const auto& wanted) {
    auto found = about.find(wanted.first);
    return found != about.end() && found->second == wanted.second;
  });
}

bool meets(const Gate& gate, double value) {
  if (gate.op == "<=") return value <= gate.limit;
  if (gate.op == "<") return value < gate.limit;
  if (gate.op == ">=") return value >= gate.limit;
  return value > gate.limit;
}

void count(const Gate& gate, double value, const std::string& where, GateVerdict* verdict) {
  bool wants_less = gate.op[0] == '<';
  bool is_worse =
      verdict->asked == 0 || (wants_less ? value > verdict->worst : value < verdict->worst);
  if (is_worse) {
    verdict->worst = value;
    verdict->where = where;
  }
  ++verdict->asked;
  verdict->met += meets(gate, value) ? 1 : 0;
}

}  // namespace

Result<Gate> parse_gate(std::string_view text) {
  auto gate = parse(trimmed(text));
  if (gate.ok()) return gate;
  return invalid_input(cat("gate '", trimmed(text), "': ", gate.error().message));
}

Result<std::vector<Gate>> parse_gate_file(std::string_view text, const std::string& name) {
  std::vector<Gate> gates;
  for (int number = 1; !text.empty(); ++number) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    auto gate = parse_gate(line);
    if (!gate.ok()) {
      return invalid_input(cat(name, ", line ", number, ": ", gate.error().message));
    }
    gates.push_back(std::move(gate).value());
  }
  return gates;
}

GateVerdict judge(const Gate& gate, const Measured& measured) {
  GateVerdict verdict;
  for (const Cell& cell : measured.cells) {
    auto value = value_of(gate.metric, cell);
    const CellKey& key = cell.key;
    if (value && is_asked(gate, {{"machine", key.machine},
                                 {"device", key.device},
                                 {"backend", key.backend},
                                 {"model", key.model},
                                 {"dtype", key.dtype},
                                 {"sizes", key.sizes},
                                 {"batch", key.batch == 0 ? "" : cat(key.batch)}})) {
      count(gate, *value, words_of(key), &verdict);
    }
  }
  for (const Sweep& sweep : measured.sweeps) {
    auto value = gate.metric == "gain" ? gain_of(sweep) : std::nullopt;
    if (value && is_asked(gate, {{"machine", sweep.machine},
                                 {"device", sweep.device},
                                 {"model", sweep.model},
                                 {"strategy", sweep.strategy}})) {
      count(gate, *value, cat(sweep.model, " on ", sweep.device), &verdict);
    }
  }
  verdict.passed = verdict.asked > 0 && verdict.met == verdict.asked;
  return verdict;
}

std::string words_of(const CellKey& key) {
  std::string words = key.model;
  if (!key.dtype.empty()) words += cat(", ", key.dtype);
  if (key.batch != 0) words += cat(", batch ", key.batch);
  if (!key.sizes.empty()) words += cat(", ", key.sizes);
  return cat(words, ": ", key.backend, " on ", key.device);
}

}  // namespace clients
