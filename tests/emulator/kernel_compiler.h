// Turns CUDA C++ text into a shared object of this machine with the C++ compiler of this build.
#pragma once

#include <string>
#include <vector>

namespace emulator {

struct CompiledKernels {
  int code = -1;  // the compiler's exit code; less than 0: it did not run
  std::string log;
  std::string object;              // empty when it failed
  std::vector<std::string> names;  // of the kernels that the text defines
};

// The text's errors are said to be in a file `name`. `options`: the compiler's, after those that
// all kernels get.
CompiledKernels compile_kernels(const std::string& name, const std::string& source,
                                const std::vector<std::string>& options);

}  // namespace emulator
