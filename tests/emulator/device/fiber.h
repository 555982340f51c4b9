// Stacks that take turns on one operating system thread. A switch saves registers and nothing else:
// swapcontext would make two system calls for the signal mask, and a block switches thousands of
// times.
#pragma once

#include <cstddef>

#include "tests/emulator/prelude/prelude_abi.h"

namespace emulator {

// Where a stack that does not run continues.
using StackPointer = void*;

// Saves the running stack's registers on it and its pointer in `from`, and continues at `to`.
extern "C" void lf_emu_switch(StackPointer* from, StackPointer to);

// A stack of lf_emu::kStackBytes with a guard page at its low end and a lf_emu::Thread at its top.
class Fiber {
 public:
  // `entry` gets `argument` at the first switch to `pointer` and never returns.
  Fiber(void (*entry)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next switch to it begin at `entry` again, whatever it was doing.
  void rewind();
  lf_emu::Thread& thread() const;
  bool has_overflown(const void* address) const;

  StackPointer pointer = nullptr;

 private:
  void (*entry_)(void*);
  void* argument_;
  std::byte* low_;
};

// Makes a signal handler return into `to` instead of the interrupted code, which is given up.
void abandon_in_handler(void* signal_context, StackPointer to);

}  // namespace emulator
