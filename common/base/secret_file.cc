#include "common/base/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {

Result<std::string> read_secret_file(const std::string& path, size_t bytes_max) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return invalid_input(cat("cannot open ", path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return invalid_input(cat(path, " is no plain file"));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", info.st_mode & 07777U);
    return invalid_input(cat(path, " holds a secret key that others may reach (its mode is ", mode,
                             "); run: chmod 600 ", path));
  }
  return read_file(path, bytes_max);
}

Status create_secret_file(const std::string& path, std::string_view content) {
  std::string whole = cat(path, ".", ::getpid(), ".new");
  Status written = write_file_atomic(whole, as_bytes(content));
  if (!written.ok()) {
    Error error = written.error();
    size_t at = error.message.find(whole);
    if (at != std::string::npos) error.message.replace(at, whole.size(), path);
    return error;
  }
  // Unlike a renaming, a link never takes an existing file's place.
  int linked = ::link(whole.c_str(), path.c_str());
  int error = errno;
  ::unlink(whole.c_str());
  if (linked == 0) return {};
  if (error == EEXIST) {
    return invalid_input(cat(path, " exists; keys are not overwritten, choose another name"));
  }
  return invalid_input(cat("cannot create ", path, ": ", std::strerror(error)));
}

}  // namespace common
