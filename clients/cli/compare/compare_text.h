// What `lfarm compare` says, for people and for programs.
#pragma once

#include <string>

#include "clients/cli/compare/compared_row.h"

namespace clients {

// A comparison with what it was made on.
struct Comparison {
  ModelRow row;
  std::string plan;       // its id
  std::string machine;    // see roofline_text()
  std::string peers;      // of the first peer: see facts_text(); empty where none started
  bool verified = false;  // lfarm's outputs were compared with PyTorch's
};

// A few lines and a table: each side's time, how many of lfarm's that is, its share of the
// roofline, and whether its outputs are eager's.
std::string text_of(const Comparison& comparison);
// One object in a line.
std::string json_of(const Comparison& comparison);

}  // namespace clients
