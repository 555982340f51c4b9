#include "common/sandbox/system_call_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace common {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "name the architecture that the kernel gives to filters (linux/audit.h)"
#endif

// Long because it is a table: what no compiler and no kernel of a plan needs.
constexpr uint32_t kRefused[] = {
    // other processes
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    // the file system's form
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_fanotify_init,
    // namespaces
    SYS_unshare,
    SYS_setns,
    SYS_sethostname,
    SYS_setdomainname,
    // the kernel itself
    SYS_bpf,
    SYS_perf_event_open,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_syslog,
    SYS_userfaultfd,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    // keys
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    // would make sockets without asking this filter
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
#if defined(__x86_64__)
    SYS_ioperm,
    SYS_iopl,
    SYS_modify_ldt,
    SYS_uselib,
#endif
};

constexpr uint32_t kSharedIpc[] = {SYS_shmget, SYS_shmat,  SYS_semget,
                                   SYS_msgget, SYS_msgsnd, SYS_mq_open};

// Long because it is a table: what computing, loading objects, threads and the C library ask for.
// Newer calls for the same are left to their fallbacks.
constexpr uint32_t kComputing[] = {
    // memory
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_mincore,
    SYS_mlock,
    SYS_munlock,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_memfd_create,
    SYS_membarrier,
    // threads, and what libraries of threads ask about processors
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_getcpu,
    SYS_prctl,
    SYS_exit,
    SYS_exit_group,
    // signals of its own
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_restart_syscall,
    // time
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_times,
    // itself and the machine
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrusage,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    // descriptors and files; which files is the mounts' to say
    SYS_read,
    SYS_write,
    SYS_sendto,  // to its worker: it can make no sockets
    SYS_recvfrom,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_openat,
    SYS_close,
    SYS_fcntl,
    SYS_flock,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_eventfd2,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_renameat,
#if defined(__x86_64__)
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_unlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_rename,
    SYS_poll,
    SYS_select,
    SYS_dup2,
    SYS_pipe,
    SYS_arch_prctl,
    SYS_time,
#endif
};

constexpr uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// Writes instructions in the order of their execution. Each test leaves the call's number in the
// accumulator for the next one.
class FilterWriter {
 public:
  FilterWriter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    finish(SECCOMP_RET_KILL_PROCESS);
    load_number();
#if defined(__x86_64__)
    constexpr uint32_t kX32 = 0x40000000;  // the same calls under other numbers
    add(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1);
    finish(error(EPERM));
#endif
  }

  void refuse(uint32_t call, int with = EPERM) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    finish(error(with));
  }
  void refuse(std::span<const uint32_t> calls) {
    for (uint32_t call : calls) refuse(call);
  }
  void allow(uint32_t call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    finish(SECCOMP_RET_ALLOW);
  }
  void allow(std::span<const uint32_t> calls) {
    for (uint32_t call : calls) allow(call);
  }
  void refuse_unless_equal(uint32_t call, unsigned argument, uint32_t value) {
    refuse_by_argument(call, argument, BPF_JEQ, value, false);
  }
  void refuse_if_equal(uint32_t call, unsigned argument, uint32_t value) {
    refuse_by_argument(call, argument, BPF_JEQ, value, true);
  }
  void refuse_if_any_bit(uint32_t call, unsigned argument, uint32_t bits) {
    refuse_by_argument(call, argument, BPF_JSET, bits, true);
  }
  void refuse_unless_any_bit(uint32_t call, unsigned argument, uint32_t bits) {
    refuse_by_argument(call, argument, BPF_JSET, bits, false);
  }

  std::vector<sock_filter> take() {
    finish(SECCOMP_RET_ALLOW);
    return std::move(out_);
  }
  // What no rule was about fails with this error.
  std::vector<sock_filter> take_refusing(int with) {
    finish(error(with));
    return std::move(out_);
  }

 private:
  // Refuses the call where the test of its argument comes out as `refused`. The low half alone
  // decides: the kernel takes these as 32 bits.
  void refuse_by_argument(uint32_t call, unsigned argument, int test, uint32_t value,
                          bool refused) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load(low_half(argument));
    add(BPF_JMP | test | BPF_K, value, refused ? 0 : 1, refused ? 1 : 0);
    finish(error(EPERM));
    load_number();
  }
  static uint32_t error(int number) {
    return SECCOMP_RET_ERRNO | (static_cast<uint32_t>(number) & SECCOMP_RET_DATA);
  }
  static uint32_t low_half(unsigned argument) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
  }
  void add(int code, uint32_t k, uint8_t if_true, uint8_t if_false) {
    out_.push_back({static_cast<uint16_t>(code), if_true, if_false, k});
  }
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  void finish(uint32_t verdict) { add(BPF_RET | BPF_K, verdict, 0, 0); }

  std::vector<sock_filter> out_;
};

}  // namespace

std::vector<sock_filter> system_call_filter(const SystemCallRules& rules) {
  FilterWriter w;
  w.refuse(kRefused);
  if (!rules.shared_ipc) w.refuse(kSharedIpc);
  if (rules.unix_sockets) {
    w.refuse_unless_equal(SYS_socket, 0, AF_UNIX);
  } else {
    w.refuse(SYS_socket);
  }
  w.refuse_unless_equal(SYS_socketpair, 0, AF_UNIX);
  w.refuse_if_any_bit(SYS_clone, 0, kNewNamespaces);
  w.refuse(SYS_clone3, ENOSYS);
  // Limits of itself only: another process can be made to end by its own.
  w.refuse_unless_equal(SYS_prlimit64, 0, 0);
  // Both type into a terminal as its user would.
  w.refuse_if_equal(SYS_ioctl, 1, TIOCSTI);
  w.refuse_if_equal(SYS_ioctl, 1, TIOCLINUX);
  return w.take();
}

std::vector<sock_filter> lone_process_filter(pid_t self) {
  // Said to be forbidden rather than unknown, since programs look for these.
  constexpr uint32_t kPrograms[] = {SYS_execve, SYS_execveat, SYS_tkill, SYS_pidfd_open,
                                    SYS_pidfd_send_signal};
  FilterWriter w;
  w.refuse(kPrograms);
#if defined(__x86_64__)
  w.refuse(SYS_fork);
  w.refuse(SYS_vfork);
#endif
  w.refuse_unless_any_bit(SYS_clone, 0, CLONE_THREAD);
  // Of its own threads it asks for none but the calling one.
  for (uint32_t call : {SYS_prlimit64, SYS_sched_setaffinity}) {
    w.refuse_unless_equal(call, 0, 0);
    w.allow(call);
  }
  // The kernel would send signals to others in its name.
  for (uint32_t command : {F_SETOWN, F_SETOWN_EX, F_SETSIG}) {
    w.refuse_if_equal(SYS_fcntl, 1, command);
  }
  for (uint32_t call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    w.refuse_unless_equal(call, 0, static_cast<uint32_t>(self));
    w.allow(call);
  }
  w.allow(SYS_clone);
  w.allow(kComputing);
  return w.take_refusing(ENOSYS);
}

int install_filter(const std::vector<sock_filter>& filter) {
  sock_fprog program{static_cast<unsigned short>(filter.size()),
                     const_cast<sock_filter*>(filter.data())};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ? 0 : errno;
}

}  // namespace common
