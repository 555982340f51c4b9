#include "tests/emulator/device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace emulator {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kGarbage = 0xff;
// Where device addresses are looked for first: space that processes leave free, also under the
// sanitizers.
constexpr uint64_t kFirstAddress = 0x7e9000000000;
constexpr uint64_t kStep = uint64_t{1} << 30;
constexpr int kTries = 256;

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// `bytes` of address space that no earlier call returned, as far as the process leaves room.
std::byte* reserve(size_t bytes) {
  static uint64_t next = kFirstAddress;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  for (int i = 0; i < kTries; ++i) {
    void* wanted = reinterpret_cast<void*>(next);  // NOLINT(performance-no-int-to-ptr)
    void* area = ::mmap(wanted, bytes, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (area == wanted) {
      next += bytes;
      return static_cast<std::byte*>(area);
    }
    if (area != MAP_FAILED) ::munmap(area, bytes);
    next += kStep;
  }
  void* area = ::mmap(nullptr, bytes, PROT_NONE, kFlags, -1, 0);
  return area == MAP_FAILED ? nullptr : static_cast<std::byte*>(area);
}

}  // namespace

size_t Memory::total_bytes() {
  const char* bytes = std::getenv("LFARM_EMULATOR_MEMORY");
  return bytes == nullptr ? size_t{16} << 30 : std::strtoull(bytes, nullptr, 10);
}

Memory::~Memory() { clear(); }

void Memory::clear() {
  while (!allocations_.empty()) release(allocations_.begin()->first);
}

uint64_t Memory::allocate(size_t bytes) {
  if (bytes == 0 || bytes > free_bytes()) return 0;
  const size_t page = ::sysconf(_SC_PAGESIZE);
  const size_t mapped = round_up(bytes, page);
  const int file = ::memfd_create("emulated-gpu", MFD_CLOEXEC);
  if (file < 0) return 0;
  std::byte* area = nullptr;
  void* host = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(mapped)) == 0) area = reserve(mapped + 2 * page);
  if (area != nullptr) host = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const bool is_mapped = host != MAP_FAILED &&
                         ::mmap(area + page, mapped, is_open_ ? PROT_READ | PROT_WRITE : PROT_NONE,
                                MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  ::close(file);
  if (!is_mapped) {
    if (area != nullptr) ::munmap(area, mapped + 2 * page);
    if (host != MAP_FAILED) ::munmap(host, mapped);
    return 0;
  }
  std::memset(host, kGarbage, mapped);
  std::byte* start = area + page + mapped - round_up(bytes, kAlignment);
  const auto address = reinterpret_cast<uint64_t>(start);
  allocations_[address] = {bytes, mapped, area + page, static_cast<std::byte*>(host)};
  used_ += mapped;
  return address;
}

bool Memory::release(uint64_t address) {
  auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  const size_t page = ::sysconf(_SC_PAGESIZE);
  const Allocation& a = found->second;
  ::munmap(a.host, a.mapped);
  ::munmap(a.device - page, a.mapped + 2 * page);
  used_ -= a.mapped;
  allocations_.erase(found);
  return true;
}

std::byte* Memory::host_view(uint64_t address, size_t bytes) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const auto& [start, a] = *std::prev(after);
  if (address - start > a.bytes || bytes > a.bytes - (address - start)) return nullptr;
  return a.host + (address - reinterpret_cast<uint64_t>(a.device));
}

void Memory::open() {
  if (is_open_) return;
  is_open_ = true;
  for (const auto& [start, a] : allocations_) {
    ::mprotect(a.device, a.mapped, PROT_READ | PROT_WRITE);
  }
}

void Memory::close() {
  if (!is_open_) return;
  is_open_ = false;
  for (const auto& [start, a] : allocations_) ::mprotect(a.device, a.mapped, PROT_NONE);
}

}  // namespace emulator
