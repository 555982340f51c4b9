// Quantities as people read them, the same wherever lfarm prints them.
#pragma once

#include <string>

namespace common {

// Three significant digits and a unit: "1.23 ms", "45.6 us", "7.80 s", "0 s".
std::string duration_text(double ns);
// "12.3 MiB"; below 1 KiB "12 bytes".
std::string bytes_text(double bytes);
// "0.97", "12.30": how many times as much, or as fast.
std::string ratio_text(double ratio);
// "0", "1.2e-07": how far a result is from another.
std::string error_text(double error);
// "12.5": with `digits` digits after the decimal point.
std::string fixed_text(double value, int digits);

}  // namespace common
