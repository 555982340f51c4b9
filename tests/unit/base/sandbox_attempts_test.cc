// What a candidate might try against the worker that runs it, on a machine that refuses user
// namespaces and has no Yama: each attempt succeeds for a process of the same user that is not
// confined, and fails for one that is.
//
// Three processes of this binary: the test; a worker, of a user without rights, which keeps a
// secret in its memory and its files; and a candidate, which the worker starts and which makes one
// attempt.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/sanitized.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/system_call_filter.h"

namespace common {
namespace {

constexpr const char* kWorkerFlag = "--worker";
constexpr const char* kCandidateFlag = "--candidate";
constexpr int kPatienceMs = 60'000;
constexpr uid_t kNobody = 65534;
constexpr uint64_t kSecret = 0x5ec2e7'5ec2e7'5ec2;

// Of the worker, for the candidate to aim at.
struct Aim {
  pid_t worker = 0;
  uintptr_t secret = 0;  // the address of kSecret
  int key_fd = -1;       // open on the key
  std::string state;     // its directory: `key`, and `kernels/kernel.so`
  int tcp_port = 0, udp_port = 0;
  std::string socket_name;  // of an abstract Unix socket
  std::string own;          // the candidate's directory

  std::string proc(const std::string& name) const { return cat("/proc/", worker, "/", name); }
  std::string key() const { return state + "/key"; }
  std::string kernel() const { return state + "/kernels/kernel.so"; }
};

std::ostream& operator<<(std::ostream& out, const Aim& aim) {
  return out << aim.worker << ' ' << aim.secret << ' ' << aim.key_fd << ' ' << aim.state << ' '
             << aim.tcp_port << ' ' << aim.udp_port << ' ' << aim.socket_name << ' ' << aim.own;
}
std::istream& operator>>(std::istream& in, Aim& aim) {
  return in >> aim.worker >> aim.secret >> aim.key_fd >> aim.state >> aim.tcp_port >>
         aim.udp_port >> aim.socket_name >> aim.own;
}

bool reads(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY);
  char byte;
  bool read = fd >= 0 && ::read(fd, &byte, 1) == 1;
  if (fd >= 0) ::close(fd);
  return read;
}
bool writes(const std::string& path, int flags = O_WRONLY) {
  int fd = ::open(path.c_str(), flags, 0600);
  bool wrote = fd >= 0 && ::write(fd, "x", 1) == 1;
  if (fd >= 0) ::close(fd);
  return wrote;
}
bool read_memory(const Aim& aim, const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY);
  uint64_t found = 0;
  bool read = fd >= 0 && ::pread(fd, &found, 8, static_cast<off_t>(aim.secret)) == 8;
  return read && found == kSecret;
}
bool write_memory(const Aim& aim) {
  int fd = ::open(aim.proc("mem").c_str(), O_RDWR);
  uint64_t same = kSecret;
  return fd >= 0 && ::pwrite(fd, &same, 8, static_cast<off_t>(aim.secret)) == 8;
}
bool copy_memory(const Aim& aim, long call) {
  uint64_t word = kSecret;
  iovec own{&word, 8}, other{reinterpret_cast<void*>(aim.secret), 8};
  return ::syscall(call, aim.worker, &own, 1, &other, 1, 0) == 8;
}
bool trace(const Aim& aim) {
  if (::ptrace(PTRACE_SEIZE, aim.worker, nullptr, nullptr) != 0) return false;
  ::ptrace(PTRACE_DETACH, aim.worker, nullptr, nullptr);
  return true;
}
bool take_descriptor(const Aim& aim) {
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, aim.worker, 0));
  return pidfd >= 0 && ::syscall(SYS_pidfd_getfd, pidfd, aim.key_fd, 0) >= 0;
}
bool reopen_by_path_descriptor(const Aim& aim) {
  int fd = ::open(aim.key().c_str(), O_PATH);
  return fd >= 0 && reads(cat("/proc/self/fd/", fd));
}
bool connects(int type, int port) {
  int fd = ::socket(AF_INET, type, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return false;
  }
  return type != SOCK_DGRAM || ::send(fd, "x", 1, 0) == 1;
}
bool connects_locally(const std::string& name) {
  int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0;
}
bool listens() {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  return fd >= 0 && ::listen(fd, 1) == 0;
}
bool makes_ring() {
  io_uring_params params{};
  return ::syscall(SYS_io_uring_setup, 1, &params) >= 0;
}
// The kernel would signal the owner of a pipe that becomes readable.
bool signals_by_pipe(const Aim& aim) {
  int ends[2];
  return ::pipe2(ends, 0) == 0 && ::fcntl(ends[0], F_SETOWN, aim.worker) == 0;
}
bool limits(const Aim& aim) {
  rlimit limit{};
  if (::prlimit(aim.worker, RLIMIT_CORE, nullptr, &limit) != 0) return false;
  return ::prlimit(aim.worker, RLIMIT_CORE, &limit, nullptr) == 0;
}
bool moves(const Aim& aim) {
  cpu_set_t set;
  if (::sched_getaffinity(aim.worker, sizeof set, &set) != 0) return false;
  return ::sched_setaffinity(aim.worker, sizeof set, &set) == 0;
}
bool starts_a_program() {
  pid_t pid = ::fork();
  if (pid < 0) return false;
  if (pid == 0) {
    ::execl("/bin/true", "true", nullptr);
    ::_exit(127);
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && status == 0;
}
bool shares_memory() {
  int id = ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  if (id >= 0) ::shmctl(id, IPC_RMID, nullptr);
  return id >= 0;
}

struct Attempt {
  const char* name;
  bool (*succeeds)(const Aim& aim);
  // False for what a machine may refuse to everybody.
  bool works_unconfined = true;
};

// clang-format off
const Attempt kAttempts[] = {
    {"ReadMemory", [](const Aim& a) { return read_memory(a, a.proc("mem")); }},
    {"ReadMemoryOfThread", [](const Aim& a) { return read_memory(a, a.proc(cat("task/", a.worker, "/mem"))); }},
    {"WriteMemory", write_memory},
    {"CopyMemoryFrom", [](const Aim& a) { return copy_memory(a, SYS_process_vm_readv); }},
    {"CopyMemoryTo", [](const Aim& a) { return copy_memory(a, SYS_process_vm_writev); }},
    {"Trace", trace},
    {"ReadLayoutOfMemory", [](const Aim& a) { return reads(a.proc("maps")); }},
    {"ReadEnvironment", [](const Aim& a) { return reads(a.proc("environ")); }},
    {"ReadAuxiliaryVector", [](const Aim& a) { return reads(a.proc("auxv")); }},
    {"TakeDescriptor", take_descriptor},
    {"ReopenDescriptor", [](const Aim& a) { return reads(a.proc(cat("fd/", a.key_fd))); }},
    {"ReadKey", [](const Aim& a) { return reads(a.key()); }},
    {"ReadKeyByRoot", [](const Aim& a) { return reads(a.proc("root") + a.key()); }},
    {"ReadKeyByWorkingDirectory", [](const Aim& a) { return reads(a.proc("cwd/key")); }},
    {"ReadKeyByPathDescriptor", reopen_by_path_descriptor},
    {"ReadKeyBySymbolicLink", [](const Aim& a) {
       std::string link = a.own + "/link";
       return ::symlink(a.key().c_str(), link.c_str()) == 0 && reads(link); }},
    {"LinkKey", [](const Aim& a) { return ::link(a.key().c_str(), (a.own + "/hard").c_str()) == 0; }},
    {"RenameKernel", [](const Aim& a) { return ::rename(a.kernel().c_str(), (a.own + "/moved").c_str()) == 0; }},
    {"RemoveKernel", [](const Aim& a) { return ::unlink(a.kernel().c_str()) == 0; }},
    {"OverwriteKernel", [](const Aim& a) { return writes(a.kernel()); }},
    {"TruncateKernel", [](const Aim& a) { return ::truncate(a.kernel().c_str(), 0) == 0; }},
    {"AddKernel", [](const Aim& a) { return writes(a.state + "/kernels/new.so", O_WRONLY | O_CREAT); }},
    {"ListState", [](const Aim& a) { return ::open(a.state.c_str(), O_RDONLY | O_DIRECTORY) >= 0; }},
    {"MakeDirectory", [](const Aim& a) { return ::mkdir((a.state + "/made").c_str(), 0700) == 0; }},
    {"ChangeMode", [](const Aim& a) { return ::chmod(a.key().c_str(), 0644) == 0; }},
    {"Signal", [](const Aim& a) { return ::kill(a.worker, SIGCONT) == 0; }},
    {"SignalByPipe", signals_by_pipe},
    {"Limit", limits},
    {"MoveToProcessor", moves},
    {"SetPriority", [](const Aim& a) { return ::setpriority(PRIO_PROCESS, static_cast<id_t>(a.worker), 5) == 0; }},
    {"StartProgram", [](const Aim&) { return starts_a_program(); }},
    {"ShareMemory", [](const Aim&) { return shares_memory(); }},
    {"ConnectTcp", [](const Aim& a) { return connects(SOCK_STREAM, a.tcp_port); }},
    {"SendUdp", [](const Aim& a) { return connects(SOCK_DGRAM, a.udp_port); }},
    {"ConnectAbstractUnix", [](const Aim& a) { return connects_locally(a.socket_name); }},
    {"Listen", [](const Aim&) { return listens(); }},
    {"SpeakNetlink", [](const Aim&) { return ::socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }},
    {"Ring", [](const Aim&) { return makes_ring(); }, false},
    {"Mount", [](const Aim&) { return ::mount("none", "/mnt", "tmpfs", 0, nullptr) == 0; }, false},
    {"Namespace", [](const Aim&) { return ::unshare(CLONE_NEWUSER) == 0; }, false},
};
// clang-format on

int run_candidate(const std::string& name, bool confined) {
  Aim aim;
  std::cin >> aim;
  if (confined && !become_lone_process().ok()) return 3;
  for (const Attempt& attempt : kAttempts) {
    if (name == attempt.name) std::_Exit(attempt.succeeds(aim) ? 1 : 0);
  }
  return 2;
}

// As containers' standard filters do.
bool refuse_namespaces() {
  sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_unshare},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         install_filter({std::begin(filter), std::end(filter)}) == 0;
}

int bound_socket(int type, int& port) {
  int fd = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) return -1;
  if (type == SOCK_STREAM && ::listen(fd, 4) != 0) return -1;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  port = ntohs(address.sin_port);
  return fd;
}

std::string listen_locally() {
  std::string name = cat("lfarm-attempts-", ::getpid());
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  bool listening =
      ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(fd, 4) == 0;
  return listening ? name : "none";
}

// Prints what the candidate came to: "refused", "succeeded", or what went wrong.
int run_worker(const std::string& attempt, bool confined, const std::string& directory) {
  if (::geteuid() == 0) {
    bool left = ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                ::setresuid(kNobody, kNobody, kNobody) == 0;
    if (!left) return 3;
  }
  if (!refuse_namespaces()) return 3;
  ::prctl(PR_SET_DUMPABLE, 1);  // which leaving root's rights took away
  if (confined) hide_memory();
  static volatile uint64_t secret = kSecret;
  Aim aim;
  aim.worker = ::getpid();
  aim.secret = reinterpret_cast<uintptr_t>(&secret);
  aim.state = directory + "/state";
  aim.own = directory + "/own";
  std::filesystem::create_directories(aim.state + "/kernels");
  std::filesystem::create_directories(aim.own);
  std::ofstream(aim.key()) << "key";
  std::ofstream(aim.kernel()) << "kernel";
  ::chmod(aim.key().c_str(), 0600);
  if (::chdir(aim.state.c_str()) != 0) return 3;
  aim.key_fd = ::open(aim.key().c_str(), O_RDONLY | O_CLOEXEC);
  int tcp = bound_socket(SOCK_STREAM, aim.tcp_port), udp = bound_socket(SOCK_DGRAM, aim.udp_port);
  if (tcp < 0 || udp < 0) return 3;
  aim.socket_name = listen_locally();

  std::stringstream text;
  text << aim << "\n";
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return 3;
  (void)!::write(pipe_fds[1], text.str().data(), text.str().size());
  ::close(pipe_fds[1]);
  auto sandbox = confined ? Sandbox::find(SandboxProfile::kComputing) : nullptr;
  SpawnOptions options;
  options.arguments = {"/proc/self/exe", kCandidateFlag, attempt, confined ? "1" : "0"};
  options.stdin_fd = pipe_fds[0];
  auto output = run_confined(std::move(options), sandbox.get(), aim.own, kPatienceMs);
  std::string said = !output.ok()                 ? output.error().message
                     : output->status.signal != 0 ? cat("died of ", output->status.signal)
                     : output->status.code == 0   ? "refused"
                     : output->status.code == 1
                         ? "succeeded"
                         : cat("ended with ", output->status.code, ": ", output->output);
  if (sandbox != nullptr && said == "succeeded") said += "; " + sandbox->describe();
  std::cout << said << std::flush;
  std::_Exit(0);
}

class SandboxAttempts : public testing::TestWithParam<Attempt> {
 protected:
  static std::string outcome(bool confined) {
    auto scratch = ScratchDirectory::create("lfarm-attempts").value();
    std::filesystem::permissions(scratch.path(), std::filesystem::perms::all);
    SpawnOptions options;
    options.arguments = {"/proc/self/exe", kWorkerFlag, GetParam().name, confined ? "1" : "0",
                         scratch.path()};
    auto output = run_command(std::move(options), kPatienceMs);
    if (!output.ok()) return output.error().message;
    return output->status.code == 0 ? output->output : cat("worker: ", output->status.code);
  }
};

TEST_P(SandboxAttempts, SucceedsForNobodyConfined) {
  if (FileRules::version() == 0) GTEST_SKIP() << "no Landlock here";
  if (kSanitized) GTEST_SKIP() << "a sanitizer opens files of its own";
  if (GetParam().works_unconfined) {
    EXPECT_EQ(outcome(false), "succeeded") << "the attempt itself is wrong";
  }
  EXPECT_EQ(outcome(true), "refused");
}

INSTANTIATE_TEST_SUITE_P(Each, SandboxAttempts, testing::ValuesIn(kAttempts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace common

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], common::kCandidateFlag) == 0) {
    return common::run_candidate(argv[2], argv[3][0] == '1');
  }
  if (argc == 5 && std::strcmp(argv[1], common::kWorkerFlag) == 0) {
    return common::run_worker(argv[2], argv[3][0] == '1', argv[4]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
