#include "common/process/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <string_view>

#include "common/base/cat.h"

namespace common {
namespace {

struct NameSearch {
  const std::vector<std::string>& prefixes;
  std::string found;  // a path

  // For dl_iterate_phdr(), which stops at a result other than 0.
  static int visit(dl_phdr_info* info, size_t, void* data) {
    auto& search = *static_cast<NameSearch*>(data);
    std::string_view path = info->dlpi_name, name = path.substr(path.rfind('/') + 1);
    if (std::any_of(search.prefixes.begin(), search.prefixes.end(),
                    [&](const std::string& prefix) { return name.starts_with(prefix); })) {
      search.found = path;
    }
    return search.found.empty() ? 0 : 1;
  }
};

}  // namespace

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

bool SharedLibrary::is_loaded(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

std::shared_ptr<const SharedLibrary> SharedLibrary::find_loaded(
    const std::vector<std::string>& prefixes) {
  NameSearch search{prefixes, {}};
  ::dl_iterate_phdr(NameSearch::visit, &search);
  if (search.found.empty()) return nullptr;
  void* handle = ::dlopen(search.found.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  if (handle == nullptr) return nullptr;
  return std::shared_ptr<const SharedLibrary>(new SharedLibrary(search.found, handle));
}

SharedLibrary::~SharedLibrary() { ::dlclose(handle_); }

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace common
