#include "tests/bench/peers_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/contains.h"

namespace bench {
namespace {

using clients::best_peer;
using clients::kLfarmSide;
using clients::median_ms;
using clients::ratio_to_best;
using clients::roofline_share;
using clients::side_of;
using clients::SideResult;
using clients::spread_ms;
using common::cat;
using Json = nlohmann::ordered_json;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Three digits that say something.
std::string ms_text(double ms) {
  int digits = ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : ms >= 0.1 ? 3 : 6;
  return fixed(ms, digits);
}

// All sides that occur, in their order.
std::vector<std::string> side_names(const std::vector<ModelRow>& rows) {
  std::vector<std::string> names;
  for (const ModelRow& row : rows) {
    for (const SideResult& side : row.sides) {
      if (!common::contains(names, side.name)) {
        names.push_back(side.name);
      }
    }
  }
  return names;
}

using Cells = std::vector<std::string>;

std::vector<Cells> cells_of(const std::vector<ModelRow>& rows) {
  std::vector<std::string> names = side_names(rows);
  std::vector<Cells> table = {{"model", "dtype", "threads"}};
  for (const std::string& name : names) table[0].push_back(name + " ms");
  for (const char* head : {"ratio to best", "least ms", "bound"}) table[0].emplace_back(head);
  for (const std::string& name : names) table[0].push_back(name + " of roofline");
  for (const ModelRow& row : rows) {
    Cells& line = table.emplace_back();
    line = {row.model, row.dtype, std::to_string(row.threads)};
    for (const std::string& name : names) {
      const SideResult* side = side_of(row, name);
      auto ms = side != nullptr ? median_ms(*side) : std::nullopt;
      bool marked =
          side != nullptr && (!side->competes || (name == kLfarmSide && !row.problem.empty()));
      line.push_back(ms ? cat(ms_text(*ms), marked ? "*" : "") : "-");
    }
    auto ratio = ratio_to_best(row);
    line.push_back(ratio ? cat(fixed(*ratio, 2), " (", best_peer(row)->name, ")") : "-");
    line.push_back(row.bound.least_ms() > 0 ? ms_text(row.bound.least_ms()) : "-");
    line.emplace_back(row.bound.least_ms() <= 0 ? "-"
                      : row.bound.is_reads()    ? "reads"
                                                : "operations");
    for (const std::string& name : names) {
      const SideResult* side = side_of(row, name);
      auto share = side != nullptr ? roofline_share(row, *side) : std::nullopt;
      line.push_back(share ? fixed(*share, 2) : "-");
    }
  }
  return table;
}

// One line a thing that the table cannot say; equal ones of several rows together.
std::vector<std::string> notes_of(const std::vector<ModelRow>& rows) {
  std::vector<std::pair<std::string, std::string>> notes;  // what, of which rows
  auto add = [&notes](const std::string& what, const std::string& where) {
    auto same =
        std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == what; });
    if (same == notes.end()) {
      notes.emplace_back(what, where);
    } else {
      same->second += ", " + where;
    }
  };
  for (const ModelRow& row : rows) {
    std::string where = cat(row.model, " x", row.threads);
    if (!row.problem.empty()) add(cat("FAILED: ", row.problem), where);
    for (const SideResult& side : row.sides) {
      if (!side.note.empty()) add(side.note, where);
      if (!side.settings.empty() && !side.us.empty())
        add(cat(side.name, " ran with ", side.settings), where);
    }
  }
  std::vector<std::string> lines;
  lines.reserve(notes.size());
  for (const auto& [what, where] : notes) lines.push_back(cat(what, " [", where, "]"));
  return lines;
}

std::string text_of(const Summary& one) {
  std::string failed = one.failed > 0 ? cat(", ", one.failed, " failed") : "";
  if (one.rows == 0) return cat(one.dtype, ": no ratio", failed);
  return cat(one.dtype, ": geometric mean ", fixed(one.geomean, 2), " of ", one.rows,
             one.rows == 1 ? " row, " : " rows, ", one.below, " below 0.9", failed);
}

}  // namespace

std::vector<Summary> summaries_of(const std::vector<ModelRow>& rows) {
  std::vector<Summary> all;
  for (const ModelRow& row : rows) {
    auto place = std::find_if(all.begin(), all.end(),
                              [&](const Summary& one) { return one.dtype == row.dtype; });
    if (place == all.end()) place = all.insert(all.end(), Summary{row.dtype, 0, 0, 0, 0});
    if (!row.problem.empty()) ++place->failed;
    auto ratio = ratio_to_best(row);
    if (!ratio) continue;
    ++place->rows;
    place->geomean += std::log(*ratio);
    if (*ratio < kBelow) ++place->below;
  }
  for (Summary& one : all) one.geomean = one.rows > 0 ? std::exp(one.geomean / one.rows) : 0;
  return all;
}

std::string json_of(const ModelRow& row) {
  Json json{
      {"bench", "models"}, {"model", row.model}, {"dtype", row.dtype}, {"threads", row.threads}};
  for (const SideResult& side : row.sides) {
    auto ms = median_ms(side);
    json[side.name + "_ms"] = ms ? Json(*ms) : Json(nullptr);
    if (ms) json[side.name + "_spread_ms"] = spread_ms(side);
    if (auto share = roofline_share(row, side)) json[side.name + "_roofline"] = *share;
    if (!side.settings.empty()) json["settings"][side.name] = side.settings;
    if (!side.note.empty()) json["notes"][side.name] = side.note;
  }
  const SideResult* best = best_peer(row);
  auto ratio = ratio_to_best(row);
  json["best_peer"] = best != nullptr ? Json(best->name) : Json(nullptr);
  json["ratio_to_best"] = ratio ? Json(*ratio) : Json(nullptr);
  json["operations"] = row.bound.operations;
  json["bytes"] = row.bound.bytes;
  json["operations_per_s"] = row.bound.operations_per_s;
  json["bytes_per_s"] = row.bound.bytes_per_s;
  json["least_ms"] = row.bound.least_ms();
  json["bound"] = row.bound.is_reads() ? "reads" : "operations";
  if (!row.problem.empty()) json["problem"] = row.problem;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_of(const Summary& summary) {
  Json json{{"bench", "models"}, {"summary", summary.dtype}, {"rows", summary.rows}};
  json["geomean"] = summary.rows > 0 ? Json(summary.geomean) : Json(nullptr);
  json["below_0_9"] = summary.below;
  json["failed"] = summary.failed;
  return json.dump();
}

std::string table_of(const std::vector<ModelRow>& rows) {
  std::vector<Cells> table = cells_of(rows);
  std::vector<size_t> widths(table[0].size(), 0);
  for (const Cells& line : table) {
    for (size_t k = 0; k < line.size(); ++k) widths[k] = std::max(widths[k], line[k].size());
  }
  std::string text;
  for (const Cells& line : table) {
    for (size_t k = 0; k < line.size(); ++k) {
      std::string gap(widths[k] - line[k].size(), ' ');
      text += cat(k == 0 ? "" : "  ", k < 2 ? line[k] + gap : gap + line[k]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  for (const std::string& note : notes_of(rows)) text += cat("  ", note, "\n");
  for (const Summary& one : summaries_of(rows)) text += cat(text_of(one), "\n");
  return text;
}

std::string markdown_of(const std::vector<ModelRow>& rows, const SetupLines& setup) {
  std::string text;
  for (const std::string& line : setup) text += cat("- ", line, "\n");
  text += '\n';
  std::vector<Cells> table = cells_of(rows);
  for (size_t r = 0; r < table.size(); ++r) {
    text += '|';
    for (const std::string& cell : table[r]) text += cat(" ", cell, " |");
    text += '\n';
    if (r == 0) {
      text += '|';
      for (size_t k = 0; k < table[r].size(); ++k) text += k < 2 ? "---|" : "--:|";
      text += '\n';
    }
  }
  text += '\n';
  for (const Summary& one : summaries_of(rows)) text += cat("- **", text_of(one), "**\n");
  for (const std::string& note : notes_of(rows)) text += cat("- ", note, "\n");
  return text;
}

}  // namespace bench
