// The interface of compilers: the text of any number of kernels becomes one object.
#pragma once

#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace worker {

// Immutable, so any number of threads may share one.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // What the target's device loads. kTimedOut when the compiler took longer than `timeout_ms`;
  // kInvalidInput with its first complaint when it refused the text.
  virtual common::Result<common::Bytes> compile(std::string_view source, int timeout_ms) const = 0;
  // Texts that are compiled at once when as many threads call; others wait their turn.
  virtual int concurrency() const { return 1; }
  // Between these compile() stands still, where it takes this machine's processors: for measuring
  // beside it. Its time limits go on.
  virtual void pause() const {}
  virtual void resume() const {}
  // Everything about the compiler that an object depends on.
  virtual const common::Digest& identity() const = 0;
  // Its name and version, for people.
  virtual std::string description() const = 0;
};

}  // namespace worker
