#include "tests/emulator/device/shared_usage.h"

#include <elf.h>

#include <cstring>

namespace emulator {

size_t static_shared_bytes(std::string_view object, const std::string& kernel) {
  const auto read = [&](size_t offset, auto& value) {
    std::memset(&value, 0, sizeof value);
    if (offset <= object.size() && object.size() - offset >= sizeof value) {
      std::memcpy(&value, object.data() + offset, sizeof value);
    }
  };
  // A variable inside a function: Itanium C++ ABI, "Scope Encoding".
  const std::string prefix = "_ZZ" + std::to_string(kernel.size()) + kernel + "E";
  Elf64_Ehdr header;
  read(0, header);
  size_t bytes = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr symbols, names;
    read(header.e_shoff + i * sizeof symbols, symbols);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    read(header.e_shoff + symbols.sh_link * sizeof names, names);
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      read(symbols.sh_offset + at, symbol);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS) continue;
      const size_t name = names.sh_offset + symbol.st_name;
      if (name < object.size() && object.substr(name).starts_with(prefix)) bytes += symbol.st_size;
    }
  }
  return bytes;
}

}  // namespace emulator
