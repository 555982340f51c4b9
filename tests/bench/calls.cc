// calls --kernels N: what one call through liblfarm costs beside its kernels: for a graph without
// any, and for one of many kernels of a few nanoseconds, against calling them as functions.
#include <clients/runtime/include/lfarm.h>
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "common/runtime/device/cpu_device.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/unit/service/kept_plan.h"

namespace bench {
namespace {

using common::Plan;

constexpr int kRounds = 40;
constexpr int64_t kRoundNs = 5'000'000;

struct CallsOptions {
  int kernels = 10'000;
};

// Adds 1 to one element.
constexpr const char* kSource =
    "#include <stdint.h>\n"
    "void step(void* const* b, const int64_t* s, int64_t begin, int64_t end, void* scratch) {\n"
    "  *(float*)b[1] = *(const float*)b[0] + 1;\n"
    "}\n";

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
void must(lfarm_status status, lfarm_error* error) {
  if (status == LFARM_OK) return;
  std::string message = lfarm_error_message(error);
  lfarm_error_free(error);
  throw std::runtime_error(message);
}

// One element through `kernels` steps; without any nothing is returned.
Plan plan_of(int kernels, const common::Bytes& object) {
  Plan plan;
  plan.key = {{},
              common::host_cpu_target(),
              std::string(common::kDefaultPolicy),
              std::string(common::kCompilerEpoch)};
  common::Shape shape = {1};
  plan.inputs = {{common::InputKind::kUser, common::DType::kFloat32, shape, ""}};
  plan.buffers = {{common::BufferKind::kInput, 0, common::DType::kFloat32, shape}};
  if (kernels == 0) return plan;
  plan.outputs = {{common::OutputKind::kUser, -1, -1}};
  plan.objects = {common::digest_of(object)};
  common::PlanKernel kernel;
  kernel.fingerprint = common::digest_of("step");
  kernel.object = 0;
  kernel.entry.name = "step";
  plan.kernels = {kernel};
  for (int k = 0; k < kernels; ++k) {
    bool is_last = k + 1 == kernels;
    plan.buffers.push_back({is_last ? common::BufferKind::kOutput : common::BufferKind::kTemporary,
                            0, common::DType::kFloat32, shape});
    plan.calls.push_back({0, {k}, {k + 1}, {}});
  }
  return plan;
}

// Nanoseconds of one `body`, the best of many rounds: what disturbs only adds.
template <class Body>
double best_ns(const Body& body) {
  common::SteadyClock clock;
  int64_t start = clock.now_ns();
  body();
  int64_t once = std::max<int64_t>(clock.now_ns() - start, 1);
  int64_t repeats = std::clamp<int64_t>(kRoundNs / once, 1, 100'000);
  double best = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    start = clock.now_ns();
    for (int64_t k = 0; k < repeats; ++k) body();
    best =
        std::min(best, static_cast<double>(clock.now_ns() - start) / static_cast<double>(repeats));
  }
  return best;
}

// One call of the graph through the C interface, with outputs that are used again.
double call_ns(lfarm_session* session, const std::string& graph, int kernels) {
  lfarm_model* model = nullptr;
  lfarm_instance* instance = nullptr;
  lfarm_error* error = nullptr;
  must(lfarm_model_find(session, graph.c_str(), nullptr, &model, &error), error);
  must(lfarm_instance_create(model, &instance, &error), error);
  alignas(common::kBufferAlignment) float value = 1;
  int64_t size = 1;
  lfarm_tensor input{&value, {1, 0}, 1, {2, 32, 1}, &size, nullptr, 0};
  lfarm_outputs* outputs = nullptr;
  double ns =
      best_ns([&] { must(lfarm_instance_run(instance, &input, 1, &outputs, &error), error); });
  if (kernels > 0) {
    const lfarm_tensor* result = lfarm_outputs_get(outputs, 0);
    if (*static_cast<const float*>(result->data) != static_cast<float>(kernels + 1)) {
      throw std::runtime_error("the graph computes something else");
    }
  }
  lfarm_outputs_free(outputs);
  lfarm_instance_free(instance);
  lfarm_model_free(model);
  return ns;
}

// The same kernels as functions, each with pointers of its own.
double function_ns(const std::string& path, int kernels) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  using Kernel = void (*)(void* const*, const int64_t*, int64_t, int64_t, void*);
  auto step = reinterpret_cast<Kernel>(::dlsym(library, "step"));
  std::vector<float> values(static_cast<size_t>(kernels) + 1, 1);
  std::vector<void*> pointers;
  for (size_t k = 0; k < static_cast<size_t>(kernels); ++k) {
    pointers.push_back(&values[k]);
    pointers.push_back(&values[k + 1]);
  }
  double ns = best_ns([&] {
    for (size_t k = 0; k < pointers.size(); k += 2) step(&pointers[k], nullptr, 0, 1, nullptr);
  });
  ::dlclose(library);
  return ns;
}

int run(const CallsOptions& options) {
  auto scratch = must(common::ScratchDirectory::create("lfarm-bench"));
  std::string source = scratch.path() + "/step.c", path = scratch.path() + "/step.so";
  if (!common::write_file_atomic(source, common::as_bytes(std::string(kSource))).ok()) return 1;
  auto compiled =
      must(common::run_command({"cc", "-O2", "-shared", "-fPIC", "-o", path, source}, 60'000));
  if (compiled.status.code != 0) throw std::runtime_error(compiled.output);
  common::Bytes object = common::to_bytes(common::as_bytes(must(common::read_file(path))));

  lfarm_options session_options;
  lfarm_options_init(&session_options);
  std::string state = scratch.path() + "/state";
  session_options.state = state.c_str();
  session_options.device = "cpu";
  session_options.threads = 1;
  lfarm_session* session = nullptr;
  lfarm_error* error = nullptr;
  must(lfarm_session_open(&session_options, &session, &error), error);
  for (int kernels : {0, 1, options.kernels}) {
    common::Digest graph = common::digest_of(common::cat("graph of ", kernels));
    auto kept = common::keep_plan(state, graph, plan_of(kernels, object), object);
    if (!kept.ok()) throw std::runtime_error(kept.error().message);
    double ns = call_ns(session, graph.hex(), kernels);
    nlohmann::ordered_json line{{"bench", "calls"}, {"kernels", kernels}, {"call_ns", ns}};
    if (kernels > 1) {
      line["kernel_ns"] = ns / kernels;
      line["function_ns"] = function_ns(path, kernels) / kernels;
    }
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  lfarm_session_free(session);
  return 0;
}

}  // namespace

int run_calls(const std::vector<std::string>& arguments) {
  CallsOptions options;
  CLI::App app("What one call costs beside its kernels.", "lfarm-bench calls");
  app.add_option("--kernels", options.kernels, "of the graph of many")
      ->check(CLI::Range(1, 1 << 22));
  return run_guarded("calls", app, arguments, [&] { return run(options); });
}

}  // namespace bench
