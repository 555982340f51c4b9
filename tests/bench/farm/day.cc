// day: a day of submits against the rule that autoscalers are told, under several settings: how
// long jobs wait, and what the machines cost.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/sim/scaling/scaling_day.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;
using scaling::DayResult;
using scaling::ScalingRule;

struct DayCommand {
  scaling::DayOptions day;
  ScalingRule rule;
  std::string file;
  bool table = false;
  bool one = false;
};

// The settings that docs/measurements/2026-11-21-scaling-a-day.md compares.
std::vector<ScalingRule> rules_to_compare(const ScalingRule& base) {
  std::vector<ScalingRule> rules;
  auto add = [&](const char* name, auto change) {
    ScalingRule rule = base;
    rule.name = name;
    change(rule);
    rules.push_back(rule);
  };
  add("chosen", [](ScalingRule&) {});
  add("hasty", [](ScalingRule& rule) { rule.cooldown_s = 120, rule.stabilize_s = 60; });
  add("patient", [](ScalingRule& rule) { rule.cooldown_s = 1800, rule.stabilize_s = 900; });
  add("one stays", [](ScalingRule& rule) { rule.workers_min = 1; });
  add("all tasks count", [](ScalingRule& rule) { rule.counts_all_tasks = true; });
  add("two slots", [](ScalingRule& rule) { rule.slots = 2; });
  add("asks every minute", [](ScalingRule& rule) { rule.poll_s = 60; });
  add("images are there", [](ScalingRule& rule) { rule.start_s = 30; });
  add("16 searches", [](ScalingRule& rule) { rule.searches_max = 16; });
  for (int64_t workers : {4, 8, 16}) {
    add("fixed", [&](ScalingRule& rule) {
      rule.fixed = workers;
      rule.name = common::cat("fixed ", workers);
    });
  }
  return rules;
}

Json line_of(const ScalingRule& rule, const DayResult& result) {
  std::vector<double> wait = result.wait_s, done = result.done_s;
  return {{"bench", "day"},
          {"rule", rule.name},
          {"jobs", wait.size()},
          {"tasks", result.tasks},
          {"wait_p50_s", percentile(wait, 0.5)},
          {"wait_p95_s", percentile(wait, 0.95)},
          {"wait_p99_s", percentile(wait, 0.99)},
          {"wait_max_s", wait.empty() ? 0 : *std::max_element(wait.begin(), wait.end())},
          {"done_p50_s", percentile(done, 0.5)},
          {"done_p95_s", percentile(done, 0.95)},
          {"gpu_hours", result.worker_hours},
          {"ideal_gpu_hours", result.ideal_hours},
          {"times_ideal", result.ideal_hours > 0 ? result.worker_hours / result.ideal_hours : 0},
          {"pods", result.pods},
          {"workers_peak", result.workers_peak},
          {"returned_leases", result.returned}};
}

void print_row(const Json& line) {
  auto number = [&](const char* field) { return line.at(field).get<double>(); };
  std::printf("%-18s %7.0f %7.0f %7.0f %7.0f %8.0f %8.0f %9.1f %6.2f %5.0f %5.0f\n",
              line.at("rule").get<std::string>().c_str(), number("wait_p50_s"),
              number("wait_p95_s"), number("wait_p99_s"), number("wait_max_s"),
              number("done_p50_s"), number("done_p95_s"), number("gpu_hours"),
              number("times_ideal"), number("pods"), number("workers_peak"));
}

int replay(DayCommand& command) {
  std::vector<scaling::DayJob> day;
  if (command.file.empty()) {
    day = scaling::generate_day(command.day);
  } else {
    constexpr size_t kFileBytesMax = size_t{64} << 20;
    auto text = common::read_file(command.file, kFileBytesMax);
    auto read = text.ok() ? scaling::parse_day(*text) : text.error();
    if (!read.ok()) {
      std::fprintf(stderr, "lfarm-bench: %s\n", read.error().message.c_str());
      return 2;
    }
    day = std::move(read).value();
  }
  command.rule.name = "chosen";
  std::vector<ScalingRule> rules = {command.rule};
  if (!command.one) rules = rules_to_compare(command.rule);
  if (command.table) {
    std::printf("%-18s %7s %7s %7s %7s %8s %8s %9s %6s %5s %5s\n", "rule", "p50 s", "p95 s",
                "p99 s", "max s", "done p50", "done p95", "GPU hours", "/ideal", "pods", "peak");
  }
  for (const ScalingRule& rule : rules) {
    Json line = line_of(rule, scaling::replay_day(day, rule));
    command.table ? print_row(line) : void(std::printf("%s\n", line.dump().c_str()));
  }
  return 0;
}

}  // namespace

int run_day(const std::vector<std::string>& arguments) {
  DayCommand command;
  CLI::App app("Replays a day of submits against the scaling rule.", "lfarm-bench day");
  app.add_option("--seed", command.day.seed, "of the generated day");
  app.add_option("--jobs", command.day.jobs, "of the generated day, without the nightly ones");
  app.add_option("--nightly", command.day.nightly, "jobs that come at 2 o'clock");
  app.add_option("--file", command.file, "a recorded day: lines of SECONDS TASKS TASK_SECONDS");
  app.add_option("--poll", command.rule.poll_s, "seconds between looks at the queue");
  app.add_option("--cooldown", command.rule.cooldown_s, "seconds without work, to nothing");
  app.add_option("--stabilize", command.rule.stabilize_s, "seconds that a larger wish counts on");
  app.add_option("--min", command.rule.workers_min, "workers that stay");
  app.add_option("--max", command.rule.workers_max, "workers at most");
  app.add_option("--start", command.rule.start_s, "seconds until a pod has joined");
  app.add_option("--slots", command.rule.slots, "tasks that a worker takes at once");
  app.add_option("--in-flight", command.rule.in_flight, "candidates of a job at once");
  app.add_option("--searches", command.rule.searches_max, "jobs that search at once");
  app.add_flag("--table", command.table, "for people");
  app.add_flag("--one", command.one, "only the rule of the options, compared with nothing");
  return run_guarded("day", app, arguments, [&] { return replay(command); });
}

}  // namespace bench
