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

// Removes the directory's files of this suffix (".plan"), the least recently written or touched
// first, until the others are within the bounds; those of more than `bytes` in all are cut to nine
// tenths of it. Open and mapped files keep their content until they are closed. Files that cannot
// be read or removed stay.
void remove_oldest_files(const std::string& directory, std::string_view suffix, FilesMax most);

}  // namespace common
