#include "clients/cli/compare/compare_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

// A side's time over lfarm's; empty without either, or when lfarm is wrong.
std::optional<double> beside_lfarm(const ModelRow& row, const SideResult& side) {
  const SideResult* own = side_of(row, kLfarmSide);
  auto ms = median_ms(side);
  if (!ms || own == nullptr || own->us.empty() || !row.problem.empty()) return std::nullopt;
  return *ms / *median_ms(*own);
}

// Whether a side's outputs are those of PyTorch's eager mode, in a word that programs can read.
std::string outputs_word(const Comparison& comparison, const SideResult& side) {
  if (side.name == "eager" && !side.us.empty()) return "reference";
  if (side.us.empty()) return "none";
  bool is_own = side.name == kLfarmSide;
  if (is_own ? !comparison.row.problem.empty() : !side.competes) return "differ";
  return comparison.verified ? "same" : "not compared";
}

std::string table_of(const Comparison& comparison) {
  const ModelRow& row = comparison.row;
  std::vector<std::vector<std::string>> lines = {
      {"", "a call", "beside lfarm", "of the roofline", "outputs"}};
  for (const SideResult& side : row.sides) {
    auto ms = median_ms(side);
    auto ratio = beside_lfarm(row, side);
    auto share = roofline_share(row, side);
    lines.push_back({side.name, ms ? common::duration_text(*ms * 1e6) : "-",
                     ratio ? common::ratio_text(*ratio) : "-",
                     share ? common::ratio_text(*share) : "-", outputs_word(comparison, side)});
  }
  std::vector<size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines) {
    for (size_t k = 0; k < line.size(); ++k) widths[k] = std::max(widths[k], line[k].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (size_t k = 0; k < line.size(); ++k) {
      std::string gap(widths[k] - line[k].size(), ' ');
      bool is_last = k + 1 == line.size();
      text += is_last ? line[k] : k == 0 ? cat(line[k], gap, "  ") : cat(gap, line[k], "  ");
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string text_of(const Comparison& comparison) {
  const ModelRow& row = comparison.row;
  std::string text = cat("model     ", row.model, ", ", row.dtype, ", ", row.threads,
                         row.threads == 1 ? " thread" : " threads", "\n");
  if (!comparison.plan.empty()) text += cat("plan      ", comparison.plan, "\n");
  text += cat("machine   ", comparison.machine, "\n");
  if (!comparison.peers.empty()) text += cat("PyTorch   ", comparison.peers, "\n");
  text += cat("\n", table_of(comparison), "\n");
  for (const SideResult& side : row.sides) {
    if (!side.settings.empty() && !side.us.empty()) {
      text += cat(side.name, " ran with ", side.settings, "\n");
    }
    if (!side.note.empty()) text += cat(side.note, "\n");
  }
  if (!row.problem.empty()) return text + cat(row.problem, "\n");
  if (auto ratio = ratio_to_best(row)) {
    text += cat("lfarm is ", common::ratio_text(*ratio), " times as fast as ", best_peer(row)->name,
                ", the fastest beside it\n");
  }
  return text;
}

std::string json_of(const Comparison& comparison) {
  const ModelRow& row = comparison.row;
  Json sides = Json::array();
  for (const SideResult& side : row.sides) {
    auto number = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json(nullptr);
    };
    Json one{{"name", side.name},
             {"ms", number(median_ms(side))},
             {"spread_ms", side.us.empty() ? Json(nullptr) : Json(spread_ms(side))},
             {"calls", side.us.size()},
             {"ratio", number(beside_lfarm(row, side))},
             {"roofline", number(roofline_share(row, side))},
             {"outputs", outputs_word(comparison, side)},
             {"competes", side.competes}};
    if (!side.settings.empty()) one["settings"] = side.settings;
    if (!side.note.empty()) one["note"] = side.note;
    sides.push_back(std::move(one));
  }
  const SideResult* best = best_peer(row);
  auto ratio = ratio_to_best(row);
  Json json{{"model", row.model},
            {"dtype", row.dtype},
            {"threads", row.threads},
            {"plan", comparison.plan},
            {"machine", comparison.machine},
            {"pytorch", comparison.peers},
            {"sides", std::move(sides)},
            {"best_peer", best != nullptr ? Json(best->name) : Json(nullptr)},
            {"ratio_to_best", ratio ? Json(*ratio) : Json(nullptr)},
            {"least_ms", row.bound.least_ms()},
            {"bound", row.bound.is_reads() ? "reads" : "operations"}};
  if (!row.problem.empty()) json["problem"] = row.problem;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace clients
