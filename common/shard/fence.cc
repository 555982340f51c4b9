#include "common/shard/fence.h"

#include "common/base/cat.h"
#include "common/shard/number_text.h"

namespace common {

bool is_before(const Fence& one, const Fence& other) {
  return one.shard == other.shard && one.transitions < other.transitions;
}

std::string text_of(const Fence& fence) {
  return cat(fence.transitions, ' ', fence.incarnation.hex());
}

std::optional<Fence> parse_fence(uint32_t shard, std::string_view text) {
  Fence fence{shard, 0, {}};
  size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto transitions = parse_number<uint64_t>(text.substr(0, space));
  if (!transitions || *transitions > kTransitionsMax) return std::nullopt;
  fence.transitions = *transitions;
  auto incarnation = Incarnation::parse(text.substr(space + 1));
  if (!incarnation) return std::nullopt;
  fence.incarnation = *incarnation;
  return fence;
}

}  // namespace common
