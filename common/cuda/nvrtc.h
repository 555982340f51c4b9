// NVRTC, CUDA's compiler as a library, found at run time: text of CUDA C++ becomes a cubin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

struct NvrtcOutput {
  Bytes cubin;
  std::string log;  // warnings, and what --ptxas-options=-v says; empty when there is nothing
};

// Thread-safe, but the library compiles one program at a time: parallel compilations need a
// process each. A hostile or very large text can hang or crash it, so a process that must live does
// not compile by itself.
class Nvrtc {
 public:
  // kUnavailable says what to install. The first call of a process takes some tenths of a second.
  static Result<std::shared_ptr<const Nvrtc>> open();
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  int major_version() const { return major_; }
  int minor_version() const { return minor_; }
  // The name or path under which the library was found.
  const std::string& library() const;
  // The numbers of the architectures it knows, ascending: 90 for sm_90 and sm_90a.
  const std::vector<int>& architectures() const { return architectures_; }
  // Whether `arch`, as in "sm_90a", is one of them.
  bool supports(std::string_view arch) const;
  // What tells one build of the library from another: version, and its build number where the
  // library says it.
  std::string build() const;

  // One program, straight to machine code for `arch` ("sm_90a"). kInvalidInput with the first
  // complaint, on one line, when the text or an option is refused; kInternal when the library
  // itself fails.
  Result<NvrtcOutput> compile(const std::string& source, const std::string& arch,
                              const std::vector<std::string>& options) const;

 private:
  struct Entries;
  explicit Nvrtc(std::unique_ptr<Entries> entries);
  std::unique_ptr<Entries> entries_;
  int major_ = 0, minor_ = 0;
  std::vector<int> architectures_;
};

}  // namespace common
