// One suite for every device: real models, lowered in several ways, give the outputs that PyTorch
// gave. If it fails, generated code, the executor or a lowering is wrong, search aside.
//
// A device joins with one row in devices(). Cases are the fixtures and, where they are at hand, the
// larger models beside the project.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "clients/cli/models/case.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/model/instance.h"
#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/roll/roll.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "tests/paths/paths.h"
#include "worker/backend/backend.h"
#include "worker/compile/build_plan.h"

namespace {

using common::Program;

std::vector<const worker::Backend*> devices() { return {&worker::cpu_backend()}; }

// A way to compute every region.
struct LoweringUnderTest {
  std::string name;
  std::function<Program(coordinator::RegionSpace&)> choose;
};

// The default with every contraction lowered as asked, where it can be.
Program with_contractions(coordinator::RegionSpace& space, coordinator::Lowering lowering) {
  coordinator::Genome genome;
  const auto& saturated = space.saturated();
  for (const coordinator::Site& site : space.decode({}).sites) {
    if (site.name.kind != coordinator::GeneKind::kChoice) continue;
    for (int64_t value : site.values) {
      auto head = saturated.graph->head(static_cast<coordinator::NodeId>(value));
      if (saturated.heads->lowering(head) == lowering) genome.set(site.name, value);
    }
  }
  return space.decode(genome).program;
}

std::vector<LoweringUnderTest> lowerings() {
  return {{"plain", [](coordinator::RegionSpace& space) { return space.plain(); }},
          {"tiles",
           [](coordinator::RegionSpace& space) {
             return with_contractions(space, coordinator::Lowering::kTile);
           }},
          {"library",
           [](coordinator::RegionSpace& space) {
             return with_contractions(space, coordinator::Lowering::kGemm);
           }},
          {"attention", [](coordinator::RegionSpace& space) {
             return with_contractions(space, coordinator::Lowering::kAttention);
           }}};
}

Program lower(const common::Graph& graph, const LoweringUnderTest& lowering) {
  coordinator::Cut cut = coordinator::cut_into_regions(common::roll(graph));
  common::SteadyClock clock;
  std::vector<Program> programs;
  for (const coordinator::Region& region : cut.regions) {
    coordinator::RegionSpace space(region.graph, clock);
    programs.push_back(lowering.choose(space));
  }
  std::vector<const Program*> parts;
  for (const Program& program : programs) parts.push_back(&program);
  return coordinator::assemble(cut, parts);
}

std::vector<std::string> case_folders() {
  std::vector<std::string> folders;
  for (const std::string& root : {paths::fixtures("/models"), paths::shared("/models")}) {
    if (!std::filesystem::is_directory(root)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      bool known = std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
        return clients::case_name(folder) == clients::case_name(entry.path());
      });
      if (entry.is_directory() && !known) folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

using Parameters = std::tuple<const worker::Backend*, LoweringUnderTest, std::string>;
class Conformance : public ::testing::TestWithParam<Parameters> {};

TEST_P(Conformance, OutputsAreThoseOfPyTorch) {
  const auto& [backend, lowering, folder] = GetParam();
  auto target = backend->find();
  ASSERT_TRUE(target.ok()) << target.error().message;
  auto compiler = backend->find_compiler(*target, nullptr);
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  auto opened = backend->open(1);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  common::Device* device = opened->get();
  auto generator = backend->make_generator(*target);
  worker::KernelCache cache;
  worker::BuiltPlan built;
  clients::InstanceMaker maker = [&](const std::shared_ptr<const clients::Model>& model)
      -> common::Result<clients::InstanceFactory> {
    Program program = lower(model->graph, std::get<1>(GetParam()));
    common::add_nests(program, {common::machine_of(device->target()), device->target().name, {}});
    LFARM_ASSIGN_OR_RETURN(built, worker::build_plan(program, *generator, **compiler, cache));
    built.plan.key.target = device->target();
    return clients::InstanceFactory([&, model] {
      auto objects = [&](const common::Digest& digest) -> common::Result<common::ByteView> {
        return common::ByteView(*built.objects.at(digest));
      };
      return clients::make_plan_instance(model, built.plan, objects, *device);
    });
  };
  clients::CaseResult result = clients::run_case(folder, maker);
  EXPECT_EQ(result.verdict, clients::Verdict::kPass) << clients::line_of(result);
}

INSTANTIATE_TEST_SUITE_P(Models, Conformance,
                         ::testing::Combine(::testing::ValuesIn(devices()),
                                            ::testing::ValuesIn(lowerings()),
                                            ::testing::ValuesIn(case_folders())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)->name()) + "_" +
                                  std::get<1>(info.param).name + "_" +
                                  clients::case_name(std::get<2>(info.param));
                         });

}  // namespace
