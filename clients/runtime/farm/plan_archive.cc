#include "clients/runtime/farm/plan_archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/cat.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

constexpr char kMagic[] = "LFARMPLN";
constexpr size_t kMagicBytes = sizeof kMagic - 1;
constexpr size_t kHeaderBytes = kMagicBytes + 8;
constexpr size_t kPartHeaderBytes = 48;
constexpr size_t kAlignment = 8;

uint64_t padding(uint64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

void append(common::Bytes& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
}

uint64_t number_at(const std::byte* in, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(in[i]) << (8 * i);
  return value;
}

common::Bytes part_header(uint32_t kind, uint64_t number, const Digest& digest) {
  common::Bytes out;
  append(out, kind, 4);
  append(out, 0, 4);
  append(out, number, 8);
  out.insert(out.end(), digest.bytes.begin(), digest.bytes.end());
  return out;
}

bool is_kind(uint64_t kind) {
  return kind >= static_cast<uint32_t>(ArchivePartKind::kPlan) &&
         kind <= static_cast<uint32_t>(ArchivePartKind::kRevocations);
}

// A file that is read at any place by any thread.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  Status read(const std::string& path, uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      ssize_t n = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return common::unavailable(cat("cannot read ", path, ": ", std::strerror(errno)));
      if (n == 0) return common::corrupt(cat(path, " became shorter while it was read"));
      offset += static_cast<uint64_t>(n);
      to = to.subspan(static_cast<size_t>(n));
    }
    return {};
  }

 private:
  int fd_;
};

}  // namespace

// ---- Writing -----------------------------------------------------------------------------------

Result<PlanArchiveWriter> PlanArchiveWriter::create(const std::string& path) {
  std::string temporary = cat(path, ".part.", ::getpid());
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (file == nullptr) {
    return common::invalid_input(cat("cannot write ", path, ": ", std::strerror(errno)));
  }
  PlanArchiveWriter writer(path, temporary, file);
  common::Bytes header = common::to_bytes(common::as_bytes({kMagic, kMagicBytes}));
  append(header, kPlanArchiveVersion, 4);
  append(header, 0, 4);
  LFARM_RETURN_IF_ERROR(writer.write(header));
  return writer;
}

PlanArchiveWriter::~PlanArchiveWriter() {
  if (file_) ::unlink(temporary_.c_str());
}

Status PlanArchiveWriter::write(common::ByteView bytes) {
  if (bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) {
    return {};
  }
  return common::unavailable(cat("cannot write ", path_, ": ", std::strerror(errno)));
}

Status PlanArchiveWriter::add(ArchivePartKind kind, common::ByteView content) {
  Digest digest = common::digest_of(content);
  if (content.size() > common::kBlobBytesMax || parts_ == kArchivePartsMax) {
    return common::unsupported(cat("one file takes ", kArchivePartsMax, " parts of at most ",
                                   common::kBlobBytesMax, " bytes; export fewer plans at once"));
  }
  if (!known_.insert(digest).second) return {};
  common::Bytes header = part_header(static_cast<uint32_t>(kind), content.size(), digest);
  headers_.data(header);
  ++parts_;
  LFARM_RETURN_IF_ERROR(write(header));
  LFARM_RETURN_IF_ERROR(write(content));
  return write(common::Bytes(padding(content.size())));
}

Status PlanArchiveWriter::finish() {
  LFARM_RETURN_IF_ERROR(write(part_header(0, parts_, headers_.finish())));
  bool written = std::fflush(file_.get()) == 0 && ::fsync(::fileno(file_.get())) == 0 &&
                 ::rename(temporary_.c_str(), path_.c_str()) == 0;
  if (!written) {
    return common::unavailable(cat("cannot write ", path_, ": ", std::strerror(errno)));
  }
  file_.reset();
  return {};
}

// ---- Reading -----------------------------------------------------------------------------------

Result<PlanArchive> PlanArchive::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return common::invalid_input(cat("cannot open ", path, ": ", std::strerror(errno)));
  auto file = std::make_shared<const OpenFile>(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return common::invalid_input(cat(path, " is no file"));
  }
  return parse(path, static_cast<uint64_t>(info.st_size),
               [file, path](uint64_t offset, std::span<std::byte> to) {
                 return file->read(path, offset, to);
               });
}

Result<PlanArchive> PlanArchive::parse(const std::string& path, uint64_t bytes, ReadAt read) {
  PlanArchive archive;
  archive.path_ = path;
  archive.read_ = std::move(read);
  auto damaged = [&](const std::string& what) {
    return common::corrupt(cat(path, " is damaged: ", what, "; copy it again"));
  };
  std::byte header[kHeaderBytes];
  bool has_header = bytes >= kHeaderBytes;
  if (has_header) LFARM_RETURN_IF_ERROR(archive.read_(0, header));
  if (!has_header || std::memcmp(header, kMagic, kMagicBytes) != 0) {
    return common::invalid_input(cat(path, " is no file of plans; 'lfarm plan export' writes one"));
  }
  uint64_t version = number_at(header + kMagicBytes, 4);
  if (version != kPlanArchiveVersion) {
    return common::unsupported(cat(path, " is of version ", version, ", this lfarm reads version ",
                                   kPlanArchiveVersion, "; export it with the same release"));
  }
  if (number_at(header + kMagicBytes + 4, 4) != 0) return damaged("its header is not empty");
  common::Hasher headers;
  for (uint64_t at = kHeaderBytes;;) {
    std::byte raw[kPartHeaderBytes];
    if (bytes - at < sizeof raw) return damaged("it is cut off");
    LFARM_RETURN_IF_ERROR(archive.read_(at, raw));
    at += sizeof raw;
    uint64_t kind = number_at(raw, 4), number = number_at(raw + 8, 8);
    ArchivePart part{static_cast<ArchivePartKind>(kind), {}, at, number};
    std::memcpy(part.digest.bytes.data(), raw + 16, part.digest.bytes.size());
    if (number_at(raw + 4, 4) != 0) return damaged("a part's header is not empty");
    if (kind == 0) {
      if (number != archive.parts_.size() || part.digest != headers.finish()) {
        return damaged("its parts are not those that it ends with");
      }
      if (at != bytes) return damaged("something follows its end");
      return archive;
    }
    if (!is_kind(kind)) return damaged(cat("it has a part of kind ", kind));
    if (number > common::kBlobBytesMax || archive.parts_.size() == kArchivePartsMax) {
      return damaged("its parts are too large or too many");
    }
    if (number + padding(number) > bytes - at) return damaged("it is cut off");
    if (!archive.index_.emplace(part.digest, archive.parts_.size()).second) {
      return damaged("a part is there twice");
    }
    headers.data(raw);
    at += number + padding(number);
    archive.parts_.push_back(part);
  }
}

std::vector<ArchivePart> PlanArchive::parts(ArchivePartKind kind) const {
  std::vector<ArchivePart> found;
  for (const ArchivePart& part : parts_) {
    if (part.kind == kind) found.push_back(part);
  }
  return found;
}

const ArchivePart* PlanArchive::find(ArchivePartKind kind, const Digest& digest) const {
  auto found = index_.find(digest);
  if (found == index_.end() || parts_[found->second].kind != kind) return nullptr;
  return &parts_[found->second];
}

// The padding is looked at too, so that no bit of the file is without a meaning.
Result<common::Bytes> PlanArchive::read(const ArchivePart& part) const {
  common::Bytes content(part.bytes + padding(part.bytes));
  LFARM_RETURN_IF_ERROR(read_(part.offset, content));
  bool is_padded = std::all_of(content.begin() + static_cast<std::ptrdiff_t>(part.bytes),
                               content.end(), [](std::byte byte) { return byte == std::byte{0}; });
  content.resize(part.bytes);
  if (is_padded && common::digest_of(content) == part.digest) return content;
  return common::corrupt(
      cat(path_, " is damaged: part ", part.digest.short_hex(), " has changed; copy it again"));
}

}  // namespace clients
