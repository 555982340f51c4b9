#include "worker/codegen/generator.h"

namespace worker {

std::string entry_name(const common::Kernel& kernel) {
  return "lf_" + common::code_fingerprint(kernel).hex().substr(0, 16);
}

}  // namespace worker
