// Compiles kernels, runs them on this machine and compares them with the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "codegen_runner.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/llir/llir.h"
#include "common/runtime/interpreter/interpreter.h"
#include "common/runtime/interpreter/nest_interpreter.h"
#include "common/schedule/kernels/kernel_nest.h"

namespace testing_codegen {

using namespace common;  // NOLINT: a test's own vocabulary
using worker::KernelSource;

struct Case {
  Kernel kernel;
  std::vector<HostTensor> inputs;
  KernelSource source;
};

inline HostTensor random_tensor(Random& random, DType dtype, const std::vector<int64_t>& sizes,
                                double low = -2, double high = 2) {
  HostTensor t = HostTensor::zeros(dtype, sizes).value();
  for (int64_t i = 0; i < t.elements(); ++i) {
    double x = low + (high - low) * random.unit();
    if (dtype == DType::kBool) x = random.chance(0.5) ? 1 : 0;
    if (is_float(dtype)) {
      t.set(i, x);
    } else {
      t.set_int(i, static_cast<int64_t>(std::floor(x)));
    }
  }
  return t;
}

// Kernels that are compiled in one run and then checked one by one.
class KernelBatch {
 public:
  // Code for a target that this machine can run; "" is its own.
  explicit KernelBatch(const std::string& target = "") : runner_(make_runner(target)) {}

  // Adds a kernel with random inputs of the given sizes (one list per body input).
  void add(Template form, Schedule schedule, const Graph& body, std::vector<HostTensor> inputs) {
    Case c{{form, std::move(schedule), canonical(body)}, std::move(inputs), {}};
    cases_.push_back(std::move(c));
  }

  // Changes the nest of a kernel, which is its own by default: before compile().
  template <class Change>
  void change_nests(Change change) {
    for (Case& c : cases_) {
      add_nest(c);
      if (c.kernel.nest) change(c.kernel, runner_->machine().kind);
    }
  }

  void compile() {
    const worker::CodeGenerator& generator = runner_->generator();
    std::string text = generator.preamble();
    std::vector<std::string> seen;
    for (Case& c : cases_) {
      add_nest(c);
      auto source = generator.generate(c.kernel);
      ASSERT_TRUE(source.ok()) << source.error().message << "\n" << print(c.kernel);
      c.source = std::move(*source);
      if (common::contains(seen, c.source.entry.name)) continue;
      seen.push_back(c.source.entry.name);
      text += "\n" + c.source.text;
    }
    if (const char* path = std::getenv("LFARM_DUMP_C")) {
      FILE* f = fopen(path, "w");
      fputs(text.c_str(), f);
      fclose(f);
    }
    runner_->load(text);
  }

  size_t size() const { return cases_.size(); }
  bool runs() const { return runner_->runs(); }
  // Elements of a register.
  int64_t lanes(DType dtype) const { return runner_->vector_bytes() / dtype_size(dtype); }
  const Case& at(size_t k) const { return cases_[k]; }

  // Runs case k in one or several shares of its units. Checks guard bands.
  std::vector<HostTensor> run(size_t k, int shares) {
    const Case& c = cases_[k];
    const Graph& body = c.kernel.body;
    std::vector<std::vector<int64_t>> sizes;
    for (const HostTensor& t : c.inputs) sizes.push_back(t.sizes());
    std::vector<int64_t> symbols = bind_symbols(body, sizes).value();
    std::vector<HostTensor> outputs;
    for (const GraphOutput& output : body.outputs) {
      const Node& node = body.node(output.node);
      outputs.push_back(HostTensor::zeros(node.dtype, evaluate_shape(node.shape, symbols)).value());
    }
    if (c.source.entry.starts_from_bases) {
      std::vector<int> bases = in_place_inputs(c.kernel);
      for (size_t o = 0; o < bases.size(); ++o) {
        if (bases[o] >= 0) outputs[o] = c.inputs[static_cast<size_t>(bases[o])].clone().value();
      }
    }
    runner_->run(c.source, c.inputs, outputs, symbols, shares);
    return outputs;
  }

  // Compares with the interpreter: integers exactly, floats within twice the error of the plain
  // float evaluation against float64, plus `slack` relative and absolute, plus `absolute`.
  void check(size_t k, double slack = 2e-6, int shares = 1, double absolute = 0) {
    const Case& c = cases_[k];
    if (!runs()) return;
    InterpretOptions plain;
    InterpretOptions wide;
    wide.precision = Precision::kWide;
    auto expected = interpret(c.kernel.body, c.inputs, plain);
    auto exact = interpret(c.kernel.body, c.inputs, wide);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(exact.ok()) << exact.error().message;
    compare(c, run(k, shares), *expected, *exact, slack, absolute);
    if (::testing::Test::HasFatalFailure()) return;
    check_nest(c, *expected, *exact, slack, absolute);
  }

  void check_all(double slack = 2e-6) {
    for (size_t k = 0; k < cases_.size(); ++k) {
      check(k, slack);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  // What the kernel's loops compute where they are executed as the nest says.
  static void check_nest(const Case& c, const std::vector<HostTensor>& expected,
                         const std::vector<HostTensor>& exact, double slack, double absolute) {
    const std::optional<LoopNest>& nest = c.kernel.nest;
    if (!nest || nest->is_epilogue) return;
    for (const GraphOutput& output : c.kernel.body.outputs) {
      if (c.kernel.body.node(output.node).op == Op::kScatter) return;
    }
    const Graph body = nest_body(c.kernel.body, *nest);
    auto visited = interpret_nest(body, *nest, c.inputs, {});
    ASSERT_TRUE(visited.ok()) << visited.error().message << "\n" << describe_case(c);
    compare(c, *visited, expected, exact, slack, absolute);
  }

  static void compare(const Case& c, const std::vector<HostTensor>& got,
                      const std::vector<HostTensor>& expected, const std::vector<HostTensor>& exact,
                      double slack, double absolute) {
    for (size_t o = 0; o < got.size(); ++o) {
      DType dtype = got[o].dtype();
      double step = dtype == DType::kBfloat16  ? 1.0 / 128
                    : dtype == DType::kFloat16 ? 1.0 / 1024
                                               : 0;
      for (int64_t i = 0; i < got[o].elements(); ++i) {
        if (!is_float(dtype)) {
          ASSERT_EQ(got[o].get_int(i), expected[o].get_int(i))
              << "output " << o << " element " << i << "\n"
              << describe_case(c);
          continue;
        }
        double x = got[o].get(i);
        double want = expected[o].get(i);
        double truth = exact[o].get(i);
        if (std::isnan(want) && std::isnan(x)) continue;
        if (x == want) continue;
        double allowed =
            2 * std::abs(want - truth) + (slack + step) * (1e-1 + std::abs(truth)) + absolute;
        ASSERT_LE(std::abs(x - truth), allowed)
            << "output " << o << " element " << i << " is " << x << ", reference " << want
            << ", exact " << truth << "\n"
            << describe_case(c);
      }
    }
  }

  void add_nest(Case& c) {
    if (c.kernel.nest) return;
    if (c.kernel.form == Template::kHorizontal) {
      Program program;
      program.kernels = {c.kernel};
      add_nests(program, runner_->machine());
      c.kernel = program.kernels[0];
      return;
    }
    Status nest = common::add_nest(c.kernel, runner_->machine());
    ASSERT_TRUE(nest.ok()) << nest.error().message << "\n" << print(c.kernel);
  }
  static std::string describe_case(const Case& c) {
    return cat(print(c.kernel), "\n", c.source.text);
  }
  std::unique_ptr<KernelRunner> runner_;
  std::vector<Case> cases_;
};

}  // namespace testing_codegen
