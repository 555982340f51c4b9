// What all logs of runs have in common, as their readers give it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace clients {

// Whose run it is.
struct RunHead {
  std::string name, machine, device;
  std::string note;   // "" where there is none
  int64_t at_ns = 0;  // since 1970
};

// Numbers that were not finite are NaN.
using NamedNumbers = std::vector<std::pair<std::string, double>>;
using NumberRows = std::vector<std::vector<double>>;  // of equal length

}  // namespace clients
