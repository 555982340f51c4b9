// Compiler, kernel cache and plan building.
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "codegen_object.h"
#include "codegen_testing.h"
#include "common/base/files.h"
#include "common/process/host_compiler.h"
#include "common/process/subprocess.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/codegen/remembering_generator.h"
#include "worker/compile/build_plan.h"

namespace testing_codegen {
namespace {

using worker::build_plan;
using worker::BuiltPlan;
using worker::Grouping;
using worker::KernelCache;

Kernel unary_kernel(UnaryOp op) {
  GraphBuilder b({{1, 1000}});
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0)}, "");
  b.output(b.unary(op, x));
  Kernel kernel{Template::kLoops, {}, canonical(b.finish()), {}};
  kernel.nest = kernel_nest(kernel, Machine::kCpu).value();
  return kernel;
}

// y = op_n(...op_1(x)), one kernel each, all of size s0.
Program chain(const std::vector<UnaryOp>& ops) {
  Program p;
  p.symbols = {{1, 1000}};
  p.inputs = {{InputKind::kUser, DType::kFloat32, {Expr::symbol(0)}, "x"}};
  p.outputs = {{OutputKind::kUser, -1, -1}};
  p.buffers.push_back({BufferKind::kInput, 0, DType::kFloat32, {Expr::symbol(0)}});
  for (size_t k = 0; k < ops.size(); ++k) {
    bool last = k + 1 == ops.size();
    p.buffers.push_back({last ? BufferKind::kOutput : BufferKind::kTemporary,
                         0,
                         DType::kFloat32,
                         {Expr::symbol(0)}});
    p.kernels.push_back(unary_kernel(ops[k]));
    p.calls.push_back(
        {static_cast<int>(k), {static_cast<int>(k)}, {static_cast<int>(k) + 1}, {Expr::symbol(0)}});
  }
  return p;
}

TEST(Compiler, RefusesBadTextWithTheFirstComplaint) {
  auto object = shared_compiler().compile("int f(void) { return missing_name; }\n", 600'000);
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, Code::kInvalidInput);
  EXPECT_NE(object.error().message.find("missing_name"), std::string::npos);
  EXPECT_EQ(object.error().message.find('\n'), std::string::npos);
}

TEST(Compiler, KeepsItsDeadline) {
  std::string text =
      "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(x))))\n"
      "double f(double x) { B(B(x = x * x + 1;)) return x; }\n";
  auto object = shared_compiler().compile(text, 50);
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, Code::kTimedOut);
}

TEST(Compiler, SaysWhatIsMissing) {
  setenv("LFARM_CC", "/nonexistent/compiler", 1);
  auto none = worker::find_c_compiler(common::host_cpu_target());
  unsetenv("LFARM_CC");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kUnavailable);
}

// LLVM's own options come and go.
TEST(Compiler, DoesWithoutTheOptionThatItsClangDoesNotKnow) {
  auto usual = common::find_host_compiler();
  ASSERT_TRUE(usual.ok());
  auto takes = common::run_command({usual->program, "-mllvm", "-enable-nontrivial-unswitch",
                                    "-fsyntax-only", "-x", "c", "/dev/null"},
                                   600'000);
  if (!takes.ok() || takes->status.code != 0) GTEST_SKIP() << "no compiler here knows the option";
  common::ScratchDirectory scratch = common::ScratchDirectory::create("compiler").value();
  std::string program = scratch.path() + "/clang";
  std::string text = cat("#!/bin/sh\ncase \"$*\" in *-enable-*) exit 1;; esac\nexec ",
                         usual->program, " \"$@\"\n");
  ASSERT_TRUE(common::write_file_atomic(program, common::as_bytes(text)).ok());
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("LFARM_CC", program.c_str(), 1);
  auto older = worker::find_c_compiler(common::host_cpu_target());
  unsetenv("LFARM_CC");
  ASSERT_TRUE(older.ok()) << older.error().message;
  EXPECT_TRUE((*older)->compile("int f(void) { return 1; }\n", 600'000).ok());
  EXPECT_NE((*older)->identity(), shared_compiler().identity());
}

// A kernel compiled for another machine runs elsewhere, or not at all.
TEST(Compiler, IsAnotherOneForAnotherTarget) {
  std::set<Digest> identities;
  for (const char* name : {"cpu-x86_64", "cpu-x86_64-avx2", "cpu-x86_64-avx512",
                           "cpu-x86_64-avx512bf16", "cpu-x86_64-amxbf16"}) {
    common::Target target;
    target.name = name;
    auto compiler = worker::find_c_compiler(target);
    ASSERT_TRUE(compiler.ok()) << compiler.error().message;
    identities.insert((*compiler)->identity());
  }
  EXPECT_EQ(identities.size(), 5u);
}

class NamedGenerator : public worker::CodeGenerator {
 public:
  NamedGenerator(std::string language, std::string preamble)
      : language_(std::move(language)), preamble_(std::move(preamble)) {}
  std::string_view language() const override { return language_; }
  std::string preamble() const override { return preamble_; }
  common::Result<worker::KernelSource> generate(const Kernel&) const override {
    return common::unsupported("it has only a name");
  }

 private:
  std::string language_, preamble_;
};
class NamedCompiler : public worker::Compiler {
 public:
  explicit NamedCompiler(std::string_view name) : identity_(digest_of(name)) {}
  common::Result<Bytes> compile(std::string_view, int) const override {
    return common::unsupported("it has only a name");
  }
  const Digest& identity() const override { return identity_; }
  std::string description() const override { return "a name"; }

 private:
  Digest identity_;
};

class CountingGenerator : public worker::CodeGenerator {
 public:
  explicit CountingGenerator(int* count) : count_(count) {}
  std::string_view language() const override { return "c"; }
  std::string preamble() const override { return ""; }
  common::Result<worker::KernelSource> generate(const Kernel& kernel) const override {
    ++*count_;
    return worker::CpuCodeGenerator().generate(kernel);
  }

 private:
  int* count_;
};

TEST(RememberingGenerator, WritesEachKernelOnceWhileThereIsRoom) {
  int count = 0;
  Kernel exp = unary_kernel(UnaryOp::kExp), tanh = unary_kernel(UnaryOp::kTanh);
  worker::RememberingGenerator generator(std::make_unique<CountingGenerator>(&count));
  auto first = generator.generate(exp), other = generator.generate(tanh);
  auto again = generator.generate(exp);
  ASSERT_TRUE(first.ok() && other.ok() && again.ok());
  EXPECT_EQ(count, 2);
  EXPECT_EQ(again->text, first->text);
  EXPECT_EQ(again->entry, first->entry);
  EXPECT_NE(other->text, first->text);
  // A schedule is part of what a kernel is.
  Kernel unrolled = exp;
  unrolled.schedule = {{"unroll", 4}};
  ASSERT_TRUE(generator.generate(unrolled).ok());
  EXPECT_EQ(count, 3);

  worker::RememberingGenerator small(std::make_unique<CountingGenerator>(&count),
                                     first->text.size() + 1);
  count = 0;
  for (const Kernel* kernel : {&exp, &tanh, &exp}) ASSERT_TRUE(small.generate(*kernel).ok());
  EXPECT_EQ(count, 3) << "it keeps more than it may";
}

// What is missing here serves code that another compiler, or another preamble, was made into.
TEST(KernelKey, HoldsAllThatAnObjectDependsOn) {
  auto key = [](const char* entry, const char* text, const char* language, const char* preamble,
                const char* compiler) {
    return worker::kernel_key(
        {{entry}, text},
        worker::toolchain_key(NamedGenerator(language, preamble), NamedCompiler(compiler)));
  };
  Digest reference = key("e", "t", "c", "p", "clang");
  EXPECT_EQ(key("e", "t", "c", "p", "clang"), reference);
  EXPECT_NE(key("f", "t", "c", "p", "clang"), reference);
  EXPECT_NE(key("e", "u", "c", "p", "clang"), reference);
  EXPECT_NE(key("e", "t", "cuda", "p", "clang"), reference);
  EXPECT_NE(key("e", "t", "c", "q", "clang"), reference);
  EXPECT_NE(key("e", "t", "c", "p", "gcc"), reference);
}

// Written over, a base that the updates are made of would be read too late.
TEST(BuildPlan, AScatterWorksInPlaceWhereNothingElseReadsItsBase) {
  for (bool reads_base : {false, true}) {
    GraphBuilder b;
    NodeId base = b.input(InputKind::kUser, DType::kFloat32, {8}, "");
    NodeId at = b.input(InputKind::kUser, DType::kInt64, {3}, "");
    NodeId updates = b.input(InputKind::kUser, DType::kFloat32, {3}, "");
    if (reads_base) updates = b.gather(base, {at}, {3}, {{0, {}}});
    b.output(b.scatter(ScatterMode::kAssign, base, updates, {at}, {{0, {}}}));
    Program p;
    Kernel kernel{Template::kScatter, {}, canonical(b.finish())};
    p.inputs = kernel.body.inputs;
    p.outputs = {{OutputKind::kUser, -1, -1}};
    Call call;
    for (size_t k = 0; k < p.inputs.size(); ++k) {
      int position = static_cast<int>(k);
      p.buffers.push_back({BufferKind::kInput, position, p.inputs[k].dtype, p.inputs[k].shape});
      call.inputs.push_back(position);
    }
    p.buffers.push_back({BufferKind::kOutput, 0, DType::kFloat32, {8}});
    call.outputs = {static_cast<int>(p.inputs.size())};
    p.kernels = {kernel};
    p.calls = {call};
    worker::CpuCodeGenerator generator;
    KernelCache cache;
    auto built = build_plan(p, generator, shared_compiler(), cache);
    ASSERT_TRUE(built.ok()) << built.error().message;
    EXPECT_EQ(built->plan.kernels[0].in_place_inputs, std::vector<int>{reads_base ? -1 : 0});
  }
}

TEST(BuildPlan, CompilesOnceAndRemembers) {
  worker::CpuCodeGenerator generator;
  KernelCache cache;
  Program program = chain({UnaryOp::kExp, UnaryOp::kTanh});
  ASSERT_TRUE(verify(program).ok());
  auto first = build_plan(program, generator, shared_compiler(), cache);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_TRUE(verify(first->plan).ok());
  ASSERT_EQ(first->plan.objects.size(), 1u);
  ASSERT_EQ(first->kernels.size(), 2u);
  EXPECT_FALSE(first->kernels[0].cached);
  EXPECT_GT(first->compile_ms, 0);

  Program longer = chain({UnaryOp::kTanh, UnaryOp::kSqrt, UnaryOp::kExp});
  auto second = build_plan(longer, generator, shared_compiler(), cache);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_TRUE(second->kernels[0].cached);
  EXPECT_FALSE(second->kernels[1].cached);
  EXPECT_TRUE(second->kernels[2].cached);
  EXPECT_EQ(second->plan.objects.size(), 2u);
  for (const PlanKernel& kernel : second->plan.kernels) {
    const Digest& object = second->plan.objects[static_cast<size_t>(kernel.object)];
    ASSERT_NE(second->objects[object], nullptr);
    LoadedObject loaded(*second->objects[object]);
    EXPECT_NE(loaded.find(kernel.entry.name), nullptr);
  }
}

// Says what it was asked to compile, and waits until `together` texts are there.
class ListingCompiler : public worker::Compiler {
 public:
  ListingCompiler(int concurrency, size_t together)
      : concurrency_(concurrency), together_(together), identity_(digest_of("listing")) {}
  common::Result<Bytes> compile(std::string_view text, int) const override {
    std::unique_lock lock(mutex_);
    texts_.emplace_back(text);
    changed_.notify_all();
    if (!changed_.wait_for(lock, kPatience, [&] { return texts_.size() >= together_; })) {
      return common::internal_error("the other texts did not come");
    }
    if (text.find("refused") != std::string_view::npos) return common::invalid_input("refused");
    return common::to_bytes(common::as_bytes(text));
  }
  int concurrency() const override { return concurrency_; }
  const Digest& identity() const override { return identity_; }
  std::string description() const override { return "a list"; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  static constexpr std::chrono::seconds kPatience{600};
  int concurrency_;
  size_t together_;
  Digest identity_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::vector<std::string> texts_;
};

TEST(BuildPlan, ManyKernelsAreSharedOutToACompilerThatTakesSeveralTexts) {
  std::vector<UnaryOp> ops = {UnaryOp::kNeg,  UnaryOp::kAbs,  UnaryOp::kExp,   UnaryOp::kExp2,
                              UnaryOp::kLog,  UnaryOp::kLog2, UnaryOp::kSqrt,  UnaryOp::kRsqrt,
                              UnaryOp::kTanh, UnaryOp::kSin,  UnaryOp::kRecip, UnaryOp::kCos};
  worker::CpuCodeGenerator generator;
  KernelCache cache;
  ListingCompiler compiler(8, 3);  // four kernels a text at least
  auto built = build_plan(chain(ops), generator, compiler, cache);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_TRUE(verify(built->plan).ok());
  ASSERT_EQ(built->plan.objects.size(), 3u);
  for (const PlanKernel& kernel : built->plan.kernels) {
    const Digest& object = built->plan.objects[static_cast<size_t>(kernel.object)];
    std::string text(as_text(*built->objects[object]));
    EXPECT_NE(text.find(kernel.entry.name), std::string::npos) << "another object holds it";
    EXPECT_EQ(text.find(generator.preamble()), 0u);
  }
  auto again = build_plan(chain(ops), generator, compiler, cache);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(compiler.texts().size(), 3u) << "what is cached was compiled again";
}

std::vector<UnaryOp> many_operations() {
  return {UnaryOp::kNeg,  UnaryOp::kAbs,  UnaryOp::kExp,   UnaryOp::kExp2,
          UnaryOp::kLog,  UnaryOp::kLog2, UnaryOp::kSqrt,  UnaryOp::kRsqrt,
          UnaryOp::kTanh, UnaryOp::kSin,  UnaryOp::kRecip, UnaryOp::kCos};
}

// Two workers: one has compiled other programs before and takes eight texts at once.
TEST(BuildPlan, ByOrderTheObjectsFollowFromTheProgramAlone) {
  worker::CpuCodeGenerator generator;
  ListingCompiler one(1, 1), eight(8, 1);
  KernelCache empty, used;
  std::vector<UnaryOp> ops = many_operations();
  Program program = chain(ops);
  auto any = build_plan(program, generator, eight, used);
  ASSERT_TRUE(any.ok()) << any.error().message;
  ASSERT_TRUE(build_plan(chain({UnaryOp::kSin, UnaryOp::kCos}), generator, eight, used, 120'000,
                         Grouping::kByOrder)
                  .ok());
  auto first = build_plan(program, generator, one, empty, 120'000, Grouping::kByOrder);
  auto second = build_plan(program, generator, eight, used, 120'000, Grouping::kByOrder);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(verify(first->plan).ok());
  ASSERT_EQ(first->plan.kernels.size(), second->plan.kernels.size());
  auto object = [](const worker::BuiltPlan& built, size_t kernel) {
    return built.plan.objects[static_cast<size_t>(built.plan.kernels[kernel].object)];
  };
  for (size_t k = 0; k < first->plan.kernels.size(); ++k) {
    EXPECT_EQ(object(*first, k), object(*second, k)) << "kernel " << k;
    std::string text(as_text(*first->objects[object(*first, k)]));
    EXPECT_NE(text.find(first->plan.kernels[k].entry.name), std::string::npos);
  }
  // What was compiled so is found again as it is.
  size_t texts = one.texts().size();
  auto again = build_plan(program, generator, one, empty, 120'000, Grouping::kByOrder);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(one.texts().size(), texts);
  EXPECT_EQ(again->plan.objects, first->plan.objects);
  EXPECT_TRUE(again->kernels[0].cached);
  EXPECT_NE(again->objects[again->plan.objects[0]], nullptr);
  // And by programs that take any object.
  ASSERT_TRUE(build_plan(program, generator, one, empty).ok());
  EXPECT_EQ(one.texts().size(), texts);
}

// Its directory, its process and the time leave no mark on an object.
TEST(BuildPlan, TheSameTextIsCompiledToTheSameBytes) {
  worker::CpuCodeGenerator generator;
  Program program = chain(many_operations());
  KernelCache here, there;
  auto first = build_plan(program, generator, shared_compiler(), here, 120'000, Grouping::kByOrder);
  auto second =
      build_plan(program, generator, shared_compiler(), there, 120'000, Grouping::kByOrder);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(second->kernels[0].cached) << "nothing was compiled";
  EXPECT_EQ(first->plan.objects, second->plan.objects);
}

TEST(BuildPlan, AFewKernelsAreOneText) {
  worker::CpuCodeGenerator generator;
  KernelCache cache;
  ListingCompiler compiler(8, 1);
  auto built =
      build_plan(chain({UnaryOp::kNeg, UnaryOp::kAbs, UnaryOp::kExp}), generator, compiler, cache);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_EQ(compiler.texts().size(), 1u);
}

TEST(BuildPlan, MatrixProductsBecomeLibraryCalls) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {8, 16}, "");
  NodeId y = b.input(InputKind::kUser, DType::kFloat32, {16, 4}, "");
  b.output(b.raw(
      {Op::kContract, DType::kFloat32, {8, 4}, {x, y}, ContractAttr{{0, 2}, {2, 1}, {0, 1}}}));
  Program p;
  p.inputs = {{InputKind::kUser, DType::kFloat32, {8, 16}, ""},
              {InputKind::kWeight, DType::kFloat32, {16, 4}, ""}};
  p.outputs = {{OutputKind::kUser, -1, -1}};
  p.buffers = {{BufferKind::kInput, 0, DType::kFloat32, {8, 16}},
               {BufferKind::kInput, 1, DType::kFloat32, {16, 4}},
               {BufferKind::kOutput, 0, DType::kFloat32, {8, 4}}};
  p.kernels = {{Template::kGemm, {{"algorithm", 3}}, canonical(b.finish())}};
  p.calls = {{0, {0, 1}, {2}, {}}};
  worker::CpuCodeGenerator generator;
  KernelCache cache;
  auto built = build_plan(p, generator, shared_compiler(), cache);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_TRUE(verify(built->plan).ok());
  EXPECT_TRUE(built->plan.kernels[0].library);
  EXPECT_EQ(built->plan.kernels[0].gemm.k, Expr(16));
  EXPECT_EQ(built->plan.kernels[0].algorithm, 3);
  EXPECT_TRUE(built->plan.objects.empty());
}

TEST(KernelCache, OutlivesTheProcessAndSurvivesDamage) {
  auto directory = ScratchDirectory::create("kernel-cache");
  ASSERT_TRUE(directory.ok());
  std::string path = directory->path() + "/kernels";
  worker::CpuCodeGenerator generator;
  Program program = chain({UnaryOp::kLog});
  Digest object;
  {
    KernelCache cache(path);
    auto built = build_plan(program, generator, shared_compiler(), cache);
    ASSERT_TRUE(built.ok()) << built.error().message;
    object = built->plan.objects[0];
  }
  {
    KernelCache cache(path);
    auto built = build_plan(program, generator, shared_compiler(), cache);
    ASSERT_TRUE(built.ok());
    EXPECT_TRUE(built->kernels[0].cached);
    EXPECT_EQ(built->plan.objects[0], object);
  }
  std::ofstream(path + "/" + object.hex() + ".so", std::ios::binary) << "damaged";
  KernelCache cache(path);
  auto built = build_plan(program, generator, shared_compiler(), cache);
  ASSERT_TRUE(built.ok());
  EXPECT_FALSE(built->kernels[0].cached);
}

TEST(KernelCache, ReadsHowKernelsAreLaunched) {
  auto directory = ScratchDirectory::create("kernel-cache");
  ASSERT_TRUE(directory.ok());
  auto object = std::make_shared<const Bytes>(to_bytes(as_bytes("object")));
  std::map<Digest, worker::CompiledKernel> kernels;
  for (bool waits : {false, true}) {
    common::EntryPoint entry{"lf_1", Expr::symbol(0), Expr(16), {256, 8, 4096}, waits};
    if (waits) {
      entry.maps = {
          {1, DType::kFloat16, 64, Expr::symbol(0), {{8, 1, 32}, {2, min(Expr::symbol(0), 8), 1}}},
          {0, DType::kBfloat16, 0, 0, {{Expr::symbol(0), 1, 8}}}};
    }
    kernels[digest_of(waits ? "waits" : "does not")] = {entry, digest_of(*object)};
  }
  KernelCache(directory->path()).insert(kernels, object);
  KernelCache cache(directory->path());
  for (const auto& [key, kernel] : kernels) {
    auto found = cache.find(key);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->entry, kernel.entry);
    EXPECT_EQ(found->object, kernel.object);
  }
}

// A candidate that can write the worker's files, and cannot read its key, gets nothing run in the
// place of a kernel.
TEST(KernelCache, TakesNoKernelThatSomebodyElsePutThere) {
  auto scratch = ScratchDirectory::create("kernel-cache");
  ASSERT_TRUE(scratch.ok());
  std::string own = scratch->path() + "/own", forged = scratch->path() + "/forged";
  auto insert = [](KernelCache& cache, std::string_view key, std::string_view code) {
    auto object = std::make_shared<const Bytes>(common::to_bytes(common::as_bytes(code)));
    cache.insert({{digest_of(key), {{"entry"}, digest_of(*object)}}}, object);
  };
  auto entry = [](const std::string& directory, std::string_view key) {
    return directory + "/" + digest_of(key).hex() + ".kernel";
  };
  {
    KernelCache cache(own), other(forged);
    insert(cache, "a", "honest");
    insert(cache, "b", "another");
    insert(other, "a", "evil");
  }
  EXPECT_TRUE(KernelCache(own).find(digest_of("a")).has_value());
  // Another kernel's entry, and one that another cache's key has sealed.
  std::filesystem::copy_file(entry(own, "b"), entry(own, "c"));
  EXPECT_FALSE(KernelCache(own).find(digest_of("c")).has_value());
  for (const auto& file : std::filesystem::directory_iterator(forged)) {
    if (file.path().filename() == "key") continue;
    std::filesystem::copy_file(file.path(), std::filesystem::path(own) / file.path().filename(),
                               std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_FALSE(KernelCache(own).find(digest_of("a")).has_value());
  EXPECT_TRUE(KernelCache(own).find(digest_of("b")).has_value());
  auto mode = std::filesystem::status(own + "/key").permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(KernelCache, AKeyInMemoryGoesWithItsCache) {
  auto scratch = ScratchDirectory::create("kernel-cache");
  ASSERT_TRUE(scratch.ok());
  auto object = std::make_shared<const Bytes>(100, std::byte{1});
  using worker::KernelCacheKey;
  {
    KernelCache cache(scratch->path(), worker::kKernelCacheBytes, KernelCacheKey::kInMemory);
    cache.insert({{digest_of("a"), {{"entry"}, digest_of(*object)}}}, object);
    EXPECT_TRUE(cache.find(digest_of("a")).has_value());
  }
  KernelCache next(scratch->path(), worker::kKernelCacheBytes, KernelCacheKey::kInMemory);
  EXPECT_FALSE(next.find(digest_of("a")).has_value());
  EXPECT_FALSE(std::filesystem::exists(scratch->path() + "/key"));
}

TEST(KernelCache, ForgetsTheLeastRecentlyUsedBeyondItsSize) {
  KernelCache cache("", 3000);
  auto digest = [](char c) { return digest_of(std::string(1, c)); };
  for (char c : {'a', 'b', 'c'}) {
    auto object = std::make_shared<const Bytes>(1400, static_cast<std::byte>(c));
    cache.insert({{digest(c), {{"entry"}, digest_of(*object)}}}, object);
    EXPECT_TRUE(cache.find(digest('a')).has_value());
  }
  EXPECT_FALSE(cache.find(digest('b')).has_value());
  EXPECT_TRUE(cache.find(digest('c')).has_value());
}

}  // namespace
}  // namespace testing_codegen
