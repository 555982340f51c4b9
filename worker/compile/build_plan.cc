#include "worker/compile/build_plan.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/hlir/gemm_form.h"
#include "common/ir/llir/in_place.h"

namespace worker {

using common::Bytes;
using common::cat;
using common::Digest;
using common::Error;
using common::Kernel;
using common::PlanKernel;
using common::Program;
using common::Result;
using common::Template;

Digest toolchain_key(const CodeGenerator& generator, const Compiler& compiler) {
  common::Hasher hasher;
  hasher.text("lfarm-toolchain-1").text(generator.language()).text(generator.preamble());
  return hasher.digest(compiler.identity()).finish();
}

Digest kernel_key(const KernelSource& source, const Digest& toolchain) {
  common::Hasher hasher;
  hasher.text("lfarm-compiled-2").digest(toolchain).text(source.entry.name).text(source.text);
  return hasher.finish();
}

namespace {

// Fewer kernels are not worth a run of their own: starting on a text costs NVRTC as much as one or
// two of them.
constexpr size_t kKernelsPerRunMin = 4;

class PlanBuilder {
 public:
  PlanBuilder(const Program& program, const CodeGenerator& generator, const Compiler& compiler,
              KernelCache& cache)
      : program_(program),
        generator_(generator),
        compiler_(compiler),
        toolchain_(toolchain_key(generator, compiler)),
        cache_(cache) {}

  Result<BuiltPlan> run(int timeout_ms) {
    for (size_t k = 0; k < program_.kernels.size(); ++k) {
      auto status = prepare(program_.kernels[k]);
      if (!status.ok()) {
        Error error = status.error();
        error.message = cat("kernel ", k, ": ", error.message);
        return error;
      }
    }
    LFARM_RETURN_IF_ERROR(compile_missing(timeout_ms));
    copy_program();
    return std::move(built_);
  }

 private:
  common::Status prepare(const Kernel& kernel) {
    PlanKernel entry;
    KernelBuild build;
    entry.fingerprint = build.fingerprint = common::kernel_fingerprint(kernel);
    if (kernel.form == Template::kGemm) {
      auto form = common::gemm_form(kernel.body);
      if (!form) return common::invalid_input("the body is no matrix product for the library");
      entry.library = true;
      entry.gemm = *form;
      entry.algorithm =
          static_cast<int>(common::schedule_value(kernel.schedule, kernel.form, "algorithm"));
      build.cached = true;
    } else {
      LFARM_ASSIGN_OR_RETURN(KernelSource source, generator_.generate(kernel));
      entry.entry = source.entry;
      entry.in_place_inputs = common::in_place_inputs(kernel);
      Digest key = kernel_key(source, toolchain_);
      if (auto known = cache_.find(key)) {
        build.cached = true;
        entry.object = use_object(known->object);
        build.object = known->object;
      } else {
        sources_.emplace(key, std::move(source));
        waiting_.emplace_back(built_.plan.kernels.size(), key);
      }
    }
    built_.plan.kernels.push_back(std::move(entry));
    built_.kernels.push_back(build);
    return {};
  }

  // The object's position in the plan.
  int use_object(const Digest& digest) {
    auto& objects = built_.plan.objects;
    for (size_t k = 0; k < objects.size(); ++k) {
      if (objects[k] == digest) return static_cast<int>(k);
    }
    built_.objects[digest] = cache_.object(digest);
    objects.push_back(digest);
    return static_cast<int>(objects.size()) - 1;
  }

  // Kernels that are compiled together.
  struct Run {
    std::vector<Digest> keys;
    std::string text;
    Result<Bytes> object = common::internal_error("not compiled");
  };

  // The kernels that are missing, in as many runs as the compiler takes at once.
  std::vector<Run> share_out() const {
    size_t limit = (sources_.size() + kKernelsPerRunMin - 1) / kKernelsPerRunMin;
    auto count = std::min(limit, static_cast<size_t>(std::max(1, compiler_.concurrency())));
    std::vector<Run> runs(count);
    size_t next = 0;
    for (const auto& [key, source] : sources_) {
      Run& run = runs[next++ % count];
      run.keys.push_back(key);
      run.text += cat("\n", source.text);
    }
    for (Run& run : runs) run.text.insert(0, generator_.preamble_for(run.text));
    return runs;
  }

  common::Status compile_missing(int timeout_ms) {
    if (sources_.empty()) return {};
    common::SteadyClock clock;
    int64_t start = clock.now_ns();
    std::vector<Run> runs = share_out();
    auto compile = [&](Run& run) { run.object = compiler_.compile(run.text, timeout_ms); };
    std::vector<std::thread> threads;
    for (size_t k = 1; k < runs.size(); ++k) threads.emplace_back(compile, std::ref(runs[k]));
    compile(runs[0]);
    for (std::thread& thread : threads) thread.join();
    built_.compile_ms = static_cast<double>(clock.now_ns() - start) * 1e-6;
    double share = built_.compile_ms / static_cast<double>(sources_.size());
    for (Run& run : runs) {
      if (!run.object.ok()) return run.object.error();
      keep(run.keys, std::make_shared<const Bytes>(std::move(run.object).value()), share);
    }
    return {};
  }

  // Puts an object into cache and plan.
  void keep(const std::vector<Digest>& keys, const std::shared_ptr<const Bytes>& object,
            double share_ms) {
    Digest digest = common::digest_of(*object);
    std::map<Digest, CompiledKernel> compiled;
    for (const Digest& key : keys) compiled[key] = {sources_[key].entry, digest};
    cache_.insert(compiled, object);
    built_.objects[digest] = object;
    built_.plan.objects.push_back(digest);
    for (const auto& [kernel, key] : waiting_) {
      if (compiled.count(key) == 0) continue;
      built_.plan.kernels[kernel].object = static_cast<int>(built_.plan.objects.size()) - 1;
      built_.kernels[kernel].object = digest;
      built_.kernels[kernel].compile_ms = share_ms;
    }
  }

  void copy_program() {
    built_.plan.symbols = program_.symbols;
    built_.plan.inputs = program_.inputs;
    for (auto& input : built_.plan.inputs) input.name.clear();
    built_.plan.outputs = program_.outputs;
    for (auto& output : built_.plan.outputs) output.node = -1;
    built_.plan.buffers = program_.buffers;
    built_.plan.calls = program_.calls;
  }

  const Program& program_;
  const CodeGenerator& generator_;
  const Compiler& compiler_;
  const Digest toolchain_;
  KernelCache& cache_;
  BuiltPlan built_;
  std::map<Digest, KernelSource> sources_;          // distinct texts, by cache key
  std::vector<std::pair<size_t, Digest>> waiting_;  // kernels that wait for one of them
};

}  // namespace

Result<BuiltPlan> build_plan(const Program& program, const CodeGenerator& generator,
                             const Compiler& compiler, KernelCache& cache, int timeout_ms) {
  return PlanBuilder(program, generator, compiler, cache).run(timeout_ms);
}

}  // namespace worker
