#include "tests/bench/search/busy_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

namespace bench {
namespace {

constexpr unsigned kSecondsMax = 3'600;

volatile double sink;

[[noreturn]] void compute() {
  for (double x = 1;; x = x * 1.0000001 + 1e-9) sink = x;
}

[[noreturn]] void move_memory() {
  static volatile unsigned char memory[size_t{8} << 20];
  for (unsigned round = 0;; ++round) {
    for (size_t k = 0; k < sizeof memory; k += 64) memory[k] = static_cast<unsigned char>(round);
  }
}

}  // namespace

BusyProcesses::BusyProcesses(int count) {
  for (int k = 0; k < count; ++k) {
    pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(kSecondsMax);
      k % 2 == 0 ? compute() : move_memory();
    }
    if (child > 0) children_.push_back(child);
  }
}

BusyProcesses::~BusyProcesses() {
  for (pid_t child : children_) ::kill(child, SIGKILL);
  for (pid_t child : children_) ::waitpid(child, nullptr, 0);
}

}  // namespace bench
