#include "clients/score/scorecard_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;
using common::duration_text;
using common::fixed_text;
using common::invalid_input;
using common::Result;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kVersion = 1;

std::string percent_text(double share) { return cat(fixed_text(100 * share, 1), " %"); }

// A name in a cell of a table, whatever it holds.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '|' || c == '`' || c == '\\' || c == '<' || c == '*' || c == '[') out += '\\';
    out += c;
  }
  return out;
}

const char* verdict_name(ParityVerdict verdict) {
  switch (verdict) {
    case ParityVerdict::kParity:
      return "parity";
    case ParityVerdict::kSlower:
      return "slower";
    case ParityVerdict::kNotComparable:
      return "not comparable";
  }
  return "";
}

void append_roofline(const Scorecard& card, std::string* out) {
  const Roofline& roofline = card.roofline;
  *out += cat("Roofline of ", cell(roofline.device), " (", roofline.source,
              "): ", fixed_text(roofline.operations_per_s / 1e9, 0), " GFLOP/s");
  if (roofline.half_operations_per_s > 0) {
    *out += cat(", ", fixed_text(roofline.half_operations_per_s / 1e9, 0), " in 16 bits");
  }
  *out += "; reads ";
  for (size_t k = 0; k < roofline.reads.size(); ++k) {
    const Bandwidth& read = roofline.reads[k];
    *out += cat(k == 0 ? "" : ", ", fixed_text(read.bytes_per_s / 1e9, 0), " GB/s");
    if (k + 1 < roofline.reads.size()) {
      *out += cat(" up to ", fixed_text(read.bytes / (1 << 20), 2), " MiB");
    }
  }
  *out += cat("; ", duration_text(roofline.launch_ns), " a launch.\n");
}

void append_hot(const Scorecard& card, std::string* out) {
  *out += "\n## Hot kernels\n\n";
  if (card.hot.empty()) {
    *out += "No kernel ran.\n";
    return;
  }
  *out +=
      "| kernel | does | weights of | at | calls | time | share "
      "|\n|---|---|---|---|---:|---:|---:|\n";
  for (const HotKernel& hot : card.hot) {
    const KernelRun& kernel = hot.kernel;
    *out +=
        cat("| ", cell(kernel.name), " | ", kernel.operation.empty() ? "?" : kernel.operation,
            " | ", cell(kernel.modules), " | ", cell(kernel.sources), " | ", kernel.calls, " | ",
            duration_text(kernel.latency.median_ns), " | ", percent_text(hot.share), " |\n");
  }
  size_t unknown = 0;
  for (const KernelRun& kernel : card.run.kernels) unknown += kernel.operations ? 0 : 1;
  if (unknown > 0) {
    *out += cat("\nThe operations of ", unknown, " of ", card.run.kernels.size(),
                " kernels are not known here: the efficiency counts their bytes alone.\n");
  }
}

void append_regressions(const Scorecard& card, std::string* out) {
  *out += "\n## Regressions\n\n";
  if (card.regressions.empty()) {
    *out += "There is no earlier run to compare with.\n";
    return;
  }
  *out += "| what | now | best before | ratio | verdict |\n|---|---:|---:|---:|---|\n";
  for (const Regression& one : card.regressions) {
    *out += cat("| ", cell(one.what), " | ", duration_text(one.now.median_ns), " | ",
                duration_text(one.before.median_ns), " | ",
                fixed_text(one.now.median_ns / one.before.median_ns, 2), " | ",
                change_name(one.change), " |\n");
  }
}

void append_parity(const Parity& parity, std::string* out) {
  *out +=
      cat("\n## Parity with ", cell(parity.runtime), ": ", verdict_name(parity.verdict), "\n\n");
  if (!parity.common.empty()) {
    *out += "| operator | here | there | ratio |\n|---|---:|---:|---:|\n";
    for (const OperatorRatio& one : parity.common) {
      *out += cat("| ", cell(one.name), " | ", duration_text(one.ms * 1e6), " | ",
                  duration_text(one.other_ms * 1e6), " | ", fixed_text(one.ratio(), 2), " |\n");
    }
    *out += "\n";
  }
  if (parity.whole) {
    *out += cat("A run takes ", duration_text(parity.whole->ms * 1e6), " here and ",
                duration_text(parity.whole->other_ms * 1e6),
                " there: ", fixed_text(parity.whole->ratio(), 2), " of the time.\n");
  }
  if (parity.other_launches) {
    *out += cat("Launches in a run: ", fixed_text(parity.launches, 0), " here, ",
                fixed_text(*parity.other_launches, 0), " there.\n");
  }
  if (!parity.gaps.empty()) {
    *out += "\n| takes longer here | here | there | by |\n|---|---:|---:|---:|\n";
    for (const OperatorRatio& one : parity.gaps) {
      *out += cat("| ", cell(one.name), " | ", duration_text(one.ms * 1e6), " | ",
                  one.other_ms > 0 ? duration_text(one.other_ms * 1e6) : "-", " | ",
                  duration_text((one.ms - one.other_ms) * 1e6), " |\n");
    }
    *out += "\n";
  }
  auto list = [out](const char* where, const std::vector<std::string>& names) {
    if (names.empty()) return;
    *out += cat("Only ", where, ": ");
    for (size_t k = 0; k < names.size(); ++k) *out += cat(k == 0 ? "" : ", ", cell(names[k]));
    *out += ".\n";
  };
  list("here", parity.only_here);
  list("there", parity.only_there);
}

Json json_of(const common::Latency& latency) {
  return {{"ms", latency.median_ns / 1e6},
          {"spread_ms", latency.spread_ns / 1e6},
          {"runs", latency.runs}};
}

Json json_of(const KernelRun& kernel) {
  Json json{{"name", kernel.name},           {"id", kernel.id},
            {"operation", kernel.operation}, {"modules", kernel.modules},
            {"sources", kernel.sources},     {"calls", kernel.calls}};
  json.update(json_of(kernel.latency));
  json["bytes"] = kernel.weight_bytes + kernel.other_bytes;
  json["operations"] = kernel.operations ? Json(*kernel.operations) : Json();
  return json;
}

Json json_of(const OperatorRatio& one) {
  return {{"operator", one.name},
          {"ms", one.ms},
          {"other_ms", one.other_ms},
          {"ratio", one.other_ms > 0 ? Json(one.ratio()) : Json()}};
}

Json json_of(const Parity& parity) {
  Json rows = Json::array(), gaps = Json::array();
  for (const OperatorRatio& one : parity.common) rows.push_back(json_of(one));
  for (const OperatorRatio& one : parity.gaps) gaps.push_back(json_of(one));
  Json whole;
  if (parity.whole) {
    whole = {{"ms", parity.whole->ms},
             {"other_ms", parity.whole->other_ms},
             {"ratio", parity.whole->ratio()}};
  }
  return {{"runtime", parity.runtime},
          {"verdict", verdict_name(parity.verdict)},
          {"whole", std::move(whole)},
          {"launches", parity.launches},
          {"other_launches", parity.other_launches ? Json(*parity.other_launches) : Json()},
          {"gaps", std::move(gaps)},
          {"operators", std::move(rows)},
          {"only_here", parity.only_here},
          {"only_there", parity.only_there}};
}

Json json_of(const TokenRate& rate) {
  bool has_floor = rate.floor_per_s > 0;
  return {{"per_call", rate.tokens},
          {"per_s", rate.per_s},
          {"floor_per_s", has_floor ? Json(rate.floor_per_s) : Json()},
          {"share", has_floor ? Json(rate.per_s / rate.floor_per_s) : Json()}};
}

common::Latency latency_in(const Json& json) {
  common::Latency latency{json.at("ms").get<double>() * 1e6,
                          json.at("spread_ms").get<double>() * 1e6, 0};
  const Json& runs = json.at("runs");
  if (!runs.is_number_integer()) return {};
  latency.runs = runs.get<int64_t>();
  bool fits = std::isfinite(latency.median_ns) && latency.median_ns >= 0 &&
              std::isfinite(latency.spread_ns) && latency.spread_ns >= 0;
  return fits ? latency : common::Latency();
}

}  // namespace

std::string markdown_of(const Scorecard& card) {
  const PlanRun& run = card.run;
  std::string out =
      cat("# Plan ", run.plan.substr(0, 12), ": grade ", std::string(1, card.grade), "\n\n");
  out += cat("Graph ", run.graph.substr(0, 12), " for ", run.target);
  if (!run.sizes.empty()) out += cat(", ", run.sizes);
  out += ".\n\n| | |\n|---|---|\n";
  if (run.latency.median_ns > 0) {
    out += cat("| latency | ", duration_text(run.latency.median_ns), ", quartiles ",
               duration_text(run.latency.spread_ns), " apart, ", run.latency.runs, " runs |\n");
  }
  out +=
      cat("| efficiency | ",
          card.efficiency ? cat(fixed_text(*card.efficiency, 2), " of the roofline") : "not known",
          " |\n");
  if (auto kernels = kernel_efficiency_of(run, card.roofline); kernels && run.work) {
    out += cat("| kernels | ", fixed_text(*kernels, 2),
               " of what their own bytes and operations need |\n");
  }
  if (card.coverage) {
    out += cat("| coverage | kernels take ", percent_text(*card.coverage), " of a run |\n");
  }
  if (card.tokens) {
    const TokenRate& rate = *card.tokens;
    out += cat("| tokens | ", fixed_text(rate.per_s, 1), " a second");
    if (rate.floor_per_s > 0) {
      out += cat(", ", fixed_text(rate.per_s / rate.floor_per_s, 2), " of the ",
                 fixed_text(rate.floor_per_s, 1), " that moving the bytes allows");
    }
    out += " |\n";
  }
  out += cat("| bottleneck | ", bottleneck_name(card.bottleneck), " |\n");
  out += cat("| shares | transfer ", percent_text(card.shares.transfer), ", launch ",
             percent_text(card.shares.launch), ", compute ", percent_text(card.shares.compute),
             ", memory ", percent_text(card.shares.memory), " |\n\n");
  out += cat(recommendation_for(card.bottleneck), "\n\n");
  append_roofline(card, &out);
  append_hot(card, &out);
  append_regressions(card, &out);
  if (card.parity) append_parity(*card.parity, &out);
  return out;
}

std::string json_of(const Scorecard& card) {
  const PlanRun& run = card.run;
  auto kernels_share = kernel_efficiency_of(run, card.roofline);
  Json kernels = Json::array(), hot = Json::array(), changes = Json::array();
  for (const KernelRun& kernel : run.kernels) kernels.push_back(json_of(kernel));
  for (const HotKernel& one : card.hot) {
    hot.push_back({{"name", one.kernel.name},
                   {"id", one.kernel.id},
                   {"ms", one.kernel.latency.median_ns / 1e6},
                   {"share", one.share}});
  }
  for (const Regression& one : card.regressions) {
    changes.push_back({{"what", one.what},
                       {"ms", one.now.median_ns / 1e6},
                       {"before_ms", one.before.median_ns / 1e6},
                       {"ratio", one.now.median_ns / one.before.median_ns},
                       {"verdict", change_name(one.change)}});
  }
  Json json{{"scorecard", kVersion},
            {"plan", run.plan},
            {"graph", run.graph},
            {"target", run.target},
            {"sizes", run.sizes},
            {"latency", json_of(run.latency)},
            {"transfer_ms", run.transfer_ns / 1e6},
            {"efficiency", card.efficiency ? Json(*card.efficiency) : Json()},
            {"kernel_efficiency", kernels_share ? Json(*kernels_share) : Json()},
            {"coverage", card.coverage ? Json(*card.coverage) : Json()},
            {"tokens", card.tokens ? json_of(*card.tokens) : Json()},
            {"grade", std::string(1, card.grade)},
            {"bottleneck", bottleneck_name(card.bottleneck)},
            {"recommendation", recommendation_for(card.bottleneck)},
            {"shares",
             {{"transfer", card.shares.transfer},
              {"launch", card.shares.launch},
              {"compute", card.shares.compute},
              {"memory", card.shares.memory}}},
            {"roofline", Json::parse(encode_roofline(card.roofline))},
            {"hot", std::move(hot)},
            {"regressions", std::move(changes)},
            {"parity", card.parity ? json_of(*card.parity) : Json()},
            {"kernels", std::move(kernels)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<EarlierRun> parse_scorecard(std::string_view text, const std::string& name,
                                   const PlanRun& run) {
  EarlierRun earlier;
  try {
    Json json = Json::parse(text.begin(), text.end());
    if (!json.is_object() || !json.contains("scorecard") || json["scorecard"] != kVersion) {
      return invalid_input(cat(name, " is no scorecard of 'lfarm plan score --json'"));
    }
    for (const auto& [word, ours] : {std::pair{"graph", run.graph}, std::pair{"target", run.target},
                                     std::pair{"sizes", run.sizes}}) {
      auto theirs = json.at(word).get<std::string>();
      if (theirs == ours) continue;
      return invalid_input(
          cat(name, " is of another ", word, ": '", theirs.substr(0, 64), "', not '", ours, "'"));
    }
    earlier.latency = latency_in(json.at("latency"));
    for (const Json& kernel : json.at("kernels")) {
      earlier.kernels.emplace_back(kernel.at("id").get<std::string>(), latency_in(kernel));
    }
  } catch (const Json::exception& error) {
    return invalid_input(cat(name, " is no scorecard: ", error.what()));
  }
  return earlier;
}

}  // namespace clients
