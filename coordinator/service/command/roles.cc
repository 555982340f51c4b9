#include "coordinator/service/command/roles.h"

#include "common/base/cat.h"

namespace coordinator::service {

bool asks_for_role(int argc, const char* const* argv, std::string_view role) {
  for (int k = 1; k < argc; ++k) {
    std::string_view argument = argv[k];
    if (argument == common::cat(kRoleOption, '=', role)) return true;
    if (argument == kRoleOption && k + 1 < argc && argv[k + 1] == role) return true;
  }
  return false;
}

}  // namespace coordinator::service
