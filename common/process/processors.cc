#include "common/process/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <thread>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {
namespace {

constexpr const char* kGroups = "/sys/fs/cgroup";

int affinity_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Where the kernel shows the group's limits: the path after "0::" of /proc/self/cgroup.
std::string own_group() {
  auto text = read_file("/proc/self/cgroup");
  if (!text.ok()) return "";
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}

// `text` is a number, or "max" where nothing is limited.
uint64_t least_of_file(const std::string& path, uint64_t least) {
  auto text = read_file(path);
  uint64_t bytes = 0;
  if (!text.ok() || !(std::istringstream(*text) >> bytes)) return least;
  return std::min(least, bytes);
}

// Calls `visit` with the folder of the own group and of each group around it.
template <class Visit>
void for_each_group(Visit visit) {
  std::string group = own_group();
  while (true) {
    visit(cat(kGroups, group));
    size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

double quota_of_file(const std::string& path, double least) {
  auto text = read_file(path);
  auto quota = text.ok() ? quota_processors(*text) : std::nullopt;
  return quota ? std::min(least, *quota) : least;
}

}  // namespace

std::optional<double> quota_processors(std::string_view text) {
  std::istringstream words{std::string(text)};
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

int usable_processors() {
  double least = affinity_processors();
  for_each_group(
      [&](const std::string& group) { least = quota_of_file(cat(group, "/cpu.max"), least); });
  auto quota = read_file(cat(kGroups, "/cpu/cpu.cfs_quota_us"));
  auto period = read_file(cat(kGroups, "/cpu/cpu.cfs_period_us"));
  if (quota.ok() && period.ok()) {
    if (auto processors = quota_processors(cat(*quota, " ", *period))) {
      least = std::min(least, *processors);
    }
  }
  return std::max(1, static_cast<int>(std::ceil(least)));
}

uint64_t usable_memory_bytes() {
  uint64_t least = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for_each_group(
      [&](const std::string& group) { least = least_of_file(cat(group, "/memory.max"), least); });
  return least_of_file(cat(kGroups, "/memory/memory.limit_in_bytes"), least);
}

}  // namespace common
