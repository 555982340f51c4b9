#include "common/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>

#include "common/base/cat.h"

namespace common {
namespace {

Error cannot(std::string_view what, const std::string& path) {
  return invalid_input(cat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

Status write_all(int fd, ByteView content, const std::string& path) {
  size_t done = 0;
  while (done < content.size()) {
    ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return internal_error(cat("cannot write ", path, ": ", std::strerror(errno)));
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return cannot("open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return cannot("read", path);
  if (S_ISDIR(info.st_mode)) return invalid_input(cat("cannot read ", path, ": it is a directory"));
  std::string content;
  char buffer[65536];
  while (true) {
    ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot("read", path);
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
    if (content.size() > max_bytes) {
      return invalid_input(cat(path, " is larger than ", max_bytes, " bytes"));
    }
  }
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Status write_file_atomic(const std::string& path, ByteView content) {
  // Threads of one process may write the same file at once, as processes may.
  std::string temporary = cat(path, ".", ::getpid(), "-", ::gettid(), ".tmp");
  {
    FileDescriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd.is_open()) return cannot("create", path);
    Status written = write_all(fd.get(), content, temporary);
    if (!written.ok() || ::fsync(fd.get()) != 0) {
      ::unlink(temporary.c_str());
      return written.ok() ? Status(internal_error(
                                cat("cannot sync ", temporary, ": ", std::strerror(errno))))
                          : written;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = cannot("rename to", path);
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

Status make_directories(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  std::filesystem::create_directories(path, error);
  if (error) return invalid_input(cat("cannot create directory ", path, ": ", error.message()));
  ::chmod(path.c_str(), 0700);
  return {};
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return cannot("open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return cannot("read", path);
  if (!S_ISREG(info.st_mode)) return invalid_input(cat("cannot map ", path, ": not a plain file"));
  std::shared_ptr<MappedFile> file(new MappedFile);
  auto size = static_cast<size_t>(info.st_size);
  if (size != 0) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return cannot("map", path);
    file->bytes_ = {static_cast<const std::byte*>(address), size};
  }
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(ByteView part) const {
  std::less<> before;
  const std::byte *first = part.data(), *last = first + part.size();
  const std::byte *begin = bytes_.data(), *end = begin + bytes_.size();
  if (before(first, begin)) first = begin;
  if (before(end, last)) last = end;
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (!before(first, last)) return;
  size_t from = (static_cast<size_t>(first - begin) + page - 1) / page * page;
  size_t to = static_cast<size_t>(last - begin) / page * page;
  if (from < to) ::madvise(const_cast<std::byte*>(begin) + from, to - from, MADV_DONTNEED);
}

Result<ScratchDirectory> ScratchDirectory::create(std::string_view prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string path = cat(base && *base ? base : "/tmp", "/", prefix, "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) return cannot("create a directory under", path);
  return ScratchDirectory(std::move(path));
}

ScratchDirectory::~ScratchDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string default_state_directory() {
  if (const char* state = std::getenv("LFARM_STATE"); state && *state) return state;
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg && *xdg) return cat(xdg, "/lfarm");
  if (const char* home = std::getenv("HOME"); home && *home) {
    return cat(home, "/.local/state/lfarm");
  }
  return "/tmp/lfarm-state";
}

}  // namespace common
