#include "worker/compile/build_plan.h"

#include <algorithm>
#include <atomic>
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
// Mean size of a group: a kernel whose key is a multiple of this ends its group.
constexpr uint64_t kKernelsPerGroup = 8;

// Under which a group's object is found for one of its kernels.
Digest key_in_group(const Digest& group, const Digest& kernel) {
  return common::Hasher().text("lfarm-group-1").digest(group).digest(kernel).finish();
}

class PlanBuilder {
 public:
  PlanBuilder(const Program& program, const CodeGenerator& generator, const Compiler& compiler,
              KernelCache& cache, Grouping grouping)
      : program_(program),
        generator_(generator),
        compiler_(compiler),
        toolchain_(toolchain_key(generator, compiler)),
        cache_(cache),
        grouping_(grouping) {}

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
      if (auto known = grouping_ == Grouping::kAny ? cache_.find(key) : std::nullopt) {
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
    auto& bytes = built_.objects[digest];
    if (bytes == nullptr) bytes = cache_.object(digest);
    objects.push_back(digest);
    return static_cast<int>(objects.size()) - 1;
  }

  // Kernels that are compiled together.
  struct Run {
    std::vector<Digest> keys;
    std::string text;
    Digest group;  // zero where the cache has each kernel by itself
    Result<Bytes> object = common::internal_error("not compiled");
  };

  // The kernels that are missing, in as many runs as the compiler takes at once.
  std::vector<Run> share_out() const {
    size_t limit = (sources_.size() + kKernelsPerRunMin - 1) / kKernelsPerRunMin;
    auto count = std::min(limit, static_cast<size_t>(std::max(1, compiler_.concurrency())));
    std::vector<Run> runs(count);
    size_t next = 0;
    for (const auto& [key, source] : sources_) runs[next++ % count].keys.push_back(key);
    return runs;
  }

  // All kernels, in groups whose ends follow from the keys alone. Those that the cache has are
  // taken from there.
  std::vector<Run> groups() {
    std::vector<Run> runs;
    bool is_open = false;
    for (const auto& [key, source] : sources_) {
      if (!is_open) runs.emplace_back();
      runs.back().keys.push_back(key);
      is_open = key.prefix64() % kKernelsPerGroup != 0;
    }
    for (Run& run : runs) {
      common::Hasher hasher;
      for (const Digest& key : run.keys) hasher.digest(key);
      run.group = hasher.finish();
    }
    std::erase_if(runs, [this](const Run& run) { return take_group(run); });
    return runs;
  }

  // False where the cache does not have all of the group.
  bool take_group(const Run& run) {
    std::vector<CompiledKernel> known;
    for (const Digest& key : run.keys) {
      auto kernel = cache_.find(key_in_group(run.group, key));
      if (!kernel) return false;
      known.push_back(*std::move(kernel));
    }
    for (size_t k = 0; k < known.size(); ++k) {
      use_compiled(run.keys[k], known[k].object, 0, true);
    }
    return true;
  }

  // As many runs at a time as the compiler takes.
  common::Status compile_missing(int timeout_ms) {
    if (sources_.empty()) return {};
    common::SteadyClock clock;
    int64_t start = clock.now_ns();
    std::vector<Run> runs = grouping_ == Grouping::kAny ? share_out() : groups();
    size_t kernels = 0;
    for (Run& run : runs) {
      kernels += run.keys.size();
      for (const Digest& key : run.keys) run.text += cat("\n", sources_.at(key).text);
      run.text.insert(0, generator_.preamble_for(run.text));
    }
    std::atomic<size_t> next = 0;
    auto compile = [&] {
      for (size_t k = next++; k < runs.size(); k = next++) {
        int64_t left_ms = timeout_ms - (clock.now_ns() - start) / 1'000'000;
        runs[k].object =
            compiler_.compile(runs[k].text, static_cast<int>(std::max<int64_t>(1, left_ms)));
      }
    };
    std::vector<std::thread> threads;
    auto at_once = std::min(runs.size(), static_cast<size_t>(std::max(1, compiler_.concurrency())));
    for (size_t k = 1; k < at_once; ++k) threads.emplace_back(compile);
    compile();
    for (std::thread& thread : threads) thread.join();
    built_.compile_ms = static_cast<double>(clock.now_ns() - start) * 1e-6;
    double share = built_.compile_ms / static_cast<double>(std::max<size_t>(1, kernels));
    for (Run& run : runs) {
      if (!run.object.ok()) return run.object.error();
      keep(run, std::make_shared<const Bytes>(std::move(run.object).value()), share);
    }
    return {};
  }

  // Puts an object into cache and plan.
  void keep(const Run& run, const std::shared_ptr<const Bytes>& object, double share_ms) {
    Digest digest = common::digest_of(*object);
    std::map<Digest, CompiledKernel> compiled;
    for (const Digest& key : run.keys) {
      CompiledKernel kernel{sources_.at(key).entry, digest};
      compiled[key] = kernel;
      if (!run.group.is_zero()) compiled[key_in_group(run.group, key)] = kernel;
    }
    cache_.insert(compiled, object);
    built_.objects[digest] = object;
    for (const Digest& key : run.keys) use_compiled(key, digest, share_ms, false);
  }

  // The waiting kernels with this key have their code in this object.
  void use_compiled(const Digest& key, const Digest& object, double share_ms, bool is_cached) {
    int position = use_object(object);
    for (const auto& [kernel, waits_for] : waiting_) {
      if (waits_for != key) continue;
      built_.plan.kernels[kernel].object = position;
      KernelBuild& build = built_.kernels[kernel];
      build.object = object;
      build.compile_ms = share_ms;
      build.cached = is_cached;
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
  const Grouping grouping_;
  BuiltPlan built_;
  std::map<Digest, KernelSource> sources_;          // distinct texts, by cache key
  std::vector<std::pair<size_t, Digest>> waiting_;  // kernels that wait for one of them
};

}  // namespace

Result<BuiltPlan> build_plan(const Program& program, const CodeGenerator& generator,
                             const Compiler& compiler, KernelCache& cache, int timeout_ms,
                             Grouping grouping) {
  return PlanBuilder(program, generator, compiler, cache, grouping).run(timeout_ms);
}

}  // namespace worker
