// Runs blocks of a kernel, or clusters of them, one after another on the calling operating system
// thread, with their threads as fibers: barriers wait, lanes of a warp exchange, shared memory
// begins as garbage, and an error ends the kernel as it would on the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulator/device/barriers.h"
#include "tests/emulator/device/fiber.h"
#include "tests/emulator/device/warpgroups.h"
#include "tests/emulator/prelude/prelude_abi.h"

namespace emulator {

inline constexpr unsigned kBlockThreadsMax = 1024;
inline constexpr unsigned kClusterMax = 4;
inline constexpr unsigned kSharedBytes = 48 * 1024;        // without asking
inline constexpr unsigned kSharedBytesOptIn = 227 * 1024;  // cuFuncSetAttribute

// One lane's access of device or shared memory.
struct LaneAccess {
  unsigned thread = 0;         // of the block
  const void* site = nullptr;  // of the code: the same for all lanes that make it together
  uintptr_t address = 0;
  unsigned bytes = 0;
  bool is_store = false, is_shared = false;
};

// Sees what a kernel accesses that was compiled to tell.
class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  // False ends the kernel.
  virtual bool on_access(const LaneAccess& access) = 0;
  // The lanes of the warp that ran last have come to one place: what they accessed before it is
  // complete.
  virtual void on_together() = 0;
  // The block is the last of `blocks` that share a sum, and completes it from here on. Each of its
  // threads reports it, after a barrier.
  virtual void on_completion(int64_t blocks) = 0;
  // The block asks for a box: `read_bytes` are read from device memory, `written_bytes` written to
  // shared memory, of all blocks that get the box, as the others' boxes are here; and
  // `under_way_bytes`, those of earlier boxes included, have not come yet.
  virtual void on_box(uint64_t read_bytes, uint64_t written_bytes, uint64_t under_way_bytes) = 0;
  // A warpgroup begins a product.
  virtual void on_product(const lf_emu::Product& product, unsigned warpgroup) = 0;
};

// One launch, complete: it is run after the call that asked for it has returned.
struct GridLaunch {
  const lf_emu::Kernel* kernel = nullptr;
  // The calling thread's instance of the module's static shared memory.
  struct SharedRange {
    std::byte* data = nullptr;
    size_t size = 0;
  };
  SharedRange (*static_shared)(const void* module) = nullptr;
  const void* module = nullptr;
  lf_emu::Index3 grid{}, block{};
  unsigned dynamic_shared_bytes = 0;
  void** parameters = nullptr;
  // It may begin while the kernel before it runs: threads that do not wait for that are wrong.
  bool overlaps = false;
  // Blocks take turns in the order of their threads; whether even ones run theirs in reverse.
  bool begins_reversed = false;
  std::optional<uint64_t> only_block;  // else all
  AccessObserver* observer = nullptr;
};

// What ended a kernel; code 0: nothing did.
struct Fault {
  int code = 0;
  std::string text;
};

class Multiprocessor {
 public:
  Multiprocessor();
  ~Multiprocessor();
  Multiprocessor(const Multiprocessor&) = delete;
  Multiprocessor& operator=(const Multiprocessor&) = delete;

  // Runs block after block until the numbers that `next` gives out reach the grid's size, a block
  // fails, or another multiprocessor's has failed (`stop`, which a failure sets). The order of
  // blocks is shuffled, and every other one runs its threads in reverse, so that code which counts
  // on either order shows it.
  Fault run(const GridLaunch& launch, std::atomic<uint64_t>& next, std::atomic<bool>& stop);

 private:
  enum class State : uint8_t {
    kUnstarted,
    kReady,
    kAtBarrier,
    kInWarp,
    kAtPhase,  // of a barrier in shared memory
    kAtCluster,
    kEnded
  };
  // What a block of the cluster that runs has for itself.
  struct Block {
    std::byte* mapped = nullptr;          // where arena lies
    std::byte* arena = nullptr;           // kSharedBytesOptIn before a guard page
    std::byte* dynamic_shared = nullptr;  // ends where the guard page begins
    Warpgroups warpgroups;
    SharedBarriers barriers;
  };
  struct PendingCopy {
    void* to;
    const void* from;
    unsigned bytes, zeros;
  };
  struct ThreadRecord {
    State state = State::kUnstarted;
    int site = 0;
    Fiber* fiber = nullptr;
    std::vector<std::vector<PendingCopy>> groups;  // the last is open
    const void* phase = nullptr;                   // the barrier that it waits at
    unsigned parity = 0;
  };
  struct Warp {
    uint32_t living = 0, arrived = 0;  // bits of lanes
    unsigned runnable = 0;             // lanes not started or ready
    int site = 0;
    unsigned parity = 0;  // which slots the next exchange uses: the others may still be read
    alignas(16) unsigned char slots[2][lf_emu::kWarpSize * lf_emu::kExchangeBytes];
  };
  friend struct EngineCalls;
  friend void on_kernel_signal(int signal, void* info, void* context);

  static void fiber_main(void* self);

  // Threads run in reverse order where `reverse`.
  void run_cluster(uint64_t first_block, bool reverse);
  void begin_cluster(uint64_t first_block, bool reverse);
  void begin_block(unsigned rank);
  void schedule();
  bool run_warp(unsigned warp);
  void resume(unsigned thread);
  void end_thread();
  bool take_next_thread();
  void bind(Fiber& fiber, unsigned thread);
  bool release_barriers();
  bool release_barrier(unsigned rank);
  bool release_cluster();
  bool release_phases();
  void make_ready(unsigned thread);
  bool is_observed() const;
  void release_warp(unsigned warp);
  void park(State state);
  void require(const std::string& wrong);
  void give_up(int code, const std::string& text);
  [[noreturn]] void fail(int code, const std::string& text);
  std::string waiting_lines() const;

  void barrier(int site);
  const unsigned char* exchange(int site, const void* value, unsigned bytes, unsigned mask);
  void wait_copies(unsigned groups_left);
  // Of the block of the thread that runs.
  unsigned rank() const { return current_ / block_threads_; }
  unsigned own_thread() const { return current_ % block_threads_; }
  Block& own() { return blocks_[rank()]; }
  std::byte* place_in(unsigned rank, void* address);
  void wait_phase(void* barrier, unsigned parity, int site);
  void copy_box(void* to, void* barrier, const lf_emu::BoxRequest& box);
  bool is_shared(const void* address, unsigned bytes) const;
  void note_access(const void* site, const void* address, unsigned bytes, bool is_store);
  void note_together();

  const GridLaunch* launch_ = nullptr;
  uint64_t first_block_ = 0;           // of the cluster
  unsigned threads_ = 0, living_ = 0;  // of the cluster
  unsigned cluster_ = 1, block_threads_ = 1;
  bool reverse_ = false;
  unsigned current_ = 0;  // the thread whose fiber runs
  bool in_fiber_ = false;
  Fault fault_;
  StackPointer scheduler_ = nullptr;
  GridLaunch::SharedRange static_shared_;
  std::byte* signal_stack_ = nullptr;
  Block blocks_[kClusterMax];
  std::vector<ThreadRecord> records_;
  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_fibers_;
};

}  // namespace emulator
