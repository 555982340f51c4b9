#include "tests/bench/farm/real_searches.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "tests/bench/farm/load_client.h"
#include "tests/paths/paths.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLookAgain = std::chrono::milliseconds(1);

common::Graph open_graph(const std::string& model) {
  std::string file = model.empty() ? paths::fixtures() + "/models/llama/model.pt2" : model;
  auto opened = clients::load_model(file);
  if (!opened.ok()) throw std::runtime_error(opened.error().message);
  return common::canonical(opened->graph);
}

// Other jobs need other graphs: they differ in a factor of their last output that is a float32.
common::Graph variant(const common::Graph& graph, uint64_t number) {
  common::GraphBuilder builder(graph.symbols);
  for (const common::GraphInput& input : graph.inputs) {
    builder.input(input.kind, input.dtype, input.shape, input.name);
  }
  std::vector<common::NodeId> copies;
  for (common::Node node : graph.nodes) {
    for (common::NodeId& operand : node.operands) operand = copies[static_cast<size_t>(operand)];
    copies.push_back(builder.raw(std::move(node)));
  }
  size_t changed = graph.outputs.size();
  for (size_t k = 0; k < graph.outputs.size() && number > 0; ++k) {
    if (graph.node(graph.outputs[k].node).dtype == common::DType::kFloat32) changed = k;
  }
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    common::NodeId copy = copies[static_cast<size_t>(graph.outputs[k].node)];
    if (k == changed) {
      double factor = 1 + static_cast<double>(number) / 1024;
      copy = builder.binary(common::BinaryOp::kMul, copy,
                            builder.full(common::DType::kFloat32, builder.shape(copy), factor));
    }
    builder.output_like(graph.outputs[k], copy);
  }
  return common::canonical(builder.finish());
}

// What the coordinator and its searchers have used.
struct Used {
  ProcessUse coordinator, searchers;
};

Used used_by(const FarmUnderLoad& farm) { return {farm.use(), farm.searchers_use()}; }

void print_report(const RealSearches& options, const WorkersOptions& crew,
                  const WorkersReport& report, const Used& prepared, const Used& used) {
  auto candidates = static_cast<double>(report.answers);
  auto jobs = static_cast<double>(options.jobs);
  double seconds = static_cast<double>(report.finalist_ns - report.first_task_ns) * 1e-9;
  Json line{{"bench", "dispatch"},
            {"real_search", true},
            {"jobs", options.jobs},
            {"candidates", report.answers},
            {"in_flight", options.in_flight},
            {"workers", crew.workers},
            {"slots", crew.slots},
            {"task_ms", crew.task_ms},
            {"tasks_per_s", candidates / seconds},
            {"searchers", options.searchers},
            {"cpu_ms_candidate",
             1e3 * (used.coordinator.cpu_s - prepared.coordinator.cpu_s) / candidates},
            {"searcher_cpu_ms_candidate",
             1e3 * (used.searchers.cpu_s - prepared.searchers.cpu_s) / candidates},
            {"cpu_ms_preparation", 1e3 * prepared.coordinator.cpu_s / jobs},
            {"searcher_cpu_ms_preparation", 1e3 * prepared.searchers.cpu_s / jobs},
            {"coordinator_mb", used.coordinator.peak_mb},
            {"searcher_mb", used.searchers.peak_mb},
            {"seconds", seconds},
            {"load", load_average()}};
  std::printf("%s\n", line.dump().c_str());
}

}  // namespace

void run_real_searches(const RealSearches& options, FarmOptions farm_options, WorkersOptions crew) {
  common::Graph graph = open_graph(options.model);
  farm_options.real_search = true;
  farm_options.searchers = options.searchers;
  farm_options.searches = options.jobs;
  farm_options.extra.insert(
      farm_options.extra.end(),
      {"--searches", common::cat(options.jobs), "--tenant-searches", common::cat(options.jobs)});
  auto farm = FarmUnderLoad::create(farm_options);
  if (!farm.ok()) throw std::runtime_error(farm.error().message);
  common::Status started = (*farm)->start();
  if (!started.ok()) throw std::runtime_error(started.error().message);
  crew.answers_from = AnswersFrom::kDevice;
  SimulatedWorkers workers(**farm, crew);
  if (!workers.wait_until_welcome()) throw std::runtime_error("not all workers were welcomed");
  common::WireContext context;
  std::vector<std::unique_ptr<LoadClient>> clients;
  for (uint64_t job = 0; job < options.jobs; ++job) {
    clients.push_back(std::make_unique<LoadClient>(context, **farm));
    clients.back()->submit(variant(graph, job), options.candidates, options.in_flight);
  }
  while (workers.searches() < options.jobs) {
    for (auto& client : clients) client->receive();
    std::this_thread::sleep_for(kLookAgain);
  }
  Used prepared = used_by(**farm);
  for (auto& client : clients) client->wait_until_answered();
  Used used = used_by(**farm);
  WorkersReport report = workers.finish();
  for (auto& client : clients) {
    if (!client->failure().empty()) throw std::runtime_error(client->failure());
  }
  print_report(options, crew, report, prepared, used);
}

}  // namespace bench
