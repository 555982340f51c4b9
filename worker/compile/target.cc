#include "worker/compile/target.h"

namespace worker {

std::vector<std::string> machine_options(const common::Target& target) {
  if (unit_of(target).bytes == 64) {
    std::vector<std::string> options = {"-march=x86-64-v4", "-mtune=native",
                                        "-mprefer-vector-width=512"};
    if (unit_of(target).has_pairs) options.emplace_back("-mavx512bf16");
    if (unit_of(target).has_tiles) {
      options.emplace_back("-mamx-tile");
      options.emplace_back("-mamx-bf16");
    }
    return options;
  }
  if (target.name == "cpu-x86_64-avx2") return {"-march=x86-64-v3", "-mtune=native"};
  if (target.name == "cpu-x86_64") return {"-march=x86-64", "-mtune=native"};
  return {};
}

common::VectorUnit unit_of(const common::Target& target) {
  return common::vector_unit_of(target.name);
}

}  // namespace worker
