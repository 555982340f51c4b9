#include "common/base/units.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "common/base/cat.h"

namespace common {
namespace {

// Three significant digits and a unit.
std::string scaled(double value, const char* unit) {
  char text[64];
  int digits = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, unit);
  return text;
}

}  // namespace

std::string duration_text(double ns) {
  if (ns == 0) return "0 s";
  if (ns < 999.5) return scaled(ns, "ns");
  if (ns < 999.5e3) return scaled(ns / 1e3, "us");
  if (ns < 999.5e6) return scaled(ns / 1e6, "ms");
  return scaled(ns / 1e9, "s");
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return cat(static_cast<int64_t>(bytes), " bytes");
  if (bytes < 1024.0 * 1024) return scaled(bytes / 1024, "KiB");
  if (bytes < 1024.0 * 1024 * 1024) return scaled(bytes / 1024 / 1024, "MiB");
  return scaled(bytes / 1024 / 1024 / 1024, "GiB");
}

}  // namespace common
