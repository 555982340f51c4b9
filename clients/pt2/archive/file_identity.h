// What tells a file's content from others without reading it, as build systems do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/digest.h"

namespace clients {

// As long as all of this is the same, nothing was written, up to the steps of the file system's
// clock (see is_settled).
struct FileIdentity {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t written_ns = 0;  // since 1970; programs may set it
  int64_t changed_ns = 0;  // likewise, of the inode, by the system alone
  common::Digest digest() const;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Of the plain file that this names now; empty where there is none.
std::optional<FileIdentity> file_identity(const std::string& path);

// Clocks of file systems go in steps of up to two seconds.
inline constexpr int64_t kSettledNs = 5'000'000'000;
// Whether the file changed last so long ago that any change from now on gives another identity.
bool is_settled(const FileIdentity& file, int64_t settled_ns = kSettledNs);

}  // namespace clients
