// NVRTC, CUDA's compiler as a library, found at run time: text of CUDA C++ becomes a cubin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

struct NvrtcOutput {
  Bytes cubin;      // or PTX, for a driver that is older, see open()
  std::string log;  // warnings, and what --ptxas-options=-v says; empty when there is nothing
};

// Thread-safe, but the library compiles one program at a time: parallel compilations need a
// process each. A hostile or very large text can hang or crash it, so a process that must live does
// not compile by itself.
class Nvrtc {
 public:
  // The newest library whose machine code a driver of CUDA `driver_version` (12040; 0: any) loads,
  // which is one of the driver's major version or an older one. Where all are newer, the first one,
  // which then writes PTX of the version that the driver knows. kUnavailable says what to install.
  // The first call of a process takes some tenths of a second.
  static Result<std::shared_ptr<const Nvrtc>> open(int driver_version = 0);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  // What is other than with a newer driver, in a sentence; empty where nothing is.
  const std::string& compromise() const { return compromise_; }
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

  // One program, straight to machine code (see open()) for `arch` ("sm_90a"). kInvalidInput with
  // the first complaint, on one line, when the text or an option is refused; kInternal when the
  // library itself fails.
  Result<NvrtcOutput> compile(const std::string& source, const std::string& arch,
                              const std::vector<std::string>& options) const;

 private:
  struct Entries;
  explicit Nvrtc(std::unique_ptr<Entries> entries);
  static Result<std::shared_ptr<Nvrtc>> open_library(const std::vector<std::string>& names);
  std::unique_ptr<Entries> entries_;
  int major_ = 0, minor_ = 0;
  std::string ptx_version_;  // to write, as in "8.4"; empty: machine code
  std::string compromise_;
  std::vector<int> architectures_;
};

}  // namespace common
