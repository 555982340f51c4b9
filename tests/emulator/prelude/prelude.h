// The text that comes before every kernel's source in the emulated compiler: the prelude_*.h files,
// joined by the build.
#pragma once

namespace emulator {

extern const char* const kPrelude;

}  // namespace emulator
