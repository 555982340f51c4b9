#include "clients/report/bundle.h"

#include <nlohmann/json.hpp>

#include "clients/report/page.h"

namespace clients {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kMsNs = 1e6;

Json json_of(const Cell& cell) {
  const CellKey& key = cell.key;
  Json json{{"at", time_text(cell.at_ns)}, {"machine", key.machine}, {"device", key.device},
            {"backend", key.backend},      {"model", key.model},     {"dtype", key.dtype},
            {"sizes", key.sizes}};
  if (key.batch != 0) json["batch"] = key.batch;
  if (cell.latency) {
    json["latency_ms"] = cell.latency->median_ns / kMsNs;
    json["spread_ms"] = cell.latency->spread_ns / kMsNs;
    json["runs"] = cell.latency->runs;
  }
  if (cell.error) {
    json["error_abs"] = cell.error->absolute;
    json["error_rel"] = cell.error->relative;
  }
  if (cell.ratio) json["ratio"] = *cell.ratio;
  for (const common::GateResult& gate : cell.gates) {
    json["gates"].push_back(
        {{"name", gate.name}, {"passed", gate.passed}, {"detail", gate.detail}});
  }
  return json;
}

Json json_of(const Sweep& sweep) {
  Json points = Json::array();
  for (const SweepPoint& point : sweep.points) {
    points.push_back({{"seed", point.seed},
                      {"budget", point.budget},
                      {"candidates", point.candidates},
                      {"best_ms", point.best_ns / kMsNs}});
  }
  return {{"machine", sweep.machine},
          {"device", sweep.device},
          {"model", sweep.model},
          {"strategy", sweep.strategy},
          {"baseline_ms", sweep.baseline_ns / kMsNs},
          {"points", std::move(points)}};
}

Json json_of(const Gate& gate, const GateVerdict& verdict) {
  return {{"gate", gate.text},      {"passed", verdict.passed}, {"met", verdict.met},
          {"asked", verdict.asked}, {"worst", verdict.worst},   {"where", verdict.where}};
}

Json head_json(const char* kind, const RunHead& head) {
  return {{kind, head.name},
          {"at", time_text(head.at_ns)},
          {"machine", head.machine},
          {"device", head.device},
          {"note", head.note}};
}

Json json_of(const NamedNumbers& numbers) {
  Json json = Json::object();
  for (const auto& [name, number] : numbers) json[name] = number;
  return json;
}

Json json_of(const Training& training) {
  Json json = head_json("training", training.head);
  json["curves"] = Json::object();
  for (const Curve& curve : training.curves) json["curves"][curve.name] = curve.points;
  json["maps"] = Json::array();
  for (const TensorMap& map : training.maps) {
    Json snapshots = Json::array();
    for (const MapAtStep& at : map.snapshots) {
      snapshots.push_back({{"step", at.step}, {"values", at.values}});
    }
    json["maps"].push_back({{"map", map.name},
                            {"rows", map.rows},
                            {"columns", map.columns},
                            {"snapshots", std::move(snapshots)}});
  }
  json["parts"] = Json::array();
  for (const ModelPart& part : training.parts) {
    json["parts"].push_back(
        {{"part", part.name}, {"parameters", part.parameters}, {"bytes", json_of(part.bytes)}});
  }
  json["landscapes"] = Json::array();
  for (const Landscape& landscape : training.landscapes) {
    json["landscapes"].push_back({{"landscape", landscape.name},
                                  {"x", landscape.x},
                                  {"y", landscape.y},
                                  {"at_x", landscape.at_x},
                                  {"at_y", landscape.at_y},
                                  {"values", landscape.values}});
  }
  return json;
}

Json json_of(const Validation& validation) {
  Json json = head_json("validation", validation.head);
  json["teacher"] = validation.teacher;
  json["rows"] = Json::array();
  for (const VariantRow& row : validation.rows) {
    Json told{{"variant", row.variant},
              {"batch", row.batch},
              {"latency_ms", row.latency_ms},
              {"spread_ms", row.spread_ms},
              {"error", row.error}};
    if (row.time_ratio) told["time_ratio"] = *row.time_ratio;
    if (row.error_ratio) told["error_ratio"] = *row.error_ratio;
    if (row.error_limit) told["error_limit"] = *row.error_limit;
    if (row.verdict) told["verdict"] = verdict_name(*row.verdict);
    json["rows"].push_back(std::move(told));
  }
  return json;
}

Json json_of(const SearchRun& search) {
  Json json = head_json("search", search.head);
  json["plan"] = search.plan;
  json["best_ms"] = search.best_ms;
  json["baseline_ms"] = search.baseline_ms;
  json["progress"] = Json::array();
  for (const ProgressPoint& at : search.progress) {
    json["progress"].push_back({{"progress", at.candidates},
                                {"at_s", at.at_s},
                                {"best_ms", at.best_ms},
                                {"expected_ms", at.expected_ms}});
  }
  json["candidates"] = Json::array();
  for (const TriedCandidate& one : search.candidates) {
    json["candidates"].push_back({{"candidate", one.id},
                                  {"region", one.region},
                                  {"origin", one.origin},
                                  {"outcome", one.outcome},
                                  {"at_s", one.at_s},
                                  {"ms", one.ms},
                                  {"kept", one.was_best}});
  }
  json["kernels"] = Json::array();
  for (const ScheduledKernel& one : search.kernels) {
    json["kernels"].push_back(
        {{"kernel", one.kernel}, {"schedule", json_of(one.schedule)}, {"ms", one.ms}});
  }
  return json;
}

Json json_of(const PlanMemory& plan) {
  Json json = head_json("plan", plan.head);
  json["id"] = plan.id;
  json["memory"] = json_of(plan.memory);
  json["kernels"] = Json::array();
  for (const KernelTime& one : plan.kernels) {
    json["kernels"].push_back({{"kernel", one.kernel},
                               {"modules", one.modules},
                               {"sources", one.sources},
                               {"calls", one.calls},
                               {"ms", one.ms}});
  }
  return json;
}

template <class T>
Json list_of(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& one : all) list.push_back(json_of(one));
  return list;
}

}  // namespace

std::string report_json(const Measured& measured, const std::vector<Gate>& gates,
                        const std::string& source, const Runs& runs) {
  Json json{{"source", source},
            {"measurements", list_of(measured.cells)},
            {"searches", list_of(measured.sweeps)}};
  json["gates"] = Json::array();
  for (const Gate& gate : gates) json["gates"].push_back(json_of(gate, judge(gate, measured)));
  json["trainings"] = list_of(runs.trainings);
  json["validations"] = list_of(runs.validations);
  json["courses"] = list_of(runs.searches);
  json["plans"] = list_of(runs.plans);
  json["unread"] = runs.unread;
  // A path that is no UTF-8 must not end the program.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace clients
