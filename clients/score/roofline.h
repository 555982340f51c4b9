// What a device can do at most: the roofline that a plan is graded against.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace clients {

// What reading takes while all that is read again and again is at most this large.
struct Bandwidth {
  double bytes = 0;  // of the working set
  double bytes_per_s = 0;
  friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
};

struct Roofline {
  std::string device;                // "AMD EPYC 9B14, 2 threads", "NVIDIA H200"
  std::string source;                // "measured", "data sheet", "given"
  double operations_per_s = 0;       // multiplications and additions of float32
  double half_operations_per_s = 0;  // of 16-bit products; 0: the same
  std::vector<Bandwidth> reads;      // by size; whatever is larger reads as the last
  double launch_ns = 0;              // of an empty kernel
  friend bool operator==(const Roofline&, const Roofline&) = default;
};

// Of the least working set that is not smaller.
double read_bandwidth(const Roofline& roofline, double bytes);

// Data-sheet figures (dense, without boost of sparsity) of a GPU by the name that its driver gives;
// empty for GPUs that are not in the table.
std::optional<Roofline> data_sheet(std::string_view name);

// Measures this machine's processor in about a second: fused multiply-adds in its widest vectors,
// reads of working sets from caches to memory, each by `threads` threads together in the time that
// they have the processor, the median of several rounds; and an empty launch of its device.
Roofline measure_processor(int threads);

// How fast a processor's threads read a working set together now, for times that are compared with
// it: on a machine that others share it changes from one minute to the next.
class MemoryReads {
 public:
  // Takes `bytes` of memory, 1 GiB at most, of which each thread reads its share: as many as what
  // is compared reads, since caches keep some of a set that is a few times their size.
  MemoryReads(int threads, double bytes);
  ~MemoryReads();
  MemoryReads(const MemoryReads&) = delete;
  MemoryReads& operator=(const MemoryReads&) = delete;
  // Reads all of it, once and then again for 15 ms. 0 when there was not so much memory.
  double bytes_per_s();

 private:
  struct Threads;
  std::unique_ptr<Threads> threads_;
};

// "AMD EPYC 9B14"; what the processor calls itself, or its architecture.
std::string processor_name();

// The measured roofline that `folder` keeps for this machine, processor and number of threads.
std::optional<Roofline> kept_roofline_of_processor(const std::string& folder, int threads);

// The measured roofline that `folder` keeps for this machine, processor and number of threads, or a
// new one, which is kept. `again`: measures in any case. A file that is damaged is measured anew.
common::Result<Roofline> roofline_of_processor(const std::string& folder, int threads, bool again);

// As a file keeps it. kCorrupt when the text is none, or holds what no measurement gives.
std::string encode_roofline(const Roofline& roofline);
common::Result<Roofline> decode_roofline(std::string_view text);

}  // namespace clients
