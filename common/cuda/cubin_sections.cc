#include "common/cuda/cubin_sections.h"

#include <algorithm>

namespace common {
namespace {

constexpr unsigned kMachineCuda = 190;
// From this version on the flags have the architecture's number in their second byte, before in
// their first.
constexpr unsigned char kNumberInSecondByte = 8;

ByteView slice(ByteView bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return {};
  return bytes.subspan(at, size);
}

}  // namespace

std::string_view cubin_name_at(ByteView strings, uint64_t at) {
  if (at >= strings.size()) return {};
  std::string_view text = as_text(strings.subspan(at));
  return text.substr(0, text.find('\0'));
}

std::optional<std::vector<CubinSection>> read_cubin_sections(ByteView cubin) {
  auto header = load_bytes<Elf64_Ehdr>(cubin, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kMachineCuda ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return std::nullopt;
  }
  std::vector<CubinSection> sections;
  for (unsigned k = 0; k < header->e_shnum; ++k) {
    auto section =
        load_bytes<Elf64_Shdr>(cubin, header->e_shoff + uint64_t{k} * sizeof(Elf64_Shdr));
    if (!section) return std::nullopt;
    ByteView content;
    if (section->sh_type != SHT_NOBITS) {
      content = slice(cubin, section->sh_offset, section->sh_size);
      if (content.size() != section->sh_size) return std::nullopt;
    }
    sections.push_back({{}, *section, content});
  }
  if (header->e_shstrndx >= sections.size()) return std::nullopt;
  ByteView names = sections[header->e_shstrndx].content;
  for (CubinSection& section : sections)
    section.name = cubin_name_at(names, section.header.sh_name);
  return sections;
}

int cubin_architecture(ByteView cubin) {
  auto header = load_bytes<Elf64_Ehdr>(cubin, 0);
  if (!header || header->e_machine != kMachineCuda) return 0;
  bool is_second = header->e_ident[EI_ABIVERSION] >= kNumberInSecondByte;
  return static_cast<int>(header->e_flags >> (is_second ? 8 : 0) & 0xff);
}

const CubinSection* find_cubin_section(const std::vector<CubinSection>& sections,
                                       std::string_view name) {
  auto it = std::find_if(sections.begin(), sections.end(),
                         [&](const CubinSection& section) { return section.name == name; });
  return it == sections.end() ? nullptr : &*it;
}

}  // namespace common
