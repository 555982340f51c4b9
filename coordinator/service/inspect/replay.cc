#include "coordinator/service/inspect/replay.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/inspect/state_command.h"
#include "coordinator/service/journal/finish.h"
#include "coordinator/service/journal/steps_inside.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Result;
using Json = nlohmann::ordered_json;

namespace {

Result<std::unique_ptr<StepsInside>> start_again(Replay& replay, const SearchFactory& create_search,
                                                 KnownResults results) {
  const JournalledJob& job = replay.job;
  if (!job.start) return common::corrupt("its journal does not say what its search began with");
  LFARM_ASSIGN_OR_RETURN(common::Graph graph, common::decode_graph(job.graph));
  auto measurements = std::make_shared<JobMeasurements>(
      nullptr, device_name(job.request.key.target.name, job.start->machine), job.request.tenant,
      job.start->wall_ns, job.answers, job.tuning_records);
  LFARM_ASSIGN_OR_RETURN(
      std::unique_ptr<JobSearch> search,
      create_search(graph, search_options(job.request, *job.start), measurements.get()));
  auto observer = [&replay](const CandidateTask& task, const CandidateResult* result) {
    if (task.payload.kind == common::TaskKind::kComparison) return;  // of candidates, and none
    ReplayedCandidate candidate{task, std::nullopt};
    candidate.task.payload = {};  // large; the fingerprint stands for it
    candidate.task.payload.kind = task.payload.kind;
    if (result != nullptr) candidate.result = *result;
    replay.candidates.push_back(std::move(candidate));
  };
  return std::make_unique<StepsInside>(
      std::move(search),
      common::NestMachine(common::machine_of(job.request.key.target), job.request.key.target.name,
                          job.start->machine),
      std::move(measurements), StepsInside::Known{std::move(results), job.finish_after}, observer);
}

// How the search's outcome differs from what the job kept; empty if it does not.
std::string compare(Replay& replay, Result<SearchOutcome> outcome) {
  if (!outcome.ok()) return cat("the search failed: ", outcome.error().message);
  auto plan = finished_plan(std::move(outcome->plan), replay.job.request, replay.end);
  if (!plan.ok()) return plan.error().message;
  replay.plan = plan_digest(*plan);
  if (*replay.plan == replay.end.plan) return "";
  return cat("the search came to a plan with content ", replay.plan->short_hex(),
             ", the job's plan has ", replay.end.plan.short_hex());
}

}  // namespace

Result<Replay> replay_job(cache::Store& store, farm::JobId id, const SearchFactory& create_search) {
  Replay replay;
  LFARM_ASSIGN_OR_RETURN(replay.end, read_end(store, id));
  LFARM_ASSIGN_OR_RETURN(replay.job, read_journal(store, id));
  if (replay.job.request.key.epoch != common::kCompilerEpoch) {
    return common::unsupported(cat("job ", id, " was compiled by epoch ",
                                   replay.job.request.key.epoch, ", this is epoch ",
                                   common::kCompilerEpoch));
  }
  LFARM_ASSIGN_OR_RETURN(std::unique_ptr<StepsInside> steps,
                         start_again(replay, create_search, std::move(replay.job.results)));
  StepRequest ask;
  ask.candidates = 1;  // no worker is there: the first one that a worker would get ends the replay
  LFARM_ASSIGN_OR_RETURN(StepResult step, steps->advance(std::move(ask)));
  if (!step.candidates.empty()) {
    const Candidate& asked = *step.candidates[0];
    replay.difference =
        cat("candidate ", asked.id, " ", asked.fingerprint.short_hex(), " is not in the journal");
  } else if (!step.outcome) {
    replay.difference = "the search waits for results that are not in the journal";
  } else {
    replay.difference = compare(replay, std::move(*step.outcome));
  }
  if (replay.job.damaged != 0) {
    std::string damage = cat(replay.job.damaged, " records of the journal are damaged");
    replay.difference += cat(replay.difference.empty() ? "" : "; ", damage);
  }
  return replay;
}

// ---- Printing ----------------------------------------------------------------------------------

namespace {

std::string what_became(const ReplayedCandidate& candidate) {
  if (!candidate.result) return "unknown";
  return common::outcome_name(candidate.result->outcome);
}

int64_t measured_ns(const ReplayedCandidate& candidate) {
  bool is_ok = candidate.result && candidate.result->outcome == common::TaskOutcome::kOk;
  return is_ok ? static_cast<int64_t>(candidate.result->report.total_ns) : 0;
}

// Journals of earlier versions know the plan by its content alone.
std::string name_of(const JobEnd& end) {
  return end.plan_id.is_zero() ? cat("a plan with content ", end.plan.hex())
                               : cat("plan ", end.plan_id.hex());
}

void print_json(const Replay& replay) {
  for (const ReplayedCandidate& candidate : replay.candidates) {
    const CandidateTask& task = candidate.task;
    Json line{{"candidate", task.id},
              {"kind", common::task_kind_name(task.payload.kind)},
              {"region", task.region},
              {"origin", std::string(task.origin)},
              {"predicted_ns", std::llround(task.predicted_ns)},
              {"outcome", what_became(candidate)},
              {"measured_ns", measured_ns(candidate)},
              {"fingerprint", task.fingerprint.hex()}};
    std::printf("%s\n", line.dump().c_str());
  }
  Json end{{"job", replay.job.request.id},
           {"plan", replay.end.plan_id.is_zero() ? "" : replay.end.plan_id.hex()},
           {"content", replay.end.plan.hex()},
           {"replayed_content", replay.plan ? replay.plan->hex() : ""},
           {"equal", replay.difference.empty()},
           {"difference", replay.difference}};
  std::printf("%s\n", end.dump().c_str());
}

void print_text(const Replay& replay) {
  const JobRequest& request = replay.job.request;
  std::printf("job %llu: graph %s for %s, %s, seed %llu, %lld in flight, %zu priors\n",
              static_cast<unsigned long long>(request.id), request.key.graph_hash.hex().c_str(),
              request.key.target.name.c_str(), request.key.policy.c_str(),
              static_cast<unsigned long long>(request.seed),
              static_cast<long long>(replay.job.start->in_flight), replay.job.start->priors.size());
  std::printf("%9s  %-9s  %-6s  %-10s  %12s  %12s  %s\n", "candidate", "kind", "region", "origin",
              "predicted ns", "measured ns", "program");
  for (const ReplayedCandidate& candidate : replay.candidates) {
    const CandidateTask& task = candidate.task;
    std::string region = task.region < 0 ? "whole" : cat(task.region);
    std::string measured =
        measured_ns(candidate) != 0 ? cat(measured_ns(candidate)) : what_became(candidate);
    std::printf("%9llu  %-9s  %-6s  %-10s  %12.0f  %12s  %s\n",
                static_cast<unsigned long long>(task.id), common::task_kind_name(task.payload.kind),
                region.c_str(), std::string(task.origin).c_str(), task.predicted_ns,
                measured.c_str(), task.fingerprint.short_hex().c_str());
  }
  if (replay.difference.empty()) {
    std::printf("%s, as the job had it\n", name_of(replay.end).c_str());
  }
}

}  // namespace

int run_replay(int argc, const char* const* argv, const SearchFactory& create_search) {
  farm::JobId job = 0;
  bool json = false;
  CLI::App app("Runs a finished job's search again from its journal.", "lfarm-coordinator replay");
  app.add_option("job", job, "the job's number")->required();
  app.add_flag("--json", json, "one JSON object a line");
  OpenedState opened = open_state(app, argc, argv);
  if (!opened.store) return opened.exit_code;
  auto replay = replay_job(*opened.store, job, create_search);
  if (!replay.ok()) return fail(replay.error());
  json ? print_json(*replay) : print_text(*replay);
  std::fflush(stdout);
  if (replay->difference.empty()) return 0;
  return fail({common::Code::kVerification, cat("not the job's plan: ", replay->difference)});
}

}  // namespace coordinator::service
