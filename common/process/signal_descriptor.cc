#include "common/process/signal_descriptor.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/check.h"

namespace common {

SignalDescriptor::SignalDescriptor(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : signals) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = FileDescriptor(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  LFARM_CHECK(fd_.is_open(), "no signalfd");
}

int SignalDescriptor::take() {
  signalfd_siginfo info;
  ssize_t size = ::read(fd(), &info, sizeof info);
  return size == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace common
