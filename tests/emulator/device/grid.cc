#include "tests/emulator/device/grid.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace emulator {
namespace {

constexpr int kHelpersMax = 3;

}  // namespace

struct GridRunner::Helpers {
  std::mutex mutex;
  std::condition_variable changed;
  const GridLaunch* launch = nullptr;
  uint64_t number = 0;  // of the launch
  int running = 0;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  Fault fault;
  int threads = 0;

  void note(const Fault& found) {
    if (found.code != 0 && fault.code == 0) fault = found;
  }

  void help() {
    Multiprocessor multiprocessor;
    std::unique_lock lock(mutex);
    for (uint64_t seen = 0;;) {
      changed.wait(lock, [&] { return number != seen && launch != nullptr; });
      seen = number;
      ++running;
      const GridLaunch& work = *launch;
      lock.unlock();
      const Fault found = multiprocessor.run(work, next, stop);
      lock.lock();
      note(found);
      --running;
      changed.notify_all();
    }
  }
};

GridRunner::GridRunner() : helpers_(std::make_unique<Helpers>()) {}

GridRunner::~GridRunner() = default;

Fault GridRunner::run(const GridLaunch& launch) {
  Helpers& h = *helpers_;
  const bool has_one_block = launch.grid.x == 1 && launch.grid.y == 1 && launch.grid.z == 1;
  {
    std::lock_guard lock(h.mutex);
    h.next = 0;
    h.stop = false;
    h.fault = {};
    if (!has_one_block) {
      const int wanted =
          std::min<int>(kHelpersMax, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)) - 1);
      for (; h.threads < wanted; ++h.threads) std::thread([&h] { h.help(); }).detach();
      h.launch = &launch;
      ++h.number;
      h.changed.notify_all();
    }
  }
  const Fault found = own_.run(launch, h.next, h.stop);
  std::unique_lock lock(h.mutex);
  h.note(found);
  h.launch = nullptr;
  h.changed.wait(lock, [&] { return h.running == 0; });
  return h.fault;
}

}  // namespace emulator
