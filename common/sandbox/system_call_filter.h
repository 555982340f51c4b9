// The kernel's filter of system calls (seccomp): what processes that run foreign code may ask the
// kernel for. While they start, and for good where they are compilers or use a device's driver, a
// list of what is refused, since these ask for much that nobody can list; then a list of what is
// allowed.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <vector>

namespace common {

struct SystemCallRules {
  // Drivers speak with their daemons through them; else no socket is made at all.
  bool unix_sockets = false;
  // Memory, semaphores and queues of System V, which outlive their makers.
  bool shared_ipc = false;
};

// Refuses with EPERM: sockets but those of `rules`, looking into other processes, mounting, new
// namespaces, loading code into the kernel, kernel keys, performance counters, io_uring (which
// would pass by this filter), clocks and swapping. clone3 is refused with ENOSYS, since its flags
// cannot be seen; the C library uses clone then. System calls of other architectures kill the
// process.
std::vector<sock_filter> system_call_filter(const SystemCallRules& rules);

// Allows computing: memory, threads, files, time, and signals to `self`. Other programs, processes
// and signals to others fail with EPERM, and whatever else there is with ENOSYS, as on a kernel
// that lacks it. For a process that has started all that it needs.
std::vector<sock_filter> lone_process_filter(pid_t self);

// Puts a filter in force for the calling thread, what it starts and what it executes, for ever. 0
// or an errno. Needs, and does not set, PR_SET_NO_NEW_PRIVS. Async-signal-safe.
int install_filter(const std::vector<sock_filter>& filter);

}  // namespace common
