#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "codegen_object.h"
#include "codegen_runner.h"
#include "matrix_unit.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/compile/target.h"

namespace testing_codegen {
namespace {

using common::Bytes;
using common::HostTensor;
using worker::KernelSource;

const common::Target kPairs{"cpu-x86_64-avx512bf16"};

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

class CpuRunner final : public KernelRunner {
 public:
  explicit CpuRunner(const common::Target& target)
      : generator_(worker::unit_of(target)),
        machine_(common::machine_of(target), target.name, {}),
        vector_bytes_(worker::unit_of(target).bytes),
        stands_in_(worker::unit_of(target).has_tiles && target != common::host_cpu_target()
                       ? kMatrixUnit
                       : ""),
        compiler_(worker::find_c_compiler(stands_in_.empty() ? target : kPairs).value()) {}

  const worker::CodeGenerator& generator() const override { return generator_; }
  common::NestMachine machine() const override { return machine_; }
  int vector_bytes() const override { return vector_bytes_; }

  void load(const std::string& text) override {
    auto object = compiler_->compile(stands_in_ + text, 600'000);
    ASSERT_TRUE(object.ok()) << object.error().message;
    loaded_ = std::make_unique<LoadedObject>(*object);
  }

  void run(const KernelSource& source, const std::vector<HostTensor>& inputs,
           std::vector<HostTensor>& outputs, const std::vector<int64_t>& symbols,
           int shares) override {
    std::vector<GuardedMemory> memory;
    for (const HostTensor& t : inputs) {
      memory.emplace_back(t.bytes().size());
      std::copy_n(t.bytes().begin(), t.bytes().size(), memory.back().data());
    }
    for (const HostTensor& t : outputs) memory.emplace_back(t.bytes().size());
    std::vector<void*> buffers;
    for (GuardedMemory& m : memory) buffers.push_back(m.data());
    int64_t units = source.entry.units.evaluate(symbols);
    int64_t scratch = source.entry.scratch_bytes.evaluate(symbols);
    KernelFunction function = loaded_->find(source.entry.name);
    ASSERT_NE(function, nullptr) << "no entry " << source.entry.name;
    for (int share = 0; share < shares; ++share) {
      GuardedMemory work(static_cast<size_t>(scratch));
      function(buffers.data(), symbols.data(), units * share / shares, units * (share + 1) / shares,
               work.data());
      EXPECT_TRUE(work.intact()) << "scratch overrun\n" << source.text;
    }
    for (size_t m = 0; m < memory.size(); ++m) {
      EXPECT_TRUE(memory[m].intact()) << "buffer " << m << " overrun\n" << source.text;
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      std::copy_n(memory[inputs.size() + k].data(), outputs[k].bytes().size(),
                  outputs[k].mutable_bytes().begin());
    }
  }

 private:
  worker::CpuCodeGenerator generator_;
  common::NestMachine machine_;
  int vector_bytes_;
  std::string stands_in_;  // for what the machine lacks
  std::shared_ptr<const worker::Compiler> compiler_;
  std::unique_ptr<LoadedObject> loaded_;
};

}  // namespace

std::unique_ptr<KernelRunner> make_runner(const std::string& target) {
  return std::make_unique<CpuRunner>(target.empty() ? common::host_cpu_target()
                                                    : common::Target{target});
}
bool runs_on_gpu() { return false; }

}  // namespace testing_codegen
