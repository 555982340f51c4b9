// Byte strings and their hexadecimal form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace common {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes to_bytes(ByteView view) { return {view.begin(), view.end()}; }

// Lower-case hexadecimal, two characters a byte.
std::string to_hex(ByteView bytes);
// Inverse of to_hex; empty when the text has an odd length or another character.
std::optional<Bytes> from_hex(std::string_view text);

}  // namespace common
