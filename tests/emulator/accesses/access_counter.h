// Counts what warps' accesses of memory cost, from what their lanes access: 32-byte sectors of
// device memory and wavefronts of shared memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/emulator/device/multiprocessor.h"

namespace emulator {

struct AccessSums {
  // Of device memory, loads and stores: sectors that each warp's access touches; and the fewest
  // that could hold the bytes it asks for, each of them counted once.
  double sectors = 0, sectors_least = 0;
  // Of shared memory: turns of 32 banks of 4 bytes, of which an access of 8 bytes a lane takes two
  // at least and one of 16 bytes four, half or a quarter of the warp in each; and those least.
  double wavefronts = 0, wavefronts_least = 0;
  // Of all lanes: to device memory, from shared memory, and from device memory by the bytes of an
  // access: 1, 2, 4, 8, 16 and others.
  double store_bytes = 0, shared_load_bytes = 0;
  std::array<double, 6> load_bytes{};
  // Boxes that the copy engine brings and products of warpgroups, whose bytes are counted above;
  // the bytes that boxes ask the second cache for, and the products' multiplications and additions.
  double boxes = 0, box_bytes = 0, products = 0, product_operations = 0;
  AccessSums& add(const AccessSums& other, double weight);
};

// Lanes make an access together that come to one site for the same time since they last were at
// one place.
class AccessCounter : public AccessObserver {
 public:
  // Device memory is [first, last); what is neither there nor shared is not counted. Ends a kernel
  // after `accesses_max` accesses of lanes, and counts the first kTimesMax of a lane at one site
  // between two places where its warp is together.
  AccessCounter(uintptr_t first, uintptr_t last, int64_t accesses_max)
      : first_(first), last_(last), left_(accesses_max) {}

  bool on_access(const LaneAccess& access) override;
  void on_together() override;
  void on_completion(int64_t blocks) override;
  void on_box(uint64_t read_bytes, uint64_t written_bytes, uint64_t under_way_bytes) override;
  void on_product(const lf_emu::Product& product, unsigned warpgroup) override;
  // Warpgroups of a block that multiply.
  int warpgroups() const { return std::popcount(warpgroups_); }
  // Most bytes of boxes that were under way at once.
  uint64_t box_bytes_under_way() const { return under_way_bytes_; }
  const AccessSums& sums() const { return sums_; }
  // What the kernel accessed before it went on for `completed()` blocks; all, where that is 0.
  const AccessSums& own() const { return completed_ > 0 ? own_ : sums_; }
  int64_t completed() const { return completed_; }
  bool has_ended_kernel() const { return left_ < 0; }
  // Whether all that was accessed was counted.
  bool is_whole() const { return is_whole_; }

 private:
  static constexpr unsigned kLanes = 32;
  static constexpr uint32_t kTimesMax = 1 << 15;
  struct Together {
    uint32_t lanes = 0;
    std::array<uintptr_t, kLanes> addresses;
  };
  struct Site {
    unsigned bytes = 0;
    bool is_store = false, is_shared = false;
    std::array<uint32_t, kLanes> times{};  // of each lane since on_together()
    size_t used = 0;
    std::vector<Together> accesses;
  };
  Site& site_of(const LaneAccess& access);
  void count_global(const Site& site, const Together& access);
  void count_shared(const Site& site, const Together& access);

  uintptr_t first_, last_;
  int64_t left_;
  bool is_whole_ = true;
  std::unordered_map<uintptr_t, size_t> numbers_;
  std::vector<Site> sites_;
  std::vector<size_t> open_;  // sites with accesses since on_together()
  AccessSums sums_, own_;
  int64_t completed_ = 0;
  uint64_t under_way_bytes_ = 0;
  uint32_t warpgroups_ = 0;  // a bit each
};

}  // namespace emulator
