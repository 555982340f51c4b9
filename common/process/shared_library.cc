#include "common/process/shared_library.h"

#include <dlfcn.h>

#include "common/base/cat.h"

namespace common {

Result<std::shared_ptr<const SharedLibrary>> SharedLibrary::open(
    const std::vector<std::string>& names, Unload unload) {
  int flags = RTLD_NOW | RTLD_LOCAL | (unload == Unload::kNever ? RTLD_NODELETE : 0);
  std::string reason;
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), flags);
    if (handle != nullptr) {
      return std::shared_ptr<const SharedLibrary>(new SharedLibrary(name, handle));
    }
    const char* message = ::dlerror();
    if (reason.empty() && message != nullptr) reason = message;
  }
  return unavailable(cat("cannot load ", names.front(), ": ", reason));
}

SharedLibrary::~SharedLibrary() { ::dlclose(handle_); }

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace common
