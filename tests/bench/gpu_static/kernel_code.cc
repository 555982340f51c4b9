#include "tests/bench/gpu_static/kernel_code.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "common/cost/gpu_time.h"
#include "tests/bench/gpu_static/warp_clocks.h"
#include "tests/bench/gpu_static/warp_roles.h"

namespace bench {
namespace {

using common::SassClass;
using common::SassInstruction;
using common::SassKernel;

// Steps of a loop that moves nothing, such as one over a warp's sums.
constexpr double kUnknownTrips = 4;
// Before a precise division of floats, which calls a function for its rare cases.
constexpr uint16_t kFloatCheck = 0x102;
constexpr uint16_t kWarpgroupProduct = 0x1f0;
constexpr uint16_t kExit = 0x14d;
constexpr int kChunkBytes = 16;  // of the copy engine
// That the second cache delivers to a processor in a clock.
constexpr double kCacheBytesPerClock = 32;

bool is_load(SassClass kind) {
  return kind == SassClass::kGlobalLoad || kind == SassClass::kAsyncCopy;
}

// Of what belongs to one loop and to none within it, or to no loop.
struct Part {
  double instructions = 0, tensor = 0;  // of one step
  double products = 0, boxes = 0;       // of warpgroups, of the copy engine
  std::array<double, 5> loads_by_width{};
  double load_bytes = 0, store_bytes = 0, shared_bytes = 0;
  int64_t barriers = 0, calls = 0, float_checks = 0;
  bool has_exit = false;  // anywhere within the loop
  double trips = 1;       // of all its turns together
  bool is_told = false;   // by what it moves
};

// One a loop, and the last for what is in none.
std::vector<Part> parts_of(const SassKernel& kernel, const std::vector<size_t>& places) {
  std::vector<Part> parts(kernel.loops.size() + 1);
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    const SassInstruction& x = kernel.code[k];
    if (!x.is_reached) continue;
    Part& part = parts[places[k]];
    part.instructions += 1;
    if (is_load(x.kind)) {
      part.load_bytes += x.bytes;
      part.loads_by_width[static_cast<size_t>(std::countr_zero(x.bytes))] += x.bytes;
    }
    if (x.kind == SassClass::kGlobalStore) part.store_bytes += x.bytes;
    if (x.kind == SassClass::kSharedLoad) part.shared_bytes += x.bytes;
    if (x.kind == SassClass::kTensor) part.tensor += 1;
    if (x.opcode == kWarpgroupProduct) part.products += 1;
    if (x.kind == SassClass::kBoxCopy) part.boxes += 1;
    if (x.kind == SassClass::kBarrier) ++part.barriers;
    if (x.kind == SassClass::kCall) ++part.calls;
    if (x.opcode == kFloatCheck) ++part.float_checks;
    if (x.opcode != kExit || x.is_conditional) continue;
    for (size_t l = 0; l < kernel.loops.size(); ++l) {
      parts[l].has_exit |= kernel.loops[l].first <= k && k <= kernel.loops[l].last;
    }
  }
  return parts;
}

// Lets loops that move bytes of this kind, and whose trips are open, turn as often as makes `total`
// of all that is moved.
template <class Bytes>
void turn(std::vector<Part>& parts, std::vector<char>& is_open, const std::optional<double>& total,
          const Bytes& bytes_of) {
  if (!total) return;
  double step = 0, left = *total;
  for (size_t k = 0; k < parts.size(); ++k) {
    (is_open[k] != 0 ? step : left) += (is_open[k] != 0 ? 1 : -parts[k].trips) * bytes_of(parts[k]);
  }
  for (size_t k = 0; k < parts.size(); ++k) {
    if (is_open[k] == 0 || bytes_of(parts[k]) == 0) continue;
    parts[k].trips = std::max(1.0, left / step);
    parts[k].is_told = true;
    is_open[k] = 0;
  }
}

void find_trips(std::vector<Part>& parts, const ThreadTraffic& traffic) {
  std::vector<char> is_open(parts.size(), 1);
  is_open.back() = 0;
  // An epilogue may load as wide as the loop before it, which stores nothing.
  turn(parts, is_open, traffic.stores, [](const Part& part) { return part.store_bytes; });
  for (size_t width = 5; width-- > 0 && traffic.loads_by_width;) {
    double total = (*traffic.loads_by_width)[width];
    // The GPU's compiler may have joined or split them.
    if (total == 0) continue;
    turn(parts, is_open, total, [&](const Part& part) { return part.loads_by_width[width]; });
  }
  turn(parts, is_open, traffic.products, [](const Part& part) { return part.products; });
  turn(parts, is_open, traffic.boxes, [](const Part& part) { return part.boxes; });
  turn(parts, is_open, traffic.loads, [](const Part& part) { return part.load_bytes; });
  turn(parts, is_open, traffic.shared_loads, [](const Part& part) { return part.shared_bytes; });
  for (size_t k = 0; k < parts.size(); ++k) {
    // Compilers write what waits again behind the end of the thread. The way back from there makes
    // no loop of all that lies between.
    if (is_open[k] != 0) parts[k].trips = parts[k].has_exit ? 1 : kUnknownTrips;
  }
}

// A loop that asks for boxes runs beside the one that multiplies them, in a warp of its own.
bool runs_beside(const Part& part) { return part.boxes > 0 && part.products == 0; }

// The innermost loop around a loop; -1: none.
int loop_around(const SassKernel& kernel, size_t loop) {
  const common::SassLoop& inner = kernel.loops[loop];
  int found = -1;
  for (size_t l = 0; l < kernel.loops.size(); ++l) {
    const common::SassLoop& outer = kernel.loops[l];
    const bool is_around = outer.first <= inner.first && inner.last <= outer.last &&
                           (outer.first != inner.first || outer.last != inner.last);
    if (!is_around) continue;
    if (found < 0 ||
        outer.last - outer.first < kernel.loops[static_cast<size_t>(found)].last -
                                       kernel.loops[static_cast<size_t>(found)].first) {
      found = static_cast<int>(l);
    }
  }
  return found;
}

// How often loops turn each time that they are entered, and that in the block that has most to
// load.
std::vector<double> trips_of(const SassKernel& kernel, const std::vector<Part>& parts) {
  std::vector<double> trips;
  for (size_t k = 0; k < parts.size(); ++k) {
    trips.push_back(runs_beside(parts[k]) ? 1 : parts[k].trips);
    if (k >= kernel.loops.size() || !parts[k].is_told) continue;
    const int around = loop_around(kernel, k);
    if (around < 0 || !parts[static_cast<size_t>(around)].is_told) continue;
    trips[k] = std::max(1.0, trips[k] / parts[static_cast<size_t>(around)].trips);
  }
  return trips;
}
std::vector<double> longest_trips(const SassKernel& kernel, std::vector<Part> parts,
                                  ThreadTraffic traffic) {
  if (traffic.longest_loads > traffic.loads) {
    traffic.loads = traffic.longest_loads;
    traffic.loads_by_width = traffic.longest_loads_by_width;
    find_trips(parts, traffic);
  }
  return trips_of(kernel, parts);
}

// The width of the accesses of this kind that move most bytes.
int main_width(const SassKernel& kernel, const std::vector<Part>& parts,
               const std::vector<size_t>& places, bool loads) {
  double moved[17] = {};
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    const SassInstruction& x = kernel.code[k];
    bool counts = loads ? is_load(x.kind) : x.kind == SassClass::kGlobalStore;
    if (x.is_reached && counts) moved[x.bytes] += x.bytes * parts[places[k]].trips;
  }
  auto most = std::max_element(std::begin(moved), std::end(moved));
  return *most > 0 ? static_cast<int>(most - std::begin(moved)) : 0;
}

std::vector<size_t> places_of(const SassKernel& kernel) {
  std::vector<size_t> places;
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    int loop = common::innermost_loop(kernel, k);
    places.push_back(loop < 0 ? kernel.loops.size() : static_cast<size_t>(loop));
  }
  return places;
}

// Of the warp that asks for boxes.
double copier_instructions(const SassKernel& kernel, const ThreadTraffic& traffic) {
  std::vector<Part> parts = parts_of(kernel, places_of(kernel));
  ThreadTraffic seen;
  seen.boxes = traffic.boxes;
  find_trips(parts, seen);
  double instructions = 0;
  for (const Part& part : parts) instructions += part.instructions * part.trips;
  return instructions;
}

// Clocks until the first boxes are there: those that belong to the same loop as the first one of
// all, or to none, in one way through it. They come at the rate of the second cache.
double first_boxes(const SassKernel& copies, const ThreadTraffic& traffic) {
  const std::vector<size_t> places = places_of(copies);
  std::optional<size_t> place;
  double boxes = 0;
  for (size_t k = 0; k < copies.code.size(); ++k) {
    const SassInstruction& x = copies.code[k];
    if (!x.is_reached || x.kind != SassClass::kBoxCopy) continue;
    if (!place) place = places[k];
    if (places[k] == *place) boxes += 1;
  }
  return clocks_to_first_box(copies) + common::kGpuMemoryClocks +
         boxes * traffic.box_bytes / kCacheBytesPerClock;
}

// The place of the loop that multiplies by warpgroups most, else that loads most, among the parts.
size_t main_loop(const std::vector<Part>& parts) {
  bool has_products =
      std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.products > 0; });
  auto weight = [&](const Part& part) {
    return (has_products ? part.products : part.load_bytes) * part.trips;
  };
  size_t main = parts.size() - 1;
  for (size_t k = 0; k + 1 < parts.size(); ++k) {
    if (weight(parts[k]) > weight(parts[main])) main = k;
  }
  return main;
}

}  // namespace

KernelCode kernel_code(const SassKernel& whole, const common::CubinKernel& facts,
                       const ThreadTraffic& traffic) {
  KernelCode code;
  const std::optional<WarpRoles> roles = warp_roles(whole);
  const SassKernel& kernel = roles ? roles->multiplies : whole;
  double first_box = 0;
  if (roles) {
    code.copier_instructions = copier_instructions(roles->copies, traffic);
    first_box = first_boxes(roles->copies, traffic);
  }
  code.name = kernel.name;
  code.registers = facts.registers;
  code.local_bytes = facts.local_bytes;
  code.shared_bytes = facts.shared_bytes;
  const size_t outside = kernel.loops.size();
  const std::vector<size_t> places = places_of(kernel);
  std::vector<Part> parts = parts_of(kernel, places);
  find_trips(parts, traffic);
  code.load_bytes = traffic.boxes ? kChunkBytes : main_width(kernel, parts, places, true);
  code.store_bytes = main_width(kernel, parts, places, false);
  for (const Part& part : parts) {
    code.instructions += part.instructions * (runs_beside(part) ? 1 : part.trips);
    code.tensor_instructions += part.tensor * part.trips;
    if (&part == &parts.back()) break;
    code.divisions_in_loops += std::max<int64_t>(0, part.calls - part.float_checks);
  }
  const size_t main = main_loop(parts);
  code.warp_clocks =
      warp_clocks(kernel, trips_of(kernel, parts), traffic.product_clocks, first_box);
  code.longest_warp_clocks =
      warp_clocks(kernel, longest_trips(kernel, parts, traffic), traffic.product_clocks, first_box);
  std::optional<common::SassLoop> within;
  if (main != outside) {
    code.barriers_step = parts[main].barriers;
    within = kernel.loops[main];
  }
  code.in_flight_bytes = std::max(common::loads_in_flight(kernel, within).bytes,
                                  static_cast<int64_t>(traffic.boxes_under_way));
  double after = 0;
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    const SassInstruction& x = kernel.code[k];
    if (!x.is_reached) continue;
    code.has_warpgroups |= x.opcode == kWarpgroupProduct;
    if (main != outside && k > kernel.loops[main].last) after += parts[places[k]].trips;
  }
  code.epilogue_share = code.instructions > 0 ? after / code.instructions : 0;
  return code;
}

}  // namespace bench
