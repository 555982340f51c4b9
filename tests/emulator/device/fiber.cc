#include "tests/emulator/device/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// lf_emu_resume continues the stack in the second argument's register; lf_emu_start is what a new
// stack "returns" to: it calls the entry in one saved register with the argument in another. A
// jump stands where a return would: the processor predicts returns by the calls before them, which
// were on another stack, and a mispredicted one doubles the time of a switch.
#if defined(__x86_64__)
asm(R"(
.text
.globl lf_emu_switch
.hidden lf_emu_switch
.type lf_emu_switch, @function
lf_emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
.hidden lf_emu_resume
.globl lf_emu_resume
lf_emu_resume:
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size lf_emu_switch, .-lf_emu_switch
.hidden lf_emu_start
.globl lf_emu_start
lf_emu_start:
  movq %r12, %rdi
  xorl %ebp, %ebp
  callq *%rbx
  ud2
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl lf_emu_switch
.hidden lf_emu_switch
.type lf_emu_switch, %function
lf_emu_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
.hidden lf_emu_resume
.globl lf_emu_resume
lf_emu_resume:
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size lf_emu_switch, .-lf_emu_switch
.hidden lf_emu_start
.globl lf_emu_start
lf_emu_start:
  mov x0, x20
  mov x29, xzr
  blr x19
  brk #1
)");
#else
#error "fibers know x86-64 and aarch64"
#endif

extern "C" void lf_emu_start();
extern "C" void lf_emu_resume();

namespace emulator {
namespace {

size_t page_bytes() {
  static const auto kBytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

// kStackBytes of address space at a multiple of kStackBytes.
std::byte* map_stack() {
  constexpr size_t kBytes = lf_emu::kStackBytes;
  void* area =
      ::mmap(nullptr, 2 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) {
    std::perror("emulated GPU: no room for a thread's stack");
    std::abort();
  }
  auto* begin = static_cast<std::byte*>(area);
  std::byte* low = begin + (kBytes - reinterpret_cast<uintptr_t>(begin) % kBytes) % kBytes;
  if (low != begin) ::munmap(begin, low - begin);
  ::munmap(low + kBytes, begin + kBytes - low);
  ::mprotect(low + page_bytes(), kBytes - page_bytes(), PROT_READ | PROT_WRITE);
  return low;
}

}  // namespace

Fiber::Fiber(void (*entry)(void*), void* argument)
    : entry_(entry), argument_(argument), low_(map_stack()) {
  rewind();
}

Fiber::~Fiber() { ::munmap(low_, lf_emu::kStackBytes); }

lf_emu::Thread& Fiber::thread() const {
  return *reinterpret_cast<lf_emu::Thread*>(low_ + lf_emu::kStackBytes - lf_emu::kThreadBytes);
}

void Fiber::rewind() {
  auto* top = reinterpret_cast<void**>(&thread());
#if defined(__x86_64__)
  // r15 r14 r13 r12 rbx rbp and the return address, above which the stack is aligned.
  void** frame = top - 7;
  frame[3] = argument_;
  frame[4] = reinterpret_cast<void*>(entry_);
  frame[5] = nullptr;
  frame[6] = reinterpret_cast<void*>(&lf_emu_start);
#else
  void** frame = top - 20;
  frame[0] = reinterpret_cast<void*>(entry_);
  frame[1] = argument_;
  frame[10] = nullptr;
  frame[11] = reinterpret_cast<void*>(&lf_emu_start);
#endif
  pointer = frame;
}

bool Fiber::has_overflown(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= low_ && byte < low_ + page_bytes();
}

void abandon_in_handler(void* signal_context, StackPointer to) {
  auto* context = static_cast<ucontext_t*>(signal_context);
#if defined(__x86_64__)
  context->uc_mcontext.gregs[REG_RSI] = reinterpret_cast<greg_t>(to);
  context->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&lf_emu_resume);
#else
  context->uc_mcontext.regs[1] = reinterpret_cast<uintptr_t>(to);
  context->uc_mcontext.pc = reinterpret_cast<uintptr_t>(&lf_emu_resume);
#endif
}

}  // namespace emulator
