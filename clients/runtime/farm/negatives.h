// What a farm said it cannot do, kept for a while and for all processes of this
// user: so that a program that starts again does not ask again at once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/digest.h"
#include "common/base/result.h"

namespace clients {

// A file an answer. Safe among threads and processes. What cannot be kept or read is not known.
class Negatives {
 public:
  // How long an answer holds: a farm that is updated is asked again after it.
  static constexpr int64_t kUnsupportedS = 600;

  // `wall_s`: seconds since 1970; empty means the system's.
  explicit Negatives(std::string directory, std::function<int64_t()> wall_s = {});

  // The farm refused what `what` names, with this error.
  void note(const common::Digest& what, const common::Error& why, int64_t seconds) const;
  // Empty when nothing is known, or not any more.
  std::optional<common::Error> find(const common::Digest& what) const;
  // It is not so any more.
  void forget(const common::Digest& what) const;

 private:
  std::string path_of(const common::Digest& what) const;
  void remove_old() const;
  std::string directory_;
  std::function<int64_t()> wall_s_;
};

}  // namespace clients
