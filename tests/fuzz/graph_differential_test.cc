// Goal: what the farm makes of a graph computes what the reference interpreter computes, for any
// graph; and a graph survives its text and its wire form.
// Method: random graphs (random_graph.h) are lowered plainly, each operation a kernel of its own,
// and some of them also by a random genome. Kernels of many graphs are compiled in one run. Each
// graph runs at several sizes in guarded, poisoned memory and is compared with the interpreter
// within the rounding that its generator bounds: certain values must be equal.
// LFARM_FUZZ_SEED=n begins at graph n, LFARM_FUZZ_GRAPHS=n tries that many.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/interpreter/interpreter.h"
#include "common/runtime/tensor/compare.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "common/wire/ir_codec.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/partition/rewrites/layout_assignment.h"
#include "coordinator/search/space/region_space.h"
#include "tests/fuzz/graphs/random_graph.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/compile/build_plan.h"
#include "worker/compile/c_compiler.h"
#include "worker/compile/target.h"

namespace fuzz {
namespace {

using common::cat;
using common::Graph;
using common::HostTensor;
using common::InputKind;
using common::Program;
using common::Result;
using common::Status;

// About half a minute on two cores.
constexpr uint64_t kGraphs = 400;
// Graphs a compiler run: fewer start it too often, more leave a core idle at the end.
constexpr uint64_t kBatch = 25;
constexpr uint64_t kSearchEvery = 4;
constexpr uint64_t kThreadsEvery = 5;
constexpr int kThreads = 3;
constexpr size_t kFailuresMax = 10;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The graph that runs on this thread, for a crash's last words.
thread_local uint64_t current = 0;

// Only what a signal handler may call.
void on_crash(int number) {
  char text[64] = "crashed; repeat with LFARM_FUZZ_SEED=";
  size_t size = std::strlen(text);
  char digits[24];
  size_t count = 0;
  for (uint64_t rest = current; count == 0 || rest != 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  while (count > 0) text[size++] = digits[--count];
  text[size++] = '\n';
  (void)!::write(STDERR_FILENO, text, size);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

Status failed(std::string message) { return common::Error{common::Code::kVerification, message}; }

Status check_forms(const Graph& graph) {
  LFARM_RETURN_IF_ERROR(common::verify(graph));
  LFARM_ASSIGN_OR_RETURN(Graph parsed, common::parse_graph(common::print(graph)));
  if (parsed != graph) return failed("the text form loses something");
  LFARM_ASSIGN_OR_RETURN(Graph decoded, common::decode_graph(common::encode_graph(graph)));
  if (decoded != graph) return failed("the wire form loses something");
  bool same = common::graph_hash(parsed) == common::graph_hash(graph) &&
              common::graph_hash(decoded) == common::graph_hash(graph) &&
              common::graph_hash(common::canonical(graph)) == common::graph_hash(graph);
  return same ? Status() : failed("equal graphs differ in hash");
}

// Every region as `lower` says, assembled as the farm does it.
Program lower(const Graph& graph, const std::function<Program(const Graph& region)>& lower) {
  common::Machine machine = common::machine_of(common::host_cpu_target());
  coordinator::Cut cut =
      coordinator::cut_into_regions(common::roll(coordinator::assign_layouts(graph, machine)));
  std::vector<Program> programs;
  for (const coordinator::Region& region : cut.regions) programs.push_back(lower(region.graph));
  std::vector<const Program*> parts;
  for (const Program& program : programs) parts.push_back(&program);
  return coordinator::assemble(cut, parts);
}

Program plain_program(const Graph& graph) {
  return lower(graph, [](const Graph& region) {
    common::SteadyClock clock;
    return coordinator::RegionSpace(region, clock).plain();
  });
}

// A candidate that the search might try.
Program searched_program(const Graph& graph, uint64_t seed) {
  return lower(graph, [seed](const Graph& region) {
    common::SteadyClock clock;
    common::Random random(seed);
    coordinator::RegionSpace space(region, clock, coordinator::Numerics::kStrict,
                                   common::machine_of(common::host_cpu_target()));
    coordinator::Genome genome;
    for (int round = 0; round < 2; ++round) {  // choices bring sites of their own
      for (const coordinator::Site& site : space.decode(genome).sites) {
        if (random.chance(0.5))
          genome.set(site.name, site.values[random.below(site.values.size())]);
      }
    }
    return space.decode(genome).program;
  });
}

Result<std::vector<HostTensor>> run_executor(common::Executor& executor,
                                             const std::vector<HostTensor>& inputs) {
  const common::Plan& plan = executor.plan();
  std::vector<HostTensor> user;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto position = static_cast<int>(i);
    if (plan.inputs[i].kind == InputKind::kUser) user.push_back(inputs[i]);
    if (plan.inputs[i].kind == InputKind::kWeight) {
      LFARM_RETURN_IF_ERROR(executor.bind_weight(position, inputs[i]));
    }
    if (plan.inputs[i].kind == InputKind::kState) {
      LFARM_RETURN_IF_ERROR(executor.set_state(position, inputs[i]));
    }
  }
  LFARM_ASSIGN_OR_RETURN(common::RunOutputs run, executor.run(user));
  LFARM_RETURN_IF_ERROR(executor.check_guards());
  std::vector<HostTensor> outputs;
  size_t given = 0, mutated = 0;
  for (const common::GraphOutput& output : plan.outputs) {
    if (output.kind == common::OutputKind::kUser) {
      outputs.push_back(run.user[given++]);
    } else if (plan.inputs[static_cast<size_t>(output.input)].kind == InputKind::kState) {
      LFARM_ASSIGN_OR_RETURN(HostTensor state, executor.state(output.input));
      outputs.push_back(std::move(state));
    } else {
      outputs.push_back(run.mutated[mutated++].value);
    }
  }
  return outputs;
}

// `exact` is in float64 where `like` is a float.
HostTensor as_stored(const HostTensor& exact, const HostTensor& like) {
  HostTensor stored = HostTensor::zeros(like.dtype(), like.sizes()).value();
  for (int64_t i = 0; i < stored.elements(); ++i) {
    if (common::is_float(like.dtype())) stored.set(i, exact.get(i));
    if (!common::is_float(like.dtype())) stored.set_int(i, exact.get_int(i));
  }
  return stored;
}

class Trial {
 public:
  Trial(uint64_t seed, bool search) : seed_(seed), random_(random_graph(seed)) {
    note("forms", check_forms(random_.graph));
    if (!failure_.empty()) return;
    add("plain lowering", plain_program(random_.graph));
    if (search) add("searched lowering", searched_program(random_.graph, seed));
  }
  const std::string& failure() const { return failure_; }
  uint64_t seed() const { return seed_; }
  const std::vector<std::pair<std::string, Program>>& programs() const { return programs_; }

  // Kernels come from the cache where they are there.
  void check(const worker::CodeGenerator& generator, const worker::Compiler& compiler,
             worker::KernelCache& cache, common::Device& device) {
    current = seed_;
    for (const auto& [name, program] : programs_) {
      note(name, check_program(program, generator, compiler, cache, device));
    }
  }

 private:
  void add(const std::string& name, Program program) {
    const common::Target host = common::host_cpu_target();
    common::add_nests(program, {common::machine_of(host), host.name, {}});
    note(name, common::verify(program));
    auto decoded = common::decode_program(common::encode_program(program));
    if (!decoded.ok()) note(name, decoded.error());
    if (decoded.ok() && *decoded != program) note(name, failed("the wire form loses something"));
    programs_.emplace_back(name, std::move(program));
  }
  void note(const std::string& what, const Status& status) {
    if (status.ok() || !failure_.empty()) return;
    failure_ =
        cat("graph ", seed_, ", ", what, ": ", status.error().message,
            "\nrepeat with LFARM_FUZZ_SEED=", seed_,
            " LFARM_FUZZ_GRAPHS=1 tests/test_graph_differential\n", common::print(random_.graph));
  }

  Status check_program(const Program& program, const worker::CodeGenerator& generator,
                       const worker::Compiler& compiler, worker::KernelCache& cache,
                       common::Device& device) {
    LFARM_ASSIGN_OR_RETURN(worker::BuiltPlan built,
                           worker::build_plan(program, generator, compiler, cache));
    built.plan.key.target = device.target();
    auto objects = [&](const common::Digest& digest) -> Result<common::ByteView> {
      return common::ByteView(*built.objects.at(digest));
    };
    common::ExecutorOptions options;
    options.guard = true;
    LFARM_ASSIGN_OR_RETURN(auto executor,
                           common::Executor::load(built.plan, objects, device, options));
    for (size_t b = 0; b < random_.bindings.size(); ++b) {
      Status status = check_binding(*executor, b);
      if (status.ok()) continue;
      std::string where;
      for (int64_t size : random_.bindings[b]) where += cat(" ", size);
      return common::Error{status.error().code,
                           cat("at sizes (", where, " ): ", status.error().message)};
    }
    return {};
  }

  Status check_binding(common::Executor& executor, size_t binding) {
    std::vector<HostTensor> inputs = random_inputs(random_, binding, seed_);
    common::InterpretOptions plain, wide;
    plain.precision = common::Precision::kPlain;
    wide.precision = common::Precision::kWide;
    LFARM_ASSIGN_OR_RETURN(auto expected, common::interpret(random_.graph, inputs, plain));
    LFARM_ASSIGN_OR_RETURN(auto exact, common::interpret(random_.graph, inputs, wide));
    LFARM_ASSIGN_OR_RETURN(auto got, run_executor(executor, inputs));
    for (size_t o = 0; o < got.size(); ++o) {
      common::Tolerance tolerance{0, 2 * random_.errors[o]};
      LFARM_RETURN_IF_ERROR(common::compare_close(cat("output ", o, " of the two precisions"),
                                                  expected[o], as_stored(exact[o], expected[o]),
                                                  tolerance));
      LFARM_RETURN_IF_ERROR(
          common::compare_close(cat("output ", o), got[o], expected[o], tolerance));
    }
    return {};
  }

  uint64_t seed_;
  RandomGraph random_;
  std::vector<std::pair<std::string, Program>> programs_;
  std::string failure_;
};

// Graphs whose kernels share a compiler run.
std::vector<std::string> check_batch(uint64_t first, uint64_t count,
                                     const worker::Compiler& compiler, worker::KernelCache& cache) {
  worker::CpuCodeGenerator generator(worker::unit_of(common::host_cpu_target()));
  // Threads share a launch's units on some graphs.
  auto device = common::make_cpu_device();
  auto threaded = common::make_cpu_device({kThreads});
  std::vector<Trial> trials;
  Program all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    current = seed;
    trials.emplace_back(seed, seed % kSearchEvery == 0);
    for (const auto& [name, program] : trials.back().programs()) {
      for (const common::Kernel& kernel : program.kernels) {
        // What has no code is a failure of its graph alone, later.
        if (kernel.form != common::Template::kGemm && generator.generate(kernel).ok()) {
          all.kernels.push_back(kernel);
        }
      }
    }
  }
  // When this run fails, each graph is compiled alone after it, and the culprit named.
  (void)worker::build_plan(all, generator, compiler, cache, 600'000);
  std::vector<std::string> failures;
  for (Trial& trial : trials) {
    bool shared = trial.seed() % kThreadsEvery == 0;
    if (trial.failure().empty()) {
      trial.check(generator, compiler, cache, shared ? *threaded : *device);
    }
    if (!trial.failure().empty()) failures.push_back(trial.failure());
  }
  return failures;
}

TEST(GraphDifferential, RandomGraphs) {
  auto compiler = worker::find_c_compiler(common::host_cpu_target());
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  for (int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(number, on_crash);
  const uint64_t first = from_environment("LFARM_FUZZ_SEED", 1);
  const uint64_t count = from_environment("LFARM_FUZZ_GRAPHS", kGraphs);
  std::printf("graphs %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + count - 1));
  std::atomic<uint64_t> next = first;
  worker::KernelCache cache;  // a part of the kernels are known from other batches
  std::mutex mutex;
  size_t failures = 0;
  auto work = [&] {
    for (;;) {
      uint64_t begin = next.fetch_add(kBatch);
      if (begin >= first + count) return;
      auto found = check_batch(begin, std::min(kBatch, first + count - begin), **compiler, cache);
      std::lock_guard lock(mutex);
      for (const std::string& failure : found) ADD_FAILURE() << failure;
      failures += found.size();
      if (failures >= kFailuresMax) return;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned k = std::max(1U, std::thread::hardware_concurrency()); k > 1; --k) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fuzz
