#include "common/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "common/base/cat.h"

namespace common {
namespace {

constexpr unsigned kMachineCuda = 190;
constexpr unsigned char kEntryFunction = 0x10;  // in a symbol's st_other
// An attribute of .nv.info: its form, its number, and 16 bits that are the value or its size.
constexpr size_t kAttributeHead = 4;
constexpr unsigned char kSizedForm = 4, kFrameSize = 0x11, kRegisters = 0x2f;
// What the system takes of each block's shared memory, where a cubin counts it.
constexpr uint64_t kReservedShared = 1024;

// Reads of a T anywhere, aligned or not; empty beyond the end.
template <class T>
std::optional<T> load(ByteView bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

ByteView slice(ByteView bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return {};
  return bytes.subspan(at, size);
}

std::string_view name_at(ByteView strings, uint64_t at) {
  if (at >= strings.size()) return {};
  std::string_view text = as_text(strings.subspan(at));
  return text.substr(0, text.find('\0'));
}

struct Section {
  std::string_view name;
  Elf64_Shdr header;
  ByteView content;
};

std::optional<std::vector<Section>> read_sections(ByteView cubin) {
  auto header = load<Elf64_Ehdr>(cubin, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kMachineCuda ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return std::nullopt;
  }
  std::vector<Section> sections;
  for (unsigned k = 0; k < header->e_shnum; ++k) {
    auto section = load<Elf64_Shdr>(cubin, header->e_shoff + uint64_t{k} * sizeof(Elf64_Shdr));
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
  for (Section& section : sections) section.name = name_at(names, section.header.sh_name);
  return sections;
}

const Section* find_section(const std::vector<Section>& sections, std::string_view name) {
  auto it = std::find_if(sections.begin(), sections.end(),
                         [&](const Section& section) { return section.name == name; });
  return it == sections.end() ? nullptr : &*it;
}

// By symbol number.
using Kernels = std::map<uint32_t, CubinKernel>;

Kernels entry_functions(const std::vector<Section>& sections) {
  Kernels kernels;
  const Section* symbols = find_section(sections, ".symtab");
  if (symbols == nullptr || symbols->header.sh_link >= sections.size()) return kernels;
  ByteView names = sections[symbols->header.sh_link].content;
  for (uint32_t k = 0;; ++k) {
    auto symbol = load<Elf64_Sym>(symbols->content, uint64_t{k} * sizeof(Elf64_Sym));
    if (!symbol) return kernels;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || (symbol->st_other & kEntryFunction) == 0) {
      continue;
    }
    CubinKernel& kernel = kernels[k];
    kernel.name = name_at(names, symbol->st_name);
    kernel.code_bytes = symbol->st_size;
  }
}

// Attributes that name a symbol and a number.
void read_attributes(ByteView info, Kernels& kernels) {
  for (uint64_t at = 0; at + kAttributeHead <= info.size();) {
    auto form = static_cast<unsigned char>(info[at]);
    auto number = static_cast<unsigned char>(info[at + 1]);
    uint64_t size = form == kSizedForm ? load<uint16_t>(info, at + 2).value_or(0) : 0;
    auto symbol = load<uint32_t>(info, at + kAttributeHead);
    auto value = load<uint32_t>(info, at + kAttributeHead + sizeof(uint32_t));
    at += kAttributeHead + size;
    if (size != 2 * sizeof(uint32_t) || !symbol || !value) continue;
    auto kernel = kernels.find(*symbol);
    if (kernel == kernels.end()) continue;
    if (number == kRegisters) kernel->second.registers = *value;
    if (number == kFrameSize) kernel->second.local_bytes = *value;
  }
}

}  // namespace

Result<std::vector<CubinKernel>> read_cubin(ByteView cubin) {
  auto sections = read_sections(cubin);
  if (!sections) return corrupt("these bytes are no cubin");
  Kernels kernels = entry_functions(*sections);
  if (const Section* info = find_section(*sections, ".nv.info")) {
    read_attributes(info->content, kernels);
  }
  bool reserves = find_section(*sections, ".nv.shared.reserved.0") != nullptr;
  std::vector<CubinKernel> found;
  for (auto& [symbol, kernel] : kernels) {
    if (const Section* shared = find_section(*sections, cat(".nv.shared.", kernel.name))) {
      uint64_t reserved = reserves ? kReservedShared : 0;
      kernel.shared_bytes = shared->header.sh_size - std::min(reserved, shared->header.sh_size);
    }
    found.push_back(std::move(kernel));
  }
  std::sort(found.begin(), found.end(),
            [](const CubinKernel& a, const CubinKernel& b) { return a.name < b.name; });
  return found;
}

}  // namespace common
