// Writes small zip archives byte by byte, so that tests can damage any field of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pt2_test {

struct ZipPart {
  std::string name;
  std::string content;
  int method = 0;           // 0: stored
  uint32_t size_claim = 0;  // nonzero: written as the uncompressed size
  uint32_t crc = 0;
};

inline void put(std::string* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

inline uint32_t crc32_of(const std::string& text) {
  uint32_t crc = ~0u;
  for (char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
  }
  return ~crc;
}

inline std::string make_zip(const std::vector<ZipPart>& parts) {
  std::string out, directory;
  for (const ZipPart& part : parts) {
    uint32_t offset = static_cast<uint32_t>(out.size());
    uint32_t stored = static_cast<uint32_t>(part.content.size());
    uint32_t size = part.size_claim != 0 ? part.size_claim : stored;
    std::string common;
    put(&common, 20, 2);  // version needed
    put(&common, 0, 2);   // flags
    put(&common, static_cast<uint64_t>(part.method), 2);
    put(&common, 0, 4);  // time
    put(&common, part.crc != 0 ? part.crc : crc32_of(part.content), 4);
    put(&common, stored, 4);
    put(&common, size, 4);
    put(&common, part.name.size(), 2);
    put(&common, 0, 2);  // extra
    put(&out, 0x04034b50, 4);
    out += common + part.name + part.content;
    put(&directory, 0x02014b50, 4);
    put(&directory, 20, 2);  // made by
    directory += common;
    put(&directory, 0, 2);  // comment
    put(&directory, 0, 2);  // disk
    put(&directory, 0, 2);  // attributes
    put(&directory, 0, 4);
    put(&directory, offset, 4);
    directory += part.name;
  }
  uint32_t start = static_cast<uint32_t>(out.size());
  out += directory;
  put(&out, 0x06054b50, 4);
  put(&out, 0, 4);
  put(&out, parts.size(), 2);
  put(&out, parts.size(), 2);
  put(&out, directory.size(), 4);
  put(&out, start, 4);
  put(&out, 0, 2);
  return out;
}

}  // namespace pt2_test
