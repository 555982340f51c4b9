// Which of its parts lfarm-coordinator is asked for.
#pragma once

#include <string_view>

namespace coordinator::service {

inline constexpr std::string_view kRoleOption = "--role";

// Whether the arguments have `--role ROLE` or `--role=ROLE`.
bool asks_for_role(int argc, const char* const* argv, std::string_view role);

}  // namespace coordinator::service
