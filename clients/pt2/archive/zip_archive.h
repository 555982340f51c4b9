// A zip archive in memory whose stored entries are views of it, so that weights are never copied.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "clients/pt2/archive/limits.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace clients {

// Bytes that stay valid while `owner` lives.
struct SharedBytes {
  common::ByteView bytes;
  std::shared_ptr<const void> owner;
};

struct ZipEntry {
  std::string name;
  size_t size = 0;             // uncompressed
  size_t compressed_size = 0;  // as stored
  size_t data_offset = 0;      // of the entry's first stored byte, from the archive's first byte
  bool deflated = false;
};

// The directory of one archive, checked at opening: every entry lies inside the archive, no two
// overlap or share a name, and no name climbs out of the archive. Not thread-safe.
class ZipArchive {
 public:
  // `label` names the archive in messages. kCorrupt for a damaged archive, kInvalidInput for
  // one that is refused.
  static common::Result<std::shared_ptr<ZipArchive>> open(SharedBytes archive, std::string label,
                                                          const Pt2Limits& limits = {});

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null when there is no such entry.
  const ZipEntry* find(std::string_view name) const;
  const std::string& label() const { return label_; }
  // For an archive inside this one: whatever it inflates counts here as well.
  Pt2Limits limits_left() const;
  void count_inflated(const ZipArchive& inner) { inflated_bytes_ += inner.inflated_bytes_; }

  // A copy of the entry, inflated where needed, its checksum verified. kCorrupt when damaged,
  // kInvalidInput when larger than `max_bytes`. The string has room for 64 more bytes, which
  // JSON readers want.
  common::Result<std::string> read(const ZipEntry& entry, size_t max_bytes);
  // A view of a stored entry, without reading it; a deflated one is inflated into its own buffer.
  common::Result<SharedBytes> view(const ZipEntry& entry);

 private:
  explicit ZipArchive(const Pt2Limits& limits) : limits_(limits) {}
  common::Status index_entries();
  common::Status add_entry(common::ByteView record, std::string name, size_t header_offset,
                           size_t size, size_t compressed_size);
  common::Status check_overlaps() const;

  const Pt2Limits limits_;
  SharedBytes archive_;
  std::string label_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  size_t inflated_bytes_ = 0;
};

}  // namespace clients
