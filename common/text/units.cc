#include "common/text/units.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "common/base/cat.h"

namespace common {
namespace {

constexpr double kLongestNs = 1e27;  // whose seconds an int64_t holds

// Three significant digits and a unit. Halves are rounded up, as coordinator/page/format.js does.
std::string scaled(double value, const char* unit) {
  char text[64];
  int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  double ones = digits == 0 ? 1 : digits == 1 ? 10 : 100;
  std::snprintf(text, sizeof text, "%.*f %s", digits, std::floor(value * ones + 0.5) / ones, unit);
  return text;
}

// "3 min 20 s", "2 h 5 min", "4 d 5 h".
std::string long_text(double seconds) {
  auto whole = static_cast<int64_t>(std::floor(seconds + 0.5));
  if (whole < 3600) return cat(whole / 60, " min ", whole % 60, " s");
  int64_t minutes = whole / 60;
  if (minutes < 48 * 60) return cat(minutes / 60, " h ", minutes % 60, " min");
  return cat(minutes / 1440, " d ", minutes / 60 % 24, " h");
}

}  // namespace

// coordinator/page/format.js prints alike, and tests/fixtures/quantities.txt holds both to it.
std::string duration_text(double ns) {
  if (ns == 0) return "0 s";
  if (ns < 999.5) return scaled(ns, "ns");
  if (ns < 999.5e3) return scaled(ns / 1e3, "us");
  if (ns < 999.5e6) return scaled(ns / 1e6, "ms");
  if (ns < 119.5e9) return scaled(ns / 1e9, "s");
  return ns < kLongestNs ? long_text(ns / 1e9) : "forever";
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return cat(static_cast<int64_t>(bytes), " bytes");
  if (bytes < 1024.0 * 1024) return scaled(bytes / 1024, "KiB");
  if (bytes < 1024.0 * 1024 * 1024) return scaled(bytes / 1024 / 1024, "MiB");
  bytes = bytes / 1024 / 1024 / 1024;
  return bytes < 1024 ? scaled(bytes, "GiB") : scaled(bytes / 1024, "TiB");
}

std::string ratio_text(double ratio) { return fixed_text(ratio, 2); }

std::string error_text(double error) {
  if (error == 0) return "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", error);
  return text;
}

std::string fixed_text(double value, int digits) {
  char text[512];  // of the largest number
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace common
