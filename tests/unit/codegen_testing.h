// Compiles kernels, runs them on this machine and compares them with the reference interpreter.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "common/ir/builder.h"
#include "common/ir/graph_hash.h"
#include "common/ir/llir.h"
#include "common/ir/text.h"
#include "common/runtime/cpu_device.h"
#include "common/runtime/interpreter.h"
#include "worker/codegen/cpu_c.h"
#include "worker/compile/c_compiler.h"
#include "worker/compile/target.h"

namespace testing_codegen {

using namespace common;  // NOLINT: a test's own vocabulary
using worker::CpuCodeGenerator;
using worker::KernelSource;

using KernelFunction = void (*)(void* const*, const int64_t*, int64_t, int64_t, void*);

inline const worker::Compiler& shared_compiler() {
  static const auto compiler = worker::find_c_compiler(common::host_cpu_target()).value();
  return *compiler;
}

// 64-byte aligned memory between two guard bands of 0xA5.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t size) : size_(size), bytes_((size + 63) / 64 * 64 + 2 * kBand) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes_) != 0) std::abort();
    memory_.reset(static_cast<std::byte*>(memory));
    std::memset(memory_.get(), 0xA5, bytes_);
  }
  std::byte* data() { return memory_.get() + kBand; }
  bool intact() const {
    for (size_t k = 0; k < bytes_; ++k) {
      if (k == kBand) k += size_;
      if (k < bytes_ && memory_.get()[k] != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kBand = 256;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  size_t size_;
  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

class LoadedObject {
 public:
  explicit LoadedObject(const Bytes& object) {
    int fd = memfd_create("kernels", MFD_CLOEXEC);
    size_t written = 0;
    while (written < object.size()) {
      ssize_t n = write(fd, object.data() + written, object.size() - written);
      if (n <= 0) break;
      written += static_cast<size_t>(n);
    }
    handle_ = dlopen(cat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
    close(fd);
  }
  ~LoadedObject() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;
  KernelFunction find(const std::string& entry) const {
    return handle_ == nullptr ? nullptr
                              : reinterpret_cast<KernelFunction>(dlsym(handle_, entry.c_str()));
  }

 private:
  void* handle_ = nullptr;
};

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
  KernelBatch() : KernelBatch(common::host_cpu_target()) {}
  // Code for a target that this machine can run.
  explicit KernelBatch(const Target& target)
      : vector_bytes_(worker::vector_bytes(target)),
        compiler_(worker::find_c_compiler(target).value()) {}

  // Adds a kernel with random inputs of the given sizes (one list per body input).
  void add(Template form, Schedule schedule, const Graph& body, std::vector<HostTensor> inputs) {
    Case c{{form, std::move(schedule), canonical(body)}, std::move(inputs), {}};
    cases_.push_back(std::move(c));
  }

  void compile() {
    CpuCodeGenerator generator(vector_bytes_);
    std::string text = generator.preamble();
    std::vector<std::string> seen;
    for (Case& c : cases_) {
      auto source = generator.generate(c.kernel);
      ASSERT_TRUE(source.ok()) << source.error().message << "\n" << print(c.kernel);
      c.source = std::move(*source);
      if (std::find(seen.begin(), seen.end(), c.source.entry.name) != seen.end()) continue;
      seen.push_back(c.source.entry.name);
      text += "\n" + c.source.text;
    }
    if (const char* path = std::getenv("LFARM_DUMP_C")) {
      FILE* f = fopen(path, "w");
      fputs(text.c_str(), f);
      fclose(f);
    }
    auto object = compiler_->compile(text, 300'000);
    ASSERT_TRUE(object.ok()) << object.error().message;
    loaded_ = std::make_unique<LoadedObject>(*object);
  }

  size_t size() const { return cases_.size(); }
  const Case& at(size_t k) const { return cases_[k]; }

  // Runs case k in one or several shares of its units. Checks guard bands.
  std::vector<HostTensor> run(size_t k, int shares) {
    const Case& c = cases_[k];
    const Graph& body = c.kernel.body;
    std::vector<std::vector<int64_t>> sizes;
    for (const HostTensor& t : c.inputs) sizes.push_back(t.sizes());
    std::vector<int64_t> symbols = bind_symbols(body, sizes).value();
    std::vector<GuardedMemory> memory;
    for (const HostTensor& t : c.inputs) {
      memory.emplace_back(t.bytes().size());
      std::copy_n(t.bytes().begin(), t.bytes().size(), memory.back().data());
    }
    std::vector<HostTensor> outputs;
    for (const GraphOutput& output : body.outputs) {
      const Node& node = body.node(output.node);
      outputs.push_back(HostTensor::zeros(node.dtype, evaluate_shape(node.shape, symbols)).value());
      memory.emplace_back(outputs.back().bytes().size());
    }
    int64_t units = c.source.entry.units.evaluate(symbols);
    int64_t scratch = c.source.entry.scratch_bytes.evaluate(symbols);
    std::vector<void*> buffers;
    for (GuardedMemory& m : memory) buffers.push_back(m.data());
    KernelFunction function = loaded_->find(c.source.entry.name);
    if (function == nullptr) {
      ADD_FAILURE() << "no entry " << c.source.entry.name;
      return outputs;
    }
    for (int share = 0; share < shares; ++share) {
      GuardedMemory work(static_cast<size_t>(scratch));
      function(buffers.data(), symbols.data(), units * share / shares, units * (share + 1) / shares,
               work.data());
      EXPECT_TRUE(work.intact()) << "scratch overrun\n" << c.source.text;
    }
    for (size_t m = 0; m < memory.size(); ++m) {
      EXPECT_TRUE(memory[m].intact()) << "buffer " << m << " overrun\n" << c.source.text;
    }
    for (size_t k_out = 0; k_out < outputs.size(); ++k_out) {
      std::copy_n(memory[c.inputs.size() + k_out].data(), outputs[k_out].bytes().size(),
                  outputs[k_out].mutable_bytes().begin());
    }
    return outputs;
  }

  // Compares with the interpreter: integers exactly, floats within twice the error of the plain
  // float evaluation against float64, plus `slack` relative and absolute.
  void check(size_t k, double slack = 2e-6, int shares = 1) {
    const Case& c = cases_[k];
    InterpretOptions plain;
    InterpretOptions wide;
    wide.precision = Precision::kWide;
    auto expected = interpret(c.kernel.body, c.inputs, plain);
    auto exact = interpret(c.kernel.body, c.inputs, wide);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(exact.ok()) << exact.error().message;
    std::vector<HostTensor> got = run(k, shares);
    for (size_t o = 0; o < got.size(); ++o) {
      DType dtype = got[o].dtype();
      double step = dtype == DType::kBfloat16  ? 1.0 / 128
                    : dtype == DType::kFloat16 ? 1.0 / 1024
                                               : 0;
      for (int64_t i = 0; i < got[o].elements(); ++i) {
        if (!is_float(dtype)) {
          ASSERT_EQ(got[o].get_int(i), (*expected)[o].get_int(i))
              << "output " << o << " element " << i << "\n"
              << describe_case(c);
          continue;
        }
        double x = got[o].get(i);
        double want = (*expected)[o].get(i);
        double truth = (*exact)[o].get(i);
        if (std::isnan(want) && std::isnan(x)) continue;
        if (x == want) continue;
        double allowed = 2 * std::abs(want - truth) + (slack + step) * (1e-1 + std::abs(truth));
        ASSERT_LE(std::abs(x - truth), allowed)
            << "output " << o << " element " << i << " is " << x << ", reference " << want
            << ", exact " << truth << "\n"
            << describe_case(c);
      }
    }
  }

  void check_all(double slack = 2e-6) {
    for (size_t k = 0; k < cases_.size(); ++k) {
      check(k, slack);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  static std::string describe_case(const Case& c) {
    return cat(print(c.kernel), "\n", c.source.text);
  }
  int vector_bytes_;
  std::shared_ptr<const worker::Compiler> compiler_;
  std::vector<Case> cases_;
  std::unique_ptr<LoadedObject> loaded_;
};

}  // namespace testing_codegen
