// Functions that glibc has had since 2.35 or 2.36, for programs that are to run on 2.34: hidden
// ones of the same names, by what older ones have. libstdc++, libzip and common/sandbox call them.
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#pragma GCC visibility push(hidden)
extern "C" {

void arc4random_buf(void* into, size_t size) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    ssize_t n = ::getrandom(at, size, 0);
    if (n < 0 && errno != EINTR) std::abort();
    if (n <= 0) continue;
    at += n;
    size -= static_cast<size_t>(n);
  }
}

uint32_t arc4random() {
  uint32_t drawn = 0;
  arc4random_buf(&drawn, sizeof drawn);
  return drawn;
}

int mount_setattr(int folder, const char* path, unsigned flags, void* attributes, size_t size) {
  return static_cast<int>(::syscall(SYS_mount_setattr, folder, path, flags, attributes, size));
}

// Version 2.35 of it sets no errno; the one of long double has no such version.
double hypot(double x, double y) { return static_cast<double>(__builtin_hypotl(x, y)); }

}  // extern "C"
#pragma GCC visibility pop
