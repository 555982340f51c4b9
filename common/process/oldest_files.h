// Files that processes keep in a directory for each other, within a bound.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace common {

// What files of one kind may be together; 0: no bound.
struct FilesMax {
  uint64_t bytes = 0;
  uint64_t files = 0;
};

// Removes the directory's files of this suffix (".plan") that were written or touched longest ago,
// until the others are within the bounds: within nine tenths of that of bytes, where they exceed
// it. Whoever has a removed file open or mapped keeps its content. What cannot be read or removed
// stays.
void remove_oldest_files(const std::string& directory, std::string_view suffix, FilesMax most);

}  // namespace common
