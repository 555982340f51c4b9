#include "clients/pt2/archive/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <cstring>

#include "common/base/cat.h"

namespace clients {
namespace {

using common::ByteView;
using common::cat;
using common::corrupt;
using common::invalid_input;
using common::Result;
using common::Status;

// Layouts and signatures: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 to 4.3.16 and 4.5.3.
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kMaxCommentBytes = 65535;
constexpr uint16_t kZip64ExtraTag = 1;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kMethodStored = 0;
constexpr uint16_t kMethodDeflated = 8;
constexpr uint32_t kIn64Bits = 0xffffffff;
constexpr size_t kReadPadding = 64;

template <class Number>
Number little(ByteView bytes, size_t offset) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    number |= static_cast<Number>(static_cast<Number>(bytes[offset + i]) << (8 * i));
  }
  return number;
}

// True when [offset, offset + size) lies inside `bytes`.
bool inside(ByteView bytes, size_t offset, size_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

struct CentralDirectory {
  size_t offset = 0;
  size_t bytes = 0;
  size_t entries = 0;
};

Result<size_t> find_end_record(ByteView archive) {
  if (archive.size() < kEndBytes) return corrupt("shorter than a zip archive's end record");
  size_t last = archive.size() - kEndBytes;
  size_t first = last > kMaxCommentBytes ? last - kMaxCommentBytes : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (little<uint32_t>(archive, at) == kEndSignature &&
        at + kEndBytes + little<uint16_t>(archive, at + 20) == archive.size()) {
      return at;
    }
  }
  return corrupt("it has no end-of-archive record: the file is truncated or not a zip archive");
}

Result<CentralDirectory> find_central_directory(ByteView archive, size_t entries_max) {
  LFARM_ASSIGN_OR_RETURN(size_t end, find_end_record(archive));
  CentralDirectory directory;
  directory.entries = little<uint16_t>(archive, end + 10);
  directory.bytes = little<uint32_t>(archive, end + 12);
  directory.offset = little<uint32_t>(archive, end + 16);
  bool zip64 =
      directory.entries == 0xffff || directory.bytes == kIn64Bits || directory.offset == kIn64Bits;
  size_t limit = end;
  if (end >= kLocator64Bytes &&
      little<uint32_t>(archive, end - kLocator64Bytes) == kLocator64Signature) {
    size_t at = little<uint64_t>(archive, end - kLocator64Bytes + 8);
    if (!inside(archive, at, kEnd64Bytes) || little<uint32_t>(archive, at) != kEnd64Signature) {
      return corrupt("its 64-bit end record is not where its locator says");
    }
    directory.entries = little<uint64_t>(archive, at + 32);
    directory.bytes = little<uint64_t>(archive, at + 40);
    directory.offset = little<uint64_t>(archive, at + 48);
    limit = at;
  } else if (zip64) {
    return corrupt("its 64-bit end record is missing");
  }
  if (!inside(archive, directory.offset, directory.bytes) ||
      directory.offset + directory.bytes > limit) {
    return corrupt("its directory lies outside the file: the file is truncated");
  }
  if (directory.entries > entries_max || directory.entries > directory.bytes / kCentralBytes) {
    return corrupt(cat("its directory claims ", directory.entries, " entries"));
  }
  return directory;
}

// Sizes and the header's offset of a central record, with the 64-bit extra field applied.
struct EntryExtents {
  size_t size = 0;
  size_t compressed_size = 0;
  size_t header_offset = 0;
};

Result<EntryExtents> read_extents(ByteView record, ByteView extra) {
  EntryExtents extents;
  extents.compressed_size = little<uint32_t>(record, 20);
  extents.size = little<uint32_t>(record, 24);
  extents.header_offset = little<uint32_t>(record, 42);
  size_t* wide[] = {&extents.size, &extents.compressed_size, &extents.header_offset};
  for (size_t at = 0; at + 4 <= extra.size();) {
    size_t length = little<uint16_t>(extra, at + 2);
    if (!inside(extra, at + 4, length)) return corrupt("an extra field runs past its record");
    if (little<uint16_t>(extra, at) == kZip64ExtraTag) {
      ByteView body = extra.subspan(at + 4, length);
      size_t used = 0;
      for (size_t* field : wide) {
        if (*field != kIn64Bits) continue;
        if (!inside(body, used, 8)) return corrupt("a 64-bit extra field is too short");
        *field = little<uint64_t>(body, used);
        used += 8;
      }
    }
    at += 4 + length;
  }
  return extents;
}

Status check_name(std::string_view name) {
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    return invalid_input("an entry has an empty or binary name");
  }
  if (name.front() == '/' || name.find('\\') != std::string_view::npos ||
      (name.size() > 1 && name[1] == ':')) {
    return invalid_input(cat("entry '", name, "': the path climbs out of the archive"));
  }
  for (size_t at = 0; at <= name.size();) {
    size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") {
      return invalid_input(cat("entry '", name, "': the path climbs out of the archive"));
    }
    at = end + 1;
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<ZipArchive>> ZipArchive::open(SharedBytes archive, std::string label,
                                                     const Pt2Limits& limits) {
  auto zip = std::shared_ptr<ZipArchive>(new ZipArchive(limits));
  zip->archive_ = std::move(archive);
  zip->label_ = std::move(label);
  Status status = zip->index_entries();
  if (status.ok()) status = zip->check_overlaps();
  if (!status.ok()) {
    return common::Error{status.error().code,
                         cat(zip->label_, " is not a usable archive: ", status.error().message)};
  }
  return zip;
}

Pt2Limits ZipArchive::limits_left() const {
  Pt2Limits left = limits_;
  left.inflated_bytes_max -= inflated_bytes_;
  return left;
}

Status ZipArchive::index_entries() {
  ByteView archive = archive_.bytes;
  LFARM_ASSIGN_OR_RETURN(CentralDirectory directory,
                         find_central_directory(archive, limits_.zip_entries_max));
  entries_.reserve(directory.entries);
  by_name_.reserve(directory.entries);
  size_t at = directory.offset;
  size_t end = directory.offset + directory.bytes;
  for (size_t i = 0; i < directory.entries; ++i) {
    if (at + kCentralBytes > end || little<uint32_t>(archive, at) != kCentralSignature) {
      return corrupt("its directory is damaged");
    }
    ByteView record = archive.subspan(at, kCentralBytes);
    size_t name_bytes = little<uint16_t>(record, 28);
    size_t extra_bytes = little<uint16_t>(record, 30);
    size_t comment_bytes = little<uint16_t>(record, 32);
    size_t next = at + kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    if (next > end) return corrupt("its directory is damaged");
    ByteView extra = archive.subspan(at + kCentralBytes + name_bytes, extra_bytes);
    LFARM_ASSIGN_OR_RETURN(EntryExtents extents, read_extents(record, extra));
    std::string name(common::as_text(archive.subspan(at + kCentralBytes, name_bytes)));
    LFARM_RETURN_IF_ERROR(add_entry(record, std::move(name), extents.header_offset, extents.size,
                                    extents.compressed_size));
    at = next;
  }
  return {};
}

Status ZipArchive::add_entry(ByteView record, std::string name, size_t header_offset, size_t size,
                             size_t compressed_size) {
  ByteView archive = archive_.bytes;
  LFARM_RETURN_IF_ERROR(check_name(name));
  uint16_t method = little<uint16_t>(record, 10);
  if ((little<uint16_t>(record, 8) & kEncryptedFlag) != 0) {
    return invalid_input(cat("entry '", name, "' is encrypted"));
  }
  if (method != kMethodStored && method != kMethodDeflated) {
    return invalid_input(cat("entry '", name, "' uses compression method ", method,
                             "; only stored and deflated entries are read"));
  }
  if (!inside(archive, header_offset, kLocalBytes) ||
      little<uint32_t>(archive, header_offset) != kLocalSignature) {
    return corrupt(cat("entry '", name, "' has no header where the directory says"));
  }
  // The local header repeats the name and has extra bytes of its own (torch pads with them).
  size_t name_bytes = little<uint16_t>(archive, header_offset + 26);
  size_t extra_bytes = little<uint16_t>(archive, header_offset + 28);
  size_t data_offset = header_offset + kLocalBytes + name_bytes + extra_bytes;
  if (!inside(archive, data_offset, compressed_size)) {
    return corrupt(cat("entry '", name, "' ends outside the file: the file is truncated"));
  }
  if (common::as_text(archive.subspan(header_offset + kLocalBytes, name_bytes)) != name) {
    return corrupt(cat("entry '", name, "' has another name in its own header"));
  }
  bool deflated = method == kMethodDeflated;
  if (!deflated && size != compressed_size) {
    return corrupt(cat("entry '", name, "' is stored but its two sizes differ"));
  }
  if (deflated && size / kMaxDeflateRatio > compressed_size) {
    return invalid_input(cat("entry '", name, "' claims ", size, " bytes from ", compressed_size,
                             " compressed ones, which deflate cannot do"));
  }
  if (!by_name_.emplace(name, entries_.size()).second) {
    return invalid_input(cat("two entries are named '", name, "'"));
  }
  entries_.push_back({std::move(name), size, compressed_size, data_offset, deflated});
  return {};
}

// Overlapping entries are how small archives claim petabytes; torch never writes them.
Status ZipArchive::check_overlaps() const {
  std::vector<const ZipEntry*> order;
  order.reserve(entries_.size());
  for (const ZipEntry& entry : entries_) {
    if (entry.compressed_size > 0) order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->data_offset < b->data_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = *order[i - 1];
    if (before.data_offset + before.compressed_size > order[i]->data_offset) {
      return invalid_input(cat("entries '", before.name, "' and '", order[i]->name, "' overlap"));
    }
  }
  return {};
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Result<std::string> ZipArchive::read(const ZipEntry& entry, size_t max_bytes) {
  if (entry.size > max_bytes) {
    return invalid_input(cat(label_, ": entry '", entry.name, "' has ", entry.size,
                             " bytes; at most ", max_bytes, " are read"));
  }
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source =
      zip_source_buffer_create(archive_.bytes.data(), archive_.bytes.size(), 0, &error);
  zip_t* zip = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error);
  if (zip == nullptr) {
    std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (source != nullptr) zip_source_free(source);
    return corrupt(cat(label_, ": ", reason));
  }
  std::string text;
  text.reserve(entry.size + kReadPadding);
  text.resize(entry.size);
  zip_file_t* file = zip_fopen(zip, entry.name.c_str(), 0);
  // Reading past the last byte makes libzip compare the checksum.
  char extra = 0;
  bool good = file != nullptr;
  for (size_t done = 0; good && done < entry.size;) {
    zip_int64_t got = zip_fread(file, text.data() + done, entry.size - done);
    good = got > 0;
    done += good ? static_cast<size_t>(got) : 0;
  }
  good = good && zip_fread(file, &extra, 1) == 0;
  if (file != nullptr) zip_fclose(file);
  zip_discard(zip);
  zip_error_fini(&error);
  if (!good) {
    return corrupt(cat(label_, ": entry '", entry.name, "' is damaged (checksum or length)"));
  }
  return text;
}

Result<SharedBytes> ZipArchive::view(const ZipEntry& entry) {
  if (!entry.deflated) {
    return SharedBytes{archive_.bytes.subspan(entry.data_offset, entry.size), archive_.owner};
  }
  if (entry.size > limits_.inflated_bytes_max - inflated_bytes_) {
    return invalid_input(cat(label_, ": its compressed entries inflate to more than ",
                             limits_.inflated_bytes_max, " bytes; store them uncompressed"));
  }
  LFARM_ASSIGN_OR_RETURN(std::string text, read(entry, limits_.inflated_bytes_max));
  inflated_bytes_ += text.size();
  auto owned = std::make_shared<const std::string>(std::move(text));
  return SharedBytes{common::as_bytes(*owned), owned};
}

}  // namespace clients
