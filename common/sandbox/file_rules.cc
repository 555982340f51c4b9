#include "common/sandbox/file_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace common {
namespace {

// Newer than the header of the oldest system that this is built on.
constexpr uint64_t kTruncate = uint64_t{1} << 14;       // version 3
constexpr uint64_t kControlDevice = uint64_t{1} << 15;  // version 5
struct RulesetAttributes {
  uint64_t files = 0;
  uint64_t net = 0;     // version 4
  uint64_t scoped = 0;  // version 6
};
constexpr uint64_t kTcp = 3;                     // bind and connect
constexpr uint64_t kSignalsAndAbstractUnix = 3;  // to those under the same rules only

constexpr uint64_t kReading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                              LANDLOCK_ACCESS_FS_READ_FILE | kTruncate | kControlDevice;
constexpr uint64_t kFirstVersion = (uint64_t{1} << 13) - 1;

uint64_t bits(FileAccess access) {
  switch (access) {
    case FileAccess::kRead:
      return kReading;
    case FileAccess::kRun:
      return kReading | LANDLOCK_ACCESS_FS_EXECUTE;
    case FileAccess::kWrite:
      return (kFirstVersion & ~LANDLOCK_ACCESS_FS_EXECUTE & ~LANDLOCK_ACCESS_FS_MAKE_CHAR &
              ~LANDLOCK_ACCESS_FS_MAKE_BLOCK) |
             LANDLOCK_ACCESS_FS_REFER | kTruncate;
    case FileAccess::kDevices:
      return kReading | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kControlDevice;
  }
  return 0;
}

// What the kernel of this version can refuse.
uint64_t known_to(int version) {
  uint64_t known = kFirstVersion;
  if (version >= 2) known |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) known |= kTruncate;
  if (version >= 5) known |= kControlDevice;
  return known;
}

size_t attributes_size(int version) {
  if (version >= 6) return sizeof(RulesetAttributes);
  return version >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

SetupFailure add_rule(int ruleset, int fd, uint64_t access) {
  landlock_path_beneath_attr attributes{};
  attributes.allowed_access = access;
  attributes.parent_fd = fd;
  long added =
      ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attributes, 0);
  return added == 0 ? SetupFailure{} : SetupFailure{errno, "landlock_add_rule"};
}

int note_directory(dl_phdr_info* info, size_t, void* rules) {
  std::string_view name = info->dlpi_name;
  size_t slash = name.rfind('/');
  if (slash != std::string_view::npos && slash != 0) {
    static_cast<FileRules*>(rules)->allow(std::string(name.substr(0, slash)), FileAccess::kRun);
  }
  return 0;
}

// Each of the parts of a list that is divided by colons.
template <class F>
void for_each_part(const char* list, F&& body) {
  std::string_view left = list == nullptr ? "" : list;
  while (!left.empty()) {
    size_t end = std::min(left.find(':'), left.size());
    if (end != 0) body(std::string(left.substr(0, end)));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

std::string found_in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  std::string found = program;
  for_each_part(std::getenv("PATH"), [&](const std::string& directory) {
    std::string path = directory + "/" + program;
    if (found == program && ::access(path.c_str(), X_OK) == 0) found = path;
  });
  return found;
}

}  // namespace

int FileRules::version() {
  static const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

FileRules::~FileRules() {
  for (const Rule& rule : rules_) ::close(rule.fd);
}

void FileRules::allow(const std::string& path, FileAccess access) {
  int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {};
  bool is_directory = ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  rules_.push_back({fd, is_directory ? bits(access) : bits(access) & kOfFiles});
}

void FileRules::allow_program(const std::string& program) {
  std::string found = found_in_path(program);
  allow(found, FileAccess::kRun);
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(found, error);
  if (error) return;
  if (path.parent_path().filename() != "bin") return;
  std::filesystem::path prefix = path.parent_path().parent_path();
  for (const char* beside : {"lib", "lib64", "libexec", "include"}) {
    allow(prefix / beside, FileAccess::kRun);
  }
}

SetupFailure FileRules::add_to(int ruleset, uint64_t handled) const {
  for (const Rule& rule : rules_) {
    SetupFailure failure = add_rule(ruleset, rule.fd, rule.access & handled);
    if (failure.error != 0) return failure;
  }
  return {};
}

SetupFailure FileRules::enforce(const FileRules& more, const char* directory) const {
  RulesetAttributes attributes{known_to(version()), kTcp, kSignalsAndAbstractUnix};
  int ruleset = static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, attributes_size(version()), 0));
  if (ruleset < 0) return {errno, "landlock_create_ruleset"};
  SetupFailure failure = add_to(ruleset, attributes.files);
  if (failure.error == 0) failure = more.add_to(ruleset, attributes.files);
  if (failure.error == 0 && directory != nullptr) {
    int fd = ::open(directory, O_PATH | O_CLOEXEC);
    failure = add_rule(ruleset, fd, bits(FileAccess::kWrite) & attributes.files);
    ::close(fd);
  }
  if (failure.error == 0 && ::syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
    failure = {errno, "landlock_restrict_self"};
  }
  ::close(ruleset);
  return failure;
}

FileRules rules_for_programs() {
  FileRules rules;
  for (const char* tree : {"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt"}) {
    rules.allow(tree, FileAccess::kRun);
  }
  for_each_part(std::getenv("LD_LIBRARY_PATH"),
                [&](const std::string& path) { rules.allow(path, FileAccess::kRun); });
  ::dl_iterate_phdr(note_directory, &rules);
  // Of /proc what tells of other processes is refused by the same rules.
  for (const char* machine : {"/proc", "/sys/devices", "/sys/fs/cgroup", "/etc/ld.so.cache",
                              "/etc/localtime", "/etc/os-release", "/etc/debian_version",
                              "/etc/ssl/openssl.cnf", "/dev/urandom", "/dev/random", "/dev/zero"}) {
    rules.allow(machine, FileAccess::kRead);
  }
  rules.allow("/dev/null", FileAccess::kDevices);
  return rules;
}

FileRules rules_for_compilers() {
  FileRules rules = rules_for_programs();
  for_each_part(std::getenv("LFARM_CC_WRITES"),
                [&](const std::string& path) { rules.allow(path, FileAccess::kWrite); });
  return rules;
}

FileRules rules_for_drivers() {
  FileRules rules = rules_for_programs();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    std::string name = entry.path().filename();
    bool is_gpu = name.rfind("nvidia", 0) == 0 || name == "dri" || name == "dxg";
    if (is_gpu) rules.allow(entry.path(), FileAccess::kDevices);
  }
  // Semaphores and memory that its processes share, and the daemon of multi-process service.
  rules.allow("/dev/shm", FileAccess::kWrite);
  rules.allow("/tmp/nvidia-mps", FileAccess::kWrite);
  for (const char* path : {"/sys", "/run/nvidia-persistenced", "/etc/nvidia", "/etc/vulkan"}) {
    rules.allow(path, FileAccess::kRead);
  }
  return rules;
}

}  // namespace common
