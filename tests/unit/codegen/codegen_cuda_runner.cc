#include <gtest/gtest.h>

#include <algorithm>

#include "codegen_runner.h"
#include "common/base/digest.h"
#include "common/cost/gpu_shared_memory.h"
#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "worker/codegen/cuda/cuda.h"
#include "worker/codegen/cuda/text/text.h"

namespace testing_codegen {
namespace {

using common::Bytes;
using common::DeviceMemory;
using common::HostTensor;

constexpr size_t kBand = 256;
constexpr std::byte kPattern{0xA5};

// Device memory between two bands of a pattern, which fills it too until it is written. What is
// only read has no band behind it, so that the emulated GPU stops who reads on.
class GuardedBuffer {
 public:
  GuardedBuffer(common::Device& device, size_t bytes, bool is_read_only = false)
      : device_(device),
        size_(bytes),
        memory_(device.allocate(bytes + (is_read_only ? 1 : 2) * kBand).value()) {
    EXPECT_TRUE(device.fill(memory_.data(), kPattern, memory_.size()).ok());
  }
  std::byte* data() { return memory_.data() + kBand; }
  // Its bytes, once the bands are as they were.
  Bytes read(const std::string& what) {
    Bytes all(memory_.size());
    EXPECT_TRUE(device_.copy_out(all, memory_.data()).ok());
    auto is_pattern = [](std::byte b) { return b == kPattern; };
    auto data_begin = all.begin() + kBand;
    auto data_end = data_begin + static_cast<std::ptrdiff_t>(size_);
    EXPECT_TRUE(std::all_of(all.begin(), data_begin, is_pattern) &&
                std::all_of(data_end, all.end(), is_pattern))
        << what << " overrun";
    return {data_begin, data_end};
  }

 private:
  common::Device& device_;
  size_t size_;
  DeviceMemory memory_;
};

class CudaRunner final : public KernelRunner {
 public:
  CudaRunner()
      : device_(common::open_cuda_device().value()),
        nvrtc_(common::Nvrtc::open().value()),
        generator_(device_->target()) {}

  const worker::CodeGenerator& generator() const override { return generator_; }
  common::NestMachine machine() const override {
    return {common::machine_of(device_->target()), device_->target().name, {}};
  }

  void load(const std::string& text) override {
    std::string architecture = device_->target().name.substr(std::string("cuda-").size());
    auto output = nvrtc_->compile(text, architecture, {});
    ASSERT_TRUE(output.ok()) << output.error().message;
    auto module = device_->load(common::digest_of(output->cubin), output->cubin);
    ASSERT_TRUE(module.ok()) << module.error().message;
    module_ = *module;
  }

  void run(const worker::KernelSource& source, const std::vector<HostTensor>& inputs,
           std::vector<HostTensor>& outputs, const std::vector<int64_t>& symbols, int) override {
    std::vector<GuardedBuffer> memory;
    for (const HostTensor& t : inputs) {
      memory.emplace_back(*device_, t.bytes().size(), true);
      ASSERT_TRUE(device_->copy_in(memory.back().data(), t.bytes()).ok());
    }
    for (const HostTensor& t : outputs) {
      memory.emplace_back(*device_, t.bytes().size());
      if (!source.entry.starts_from_bases) continue;
      ASSERT_TRUE(device_->copy_in(memory.back().data(), t.bytes()).ok());
    }
    std::vector<void*> buffers;
    for (GuardedBuffer& m : memory) buffers.push_back(m.data());
    common::Launch launch;
    auto function = module_->entry(source.entry.name);
    ASSERT_TRUE(function.ok()) << function.error().message;
    launch.function = *function;
    launch.buffers = buffers;
    launch.symbols = symbols;
    auto maps = common::bind_tensor_maps(source.entry.maps, symbols, [&](int input) {
      return static_cast<int64_t>(inputs[static_cast<size_t>(input)].bytes().size());
    });
    ASSERT_TRUE(maps.ok()) << maps.error().message << "\n" << source.text;
    launch.maps = *maps;
    launch.units = source.entry.units.evaluate(symbols);
    launch.block = source.entry.block;
    // What every GPU has; products of warpgroups run on large ones alone, and the device refuses
    // what it has not.
    if (source.text.find("lf_wgmma") == std::string::npos) {
      EXPECT_LE(launch.block.shared_bytes, common::kGpuSharedBytesMax) << source.text;
    }
    launch.scratch_stride = static_cast<size_t>(source.entry.scratch_bytes.evaluate(symbols));
    auto blocks = static_cast<size_t>(launch.block.blocks(launch.units));
    const size_t counters = blocks * common::kCounterBytes;
    const size_t front = (counters + 63) / 64 * 64;
    GuardedBuffer scratch(*device_, front + launch.scratch_stride * blocks);
    launch.scratch = scratch.data() + front;
    ASSERT_TRUE(device_->fill(launch.scratch - counters, std::byte{0}, counters).ok());
    // Again as a graph would, on what the first launch left.
    const int launches = launch.units <= 0 ? 0 : launch.scratch_stride == 0 ? 1 : 2;
    for (int k = 0; k < launches; ++k) {
      ASSERT_TRUE(device_->launch(launch).ok());
      auto done = device_->synchronise();
      ASSERT_TRUE(done.ok()) << done.error().message << "\n" << source.text;
    }
    Bytes left = scratch.read("scratch");
    ASSERT_TRUE(std::all_of(left.begin() + static_cast<std::ptrdiff_t>(front - counters),
                            left.begin() + static_cast<std::ptrdiff_t>(front),
                            [](std::byte b) { return b == std::byte{0}; }))
        << "counters are left\n"
        << source.text;
    for (size_t k = 0; k < memory.size(); ++k) {
      Bytes bytes = memory[k].read("buffer " + std::to_string(k) + " of\n" + source.text + "\n");
      if (k < inputs.size()) {
        auto before = inputs[k].bytes();
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), before.begin(), before.end()))
            << "input " << k << " is written\n"
            << source.text;
        continue;
      }
      std::copy(bytes.begin(), bytes.end(), outputs[k - inputs.size()].mutable_bytes().begin());
    }
  }

 private:
  std::unique_ptr<common::Device> device_;
  std::shared_ptr<const common::Nvrtc> nvrtc_;
  worker::CudaCodeGenerator generator_;
  std::shared_ptr<common::Module> module_;
};

}  // namespace

std::unique_ptr<KernelRunner> make_runner(const std::string&) {
  return std::make_unique<CudaRunner>();
}
bool runs_on_gpu() { return true; }

}  // namespace testing_codegen
