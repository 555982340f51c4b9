#include "common/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <map>

#include "common/base/cat.h"
#include "common/cuda/cubin_sections.h"

namespace common {
namespace {

constexpr unsigned char kEntryFunction = 0x10;  // in a symbol's st_other
// An attribute of .nv.info: its form, its number, and 16 bits that are the value or its size.
constexpr size_t kAttributeHead = 4;
constexpr unsigned char kSizedForm = 4, kFrameSize = 0x11, kRegisters = 0x2f;
// What the system takes of each block's shared memory, where a cubin counts it.
constexpr uint64_t kReservedShared = 1024;

// By symbol number.
using Kernels = std::map<uint32_t, CubinKernel>;

Kernels entry_functions(const std::vector<CubinSection>& sections) {
  Kernels kernels;
  const CubinSection* symbols = find_cubin_section(sections, ".symtab");
  if (symbols == nullptr || symbols->header.sh_link >= sections.size()) return kernels;
  ByteView names = sections[symbols->header.sh_link].content;
  for (uint32_t k = 0;; ++k) {
    auto symbol = load_bytes<Elf64_Sym>(symbols->content, uint64_t{k} * sizeof(Elf64_Sym));
    if (!symbol) return kernels;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || (symbol->st_other & kEntryFunction) == 0) {
      continue;
    }
    CubinKernel& kernel = kernels[k];
    kernel.name = cubin_name_at(names, symbol->st_name);
    kernel.code_bytes = symbol->st_size;
  }
}

// Attributes that name a symbol and a number.
void read_attributes(ByteView info, Kernels& kernels) {
  for (uint64_t at = 0; at + kAttributeHead <= info.size();) {
    auto form = static_cast<unsigned char>(info[at]);
    auto number = static_cast<unsigned char>(info[at + 1]);
    uint64_t size = form == kSizedForm ? load_bytes<uint16_t>(info, at + 2).value_or(0) : 0;
    auto symbol = load_bytes<uint32_t>(info, at + kAttributeHead);
    auto value = load_bytes<uint32_t>(info, at + kAttributeHead + sizeof(uint32_t));
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
  auto sections = read_cubin_sections(cubin);
  if (!sections) return corrupt("these bytes are no cubin");
  Kernels kernels = entry_functions(*sections);
  if (const CubinSection* info = find_cubin_section(*sections, ".nv.info")) {
    read_attributes(info->content, kernels);
  }
  bool reserves = find_cubin_section(*sections, ".nv.shared.reserved.0") != nullptr;
  std::vector<CubinKernel> found;
  for (auto& [symbol, kernel] : kernels) {
    if (const CubinSection* shared =
            find_cubin_section(*sections, cat(".nv.shared.", kernel.name))) {
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
