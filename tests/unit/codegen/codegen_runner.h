// Where the kernels of the code generators' tests run. Linked with codegen_cpu_runner.cc a test
// checks the C code on this machine, with codegen_cuda_runner.cc the CUDA code on an emulated GPU;
// with codegen_nvrtc_runner.cc the CUDA code is compiled for real GPUs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/runtime/tensor/tensor.h"
#include "common/schedule/kernels/nest_machine.h"
#include "worker/codegen/generator.h"

namespace testing_codegen {

// Failures are reported to the running test.
class KernelRunner {
 public:
  virtual ~KernelRunner() = default;
  virtual const worker::CodeGenerator& generator() const = 0;
  // That the generator writes for.
  virtual common::NestMachine machine() const = 0;
  // Of a register that holds several elements; a GPU's threads have none.
  virtual int vector_bytes() const { return 64; }
  // The preamble with the texts of all kernels.
  virtual void load(const std::string& text) = 0;
  // Whether kernels run, or are only compiled.
  virtual bool runs() const { return true; }
  // Runs a loaded kernel, on the CPU in several shares of its units, with guard bands around every
  // buffer. Outputs are overwritten; entries that start from bases find what they hold before.
  virtual void run(const worker::KernelSource& source,
                   const std::vector<common::HostTensor>& inputs,
                   std::vector<common::HostTensor>& outputs, const std::vector<int64_t>& symbols,
                   int shares) = 0;
};

// For a target that this machine can run, or compile for; "" is its own. A CPU target's name means
// nothing on a GPU.
std::unique_ptr<KernelRunner> make_runner(const std::string& target);
// Whether make_runner gives an emulated GPU.
bool runs_on_gpu();

}  // namespace testing_codegen
