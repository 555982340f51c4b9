// Quantities as people read them, the same wherever lfarm prints them.
#pragma once

#include <string>

namespace common {

// Three significant digits and a unit: "1.23 ms", "45.6 us", "7.80 s", "0 s".
std::string duration_text(double ns);
// "12.3 MiB"; below 1 KiB "12 bytes".
std::string bytes_text(double bytes);

}  // namespace common
