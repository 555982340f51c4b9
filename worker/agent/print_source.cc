#include "worker/agent/print_source.h"

#include <iostream>
#include <iterator>
#include <string>

#include "common/schedule/kernels/kernel_nest.h"
#include "common/wire/ir_codec.h"

namespace worker {

int run_print_source(const Backend& backend, const std::string& target, bool separated) {
  std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  auto program = common::decode_program(common::as_bytes(bytes));
  if (!program.ok()) {
    std::cerr << "lfarm-worker: standard input holds no program: " << program.error().message
              << "\n";
    return 2;
  }
  // A device's source can be read where the device is not.
  auto own = backend.find();
  common::Target written_for{target};
  if (common::is_family(target)) written_for = own.ok() ? *own : common::Target{};
  auto generator = backend.make_generator(written_for);
  common::add_nests(*program,
                    common::NestMachine(common::machine_of(written_for), written_for.name, {}));
  std::cout << generator->preamble();
  for (const common::Kernel& kernel : program->kernels) {
    if (separated) std::cout << '\0';
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
