// Gives an input to the fuzzer's function and watches what it takes: an allocation beyond the heap
// that the fuzzer allows, or ten seconds of processor time, ends the process where it happens.
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/fuzz/fuzz.h"

namespace {

// Sanitizers make everything several times slower; a hang is a hang at any factor.
constexpr int kSeconds = 10;

std::atomic<size_t> live{0};
std::atomic<size_t> limit{SIZE_MAX};

void die(const char* why) {
  limit = SIZE_MAX;
  (void)!::write(STDERR_FILENO, why, std::strlen(why));
  std::abort();
}

void on_time(int) { die("one input takes more than ten seconds\n"); }

void* counted(size_t size) {
  if (live + size > limit) die("one input takes more heap than the fuzzer allows\n");
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory != nullptr) live += ::malloc_usable_size(memory);
  return memory;
}

void uncounted(void* memory) {
  if (memory != nullptr) live -= ::malloc_usable_size(memory);
  std::free(memory);
}

void set_timer(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

}  // namespace

void* operator new(size_t size) {
  void* memory = counted(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { uncounted(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { uncounted(memory); }

// libFuzzer prescribes the name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ::signal(SIGVTALRM, on_time);
  set_timer(kSeconds);
  limit = live + fuzz::heap_bytes_max();
  fuzz::one_input({reinterpret_cast<const std::byte*>(data), size});
  limit = SIZE_MAX;
  set_timer(0);
  return 0;
}
