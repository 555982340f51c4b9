// What the checks of a plan's runs found (OutputKind::kCheck). A run on a caller's stream is not
// waited for: its values are copied into host memory in the order of the stream and looked at
// later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/executor_memory.h"

namespace common {

// An index that is out of range, found by the check that is output `output` of the plan.
struct FailedCheck {
  int output = 0;
  int64_t position = 0;  // see OutputKind::kCheck
  int64_t limit = 0;     // for the sizes of the run
  bool is_last = true;   // of the last run that was made
};

// Not thread-safe.
class IndexChecks {
 public:
  IndexChecks() = default;
  IndexChecks(const IndexChecks&) = delete;
  IndexChecks& operator=(const IndexChecks&) = delete;
  // Waits for values that are on their way.
  ~IndexChecks();

  // Of these outputs of a plan, before anything else. `band`: as GuardedMemory::allocate.
  void describe(const std::vector<GraphOutput>& outputs, Device& device, size_t band);
  // Points the checks among `outputs` at memory of the device, which stays theirs.
  Status make_room(std::vector<std::byte*>& outputs);
  // Asks for the values that a run left there. Values that were asked for 64 runs ago and are not
  // there yet are waited for.
  Status fetch(std::span<const int64_t> symbols);
  // Once the device is done: the values of the last run, in the order of the outputs.
  std::span<const int64_t> take_values();
  // The first failure since the last call, among runs whose values are there.
  std::optional<FailedCheck> take_failed();
  Status check_bands() const;

 private:
  struct Check {
    int output = 0;
    Expr limit;
  };
  size_t entry_bytes() const;
  Status fetch_captured(std::span<const int64_t> symbols);
  // The host's copy of the values of run `run`.
  std::byte* entry(uint64_t run) const;
  void clear(std::byte* values) const;
  bool has_arrived(uint64_t run) const;
  // Looks at the values that have arrived, or at all.
  void look(bool is_done);
  void look_at(const std::byte* values, std::span<const int64_t> symbols, uint64_t run);

  Device* device_ = nullptr;
  size_t band_ = 0;
  std::vector<Check> checks_;
  GuardedMemory memory_;  // each value at a multiple of kBufferAlignment
  std::shared_ptr<std::byte[]> host_;
  // Runs are counted: those in [seen_, asked_) are on their way, and lie in a ring. Replays of a
  // caller's graph are not counted, and all write to one entry.
  uint64_t seen_ = 0, asked_ = 0;
  bool has_captured_ = false;
  std::vector<std::vector<int64_t>> symbols_;  // of each entry
  std::vector<int64_t> values_;                // of the last run that was looked at
  std::optional<FailedCheck> failed_;
  uint64_t failed_run_ = 0;
};

}  // namespace common
