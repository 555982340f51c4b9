#include "tests/emulator/device/multiprocessor.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>

#include "tests/emulator/driver/driver_codes.h"

namespace emulator {
namespace {

constexpr size_t kSignalStackBytes = 64 * 1024;
constexpr int kGarbage = 0xff;  // NaN as any float, -1 as any integer
constexpr size_t kDynamicSharedAlignment = 128;
// What an address of shared memory can say. The memory of a block begins at a multiple of it.
constexpr size_t kSharedWindow = 256 * 1024;

// The multiprocessor whose blocks this operating system thread runs.
thread_local Multiprocessor* t_running = nullptr;

struct sigaction g_previous[NSIG];

std::byte* map(size_t bytes) {
  void* area = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(area);
}

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

std::string text_of(const lf_emu::Index3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

// A step through the block numbers that meets each once.
uint64_t coprime_step(uint64_t blocks) {
  uint64_t step = std::max<uint64_t>(1, blocks * 5 / 8);
  while (std::gcd(step, blocks) != 1) ++step;
  return step;
}

}  // namespace

void on_kernel_signal(int signal, void* info, void* context) {
  Multiprocessor* mp = t_running;
  if (mp == nullptr || !mp->in_fiber_) {
    // Not a kernel's: what was here before decides, at the instruction that faults again.
    ::sigaction(signal, &g_previous[signal], nullptr);
    return;
  }
  if (signal == SIGFPE) {
    mp->give_up(kLaunchFailed, "integer division by zero, or its quotient has no such integer");
  } else if (signal == SIGILL) {
    mp->give_up(kIllegalInstruction, "trap");
  } else {
    const void* address = static_cast<siginfo_t*>(info)->si_addr;
    char number[32];
    std::snprintf(number, sizeof number, "%p", address);
    const bool overflown = mp->records_[mp->current_].fiber->has_overflown(address);
    mp->give_up(kIllegalAddress, overflown ? std::string("stack overflow")
                                           : std::string("illegal address ") + number);
  }
  abandon_in_handler(context, mp->scheduler_);
}

namespace {

void install_signal_handlers() {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action {};
    action.sa_sigaction = [](int number, siginfo_t* info, void* context) {
      on_kernel_signal(number, info, context);
    };
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(signal, &action, &g_previous[signal]);
  }
}

// While kernels run, faults are handled on a stack of their own: the kernel's may be what
// overflowed.
class SignalStack {
 public:
  explicit SignalStack(std::byte* memory) {
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = kSignalStackBytes;
    ::sigaltstack(&stack, &previous_);
  }
  ~SignalStack() { ::sigaltstack(&previous_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  stack_t previous_{};
};

}  // namespace

// The engine's functions as compiled kernels see them.
struct EngineCalls {
  static void barrier(lf_emu::Thread*, int site) { t_running->barrier(site); }
  static const unsigned char* exchange(lf_emu::Thread*, int site, const void* value, unsigned bytes,
                                       unsigned mask) {
    return t_running->exchange(site, value, bytes, mask);
  }
  static void copy_async(lf_emu::Thread*, void* to, const void* from, unsigned bytes,
                         unsigned zeros) {
    const void* site = __builtin_return_address(0);
    if (bytes != 0) t_running->note_access(site, from, bytes, false);
    t_running->note_access(site, to, bytes + zeros, true);
    t_running->require(
        t_running->own().warpgroups.check_write(static_cast<std::byte*>(to), bytes + zeros));
    auto& groups = t_running->records_[t_running->current_].groups;
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back({to, from, bytes, zeros});
  }
  static void commit_copies(lf_emu::Thread*) {
    auto& groups = t_running->records_[t_running->current_].groups;
    if (groups.empty()) groups.emplace_back();
    groups.emplace_back();
  }
  static void wait_copies(lf_emu::Thread*, unsigned groups_left) {
    t_running->wait_copies(groups_left);
  }
  static bool is_shared(lf_emu::Thread*, const void* address, unsigned bytes) {
    return t_running->is_shared(address, bytes);
  }
  static void begin_product(lf_emu::Thread*, const lf_emu::Product& product, float* sums) {
    Multiprocessor& mp = *t_running;
    mp.require(mp.own().warpgroups.begin_product(mp.own_thread(), product, sums));
    constexpr unsigned kGroup = 128;
    if (mp.own_thread() % kGroup == 0 && mp.is_observed()) {
      mp.launch_->observer->on_product(product, mp.own_thread() / kGroup);
    }
  }
  static void fence_products(lf_emu::Thread*) {
    t_running->own().warpgroups.fence_products(t_running->own_thread());
  }
  static void commit_products(lf_emu::Thread*) {
    t_running->own().warpgroups.commit_products(t_running->own_thread());
  }
  static void wait_products(lf_emu::Thread*, unsigned groups_left) {
    Multiprocessor& mp = *t_running;
    mp.require(mp.own().warpgroups.wait_products(mp.own_thread(), groups_left));
  }
  static void fence_async(lf_emu::Thread*) {
    t_running->own().warpgroups.fence_async(t_running->own_thread());
  }
  static void store_shared(lf_emu::Thread*, void* to, const void* from, unsigned bytes) {
    Multiprocessor& mp = *t_running;
    auto* at = static_cast<std::byte*>(to);
    mp.note_access(__builtin_return_address(0), to, bytes, true);
    mp.require(mp.own().warpgroups.check_write(at, bytes));
    std::memcpy(to, from, bytes);
    mp.own().warpgroups.note_write(mp.own_thread(), at, bytes);
  }
  static void init_barrier(lf_emu::Thread*, void* barrier, unsigned arrivals) {
    t_running->require(t_running->own().barriers.init(barrier, arrivals));
  }
  static void fence_barriers(lf_emu::Thread*) { t_running->own().barriers.fence(); }
  static void arrive(lf_emu::Thread*, void* barrier, unsigned expected_bytes, int block) {
    Multiprocessor& mp = *t_running;
    const unsigned rank = block < 0 ? mp.rank() : static_cast<unsigned>(block);
    void* place = mp.place_in(rank, barrier);
    mp.require(mp.blocks_[rank].barriers.arrive(place, expected_bytes));
  }
  static void wait_barrier(lf_emu::Thread*, void* barrier, unsigned parity, int site) {
    t_running->wait_phase(barrier, parity, site);
  }
  static void copy_box(lf_emu::Thread*, void* to, void* barrier, const lf_emu::BoxRequest& box) {
    t_running->copy_box(to, barrier, box);
  }
  static void cluster_barrier(lf_emu::Thread*, int site) {
    t_running->records_[t_running->current_].site = site;
    t_running->park(State::kAtCluster);
  }
  static void access(lf_emu::Thread*, const void* site, const void* address, unsigned bytes,
                     bool is_store) {
    t_running->note_access(site, address, bytes, is_store);
  }
  static void complete(lf_emu::Thread*, long blocks) {
    if (!t_running->is_observed()) return;
    t_running->launch_->observer->on_completion(blocks);
  }
  static void fail(lf_emu::Thread*, int code, const char* what, const char* file, unsigned line) {
    t_running->fail(code, std::string(file) + ":" + std::to_string(line) + ": " + what);
  }
  static constexpr lf_emu::Engine kEngine = {
      barrier,      exchange,      copy_async,      commit_copies,   wait_copies,
      is_shared,    begin_product, fence_products,  commit_products, wait_products,
      fence_async,  store_shared,  init_barrier,    fence_barriers,  arrive,
      wait_barrier, copy_box,      cluster_barrier, access,          complete,
      fail};
  using State = Multiprocessor::State;
};

Multiprocessor::Multiprocessor()
    : signal_stack_(map(kSignalStackBytes)),
      records_(kClusterMax * kBlockThreadsMax),
      warps_(kClusterMax * kBlockThreadsMax / lf_emu::kWarpSize) {
  static std::once_flag once;
  std::call_once(once, install_signal_handlers);
  const size_t page = ::sysconf(_SC_PAGESIZE);
  for (Block& block : blocks_) {
    block.mapped = map(2 * kSharedWindow);
    block.arena =
        block.mapped + (kSharedWindow - reinterpret_cast<uintptr_t>(block.mapped) % kSharedWindow);
    ::mprotect(block.arena + round_up(kSharedBytesOptIn, page), page, PROT_NONE);
  }
}

Multiprocessor::~Multiprocessor() {
  for (const Block& block : blocks_) ::munmap(block.mapped, 2 * kSharedWindow);
  ::munmap(signal_stack_, kSignalStackBytes);
}

Fault Multiprocessor::run(const GridLaunch& launch, std::atomic<uint64_t>& next,
                          std::atomic<bool>& stop) {
  SignalStack signals(signal_stack_);
  Multiprocessor* const outer = t_running;
  t_running = this;
  launch_ = &launch;
  static_shared_ = launch.static_shared(launch.module);
  fault_ = {};
  cluster_ = launch.kernel->cluster;
  if (launch.only_block) run_cluster(*launch.only_block / cluster_ * cluster_, false);
  const uint64_t clusters =
      launch.only_block ? 0 : uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z / cluster_;
  const uint64_t step = coprime_step(clusters);
  while (fault_.code == 0 && !stop) {
    const uint64_t turn = next++;
    if (turn >= clusters) break;
    const auto number =
        static_cast<uint64_t>(static_cast<unsigned __int128>(turn) * step % clusters);
    run_cluster(number * cluster_, (number % 2 == 1) != launch.begins_reversed);
  }
  if (fault_.code != 0) stop = true;
  t_running = outer;
  return fault_;
}

void Multiprocessor::run_cluster(uint64_t first_block, bool reverse) {
  begin_cluster(first_block, reverse);
  schedule();
  if (fault_.code == 0) return;
  // Fibers that were in the middle of the kernel never return to it.
  free_fibers_.clear();
  for (const auto& fiber : fibers_) {
    fiber->rewind();
    free_fibers_.push_back(fiber.get());
  }
}

void Multiprocessor::begin_cluster(uint64_t first_block, bool reverse) {
  first_block_ = first_block;
  block_threads_ = launch_->block.x * launch_->block.y * launch_->block.z;
  threads_ = block_threads_ * cluster_;
  living_ = threads_;
  reverse_ = reverse;
  for (unsigned t = 0; t < threads_; ++t) {
    records_[t].state = State::kUnstarted;
    records_[t].fiber = nullptr;
    records_[t].groups.clear();
  }
  // Warps of several blocks are whole, which the launch sees to.
  for (unsigned first = 0; first < threads_; first += lf_emu::kWarpSize) {
    Warp& warp = warps_[first / lf_emu::kWarpSize];
    warp.runnable = std::min(lf_emu::kWarpSize, threads_ - first);
    warp.living = warp.runnable == 32 ? ~0u : (1u << warp.runnable) - 1;
    warp.arrived = 0;
  }
  if (static_shared_.size != 0) std::memset(static_shared_.data, kGarbage, static_shared_.size);
  for (unsigned rank = 0; rank < cluster_; ++rank) begin_block(rank);
}

void Multiprocessor::begin_block(unsigned rank) {
  Block& block = blocks_[rank];
  const size_t arena_end = round_up(kSharedBytesOptIn, ::sysconf(_SC_PAGESIZE));
  const size_t dynamic = round_up(launch_->dynamic_shared_bytes, kDynamicSharedAlignment);
  block.dynamic_shared = block.arena + arena_end - dynamic;
  std::memset(block.dynamic_shared, kGarbage, dynamic);
  block.warpgroups.reset(block.dynamic_shared, dynamic, block_threads_);
  block.barriers.reset(block.dynamic_shared, dynamic, [&block](const std::byte* at, size_t bytes) {
    block.warpgroups.note_copied(at, bytes);
  });
}

void Multiprocessor::schedule() {
  const unsigned warps = (threads_ + lf_emu::kWarpSize - 1) / lf_emu::kWarpSize;
  while (living_ > 0) {
    bool progressed = false;
    for (unsigned i = 0; i < warps; ++i) {
      while (run_warp(reverse_ ? warps - 1 - i : i)) progressed = true;
      if (fault_.code != 0) return;
      note_together();
    }
    if (living_ == 0 || release_barriers()) continue;
    if (fault_.code != 0) return;
    if (!progressed) {
      give_up(kLaunchFailed, "deadlock: " + waiting_lines());
      return;
    }
  }
}

// Runs each lane that can run once; false when none could.
bool Multiprocessor::run_warp(unsigned warp) {
  if (warps_[warp].runnable == 0) return false;
  const unsigned first = warp * lf_emu::kWarpSize;
  const unsigned lanes = std::min(lf_emu::kWarpSize, threads_ - first);
  for (unsigned i = 0; i < lanes && fault_.code == 0; ++i) {
    const unsigned thread = first + (reverse_ ? lanes - 1 - i : i);
    const State state = records_[thread].state;
    if (state == State::kUnstarted || state == State::kReady) resume(thread);
  }
  return fault_.code == 0;
}

void Multiprocessor::resume(unsigned thread) {
  ThreadRecord& record = records_[thread];
  if (record.state == State::kUnstarted) {
    if (free_fibers_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(&fiber_main, this));
      free_fibers_.push_back(fibers_.back().get());
    }
    bind(*free_fibers_.back(), thread);
    free_fibers_.pop_back();
  }
  --warps_[thread / lf_emu::kWarpSize].runnable;
  current_ = thread;
  in_fiber_ = true;
  lf_emu_switch(&scheduler_, record.fiber->pointer);
  in_fiber_ = false;
}

void Multiprocessor::bind(Fiber& fiber, unsigned thread) {
  const lf_emu::Index3 &size = launch_->block, &grid = launch_->grid;
  const unsigned rank = thread / block_threads_, own = thread % block_threads_;
  const uint64_t block = first_block_ + rank;
  records_[thread].fiber = &fiber;
  fiber.thread() = {
      {own % size.x, own / size.x % size.y, own / size.x / size.y},
      {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
       static_cast<unsigned>(block / grid.x / grid.y)},
      size,
      grid,
      reinterpret_cast<unsigned char*>(blocks_[rank].dynamic_shared),
      &EngineCalls::kEngine,
      false};
}

void Multiprocessor::fiber_main(void* self) {
  auto& mp = *static_cast<Multiprocessor*>(self);
  for (;;) {
    mp.launch_->kernel->run(mp.launch_->parameters);
    mp.end_thread();
    if (mp.take_next_thread()) continue;
    Fiber* fiber = mp.records_[mp.current_].fiber;
    mp.free_fibers_.push_back(fiber);
    lf_emu_switch(&fiber->pointer, mp.scheduler_);
  }
}

// Ends the kernel when something is wrong.
void Multiprocessor::require(const std::string& wrong) {
  if (!wrong.empty()) fail(kLaunchFailed, wrong);
}

void Multiprocessor::end_thread() {
  require(own().warpgroups.end_thread(own_thread()));
  if (launch_->overlaps && !records_[current_].fiber->thread().has_waited) {
    require("a kernel that may begin early ended without a wait for those before it");
  }
  records_[current_].state = State::kEnded;
  --living_;
  const unsigned index = current_ / lf_emu::kWarpSize;
  Warp& warp = warps_[index];
  warp.living &= ~(1u << current_ % lf_emu::kWarpSize);
  if (warp.living != 0 && warp.arrived == warp.living) release_warp(index);
}

// A fiber goes on with the next thread that has not begun: a kernel without barriers needs one
// fiber a block and no switches.
bool Multiprocessor::take_next_thread() {
  if (reverse_ ? current_ == 0 : current_ + 1 == threads_) return false;
  const unsigned next = reverse_ ? current_ - 1 : current_ + 1;
  if (records_[next].state != State::kUnstarted) return false;
  bind(*records_[current_].fiber, next);
  --warps_[next / lf_emu::kWarpSize].runnable;
  current_ = next;
  return true;
}

void Multiprocessor::park(State state) {
  ThreadRecord& record = records_[current_];
  record.state = state;
  lf_emu_switch(&record.fiber->pointer, scheduler_);
}

void Multiprocessor::give_up(int code, const std::string& text) {
  fault_ = {code,
            std::string("kernel ") + launch_->kernel->name + ", block " +
                (in_fiber_ ? text_of(records_[current_].fiber->thread().block_index) + ", thread " +
                                 text_of(records_[current_].fiber->thread().thread_index)
                           : std::to_string(first_block_)) +
                ": " + text};
}

void Multiprocessor::fail(int code, const std::string& text) {
  give_up(code, text);
  StackPointer abandoned = nullptr;
  lf_emu_switch(&abandoned, scheduler_);
  std::abort();
}

std::string Multiprocessor::waiting_lines() const {
  std::set<int> barriers, exchanges, phases, clusters;
  for (unsigned t = 0; t < threads_; ++t) {
    if (records_[t].state == State::kAtBarrier) barriers.insert(records_[t].site);
    if (records_[t].state == State::kInWarp) exchanges.insert(records_[t].site);
    if (records_[t].state == State::kAtPhase) phases.insert(records_[t].site);
    if (records_[t].state == State::kAtCluster) clusters.insert(records_[t].site);
  }
  std::string text = "threads wait";
  for (int line : barriers) text += " at the barrier of line " + std::to_string(line) + ",";
  for (int line : exchanges) text += " for their warp at line " + std::to_string(line) + ",";
  for (int line : phases) text += " for a barrier's phase at line " + std::to_string(line) + ",";
  for (int line : clusters) text += " for their cluster at line " + std::to_string(line) + ",";
  text.back() = ' ';
  return text + "and none can go on";
}

void Multiprocessor::barrier(int site) {
  records_[current_].site = site;
  park(State::kAtBarrier);
}

void Multiprocessor::make_ready(unsigned thread) {
  records_[thread].state = State::kReady;
  ++warps_[thread / lf_emu::kWarpSize].runnable;
}

bool Multiprocessor::release_barriers() {
  bool is_any = release_phases();
  for (unsigned rank = 0; rank < cluster_ && fault_.code == 0; ++rank) {
    is_any = release_barrier(rank) || is_any;
  }
  return fault_.code == 0 && (release_cluster() || is_any);
}

// Opens the block's barrier when every thread that has not ended waits at it.
bool Multiprocessor::release_barrier(unsigned rank) {
  int site = 0;
  const unsigned first = rank * block_threads_, end = first + block_threads_;
  bool is_any = false;
  for (unsigned t = first; t < end; ++t) {
    const ThreadRecord& record = records_[t];
    if (record.state == State::kEnded) continue;
    if (record.state != State::kAtBarrier) return false;
    if (site != 0 && record.site != site) {
      give_up(kLaunchFailed, "divergent barriers: " + waiting_lines());
      return false;
    }
    site = record.site;
    is_any = true;
  }
  for (unsigned t = first; t < end; ++t) {
    if (records_[t].state == State::kAtBarrier) make_ready(t);
  }
  return is_any;
}

bool Multiprocessor::release_cluster() {
  bool is_any = false;
  for (unsigned t = 0; t < threads_; ++t) {
    if (records_[t].state == State::kEnded) continue;
    if (records_[t].state != State::kAtCluster) return false;
    is_any = true;
  }
  for (unsigned t = 0; t < threads_; ++t) {
    if (records_[t].state == State::kAtCluster) make_ready(t);
  }
  return is_any;
}

// Lets threads look again whose phases may have ended.
bool Multiprocessor::release_phases() {
  bool is_any = false;
  for (unsigned t = 0; t < threads_; ++t) {
    const ThreadRecord& record = records_[t];
    if (record.state != State::kAtPhase) continue;
    if (!blocks_[t / block_threads_].barriers.may_end(record.phase, record.parity)) continue;
    make_ready(t);
    is_any = true;
  }
  return is_any;
}

void Multiprocessor::wait_phase(void* barrier, unsigned parity, int site) {
  ThreadRecord& record = records_[current_];
  for (bool has_ended = false;;) {
    require(own().barriers.test(barrier, parity, &has_ended));
    if (has_ended) return;
    record.site = site;
    record.phase = barrier;
    record.parity = parity;
    park(State::kAtPhase);
  }
}

// What lies in another block of the cluster where `address` lies in the thread's own.
std::byte* Multiprocessor::place_in(unsigned rank, void* address) {
  if (rank >= cluster_) fail(kLaunchFailed, "there is no such block in the cluster");
  if (records_[rank * block_threads_].state == State::kEnded) {
    const auto* first = &records_[rank * block_threads_];
    const bool has_ended = std::all_of(first, first + block_threads_, [](const ThreadRecord& r) {
      return r.state == State::kEnded;
    });
    if (has_ended) fail(kLaunchFailed, "the shared memory of a block that has ended");
  }
  return blocks_[rank].dynamic_shared + (static_cast<std::byte*>(address) - own().dynamic_shared);
}

void Multiprocessor::copy_box(void* to, void* barrier, const lf_emu::BoxRequest& box) {
  BoxCopy copy;
  std::memcpy(&copy.map, box.map, sizeof copy.map);
  std::copy(std::begin(box.at), std::end(box.at), copy.at);
  std::copy(std::begin(box.pixel), std::end(box.pixel), copy.pixel);
  const std::string line = "line " + std::to_string(box.site) + ": ";
  if (copy.map.rank != box.rank) fail(kLaunchFailed, line + "a tensor map of another rank");
  if (copy.map.has_windows() != box.has_windows) {
    fail(kLaunchFailed, line + "a tensor map of another kind");
  }
  const unsigned blocks = box.blocks != 0 ? box.blocks : 1u << rank();
  for (unsigned r = 0; blocks >> r != 0; ++r) {
    if ((blocks >> r & 1) == 0) continue;
    copy.to = place_in(r, to);
    std::string wrong = blocks_[r].warpgroups.check_write(copy.to, copy.bytes());
    if (wrong.empty()) wrong = blocks_[r].barriers.copy(place_in(r, barrier), copy);
    if (!wrong.empty()) fail(kLaunchFailed, line + wrong);
  }
  if (!is_observed()) return;
  uint64_t read = 0;
  copy.visit([&](std::byte*, const std::byte*, size_t first, size_t) { read += first; });
  launch_->observer->on_box(read, copy.bytes() * std::popcount(blocks),
                            own().barriers.bytes_under_way());
}

const unsigned char* Multiprocessor::exchange(int site, const void* value, unsigned bytes,
                                              unsigned mask) {
  const unsigned index = current_ / lf_emu::kWarpSize, lane = current_ % lf_emu::kWarpSize;
  Warp& warp = warps_[index];
  if ((warp.living & ~mask) != 0) {
    fail(kLaunchFailed,
         "line " + std::to_string(site) +
             ": the mask leaves out lanes that have not ended, which is not emulated");
  }
  if (warp.arrived == 0) warp.site = site;
  if (warp.site != site) {
    fail(kLaunchFailed, "lanes of a warp at different operations: line " +
                            std::to_string(warp.site) + " and line " + std::to_string(site));
  }
  unsigned char* slots = warp.slots[warp.parity];
  std::memcpy(slots + lane * lf_emu::kExchangeBytes, value, bytes);
  warp.arrived |= 1u << lane;
  if (warp.arrived == warp.living) {
    release_warp(index);
  } else {
    records_[current_].site = site;
    park(State::kInWarp);
  }
  return slots;
}

void Multiprocessor::release_warp(unsigned index) {
  note_together();
  Warp& warp = warps_[index];
  const unsigned first = index * lf_emu::kWarpSize;
  for (unsigned lane = 0; lane < lf_emu::kWarpSize; ++lane) {
    if ((warp.arrived >> lane & 1) == 0) {
      std::memset(warp.slots[warp.parity] + lane * lf_emu::kExchangeBytes, kGarbage,
                  lf_emu::kExchangeBytes);
    } else if (records_[first + lane].state == State::kInWarp) {
      records_[first + lane].state = State::kReady;
      ++warp.runnable;
    }
  }
  warp.arrived = 0;
  warp.parity ^= 1;
}

void Multiprocessor::wait_copies(unsigned groups_left) {
  auto& groups = records_[current_].groups;
  // The last group is open: what was not committed is waited for by nobody.
  const size_t committed = groups.empty() ? 0 : groups.size() - 1;
  const size_t due = committed > groups_left ? committed - groups_left : 0;
  for (size_t i = 0; i < due; ++i) {
    for (const PendingCopy& copy : groups[i]) {
      std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(static_cast<std::byte*>(copy.to) + copy.bytes, 0, copy.zeros);
      own().warpgroups.note_write(own_thread(), static_cast<std::byte*>(copy.to),
                                  copy.bytes + copy.zeros);
    }
  }
  groups.erase(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(due));
}

void Multiprocessor::note_access(const void* site, const void* address, unsigned bytes,
                                 bool is_store) {
  if (!is_observed()) return;
  const bool goes_on =
      launch_->observer->on_access({own_thread(), site, reinterpret_cast<uintptr_t>(address), bytes,
                                    is_store, is_shared(address, bytes)});
  if (!goes_on) fail(kLaunchFailed, "the observer has seen enough");
}

void Multiprocessor::note_together() {
  if (launch_->observer != nullptr) launch_->observer->on_together();
}

// Of a cluster one block alone.
bool Multiprocessor::is_observed() const {
  return launch_->observer != nullptr &&
         first_block_ + rank() == launch_->only_block.value_or(first_block_);
}

bool Multiprocessor::is_shared(const void* address, unsigned bytes) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const auto inside = [&](const std::byte* begin, size_t size) {
    return byte >= begin && byte + bytes <= begin + size;
  };
  return inside(blocks_[rank()].dynamic_shared,
                round_up(launch_->dynamic_shared_bytes, kDynamicSharedAlignment)) ||
         inside(static_shared_.data, static_shared_.size);
}

}  // namespace emulator
