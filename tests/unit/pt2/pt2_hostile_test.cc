// Goal: no model, however wrong, crashes the translator. Method: programs of real models are
// changed at random in the places an archive can be wrong (sizes, ranks, dtypes, arguments,
// operators), and what the reader would still accept is translated. A failure prints the seed that
// reproduces it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <vector>

#include "clients/pt2/archive/archive.h"
#include "clients/pt2/translate.h"
#include "common/base/random.h"
#include "tests/paths/paths.h"

namespace clients {
namespace {

std::vector<ExportedProgram> load_programs() {
  std::vector<std::filesystem::path> folders = {paths::fixtures("/pt2/cases"),
                                                paths::fixtures("/operators")};
  if (std::filesystem::exists(paths::shared("/ops"))) folders.push_back(paths::shared("/ops"));
  std::vector<std::string> paths;
  for (const auto& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::string path = (entry.path() / "model.pt2").string();
      // One dtype of each operator is enough: dtypes are changed here.
      bool other =
          path.find(".bfloat16.") != std::string::npos || path.find(".bool.") != std::string::npos;
      if (!other && std::filesystem::exists(path)) paths.push_back(path);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ExportedProgram> programs;
  for (const std::string& path : paths) {
    auto program = open_pt2(path);
    EXPECT_TRUE(program.ok()) << path;
    if (program.ok()) programs.push_back(*program);
  }
  return programs;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  void mutate(ExportedProgram* program, const std::vector<ExportedProgram>& others) {
    for (uint64_t left = 1 + random_.below(3); left > 0; --left) {
      switch (random_.below(4)) {
        case 0:
          change_tensor(&program->graph);
          break;
        case 1:
          change_target(&program->graph, others);
          break;
        default:
          change_argument(&program->graph);
      }
    }
  }

 private:
  int64_t odd_number() {
    constexpr int64_t kOdd[] = {
        0, 1, -1, 2, 3, 7, -2, -9, 64, 1000000, INT64_MAX, INT64_MIN, int64_t{1} << 40};
    return kOdd[random_.below(std::size(kOdd))];
  }

  void change_tensor(ExportGraph* graph) {
    std::vector<TensorMeta*> tensors;
    for (auto& [name, meta] : graph->tensor_values) tensors.push_back(&meta);
    if (tensors.empty()) return;
    TensorMeta& meta = *tensors[random_.below(tensors.size())];
    size_t rank = meta.sizes.size();
    switch (random_.below(4)) {
      case 0:
        if (rank > 0) meta.sizes[random_.below(rank)] = {odd_number(), "", {}};
        break;
      case 1:
        if (rank > 0) {
          meta.sizes.pop_back();
          meta.strides.pop_back();
        }
        break;
      case 2:
        meta.sizes.push_back({odd_number(), "", {}});
        meta.strides.push_back({1, "", {}});
        break;
      default: {
        constexpr ScalarType kTypes[] = {ScalarType::kBool,      ScalarType::kInt64,
                                         ScalarType::kFloat32,   ScalarType::kBfloat16,
                                         ScalarType::kUint8,     ScalarType::kComplex64,
                                         ScalarType::kFloat8E5m2};
        meta.dtype = kTypes[random_.below(std::size(kTypes))];
      }
    }
  }

  void change_target(ExportGraph* graph, const std::vector<ExportedProgram>& others) {
    const ExportGraph& other = others[random_.below(others.size())].graph;
    if (graph->nodes.empty() || other.nodes.empty()) return;
    ExportNode& node = graph->nodes[random_.below(graph->nodes.size())];
    node.target = other.nodes[random_.below(other.nodes.size())].target;
  }

  void change_argument(ExportGraph* graph) {
    if (graph->nodes.empty()) return;
    ExportNode& node = graph->nodes[random_.below(graph->nodes.size())];
    if (node.inputs.empty()) return;
    size_t which = random_.below(node.inputs.size());
    Argument& value = node.inputs[which].value;
    if (random_.chance(0.15)) {
      node.inputs.erase(node.inputs.begin() + static_cast<ptrdiff_t>(which));
      return;
    }
    if (auto* integer = std::get_if<int64_t>(&value)) {
      *integer = odd_number();
    } else if (auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      if (random_.chance(0.4) || list->empty()) {
        list->resize(random_.below(6), odd_number());
      } else {
        (*list)[random_.below(list->size())] = odd_number();
      }
    } else if (auto* tensor = std::get_if<TensorArgument>(&value)) {
      tensor->name = other_tensor(*graph);
    } else if (auto* tensors = std::get_if<TensorListArgument>(&value)) {
      tensors->names.resize(random_.below(4), other_tensor(*graph));
    } else if (auto* number = std::get_if<double>(&value)) {
      constexpr double kOdd[] = {0, -1, 1e300, -1e-300, NAN, INFINITY};
      *number = kOdd[random_.below(std::size(kOdd))];
    } else if (auto* flag = std::get_if<bool>(&value)) {
      *flag = !*flag;
    } else if (random_.chance(0.5)) {
      value = odd_number();
    } else {
      value = NoneArgument{};
    }
  }

  std::string other_tensor(const ExportGraph& graph) {
    auto found = graph.tensor_values.begin();
    std::advance(found, static_cast<ptrdiff_t>(random_.below(graph.tensor_values.size())));
    return found->first;
  }

  common::Random random_;
};

TEST(HostileModels, AreRefusedNeverFatal) {
  std::vector<ExportedProgram> programs = load_programs();
  ASSERT_FALSE(programs.empty());
  const char* chosen = std::getenv("LFARM_SEED");
  const char* start = std::getenv("LFARM_FIRST");
  const char* origin = chosen != nullptr ? chosen : start;
  uint64_t first = origin != nullptr ? std::strtoull(origin, nullptr, 10) : 1;
  uint64_t rounds = chosen != nullptr ? 1 : 4000;
  if (const char* more = std::getenv("LFARM_ROUNDS")) rounds = std::strtoull(more, nullptr, 10);
  int translated = 0;
  int refused = 0;
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    testing::Test::RecordProperty("seed", std::to_string(seed));
    if (chosen != nullptr || std::getenv("LFARM_TRACE") != nullptr) {
      std::cerr << "LFARM_SEED=" << seed << '\n';
    }
    ExportedProgram program = programs[seed % programs.size()];
    Mutator(seed).mutate(&program, programs);
    if (!check_program(program).ok()) continue;
    auto model = translate(program);
    if (!model.ok()) {
      EXPECT_FALSE(model.error().message.empty()) << "LFARM_SEED=" << seed;
      EXPECT_NE(model.error().code, common::Code::kInternal)
          << model.error().message << "\nrepeat with LFARM_SEED=" << seed;
    }
    ++(model.ok() ? translated : refused);
  }
  if (chosen == nullptr) {
    EXPECT_GT(translated, 0);
    EXPECT_GT(refused, 0);
  }
}

}  // namespace
}  // namespace clients
