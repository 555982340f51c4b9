#include "worker/agent/print_source.h"

#include <iostream>
#include <iterator>
#include <string>

#include "common/wire/ir_codec.h"

namespace worker {

int run_print_source(const Backend& backend) {
  std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  auto program = common::decode_program(common::as_bytes(bytes));
  if (!program.ok()) {
    std::cerr << "lfarm-worker: standard input holds no program: " << program.error().message
              << "\n";
    return 2;
  }
  // A device's source can be read where the device is not.
  auto target = backend.find();
  auto generator = backend.make_generator(target.ok() ? *target : common::Target{});
  std::cout << generator->preamble();
  for (const common::Kernel& kernel : program->kernels) {
    if (kernel.form == common::Template::kGemm) {
      std::cout << "\n// " << entry_name(kernel) << ": library call, no source\n";
      continue;
    }
    auto source = generator->generate(kernel);
    if (!source.ok()) {
      std::cerr << "lfarm-worker: " << source.error().message << "\n";
      return 2;
    }
    std::cout << "\n" << source->text;
  }
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}

}  // namespace worker
