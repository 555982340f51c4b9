#include "common/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/sanitized.h"

namespace common {
namespace {

constexpr const char* kNames[] = {
    "memory victim",     "user namespace", "network namespace", "private temporary directory",
    "read-only files",   "few processes",  "no capabilities",   "file rules",
    "system call filter"};
constexpr const char* kEffects[] = {
    "when memory runs out, the kernel ends such a child before anything else",
    "a child is nobody to the rest of the machine",
    "a child has no network, not even loopback",
    "a child's temporary files are seen by nobody and end with it",
    "a child writes to no file but its temporary ones",
    "a child and what it starts are at most 1024 processes and threads",
    "a child has no rights beyond its user's, and gets none from programs it starts",
    "a child opens only programs, libraries, what describes the machine and its own directory, and "
    "looks into no other process",
    "the kernel refuses sockets, mounts, tracing, signals to others and more"};

// A file that a child writes: an object of the largest programs takes 64 MiB.
constexpr rlim_t kFileBytesMax = rlim_t{1} << 30;
constexpr rlim_t kProcessesMax = 1024;
// Compilers keep a few dozen KiB there, candidates nothing.
constexpr const char* kTemporaryOptions = "size=256m,mode=0700";
constexpr std::string_view kMostKillable = "1000";

// 0 or an errno. Async-signal-safe, as all that follow.
int write_text(const char* path, std::string_view text) {
  int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  ssize_t written = ::write(fd, text.data(), text.size());
  int error = written < 0 ? errno : 0;
  ::close(fd);
  return error;
}

void lower_limit(int resource, rlim_t to) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, to);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

int drop_capabilities() {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  // Only who has a right to do so may; who has none has nothing to take away.
  for (unsigned long k = 0; ::prctl(PR_CAPBSET_READ, k, 0, 0, 0) >= 0; ++k) {
    if (::prctl(PR_CAPBSET_DROP, k, 0, 0, 0) != 0) break;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capset, &header, none) == 0 ? 0 : errno;
}

// A new file system over the directory, in a file-system namespace of the caller's own.
int mount_private(const char* directory) {
  // What is mounted from here on stays here.
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return errno;
  unsigned long flags = MS_NOSUID | MS_NODEV;
  return ::mount("tmpfs", directory, "tmpfs", flags, kTemporaryOptions) == 0 ? 0 : errno;
}

// All that is mounted, but for the file system over the directory. mount_setattr: Linux 5.12.
int forbid_writing(const char* directory) {
  mount_attr forbid{}, permit{};
  forbid.attr_set = permit.attr_clr = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &forbid, sizeof forbid) != 0) return errno;
  return ::mount_setattr(AT_FDCWD, directory, 0, &permit, sizeof permit) == 0 ? 0 : errno;
}

// Since 5.14 a limit of processes counts those of a user namespace, before all of the user's.
bool counts_processes_by_namespace() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0) return false;
  if (std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 14);
}

}  // namespace

Sandbox::Entrance::Entrance(const Sandbox& sandbox, std::string directory,
                            const std::string& program)
    : sandbox_(sandbox),
      directory_(std::move(directory)),
      user_map_(cat(::geteuid(), " ", ::geteuid(), " 1\n")),
      group_map_(cat(::getegid(), " ", ::getegid(), " 1\n")) {
  if (!sandbox_.on_[kFileRules]) return;
  own_files_.allow_program(program);
  // One of its own is only there when the child has mounted it.
  if (!sandbox_.on_[kPrivateTemporary]) own_files_.allow(directory_, FileAccess::kWrite);
}

SetupFailure Sandbox::Entrance::enter() const {
  const bool* on = sandbox_.on_;
  // Files of /proc/self belong to root where a process hides its memory, as workers do. Others that
  // run code nobody has looked at are kept from this copy of it by their file rules.
  ::prctl(PR_SET_DUMPABLE, 1);
  int error = 0;
  auto failed = [&](int result) { return (error = result) != 0; };
  if (on[kMemoryVictim] && failed(write_text("/proc/self/oom_score_adj", kMostKillable))) {
    return {error, "writing /proc/self/oom_score_adj"};
  }
  int namespaces = (on[kUserNamespace] ? CLONE_NEWUSER : 0) |
                   (on[kNetworkNamespace] ? CLONE_NEWNET : 0) |
                   (on[kPrivateTemporary] ? CLONE_NEWNS : 0);
  if (namespaces != 0 && ::unshare(namespaces) != 0) return {errno, "unshare"};
  if (on[kUserNamespace]) {
    // A kernel without this file asks for nothing before the map of groups.
    error = write_text("/proc/self/setgroups", "deny");
    if (error != 0 && error != ENOENT) return {error, "writing /proc/self/setgroups"};
    if (failed(write_text("/proc/self/uid_map", user_map_))) {
      return {error, "writing /proc/self/uid_map"};
    }
    if (failed(write_text("/proc/self/gid_map", group_map_))) {
      return {error, "writing /proc/self/gid_map"};
    }
  }
  if (on[kPrivateTemporary] && failed(mount_private(directory_.c_str()))) {
    return {error, "mounting a temporary file system"};
  }
  if (on[kReadOnlyFiles] && failed(forbid_writing(directory_.c_str()))) {
    return {error, "mount_setattr"};
  }
  lower_limit(RLIMIT_CORE, 0);
  // Drivers set up files of any size that never reach a disk.
  if (sandbox_.profile_ != SandboxProfile::kDevice) lower_limit(RLIMIT_FSIZE, kFileBytesMax);
  if (on[kFewProcesses]) lower_limit(RLIMIT_NPROC, kProcessesMax);
  if (on[kNoCapabilities]) {
    if (failed(drop_capabilities())) return {error, "capset"};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return {errno, "PR_SET_NO_NEW_PRIVS"};
  }
  if (on[kFileRules]) {
    const char* mounted = on[kPrivateTemporary] ? directory_.c_str() : nullptr;
    SetupFailure failure = sandbox_.files_.enforce(own_files_, mounted);
    if (failure.error != 0) return failure;
  }
  if (on[kFilter] && failed(install_filter(sandbox_.filter_))) return {error, "PR_SET_SECCOMP"};
  return {};
}

Sandbox::Sandbox(SandboxProfile profile, const SandboxFiles& files)
    : profile_(profile),
      by_rules_(files.by_rules),
      files_(profile == SandboxProfile::kDevice      ? rules_for_drivers()
             : profile == SandboxProfile::kCompiling ? rules_for_compilers()
                                                     : rules_for_programs()) {
  for (const std::string& path : files.readable) files_.allow(path, FileAccess::kRead);
  for (const std::string& path : files.writable) files_.allow(path, FileAccess::kWrite);
  SystemCallRules rules;
  rules.unix_sockets = rules.shared_ipc = profile == SandboxProfile::kDevice;
  filter_ = system_call_filter(rules);
  std::string why[kSteps];
  // Where all of them work together there is no need to try each.
  for (bool one_by_one : {false, true}) {
    std::fill(std::begin(on_), std::end(on_), false);
    for (int step = 0; step < kSteps; ++step) {
      if (!wants(static_cast<Step>(step))) continue;
      why[step] = known_obstacle(static_cast<Step>(step));
      on_[step] = why[step].empty();
      if (on_[step] && one_by_one) why[step] = attempt();
      on_[step] = why[step].empty();
    }
    if (attempt().empty()) break;
  }
  for (int step = 0; step < kSteps; ++step) {
    if (!wants(static_cast<Step>(step))) continue;
    measures_.push_back({kNames[step], on_[step], on_[step] ? kEffects[step] : why[step]});
  }
}

std::shared_ptr<const Sandbox> Sandbox::find(SandboxProfile profile, const SandboxFiles& files) {
  return std::shared_ptr<const Sandbox>(new Sandbox(profile, files));
}

bool Sandbox::wants(Step step) const {
  if (step == kFileRules && !by_rules_) return false;
  switch (profile_) {
    case SandboxProfile::kComputing:
      return true;
    case SandboxProfile::kDevice:  // a driver finds its files where they are
      return step != kPrivateTemporary && step != kReadOnlyFiles && step != kFewProcesses;
    case SandboxProfile::kCompiling:
      // Its files are to be seen. A namespace for each of many short runs would cost 1 ms of 30,
      // and the filter keeps it from making a socket anyway.
      return step != kPrivateTemporary && step != kReadOnlyFiles && step != kNetworkNamespace;
  }
  return false;
}

std::string Sandbox::known_obstacle(Step step) const {
  if (step == kReadOnlyFiles && !on_[kPrivateTemporary]) {
    return "a child without a file system of its own has to write somewhere";
  }
  if (step == kFewProcesses) {
    if (::geteuid() == 0) return "the kernel does not count root's processes";
    if (!on_[kUserNamespace]) return "all processes of the user would count";
    if (!counts_processes_by_namespace()) return "needs Linux 5.14";
  }
  if (step == kFileRules) {
    if (FileRules::version() == 0) return "the kernel has no Landlock, or it is not switched on";
    if (!on_[kNoCapabilities]) return "needs PR_SET_NO_NEW_PRIVS";
  }
  if (step == kFilter && !on_[kNoCapabilities]) return "needs PR_SET_NO_NEW_PRIVS";
  return "";
}

std::string Sandbox::attempt() const {
  auto directory = ScratchDirectory::create("lfarm-sandbox");
  if (!directory.ok()) return directory.error().message;
  Entrance tried = entrance(directory->path(), "/proc/self/exe");
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return std::strerror(errno);
  pid_t pid = ::fork();
  if (pid == 0) {
    SetupFailure failure = tried.enter();
    (void)!::write(report[1], &failure, sizeof failure);
    ::_exit(0);
  }
  ::close(report[1]);
  SetupFailure failure{EAGAIN, "fork"};
  // A child that a filter ended, or that never was, has written nothing.
  if (pid > 0 && ::read(report[0], &failure, sizeof failure) != sizeof failure) {
    failure = {EPERM, "a child ended early"};
  }
  ::close(report[0]);
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  return failure.error == 0 ? "" : cat(failure.what, ": ", std::strerror(failure.error));
}

std::string Sandbox::describe() const {
  std::string on, off;
  for (const SandboxMeasure& measure : measures_) {
    std::string& list = measure.on ? on : off;
    list += cat(list.empty() ? "" : ", ", measure.name);
    if (!measure.on) list += cat(" (", measure.what, ")");
  }
  if (on.empty()) on = "nothing";
  return off.empty() ? cat("on: ", on) : cat("on: ", on, "; not here: ", off);
}

Result<Subprocess> start_confined(SpawnOptions options, const Sandbox* sandbox,
                                  const std::string& temporary) {
  options.environment.push_back("TMPDIR=" + temporary);
  if (sandbox == nullptr) return Subprocess::start(options);
  Sandbox::Entrance entrance = sandbox->entrance(temporary, options.arguments.front());
  options.setup = &entrance;
  return Subprocess::start(options);
}

Result<CommandOutput> run_confined(SpawnOptions options, const Sandbox* sandbox,
                                   const std::string& temporary, int timeout_ms) {
  options.environment.push_back("TMPDIR=" + temporary);
  if (sandbox == nullptr) return run_command(std::move(options), timeout_ms);
  Sandbox::Entrance entrance = sandbox->entrance(temporary, options.arguments.front());
  options.setup = &entrance;
  return run_command(std::move(options), timeout_ms);
}

Status become_lone_process() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return internal_error(cat("PR_SET_NO_NEW_PRIVS: ", std::strerror(errno)));
  }
  int error = install_filter(lone_process_filter(::getpid()));
  if (error == 0) return {};
  return internal_error(cat("PR_SET_SECCOMP: ", std::strerror(error)));
}

void hide_memory() {
  if (!kSanitized) ::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace common
