// The emulated driver's work: streams, events and graphs. Nothing runs before something waits for
// it, which is the latest that a device may be: host code that forgets to wait sees old data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulator/device/grid.h"
#include "tests/emulator/device/memory.h"
#include "tests/emulator/device/module.h"

namespace emulator {

struct Context;

struct Event {
  bool has_timing = true;
  bool is_captured = false;  // last recorded into a graph: nobody can wait for it
  int pending = 0;           // recordings that have not run
  bool is_recorded = false;
  int64_t time_ns = 0;
};

struct Function;

struct Operation {
  enum class Kind { kKernel, kCopyIn, kCopyOut, kCopy, kFill, kRecord };
  Kind kind = Kind::kKernel;

  const Function* function = nullptr;
  std::shared_ptr<Module> module;
  const lf_emu::Kernel* kernel = nullptr;
  lf_emu::Index3 grid{}, block{};
  unsigned dynamic_shared_bytes = 0;
  bool overlaps = false;  // with the kernel before it
  std::vector<std::vector<std::byte>> parameters;
  std::vector<void*> parameter_addresses;  // as the driver hands them out

  uint64_t to = 0, from = 0;  // device addresses
  void* host_to = nullptr;
  const void* host_from = nullptr;
  std::shared_ptr<std::vector<std::byte>> staged;  // what a copy in from ordinary memory took
  size_t bytes = 0;
  uint8_t value = 0;

  std::shared_ptr<Event> event;
};

// A line of nodes, whose handles are the addresses of its operations.
struct Graph {
  std::deque<Operation> operations;
};

// A graph made ready to launch. It is known by its source's nodes.
struct Executable {
  Graph graph;
  const Graph* source = nullptr;
};

enum class CaptureMode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct Stream {
  bool is_blocking = true;     // ordered with the null stream
  Context* context = nullptr;  // that it is of
  std::deque<Operation> pending;
  std::unique_ptr<Graph> capture;
  bool is_capture_invalid = false;
  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id capturer;
};

// Runs operations on the device. After one has failed nothing runs any more.
class Executor {
 public:
  // The code of the error that the device is left with; 0 while it is well.
  int sticky() const { return sticky_; }
  // Each returns sticky().
  int drain(Stream& stream);
  int drain_until(Stream& stream, const Event& event);
  // One operation; for callers that poll.
  int step(Stream& stream);
  int perform(const Operation& operation);

  Memory memory;

 private:
  void run_kernel(const Operation& operation);
  void fail(int code, const std::string& text);
  GridRunner runner_;
  int sticky_ = 0;
  uint64_t launches_ = 0;
};

}  // namespace emulator
