#include "worker/compile/build_plan.h"

#include <set>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/gemm_form.h"

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

Digest kernel_key(const KernelSource& source, const CodeGenerator& generator,
                  const Compiler& compiler) {
  common::Hasher hasher;
  hasher.text("lfarm-compiled-1").text(generator.language()).text(generator.preamble());
  hasher.digest(compiler.identity()).text(source.entry.name).text(source.text);
  return hasher.finish();
}

namespace {

// See PlanKernel::in_place_input: the base of a scatter that reads it nowhere else.
int in_place_input(const Kernel& kernel) {
  const common::Graph& body = kernel.body;
  const common::Node& result = body.node(body.outputs[0].node);
  if (kernel.form != Template::kScatter || result.op != common::Op::kScatter) return -1;
  common::NodeId base = result.operands[0];
  if (body.node(base).op != common::Op::kInput ||
      common::use_counts(body)[static_cast<size_t>(base)] != 1) {
    return -1;
  }
  return common::attr<common::InputAttr>(body.node(base)).position;
}

class PlanBuilder {
 public:
  PlanBuilder(const Program& program, const CodeGenerator& generator, const Compiler& compiler,
              KernelCache& cache)
      : program_(program), generator_(generator), compiler_(compiler), cache_(cache) {}

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
      build.cached = true;
    } else {
      LFARM_ASSIGN_OR_RETURN(KernelSource source, generator_.generate(kernel));
      entry.entry = source.entry;
      entry.in_place_input = in_place_input(kernel);
      Digest key = kernel_key(source, generator_, compiler_);
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

  common::Status compile_missing(int timeout_ms) {
    if (sources_.empty()) return {};
    std::string text = generator_.preamble();
    for (const auto& [key, source] : sources_) text += cat("\n", source.text);
    common::SteadyClock clock;
    int64_t start = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(Bytes bytes, compiler_.compile(text, timeout_ms));
    built_.compile_ms = static_cast<double>(clock.now_ns() - start) * 1e-6;
    auto object = std::make_shared<const Bytes>(std::move(bytes));
    Digest digest = common::digest_of(*object);
    std::map<Digest, CompiledKernel> compiled;
    for (const auto& [key, source] : sources_) {
      compiled[key] = {source.entry, digest};
    }
    cache_.insert(compiled, object);
    built_.objects[digest] = object;
    built_.plan.objects.push_back(digest);
    double share = built_.compile_ms / static_cast<double>(sources_.size());
    for (const auto& [kernel, key] : waiting_) {
      built_.plan.kernels[kernel].object = static_cast<int>(built_.plan.objects.size()) - 1;
      built_.kernels[kernel].object = digest;
      built_.kernels[kernel].compile_ms = share;
    }
    return {};
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
