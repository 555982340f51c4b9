#include "clients/cli/base/signals.h"

#include <csignal>

#include "common/base/cat.h"

namespace clients {
namespace {

// A signal handler can reach nothing but a variable of this kind.
volatile std::sig_atomic_t g_stop_signal = 0;

void on_signal(int signal) { g_stop_signal = signal; }

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int stop_signal() { return g_stop_signal; }

common::Status check_stop() {
  if (g_stop_signal == 0) return {};
  return common::internal_error(
      common::cat("stopped by ", g_stop_signal == SIGINT ? "Ctrl-C" : "a signal"));
}

}  // namespace clients
