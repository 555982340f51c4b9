// The sections of a cubin, which is an ELF file for NVIDIA's processors.
#pragma once

#include <elf.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"

namespace common {

// Reads a T anywhere, aligned or not; empty beyond the end.
template <class T>
std::optional<T> load_bytes(ByteView bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct CubinSection {
  std::string_view name;
  Elf64_Shdr header;
  ByteView content;
};

// Empty for what is no cubin. Refers to its bytes.
std::optional<std::vector<CubinSection>> read_cubin_sections(ByteView cubin);
// The number of the architecture that a cubin is for, such as 90; 0 for what is no cubin.
int cubin_architecture(ByteView cubin);
// Null where there is none of that name.
const CubinSection* find_cubin_section(const std::vector<CubinSection>& sections,
                                       std::string_view name);
// Of a table of strings; empty beyond its end.
std::string_view cubin_name_at(ByteView strings, uint64_t at);

}  // namespace common
