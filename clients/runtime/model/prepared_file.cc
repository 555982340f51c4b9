#include "clients/runtime/model/prepared_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/hash64.h"
#include "common/runtime/device/device.h"

namespace clients {

using common::ByteView;
using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

// The file: Start, a Placed for each value, hash64() of both, and the values.
constexpr uint64_t kMagic = 0x70657270'6d72616cULL, kFileFormat = 1;

struct Start {
  uint64_t magic = kMagic, format = kFileFormat;
  Digest plan;
  uint64_t values = 0;
};
struct Placed {
  uint64_t offset = 0, bytes = 0;
};

size_t aligned(size_t offset) {
  return (offset + common::kBufferAlignment - 1) / common::kBufferAlignment *
         common::kBufferAlignment;
}

size_t header_bytes(size_t values) {
  return sizeof(Start) + values * sizeof(Placed) + sizeof(uint64_t);
}

common::Bytes header_of(const Digest& plan, std::span<const ByteView> values) {
  const Start start{.plan = plan, .values = values.size()};
  common::Bytes header;
  auto append = [&](const auto& record) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&record);
    header.insert(header.end(), bytes, bytes + sizeof record);
  };
  append(start);
  size_t offset = aligned(header_bytes(values.size()));
  for (ByteView value : values) {
    append(Placed{offset, value.size()});
    offset = aligned(offset + value.size());
  }
  append(common::hash64(header));
  return header;
}

template <class Record>
Record record_at(ByteView file, size_t offset) {
  Record record;
  std::memcpy(&record, file.data() + offset, sizeof record);
  return record;
}

Status cannot_write(const std::string& path) {
  return common::unavailable(cat("cannot write ", path, ": ", std::strerror(errno)));
}

// Writes in pieces, between which somebody may end it.
class Writer {
 public:
  Writer(int fd, const std::string& path, const std::function<bool()>& is_over)
      : fd_(fd), path_(path), is_over_(is_over) {}

  Status write(ByteView bytes) {
    constexpr size_t kPiece = size_t{4} << 20;
    while (!bytes.empty()) {
      if (is_over_()) return common::unavailable(cat("gave up writing ", path_));
      ssize_t done = ::write(fd_, bytes.data(), std::min(kPiece, bytes.size()));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return cannot_write(path_);
      bytes = bytes.subspan(static_cast<size_t>(done));
      at_ += static_cast<size_t>(done);
    }
    return {};
  }
  Status pad() {
    const common::Bytes zeros(aligned(at_) - at_);
    return write(zeros);
  }

 private:
  const int fd_;
  const std::string& path_;
  const std::function<bool()>& is_over_;
  size_t at_ = 0;
};

}  // namespace

Result<std::vector<ByteView>> prepared_values(ByteView file, const Digest& plan) {
  const common::Error damaged = common::corrupt("not a whole file of prepared weights");
  if (file.size() < header_bytes(0)) return damaged;
  const auto start = record_at<Start>(file, 0);
  const size_t count_max = (file.size() - header_bytes(0)) / sizeof(Placed);
  if (start.magic != kMagic || start.format != kFileFormat || start.values > count_max)
    return damaged;
  const size_t checked = header_bytes(start.values) - sizeof(uint64_t);
  if (record_at<uint64_t>(file, checked) != common::hash64(file.first(checked))) return damaged;
  if (start.plan != plan) return common::invalid_input("these prepared weights are another plan's");
  std::vector<ByteView> values;
  for (size_t k = 0; k < start.values; ++k) {
    const auto placed = record_at<Placed>(file, sizeof(Start) + k * sizeof(Placed));
    if (placed.offset > file.size() || placed.bytes > file.size() - placed.offset) return damaged;
    values.push_back(file.subspan(placed.offset, placed.bytes));
  }
  return values;
}

Status write_prepared(const std::string& path, const Digest& plan, std::span<const ByteView> values,
                      const std::function<bool()>& is_over) {
  const std::string directory = std::filesystem::path(path).parent_path();
  // Without a name until it is whole: nothing is left of a process that is killed.
  common::FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.is_open()) return cannot_write(path);
  Writer writer(file.get(), path, is_over);
  LFARM_RETURN_IF_ERROR(writer.write(header_of(plan, values)));
  for (ByteView value : values) {
    LFARM_RETURN_IF_ERROR(writer.pad());
    LFARM_RETURN_IF_ERROR(writer.write(value));
  }
  ::unlink(path.c_str());
  const std::string nameless = cat("/proc/self/fd/", file.get());
  if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0 &&
      errno != EEXIST) {
    return cannot_write(path);
  }
  return {};
}

}  // namespace clients
