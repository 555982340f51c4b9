#include "common/text/tensor_origin.h"

#include "common/base/cat.h"

namespace common {
namespace {

constexpr std::string_view kAt = " at ";

}  // namespace

std::string origin_text(const TensorOrigin& origin) {
  return origin.source.empty() ? origin.tensor : cat(origin.tensor, kAt, origin.source);
}

TensorOrigin parse_origin(std::string_view name) {
  size_t at = name.rfind(kAt);
  if (at == std::string_view::npos) return {std::string(name), {}};
  return {std::string(name.substr(0, at)), std::string(name.substr(at + kAt.size()))};
}

}  // namespace common
