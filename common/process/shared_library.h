// Libraries that are looked for at run time, so that binaries run where they are missing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace common {

// A loaded library; closed when the last holder goes.
class SharedLibrary {
 public:
  // Some libraries run threads of their own, whose code must stay: kNever.
  enum class Unload { kWithLastHolder, kNever };
  // The first of `names` that the loader finds. kUnavailable names the first one, and gives the
  // loader's reason, when there is none.
  static Result<std::shared_ptr<const SharedLibrary>> open(const std::vector<std::string>& names,
                                                           Unload unload = Unload::kWithLastHolder);
  // Whether the process has loaded a library of this name.
  static bool is_loaded(const std::string& name);
  // The first library, in the order of loading, that the process has loaded already and whose
  // file's name begins with one of `prefixes`. It is never unloaded afterwards. Null when there is
  // none.
  static std::shared_ptr<const SharedLibrary> find_loaded(const std::vector<std::string>& prefixes);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  // The name under which it was found.
  const std::string& name() const { return name_; }
  // Null when the library has no such symbol.
  void* symbol(const char* name) const;
  // Sets `function` to the symbol; false when there is none.
  template <class F>
  bool find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(symbol(name));
    return function != nullptr;
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  std::string name_;
  void* handle_;
};

}  // namespace common
