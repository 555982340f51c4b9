#include "worker/compile/target.h"

namespace worker {

common::Target detect_cpu_target() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma")) {
    return {"cpu-x86_64-avx512"};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    return {"cpu-x86_64-avx2"};
  }
  return {"cpu-x86_64"};
#elif defined(__aarch64__)
  return {"cpu-aarch64"};
#else
  return {"cpu-generic"};
#endif
}

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
