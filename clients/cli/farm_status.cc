// lfarm status, workers, jobs, cancel: asks a running farm. lfarm replay: runs a job's search
// again.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/commands.h"
#include "clients/cli/plan_source.h"
#include "clients/cli/report.h"
#include "clients/cli/signals.h"
#include "clients/cli/table.h"
#include "common/base/cat.h"
#include "common/base/subprocess.h"

namespace clients {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

common::StatusTopic topic_of(const std::string& name) {
  if (name == "workers") return common::StatusTopic::kWorkers;
  if (name == "jobs") return common::StatusTopic::kJobs;
  return common::StatusTopic::kStatus;
}

void print_farm(const Json& json, const std::string& endpoint) {
  Table table({});
  table.row({"farm", endpoint});
  for (const auto& [name, value] : json.items()) {
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    table.row({label, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  table.print();
}

void print_workers(const Json& json) {
  Table table({"worker", "target", "tasks", "done", "seen", "state"});
  for (const Json& row : json.at("workers")) {
    table.row({row.value("worker", ""), row.value("target", ""), cat(row.value("tasks", 0)),
               cat(row.value("tasks_done", 0)), cat(row.value("seen_ms_ago", 0), " ms ago"),
               row.value("suspended", false) ? "suspended" : "well"});
  }
  table.print();
  if (json.at("workers").empty()) std::printf("no workers\n");
}

void print_jobs(const Json& json) {
  Table table({"job", "phase", "graph", "target", "candidates", "best", "plain", "running"});
  for (const Json& row : json.at("jobs")) {
    double best = row.value("best_ns", 0.0), plain = row.value("baseline_ns", 0.0);
    table.row({cat(row.value("job", uint64_t{0})), row.value("phase", ""),
               row.value("graph", "").substr(0, 12), row.value("target", ""),
               cat(row.value("completed", 0), "/", row.value("budget", 0)),
               best > 0 ? duration_text(best) : "-", plain > 0 ? duration_text(plain) : "-",
               duration_text(row.value("elapsed_ms", 0.0) * 1e6)});
  }
  table.print();
  if (json.at("jobs").empty()) std::printf("no jobs\n");
}

common::Status show(const StatusCommand& command) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(command.farm));
  LFARM_ASSIGN_OR_RETURN(std::string text, client->status(topic_of(command.topic)));
  if (command.json) {
    std::printf("%s\n", text.c_str());
    return {};
  }
  try {
    Json json = Json::parse(text);
    if (command.topic == "workers") {
      print_workers(json);
    } else if (command.topic == "jobs") {
      print_jobs(json);
    } else {
      print_farm(json, client->endpoint());
    }
  } catch (const Json::exception& error) {
    return common::corrupt(cat("the farm's answer is no status: ", error.what(),
                               "; use the same version on both sides"));
  }
  return {};
}

}  // namespace

int status(const StatusCommand& command) {
  common::Status shown = show(command);
  return shown.ok() ? kExitDone : fail(shown.error());
}

int cancel(const CancelCommand& command) {
  auto client = connect_to_farm(command.farm);
  if (!client.ok()) return fail(client.error());
  common::Status cancelled = (*client)->cancel(command.job);
  if (!cancelled.ok()) return fail(cancelled.error());
  std::printf("job %llu is cancelled\n", static_cast<unsigned long long>(command.job));
  return kExitDone;
}

// The coordinator's binary has the search.
int replay(const ReplayCommand& command) {
  common::SpawnOptions spawn;
  spawn.arguments = {cat(common::executable_directory(), "/lfarm-coordinator"), "replay", "--state",
                     command.farm.state, cat(command.job)};
  if (command.json) spawn.arguments.emplace_back("--json");
  auto child = common::Subprocess::start(spawn);
  if (!child.ok()) return fail(child.error());
  constexpr int kPollMs = 100;
  while (true) {
    if (auto status = child->wait(kPollMs)) return status->signal != 0 ? 1 : status->code;
    common::Status stop = check_stop();
    if (!stop.ok()) return fail(stop.error());
  }
}

}  // namespace clients
