#include "clients/cli/access/farm_keys.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

// One process at a time in a directory, without a file of its own for it.
class DirectoryLock {
 public:
  static Result<DirectoryLock> take(const std::string& directory) {
    int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || ::flock(fd, LOCK_EX) != 0) {
      int error = errno;
      if (fd >= 0) ::close(fd);
      return common::invalid_input(cat("cannot lock ", directory, ": ", std::strerror(error)));
    }
    return DirectoryLock(fd);
  }
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

Result<common::AllowList> parse_file(const std::string& path, const std::string& text) {
  auto list = common::AllowList::parse(text);
  if (list.ok()) return list;
  return common::invalid_input(cat(path, ": ", list.error().message));
}

// Whether the line's first words are those of `begin`.
bool begins_with(const std::string& line, const std::string& begin) {
  std::istringstream words(line), wanted(begin);
  std::string word, want;
  while (wanted >> want) {
    if (!(words >> word) || word != want) return false;
  }
  return true;
}

}  // namespace

Result<common::AllowList> AllowFile::read() const {
  if (!common::file_exists(path_)) return common::AllowList();
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path_, common::kAllowFileBytesMax));
  return parse_file(path_, text);
}

// Puts the line in the place of those that begin so, or at the end; an empty one removes them.
Status AllowFile::rewrite(const std::string& begin, const std::string& line) const {
  std::string directory = std::filesystem::absolute(path_).parent_path().string();
  LFARM_RETURN_IF_ERROR(common::make_directories(directory));
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] DirectoryLock lock, DirectoryLock::take(directory));
  std::string before;
  if (common::file_exists(path_)) {
    LFARM_ASSIGN_OR_RETURN(before, common::read_file(path_, common::kAllowFileBytesMax));
  }
  LFARM_ASSIGN_OR_RETURN(common::AllowList list, parse_file(path_, before));
  if (line.empty() && list.find(begin) == nullptr) {
    return common::invalid_input(cat("key ", begin, " is not in ", path_));
  }
  std::string after, old;
  std::istringstream lines(before);
  bool is_written = line.empty();
  while (std::getline(lines, old)) {
    if (!begins_with(old, begin)) {
      after += cat(old, '\n');
    } else if (!is_written) {
      after += line;
      is_written = true;
    }
  }
  if (!is_written) after += line;
  if (after == before) return {};
  return common::write_file_atomic(path_, common::as_bytes(after));
}

Status AllowFile::grant(const std::string& public_key, const common::Principal& principal) const {
  return rewrite(public_key, cat(public_key, ' ', principal.tenant, ' ',
                                 common::roles_text(principal.roles), '\n'));
}

Status AllowFile::set_policy(const std::string& tenant, const common::TenantPolicy& policy) const {
  std::string begin = cat("tenant ", tenant);
  return rewrite(begin, cat(begin, ' ', common::policy_text(policy), '\n'));
}

Status AllowFile::revoke(const std::string& public_key) const { return rewrite(public_key, ""); }

Result<std::string> find_public_key(const std::string& text) {
  if (common::file_exists(text)) {
    LFARM_ASSIGN_OR_RETURN(common::KeyPair keys, common::load_key_pair(text));
    return keys.public_key;
  }
  if (common::check_curve_key(text, "it").ok()) return text;
  return common::invalid_input(
      cat("'", text,
          "' is neither a public key of 40 characters nor a key file; 'lfarm keys new "
          "FILE' makes one"));
}

namespace {

// Lets the key in unless it is on the list already, whatever it may do there.
Status grant_at_first(const AllowFile& file, const common::AllowList& allowed,
                      const common::KeyPair& keys, std::string_view roles) {
  if (allowed.find(keys.public_key) != nullptr) return {};
  return file.grant(keys.public_key,
                    {std::string(common::kLocalTenant), *common::parse_roles(std::string(roles))});
}

}  // namespace

Status prepare_worker_keys(const StateDirectory& state, int64_t count) {
  LFARM_RETURN_IF_ERROR(common::make_directories(state.worker_keys()));
  AllowFile file(state.allow_file());
  LFARM_ASSIGN_OR_RETURN(common::AllowList allowed, file.read());
  for (int64_t k = 0; k < count; ++k) {
    std::string path = cat(state.worker_keys(), "/", k, ".key");
    LFARM_ASSIGN_OR_RETURN(common::KeyPair keys, common::load_or_create_key_pair(path));
    LFARM_RETURN_IF_ERROR(grant_at_first(file, allowed, keys, "worker"));
  }
  return {};
}

Result<std::string> prepare_farm_keys(const StateDirectory& state) {
  LFARM_RETURN_IF_ERROR(state.make());
  LFARM_ASSIGN_OR_RETURN(common::KeyPair farm, common::load_or_create_key_pair(state.farm_key()));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair worker,
                         common::load_or_create_key_pair(state.worker_key()));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair client,
                         common::load_or_create_key_pair(state.client_keys()));
  AllowFile file(state.allow_file());
  LFARM_ASSIGN_OR_RETURN(common::AllowList allowed, file.read());
  LFARM_RETURN_IF_ERROR(grant_at_first(file, allowed, worker, "worker"));
  LFARM_RETURN_IF_ERROR(grant_at_first(file, allowed, client, "submit,read,admin"));
  return farm.public_key;
}

}  // namespace clients
