#include "tests/emulator/accesses/access_counter.h"

#include <algorithm>
#include <bit>

namespace emulator {
namespace {

constexpr uintptr_t kSector = 32, kBankBytes = 4, kBanks = 32;

uintptr_t divide_up(uintptr_t value, uintptr_t divisor) { return (value + divisor - 1) / divisor; }

// The addresses of lanes [first, last) that take part, ascending.
size_t sorted_addresses(uint32_t lanes, const std::array<uintptr_t, 32>& addresses, unsigned first,
                        unsigned last, std::array<uintptr_t, 32>& sorted) {
  size_t count = 0;
  for (unsigned lane = first; lane < last; ++lane) {
    if ((lanes >> lane & 1) != 0) sorted[count++] = addresses[lane];
  }
  std::sort(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

}  // namespace

AccessSums& AccessSums::add(const AccessSums& other, double weight) {
  sectors += weight * other.sectors;
  sectors_least += weight * other.sectors_least;
  wavefronts += weight * other.wavefronts;
  wavefronts_least += weight * other.wavefronts_least;
  for (size_t k = 0; k < load_bytes.size(); ++k) load_bytes[k] += weight * other.load_bytes[k];
  store_bytes += weight * other.store_bytes;
  shared_load_bytes += weight * other.shared_load_bytes;
  boxes += weight * other.boxes;
  box_bytes += weight * other.box_bytes;
  products += weight * other.products;
  product_operations += weight * other.product_operations;
  return *this;
}

AccessCounter::Site& AccessCounter::site_of(const LaneAccess& access) {
  // A copy has both a load and a store at one site.
  const uintptr_t key = reinterpret_cast<uintptr_t>(access.site) * 256 + access.bytes % 64 * 4 +
                        (access.is_store ? 2 : 0) + (access.is_shared ? 1 : 0);
  auto [found, is_new] = numbers_.try_emplace(key, sites_.size());
  if (is_new) {
    sites_.emplace_back();
    sites_.back().bytes = access.bytes;
    sites_.back().is_store = access.is_store;
    sites_.back().is_shared = access.is_shared;
  }
  Site& site = sites_[found->second];
  if (site.used == 0) open_.push_back(found->second);
  return site;
}

bool AccessCounter::on_access(const LaneAccess& access) {
  if (--left_ < 0) {
    is_whole_ = false;
    return false;
  }
  if (!access.is_shared && (access.address < first_ || access.address >= last_)) return true;
  Site& site = site_of(access);
  const unsigned lane = access.thread % kLanes;
  if (site.times[lane] == kTimesMax) {
    is_whole_ = false;
    return true;
  }
  const size_t time = site.times[lane]++;
  if (time >= site.accesses.size()) site.accesses.emplace_back();
  Together& together = site.accesses[time];
  if (time >= site.used) {
    together.lanes = 0;
    site.used = time + 1;
  }
  together.lanes |= 1u << lane;
  together.addresses[lane] = access.address;
  return true;
}

void AccessCounter::on_together() {
  for (size_t number : open_) {
    Site& site = sites_[number];
    for (size_t k = 0; k < site.used; ++k) {
      site.is_shared ? count_shared(site, site.accesses[k]) : count_global(site, site.accesses[k]);
    }
  }
  for (size_t number : open_) {
    sites_[number].used = 0;
    sites_[number].times.fill(0);
  }
  open_.clear();
}

void AccessCounter::on_completion(int64_t blocks) {
  if (completed_ > 0) return;
  own_ = sums_;
  completed_ = blocks;
}

// Of shared memory the copy engine and products take each bank once.
void AccessCounter::on_box(uint64_t read_bytes, uint64_t written_bytes, uint64_t under_way_bytes) {
  sums_.sectors += static_cast<double>(read_bytes) / kSector;
  sums_.sectors_least += static_cast<double>(read_bytes) / kSector;
  sums_.wavefronts += static_cast<double>(written_bytes) / (kBanks * kBankBytes);
  sums_.wavefronts_least += static_cast<double>(written_bytes) / (kBanks * kBankBytes);
  sums_.boxes += 1;
  sums_.box_bytes += static_cast<double>(read_bytes);
  under_way_bytes_ = std::max(under_way_bytes_, under_way_bytes);
}

void AccessCounter::on_product(const lf_emu::Product& product, unsigned warpgroup) {
  constexpr double kRows = 64, kDepth = 16, kHalf = 2;
  const double rows = product.left_registers != nullptr ? 0 : kRows;
  const double wavefronts = (rows + product.columns) * kDepth * kHalf / (kBanks * kBankBytes);
  warpgroups_ |= 1u << warpgroup % 32;
  sums_.wavefronts += wavefronts;
  sums_.wavefronts_least += wavefronts;
  sums_.products += 1;
  sums_.product_operations += 2 * kRows * product.columns * kDepth;
}

void AccessCounter::count_global(const Site& site, const Together& access) {
  std::array<uintptr_t, kLanes> sorted;
  const size_t count = sorted_addresses(access.lanes, access.addresses, 0, kLanes, sorted);
  uintptr_t sectors = 0, bytes = 0, sectors_end = 0, bytes_end = 0;
  for (size_t k = 0; k < count; ++k) {
    const uintptr_t begin = sorted[k], end = begin + site.bytes;
    // Nothing ends before an address that is not smaller, since all are of one length.
    if (end > bytes_end) bytes += end - std::max(begin, bytes_end);
    const uintptr_t first = std::max(begin / kSector, sectors_end);
    const uintptr_t last = (end - 1) / kSector + 1;
    if (last > first) sectors += last - first;
    bytes_end = std::max(bytes_end, end);
    sectors_end = std::max(sectors_end, last);
  }
  sums_.sectors += static_cast<double>(sectors);
  sums_.sectors_least += static_cast<double>(divide_up(bytes, kSector));
  const size_t width = std::has_single_bit(site.bytes) ? std::countr_zero(site.bytes) : 5;
  (site.is_store ? sums_.store_bytes : sums_.load_bytes[std::min<size_t>(width, 5)]) +=
      static_cast<double>(count * site.bytes);
}

void AccessCounter::count_shared(const Site& site, const Together& access) {
  const unsigned wide = std::max(1u, site.bytes / static_cast<unsigned>(kBankBytes));
  const unsigned lanes = std::max(1u, kLanes / wide);
  for (unsigned first = 0; first < kLanes; first += lanes) {
    std::array<uintptr_t, kLanes> sorted;
    const size_t count =
        sorted_addresses(access.lanes, access.addresses, first, first + lanes, sorted);
    if (count == 0) continue;
    if (!site.is_store) sums_.shared_load_bytes += static_cast<double>(count * site.bytes);
    std::array<unsigned, kBanks> turns{};
    uintptr_t words_end = 0, words = 0;
    for (size_t k = 0; k < count; ++k) {
      const uintptr_t end = (sorted[k] + site.bytes - 1) / kBankBytes + 1;
      for (uintptr_t word = std::max(sorted[k] / kBankBytes, words_end); word < end; ++word) {
        ++turns[word % kBanks];
        ++words;
      }
      words_end = std::max(words_end, end);
    }
    sums_.wavefronts += *std::max_element(turns.begin(), turns.end());
    sums_.wavefronts_least += static_cast<double>(std::max<uintptr_t>(1, divide_up(words, kBanks)));
  }
}

}  // namespace emulator
