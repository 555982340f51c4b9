// Signals as something to read.
#pragma once

#include <initializer_list>

#include "common/base/files.h"

namespace common {

class SignalDescriptor {
 public:
  // Blocks the signals in this thread, and so in those that it starts later: to be made before any
  // other thread starts.
  explicit SignalDescriptor(std::initializer_list<int> signals);

  // Readable while a signal waits.
  int fd() const { return fd_.get(); }
  // The next signal; 0 when there is none.
  int take();

 private:
  FileDescriptor fd_;
};

}  // namespace common
