#include "common/sandbox/system_call_filter.h"

#include <errno.h>
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
  // Both type into a terminal as its user would.
  w.refuse_if_equal(SYS_ioctl, 1, TIOCSTI);
  w.refuse_if_equal(SYS_ioctl, 1, TIOCLINUX);
  return w.take();
}

std::vector<sock_filter> lone_process_filter(pid_t self) {
  constexpr uint32_t kPrograms[] = {SYS_execve, SYS_execveat, SYS_tkill, SYS_pidfd_open,
                                    SYS_pidfd_send_signal};
  FilterWriter w;
  w.refuse(kPrograms);
#if defined(__x86_64__)
  w.refuse(SYS_fork);
  w.refuse(SYS_vfork);
#endif
  w.refuse_unless_any_bit(SYS_clone, 0, CLONE_THREAD);
  w.refuse(SYS_clone3, ENOSYS);
  for (uint32_t call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    w.refuse_unless_equal(call, 0, static_cast<uint32_t>(self));
  }
  return w.take();
}

int install_filter(const std::vector<sock_filter>& filter) {
  sock_fprog program{static_cast<unsigned short>(filter.size()),
                     const_cast<sock_filter*>(filter.data())};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ? 0 : errno;
}

}  // namespace common
