// A plan's calls made ready for concrete sizes: everything about a run that need not be worked out
// again while the sizes stay.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/arena.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/arena_pool.h"
#include "common/runtime/executor/executor_memory.h"
#include "common/runtime/executor/repeated_calls.h"
#include "common/runtime/executor/run_sharing.h"

namespace common {

// What a loaded plan looks like to its calls, whatever the sizes.
struct LoadedPlan {
  Plan plan;
  Lifetimes lifetimes;
  std::vector<std::shared_ptr<Module>> modules;  // one per object
  std::vector<Function> functions;               // one per kernel; unset for library calls
  size_t code_bytes = 0;                         // of all objects
  std::vector<char> donated;                     // one flag per input: runs may write its memory
  bool shares_memory = false;  // temporaries may lie in outputs and donated inputs meanwhile
  Graph shape;                 // the plan's symbols and inputs, for bind_symbols
};

// The memory that a run's calls work on and that comes from outside them; one pointer per position.
struct ExternalMemory {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<std::byte*> kept;  // per buffer: what calls at load leave for the runs
};

// Which of a plan's calls: those that run once when weights are bound, or those of every run.
enum class Phase : uint8_t { kLoad, kRun };

// How a run's calls follow one another.
enum class Pace : uint8_t {
  kTogether,  // as one piece where the device can
  kOneByOne,  // each launched for itself
  kWaiting,   // each waited for, so that an error names the call that made it
};

// Told of each call before it is launched at Pace::kWaiting.
using CallObserver = std::function<void(const std::string&)>;

// Memory that every size set may use in turn, as large as the largest needs.
struct SharedMemory {
  GuardedMemory arena;
  std::shared_ptr<ArenaPool> pool;  // which the arena is taken from for each run; null: it is kept
  size_t arena_bytes = 0;           // of the last run's arena
  GuardedMemory scratch;
  size_t counter_bytes = 0;  // of it, in front: 0 between launches
  // Of both: a graph of a caller's works on it, and on what was there when it was captured.
  bool is_captured = false;
  std::vector<GuardedMemory> captured;

  // Gives up what is too small; kInvalidInput while a caller captures.
  Status drop(const Device& device, GuardedMemory& memory);
  // Gives the arena back after a run.
  void give_back();
};

class BoundCalls {
 public:
  // Evaluates every size and lays out the temporaries. kInvalidInput when sizes are impossible,
  // kCorrupt when a library call leaves its buffers. `band`: bytes between temporaries that are
  // guarded, which then never share memory; 0: they share. `loaded` outlives the result.
  static Result<std::unique_ptr<BoundCalls>> bind(const LoadedPlan& loaded,
                                                  std::vector<int64_t> symbols, size_t band,
                                                  Phase phase);

  const std::vector<int64_t>& symbols() const { return symbols_; }
  size_t buffer_bytes(int buffer) const { return layout_.bytes[static_cast<size_t>(buffer)]; }
  const std::vector<int64_t>& buffer_sizes(int buffer) const {
    return layout_.sizes[static_cast<size_t>(buffer)];
  }

  // Points the phase's calls at the memory that the next run() uses. On a device that records, a
  // row of calls that has run before is recorded now, or its recording moved to this memory.
  Status make_ready(Device& device, const ExternalMemory& external, SharedMemory& shared,
                    Pace pace);
  // Runs the calls in order, as one piece where they are recorded. `timer`, when given, is marked
  // before the first and after each, and does not go with Pace::kTogether. `observer` may be empty.
  Status run(Device& device, Timer* timer, const CallObserver& observer);
  // The same at Pace::kOneByOne on a device that records: nanoseconds of each call, see
  // RepeatedCalls.
  Result<std::vector<int64_t>> run_repeated(Device& device, bool is_cold);
  // Whether runs have found out how they are quickest on the device.
  bool is_settled(const Device& device) const { return !shares(device) || sharing_.is_settled(); }
  // Fills every temporary, and the bands between them when there are any.
  Status poison(Device& device, SharedMemory& shared, std::byte value);
  // kVerification when a band between temporaries was written.
  Status check_bands(Device& device, const SharedMemory& shared) const;

 private:
  friend class RepeatedCalls;
  struct Record {
    int call = 0;
    Launch launch;
    bool library = false;
    bool skip = false;  // nothing to do for these sizes
    GemmSizes gemm;
    size_t a = 0, b = 0, out = 0;       // of a library call: indices into Pointers::all
    size_t first_copy = 0, copies = 0;  // in base_copies_
  };
  // What an output holds before a launch (EntryPoint::starts_from_bases), where that lies in other
  // memory.
  struct BaseCopy {
    size_t from, to;  // indices into Pointers::all
    size_t bytes;
  };
  // Pointers::all[pointer] is outside the arena and known only at the run: `offset` bytes into
  // what `position` is in `memory`.
  struct Patch {
    size_t pointer;
    std::vector<std::byte*> ExternalMemory::*memory;
    size_t position;
    size_t offset = 0;
  };
  struct TemporaryPointer {
    size_t pointer;
    size_t offset;
  };
  // Of the plan's buffers: sizes and bytes of each, the place of those that lie in the arena, or in
  // an input or output (spare_memory.h).
  struct Layout {
    std::vector<std::vector<int64_t>> sizes;
    std::vector<size_t> bytes;
    std::vector<size_t> offsets;
    std::vector<int> host;  // the input's or output's buffer, -1: the arena
    size_t arena_bytes = 0;
    size_t band = 0;
  };
  // What launches are given, and where each pointer comes from.
  struct Pointers {
    std::vector<void*> all;
    std::vector<Patch> patches;
    std::vector<TemporaryPointer> temporaries;
    std::deque<std::vector<BoundTensorMap>> maps;  // of launches that have any
    const std::byte* arena = nullptr;  // that the temporaries' pointers were computed from
    const std::byte* scratch = nullptr;
  };
  // The calls on certain memory.
  struct Row {
    std::vector<void*> pointers;
    const std::byte* scratch = nullptr;
    bool is_used = false;     // there was a run on this memory
    bool is_current = false;  // `recording` is of this memory; else at most worth updating
    std::unique_ptr<Recording> recording;
  };

  struct Replays {
    // Newest first. Two, because a state that is not updated in place changes between two memories.
    std::array<Row, 2> rows;
    bool is_recordable = true;                // false once the device refused
    Recording* next = nullptr;                // what the next run() does, if it is recorded
    std::unique_ptr<RepeatedCalls> repeated;  // where calls are timed
  };

  BoundCalls(const LoadedPlan& loaded, Phase phase) : loaded_(&loaded), phase_(phase) {}
  bool is_mine(size_t call) const {
    return (loaded_->lifetimes.at_load[call] != 0) == (phase_ == Phase::kLoad);
  }
  // Whether the buffer's memory is the arena of this phase's calls.
  bool in_arena(size_t buffer) const {
    const Lifetimes& lifetimes = loaded_->lifetimes;
    return lifetimes.first[buffer] >= 0 && !lifetimes.kept[buffer] &&
           (lifetimes.made_at_load[buffer] != 0) == (phase_ == Phase::kLoad);
  }
  Status evaluate_sizes();
  void lay_out_arena(size_t band);
  // Memory of outputs and donated inputs that the calls may use meanwhile; `buffers`: of each.
  std::vector<LiveBlock> spare_memory(std::vector<int>& buffers) const;
  // Takes away blocks, of the buffers `owners`, that lie there. Those that are left need an arena.
  void use_spare_memory(std::vector<LiveBlock>& blocks, std::vector<size_t>& owners);
  void add_pointers(const Call& call);
  Status add_records();
  Status add_code(Record& record, const PlanKernel& kernel, const Call& call, size_t first_pointer);
  Status add_maps(Record& record, const PlanKernel& kernel, const Call& call);
  void add_base_copies(Record& record, const Call& call, size_t first_pointer);
  Status add_library_call(Record& record, const PlanKernel& kernel, const Call& call,
                          size_t first_pointer);
  // What all launches together need, on a device that runs that many at once.
  struct ScratchNeed {
    size_t counters = 0, areas = 0;  // bytes
  };
  ScratchNeed scratch_for(int concurrency);
  Status prepare_scratch(Device& device, SharedMemory& shared);
  Status prepare_memory(Device& device, SharedMemory& shared);
  // How many pointers of the row are others now.
  size_t distance_to(const Row& row) const;
  void choose_row();
  Status record(Device& device);
  // Whether runs have a choice of sharing their launches.
  bool shares(const Device& device) const {
    return phase_ == Phase::kRun && device.uses_host_memory() && device.concurrency() > 1;
  }
  Status run_or_try(Device& device);
  Status launch_all(Device& device, Timer* timer) const;
  Status launch_waiting(Device& device, Timer* timer, const CallObserver& observer) const;
  Status launch(Device& device, const Record& record) const;
  // The record's call for people, with its kernel and blocks.
  std::string describe(const Record& record) const;

  const LoadedPlan* loaded_;
  Phase phase_;
  std::vector<int64_t> symbols_;
  Layout layout_;
  int concurrency_ = 0;  // that scratch_need_ was computed for
  ScratchNeed scratch_need_;
  Pointers pointers_;
  std::vector<int64_t> call_symbols_;
  std::vector<Record> records_;
  std::vector<BaseCopy> base_copies_;
  std::vector<LaunchHistory> histories_;  // one per record
  RunSharing sharing_;
  bool is_alone_ = false;  // what the records say
  Pace pace_ = Pace::kTogether;
  Replays replays_;
};

}  // namespace common
