#include "tests/emulator/device/streams.h"

#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/emulator/driver/driver_codes.h"

namespace emulator {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Not canonical, so that following it faults as it does on a device: host memory that a kernel was
// given by mistake would be readable here.
constexpr uint64_t kNoDeviceAddress = 0xdead000000000000;

GridLaunch::SharedRange static_shared_of(const void* module) {
  return static_cast<const Module*>(module)->static_shared();
}

}  // namespace

int Executor::drain(Stream& stream) {
  while (sticky_ == 0 && !stream.pending.empty()) step(stream);
  return sticky_;
}

int Executor::drain_until(Stream& stream, const Event& event) {
  while (sticky_ == 0 && event.pending > 0 && !stream.pending.empty()) step(stream);
  return sticky_;
}

int Executor::step(Stream& stream) {
  if (sticky_ != 0 || stream.pending.empty()) return sticky_;
  const Operation operation = std::move(stream.pending.front());
  stream.pending.pop_front();
  return perform(operation);
}

int Executor::perform(const Operation& op) {
  if (sticky_ != 0) return sticky_;
  const auto device = [&](uint64_t address) {
    std::byte* view = memory.host_view(address, op.bytes);
    if (view == nullptr) fail(kIllegalAddress, "a copy or a fill outside allocated memory");
    return view;
  };
  switch (op.kind) {
    case Operation::Kind::kKernel:
      run_kernel(op);
      break;
    case Operation::Kind::kCopyIn: {
      const void* from = op.staged ? op.staged->data() : op.host_from;
      if (std::byte* to = device(op.to)) std::memcpy(to, from, op.bytes);
      break;
    }
    case Operation::Kind::kCopyOut:
      if (const std::byte* from = device(op.from)) {
        std::memcpy(op.host_to, from, op.bytes);
      }
      break;
    case Operation::Kind::kCopy: {
      std::byte* to = device(op.to);
      const std::byte* from = device(op.from);
      if (to != nullptr && from != nullptr) std::memmove(to, from, op.bytes);
      break;
    }
    case Operation::Kind::kFill:
      if (std::byte* to = device(op.to)) std::memset(to, op.value, op.bytes);
      break;
    case Operation::Kind::kRecord:
      op.event->time_ns = now_ns();
      --op.event->pending;
      op.event->is_recorded = true;
      break;
  }
  return sticky_;
}

void Executor::run_kernel(const Operation& op) {
  // Aligned as the largest of them is, a tensor map.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::deque<std::vector<Line>> values;
  std::vector<void*> parameters;
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    const std::vector<std::byte>& given = op.parameters[i];
    std::vector<Line>& lines = values.emplace_back(given.size() / sizeof(Line) + 1);
    std::memcpy(lines.data(), given.data(), given.size());
    parameters.push_back(lines.data());
    if (!op.kernel->parameters[i].is_pointer) continue;
    uint64_t address = 0;
    std::memcpy(&address, lines.data(), sizeof address);
    // The end of an allocation is no error as long as it is not followed.
    const bool is_device = memory.holds(address) || memory.holds(address - 1);
    if (address != 0 && !is_device) address = kNoDeviceAddress;
    std::memcpy(lines.data(), &address, sizeof address);
  }
  GridLaunch launch;
  launch.kernel = op.kernel;
  launch.static_shared = &static_shared_of;
  launch.module = op.module.get();
  launch.grid = op.grid;
  launch.block = op.block;
  launch.dynamic_shared_bytes = op.dynamic_shared_bytes;
  launch.parameters = parameters.data();
  launch.overlaps = op.overlaps;
  // A kernel of one block shows both orders when it is launched twice.
  launch.begins_reversed = launches_++ % 2 == 1;
  memory.open();
  const Fault fault = runner_.run(launch);
  if (fault.code != 0) fail(fault.code, fault.text);
}

void Executor::fail(int code, const std::string& text) {
  if (sticky_ != 0) return;
  sticky_ = code;
  std::fprintf(stderr, "emulated GPU: %s\n", text.c_str());
}

}  // namespace emulator
