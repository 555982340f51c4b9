// Runs the C compiler: source text in, a shared object's bytes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace worker {

// Immutable once found, so any number of threads may share one.
class Compiler {
 public:
  // The compiler that $LFARM_CC names, else the first of clang-14, clang, gcc and cc that runs,
  // for code of `target`. kUnavailable when there is none.
  static common::Result<Compiler> find(const common::Target& target);

  // An ELF shared object without the C runtime's start files. kTimedOut when the compiler took
  // longer than `timeout_ms`; kInvalidInput with its first complaint when it refused the text.
  common::Result<common::Bytes> compile(std::string_view source, int timeout_ms) const;

  // "Debian clang version 14.0.6", for people.
  const std::string& version() const { return version_; }
  // Everything about the compiler that an object depends on.
  const common::Digest& identity() const { return identity_; }

 private:
  std::string program_;
  std::string version_;
  std::vector<std::string> options_;
  common::Digest identity_;
};

}  // namespace worker
