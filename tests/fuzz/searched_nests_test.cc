// Loop nests and tilings of the kernels that searches try, executed by the interpreter and held
// against their bodies. If it fails, loops that a search sends leave out elements, visit some
// twice, or deal a sum's steps to threads or blocks so that not all are counted once.
//
// Models are the fixtures and, where they are at hand, those beside the project.
// $LFARM_FUZZ_GENOMES: genomes of each region, drawn at random; a line is printed for each model.
// $LFARM_FUZZ_MODEL: only models whose path has this, so that a long run can be cut into parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <unordered_set>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/base/digest.h"
#include "common/base/random.h"
#include "common/ir/hlir/text.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/nest/nest_graph.h"
#include "common/runtime/interpreter/nest_interpreter.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "common/schedule/kernels/looped_kernel.h"
#include "coordinator/search/partition/search_sizes.h"
#include "coordinator/search/passes/passes.h"
#include "coordinator/search/strategy/region_search.h"
#include "tests/paths/paths.h"

namespace coordinator {
namespace {

using namespace common;  // NOLINT: a test's own vocabulary

// Larger kernels are left to those of the same form that are smaller: the interpreter computes
// every node of a body in memory.
constexpr int64_t kElementsMax = 1 << 21;
// Of what loops of tilings have in memory.
constexpr int64_t kLoopedElementsMax = 1 << 24;

constexpr const char* kGenomes = "LFARM_FUZZ_GENOMES";
constexpr const char* kModel = "LFARM_FUZZ_MODEL";

int genomes() {
  const char* asked = std::getenv(kGenomes);
  return asked != nullptr ? std::atoi(asked) : 8;
}

std::vector<std::string> models() {
  std::vector<std::string> found;
  for (const std::string& root : {paths::fixtures("/models"), paths::shared("/models")}) {
    if (!std::filesystem::is_directory(root)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      const std::filesystem::path model = entry.path() / "model.pt2";
      if (!std::filesystem::exists(model)) continue;
      const char* part = std::getenv(kModel);
      if (part == nullptr || model.string().find(part) != std::string::npos) found.push_back(model);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

HostTensor random_input(Random& random, DType dtype, std::vector<int64_t> sizes) {
  HostTensor t = HostTensor::zeros(dtype, std::move(sizes)).value();
  for (int64_t i = 0; i < t.elements(); ++i) {
    // Integers may be positions, which lie within any axis.
    is_float(dtype) ? t.set(i, 2 * random.unit() - 1) : t.set_int(i, 0);
  }
  return t;
}

class SearchedNests : public ::testing::TestWithParam<const char*> {
 protected:
  // Nests of the program's kernels, or of their parts, that were not executed before.
  void execute(const Program& program) {
    for (const Kernel& kernel : program.kernels) {
      if (!seen_.insert(code_fingerprint(kernel)).second) continue;
      if (kernel.form != Template::kHorizontal) execute(kernel);
      if (kernel.form != Template::kHorizontal || kernel.part_nests.empty()) continue;
      const auto parts = horizontal_parts(kernel.body);
      for (size_t part = 0; part < parts.size(); ++part) {
        execute(horizontal_part(kernel, parts, part));
      }
      if (HasFatalFailure()) return;
    }
  }

  size_t executed_ = 0, too_large_ = 0;    // nests, and kernels
  std::map<std::string, size_t> tilings_;  // executed, by form
  std::unordered_set<Digest> graphs_;      // of loops, each of which is executed once
  std::set<std::string> other_tilings_;    // why they have no loops

 private:
  using Tensors = std::vector<HostTensor>;

  static int64_t elements(const Graph& body, const std::vector<int64_t>& symbols) {
    int64_t most = 0;
    for (const Node& node : body.nodes) {
      most = std::max(most, element_count(node.shape).evaluate(symbols));
    }
    return most;
  }

  void execute(const Kernel& kernel) {
    // Each symbol as small as it may be, but with a few elements.
    std::vector<int64_t> symbols;
    for (const SymbolRange& s : kernel.body.symbols) {
      symbols.push_back(std::clamp<int64_t>(5, s.min, s.max));
    }
    if (elements(kernel.body, symbols) > kElementsMax) {
      ++too_large_;
      return;
    }
    if (kernel.nest) execute(nest_body(kernel.body, *kernel.nest), *kernel.nest, symbols);
    if (HasFatalFailure() || !kernel.tiling) return;
    auto looped = looped_kernel(kernel, machine_);
    if (!looped.ok()) {
      other_tilings_.insert(looped.error().message);
      return;
    }
    if (elements(looped->loops, symbols) > kLoopedElementsMax) {
      ++too_large_;
      return;
    }
    ++tilings_[kernel.tiling->form];
    execute(kernel, *looped, symbols);
  }

  void execute(const Graph& body, const LoopNest& nest, const std::vector<int64_t>& symbols) {
    ++executed_;
    if (!is_new(nest_graph(body, nest), body)) return;
    SCOPED_TRACE(print(nest) + print(body));
    const Tensors inputs = inputs_of(body, symbols);
    compare(interpret_nest(body, nest, inputs, kWide), interpret(looped_body(body), inputs, kWide));
  }

  void execute(const Kernel& kernel, const LoopedNodes& looped,
               const std::vector<int64_t>& symbols) {
    if (!is_new(looped.loops, looped.body)) return;
    SCOPED_TRACE(print(*kernel.tiling) + "\n" + print(kernel.body));
    const Tensors inputs = inputs_of(kernel.body, symbols);
    compare(interpret_loops(looped, inputs, kWide), interpret(kernel.body, inputs, kWide));
  }

  // Schedules that differ may stand for the same loops.
  bool is_new(const Graph& loops, const Graph& body) {
    return graphs_.insert(Hasher().text(print(loops)).text(print(body)).finish()).second;
  }

  Tensors inputs_of(const Graph& body, const std::vector<int64_t>& symbols) {
    Tensors inputs;
    for (const GraphInput& input : body.inputs) {
      inputs.push_back(random_input(random_, input.dtype, evaluate_shape(input.shape, symbols)));
    }
    // Where rows are visited in an order, each has a place in it.
    for (const Node& node : body.nodes) {
      if (!has_row_order(node)) continue;
      NodeId order = node.operands[2];
      while (body.node(order).op == Op::kView || body.node(order).op == Op::kCast) {
        order = body.node(order).operands[0];
      }
      if (body.node(order).op != Op::kInput) continue;
      HostTensor& places = inputs[static_cast<size_t>(attr<InputAttr>(body.node(order)).position)];
      for (int64_t i = 0; i < places.elements(); ++i) places.set_int(i, i);
    }
    return inputs;
  }

  static void compare(const Result<Tensors>& got, const Result<Tensors>& expected) {
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(got.ok()) << got.error().message;
    for (size_t k = 0; k < got->size(); ++k) {
      const HostTensor &x = (*got)[k], &want = (*expected)[k];
      ASSERT_EQ(x.sizes(), want.sizes());
      for (int64_t i = 0; i < x.elements(); ++i) {
        const double a = x.get(i), b = want.get(i);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        ASSERT_TRUE(is_float(x.dtype()));
        ASSERT_LE(std::abs(a - b), 1e-9 * (1 + std::abs(b))) << "output " << k << " element " << i;
      }
    }
  }

  // Without rounding sums hardly depend on the order of their parts.
  static constexpr InterpretOptions kWide{.precision = Precision::kWide};

 protected:
  const Target target_{GetParam()};
  const NestMachine machine_{machine_of(target_), target_.name, {}};

 private:
  Random random_{17};
  std::unordered_set<Digest> seen_;  // code
};

TEST_P(SearchedNests, ComputeTheirBodies) {
  NestMemo nests(machine_);
  for (const std::string& path : models()) {
    SCOPED_TRACE(path);
    auto model = clients::load_model(path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    Compilation compilation(model->graph, target_, Numerics::kStrict);
    for (const auto& space : compilation.spaces()) {
      KernelTimes times(nullptr, search_sizes(compilation.graph(), target_), nullptr, target_);
      auto search = RegionSearch::create(*space, times, 29, SearchStrategy::kRandom);
      for (int k = 0; k < genomes(); ++k) {
        auto candidate = search->propose();
        if (!candidate) break;
        Program program = *candidate->program;
        nests.add(program);
        execute(program);
        if (HasFatalFailure()) return;
        search->tell(*candidate, candidate->predicted_ns);
      }
    }
    if (std::getenv(kGenomes) != nullptr) {
      std::cout << path << ": " << graphs_.size() << " graphs of loops so far" << std::endl;
    }
  }
  size_t tilings = 0;
  std::string forms;
  for (const auto& [form, count] : tilings_) {
    tilings += count;
    forms += cat(forms.empty() ? "" : ", ", count, " ", form);
  }
  std::cout << executed_ << " nests and " << tilings << " tilings executed (" << forms << "), of "
            << graphs_.size() << " graphs of loops; " << too_large_ << " kernels are too large\n";
  EXPECT_TRUE(other_tilings_.empty()) << *other_tilings_.begin();
  if (std::getenv(kModel) != nullptr) return;  // the fewest are those of all models
  EXPECT_GT(executed_, 100u);
  EXPECT_GT(tilings, 50u);
}

INSTANTIATE_TEST_SUITE_P(Targets, SearchedNests,
                         ::testing::Values("cpu-x86_64-avx512", "cuda-sm_90a"));

}  // namespace
}  // namespace coordinator
