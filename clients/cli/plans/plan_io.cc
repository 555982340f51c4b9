// lfarm plan io: what a model's programs wait for and move, and whether moving work into it pays.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/child_stage.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/model/size_ranges.h"
#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/sizes.h"
#include "common/plan/io_gate.h"
#include "common/plan/io_profile.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::cat;
using common::IoProfile;
using common::Result;

struct IoOptions {
  FarmOptions farm;
  BudgetOptions budget;
  std::string first, second, sizes;
  bool plain_only = false, json = false;
};

// A model's programs: the plain one, which the cost model chooses, and the best plan.
struct Programs {
  std::string name;
  std::vector<common::SymbolRange> symbols;
  common::Program plain;
  std::optional<common::Plan> best;
};

struct Profiles {
  IoProfile plain;
  std::optional<IoProfile> best;
  const IoProfile& last() const { return best ? *best : plain; }
};

Result<Programs> programs_of(const IoOptions& options, const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(path));
  LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
  Programs programs;
  programs.name = model_name(path).empty() ? path : model_name(path);
  programs.symbols = model.graph.symbols;
  common::Bytes graph = common::encode_graph(common::canonical(model.graph));
  LFARM_ASSIGN_OR_RETURN(std::string encoded,
                         run_stage({"lfarm-coordinator", "print", "--stage", "encoded", "--target",
                                    target.name, "--numerics", options.budget.policy.numerics},
                                   graph));
  LFARM_ASSIGN_OR_RETURN(programs.plain, common::decode_program(common::as_bytes(encoded)));
  if (options.plain_only) return programs;
  Progress progress(options.json);
  PlanSource source(options.farm, options.budget, &progress);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(model.graph, programs.name));
  progress.clear();
  programs.best = plan.pulled.plan;
  return programs;
}

// Values of the model's symbols: what is not given is near the middle of its range.
Result<std::vector<int64_t>> values_for(const Programs& programs, const SizeRanges& given) {
  std::vector<int64_t> values = common::representative_sizes(programs.symbols);
  for (const SizeRange& size : given) {
    if (size.range.min != size.range.max) {
      return common::invalid_input("--sizes takes single values here, as s0=1;s0=64");
    }
    auto symbol = static_cast<size_t>(size.symbol);
    if (symbol >= values.size()) {
      return common::invalid_input(cat(programs.name, " has no size s", size.symbol));
    }
    const common::SymbolRange& range = programs.symbols[symbol];
    if (size.range.min < range.min || size.range.min > range.max) {
      return common::invalid_input(cat("s", size.symbol, "=", size.range.min, " is outside of ",
                                       range.min, "..", range.max, " of ", programs.name));
    }
    values[symbol] = size.range.min;
  }
  return values;
}

Profiles profiles_of(const Programs& programs, const std::vector<int64_t>& sizes) {
  const common::Program& plain = programs.plain;
  Profiles out{common::io_profile(plain.buffers, plain.calls, plain.outputs, sizes), {}};
  if (programs.best) {
    const common::Plan& best = *programs.best;
    out.best = common::io_profile(best.buffers, best.calls, best.outputs, sizes);
  }
  return out;
}

nlohmann::ordered_json json_of(const IoProfile& profile) {
  return {{"launches", profile.launches},
          {"synchronisations", profile.synchronisations},
          {"host_bytes", profile.host_output_bytes},
          {"device_bytes", profile.device_bytes}};
}

// One of the sizes that were asked for.
struct Point {
  std::string sizes;
  Profiles first;
  std::optional<Profiles> second;
};

void print_json(const Programs& a, const std::optional<Programs>& b, const Point& point) {
  auto programs = [](const Programs& of, const Profiles& profiles) {
    nlohmann::ordered_json json{{"model", of.name}, {"plain", json_of(profiles.plain)}};
    if (profiles.best) {
      json["best"] = json_of(*profiles.best);
      json["predicted_ns"] = of.best->provenance.prediction.ns;
      json["measured_ns"] = of.best->provenance.best_ns;
    }
    return json;
  };
  nlohmann::ordered_json json{{"sizes", point.sizes}, {"first", programs(a, point.first)}};
  if (b && point.second) {
    json["second"] = programs(*b, *point.second);
    for (const common::IoPrices& prices : common::io_prices()) {
      common::IoScore score = common::io_score(point.first.last(), point.second->last(), prices);
      json["gate"][std::string(prices.target)] = {{"saved_ns", score.saved_ns},
                                                  {"with_penalty_ns", score.with_penalty_ns},
                                                  {"in_arena_ns", score.in_arena_ns},
                                                  {"passes", score.saved_ns > 0}};
    }
  }
  std::printf("%s\n", json.dump().c_str());
}

void add_rows(Table* table, const Programs& of, const std::string& sizes,
              const Profiles& profiles) {
  auto add = [&](const char* which, const IoProfile& profile, const std::string& times) {
    table->row({of.name, sizes, which, cat(profile.launches), cat(profile.synchronisations),
                bytes_text(static_cast<double>(profile.host_output_bytes)),
                bytes_text(static_cast<double>(profile.device_bytes)), times});
  };
  add("plain", profiles.plain, "");
  if (!profiles.best) return;
  const common::Provenance& from = of.best->provenance;
  std::string times = duration_text(static_cast<double>(from.best_ns));
  if (from.prediction.ns > 0) {
    times += cat(" (predicted ", duration_text(static_cast<double>(from.prediction.ns)), ")");
  }
  add("best", *profiles.best, times);
}

std::string signed_duration(double ns) {
  return cat(ns < 0 ? "-" : "+", duration_text(std::abs(ns)));
}

// What the second model saves against the first, for each target, and where that tips.
void print_gate(const Programs& a, const Programs& b, const std::vector<Point>& points) {
  std::printf("\n%s instead of %s saves a call:\n", b.name.c_str(), a.name.c_str());
  Table table({"target", "sizes", "saved", "with penalty", "in an arena", "verdict"});
  std::vector<std::string> tips;
  for (const common::IoPrices& prices : common::io_prices()) {
    std::optional<bool> before;
    for (const Point& point : points) {
      common::IoScore score = common::io_score(point.first.last(), point.second->last(), prices);
      bool passes = score.saved_ns > 0;
      table.row({std::string(prices.target), point.sizes, signed_duration(score.saved_ns),
                 signed_duration(score.with_penalty_ns), signed_duration(score.in_arena_ns),
                 passes ? "pays" : "does not pay"});
      if (before && *before != passes) {
        tips.push_back(cat(prices.target, ": it ", passes ? "pays" : "pays no more", " from ",
                           point.sizes, " on"));
      }
      before = passes;
    }
  }
  table.print();
  for (const std::string& tip : tips) std::printf("%s\n", tip.c_str());
}

common::Status show_io(const IoOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::vector<SizeRanges> asked, parse_size_ranges(options.sizes));
  if (asked.empty()) asked.emplace_back();
  LFARM_ASSIGN_OR_RETURN(Programs a, programs_of(options, options.first));
  std::optional<Programs> b;
  if (!options.second.empty()) {
    LFARM_ASSIGN_OR_RETURN(b, programs_of(options, options.second));
  }
  std::vector<Point> points;
  for (const SizeRanges& sizes : asked) {
    Point point{text_of(sizes), {}, {}};
    LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> values, values_for(a, sizes));
    point.first = profiles_of(a, values);
    if (b) {
      LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> others, values_for(*b, sizes));
      point.second = profiles_of(*b, others);
    }
    points.push_back(std::move(point));
  }
  if (options.json) {
    for (const Point& point : points) print_json(a, b, point);
    return {};
  }
  Table table(
      {"model", "sizes", "program", "launches", "waits", "to the host", "traffic", "measured"});
  for (const Point& point : points) {
    add_rows(&table, a, point.sizes, point.first);
    if (b) add_rows(&table, *b, point.sizes, *point.second);
  }
  table.print();
  if (b) print_gate(a, *b, points);
  return {};
}

}  // namespace

void declare_plan_io(CommandLine* line) {
  auto options = std::make_shared<IoOptions>();
  Command command = line->add(
      "plan io",
      "Says what a call launches, waits for, brings to the host and moves in the device's memory,\n"
      "of a model's plain program and of its best plan. With a second model, which does in the\n"
      "model what the application did with the first one's outputs, such as finding peaks: what\n"
      "that saves on each kind of device, and from which sizes on it pays.",
      [options] { return exit_code_of(show_io(*options)); });
  command.value("first", &options->first, "MODEL.pt2", "The model").required();
  command.value("second", &options->second, "MODEL.pt2", "What may take its place");
  command.value("--sizes", &options->sizes, "S0=N;...",
                "Values of sizes that may change, as s0=1;s0=64;s0=8192 (default: middling ones)");
  command.flag("--plain", &options->plain_only, "Look for no plan: the plain programs alone");
  command.flag("--json", &options->json, "Print JSON, a line for each of the sizes");
  add_target_option(&command, &options->farm);
  add_compile_options(&command, &options->farm, &options->budget);
}

}  // namespace clients
