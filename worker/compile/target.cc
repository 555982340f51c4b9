#include "worker/compile/target.h"

namespace worker {

std::vector<std::string> machine_options(const common::Target& target) {
  if (target.name == "cpu-x86_64-avx512") {
    return {"-march=x86-64-v4", "-mtune=native", "-mprefer-vector-width=512"};
  }
  if (target.name == "cpu-x86_64-avx2") return {"-march=x86-64-v3", "-mtune=native"};
  if (target.name == "cpu-x86_64") return {"-march=x86-64", "-mtune=native"};
  return {};
}

int vector_bytes(const common::Target& target) {
  if (target.name == "cpu-x86_64-avx512") return 64;
  return target.name == "cpu-x86_64-avx2" ? 32 : 16;
}

}  // namespace worker
