#include "common/cuda/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/cat.h"
#include "common/cuda/driver.h"
#include "common/cuda/toolkit.h"
#include "common/process/shared_library.h"

namespace common {
namespace {

// Newest first: a library compiles for all architectures that the older ones know, bar retired
// ones.
const std::vector<std::string>& sonames() {
  static const std::vector<std::string> kSonames = {"libnvrtc.so.13", "libnvrtc.so.12",
                                                    "libnvrtc.so.11.2"};
  return kSonames;
}

using ProgramHandle = void*;
constexpr int kSuccess = 0, kInvalidOption = 5, kCompilationFailed = 6;

std::string_view line_at(std::string_view text, size_t start) {
  return text.substr(start, text.find('\n', start) - start);
}

// The first line that says "error", else the first one.
std::string first_complaint(std::string_view log) {
  for (size_t start = 0; start < log.size();) {
    std::string_view line = line_at(log, start);
    if (line.find("error") != std::string_view::npos) return std::string(line);
    start += line.size() + 1;
  }
  return std::string(line_at(log, 0));
}

// 90 of "sm_90a"; -1 for what is no architecture.
int architecture_number(std::string_view arch) {
  constexpr std::string_view kPrefix = "sm_";
  if (!arch.starts_with(kPrefix)) return -1;
  arch.remove_prefix(kPrefix.size());
  int number = -1;
  std::from_chars(arch.data(), arch.data() + arch.size(), number);
  return number;
}

constexpr int kMajorStep = 1000;  // of a version such as 12040

// The newest PTX that a driver of so new a CUDA knows: the first version of each CUDA, by the PTX
// ISA's notes on releases.
std::string ptx_version_of(int driver_version) {
  struct Release {
    int cuda, major, minor;
  };
  constexpr Release kReleases[] = {{13000, 9, 0}, {12090, 8, 8}, {12080, 8, 7}, {12070, 8, 6},
                                   {12050, 8, 5}, {12040, 8, 4}, {12030, 8, 3}, {12020, 8, 2},
                                   {12010, 8, 1}, {12000, 8, 0}};
  for (const Release& release : kReleases) {
    if (driver_version >= release.cuda) return cat(release.major, ".", release.minor);
  }
  return "7.8";
}

// "compute_90a" of "sm_90a".
std::string virtual_architecture(const std::string& arch) {
  return cat("compute_", arch.substr(arch.find('_') + 1));
}

// The text as one of an older PTX. Kernels use no instruction that is newer than their
// architecture; one that is would be refused by name when the text is loaded.
Result<std::string> with_ptx_version(std::string ptx, const std::string& version) {
  constexpr std::string_view kDirective = ".version ";
  while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
  size_t at = ptx.find(kDirective);
  if (at == std::string::npos) return internal_error("NVRTC's PTX does not say its version");
  at += kDirective.size();
  return ptx.replace(at, line_at(ptx, at).size(), version);
}

}  // namespace

// Signatures as in the NVRTC documentation; results are of an enumeration.
struct Nvrtc::Entries {
  std::shared_ptr<const SharedLibrary> library;
  const char* (*error_string)(int) = nullptr;
  int (*version)(int*, int*) = nullptr;
  int (*architecture_count)(int*) = nullptr;
  int (*architectures)(int*) = nullptr;
  int (*create)(ProgramHandle*, const char* source, const char* name, int header_count,
                const char* const* headers, const char* const* header_names) = nullptr;
  int (*destroy)(ProgramHandle*) = nullptr;
  int (*compile)(ProgramHandle, int option_count, const char* const* options) = nullptr;
  int (*cubin_size)(ProgramHandle, size_t*) = nullptr;
  int (*cubin)(ProgramHandle, char*) = nullptr;
  int (*ptx_size)(ProgramHandle, size_t*) = nullptr;
  int (*ptx)(ProgramHandle, char*) = nullptr;
  int (*log_size)(ProgramHandle, size_t*) = nullptr;
  int (*log)(ProgramHandle, char*) = nullptr;

  bool resolve() {
    const SharedLibrary& from = *library;
    return from.find(error_string, "nvrtcGetErrorString") && from.find(version, "nvrtcVersion") &&
           from.find(architecture_count, "nvrtcGetNumSupportedArchs") &&
           from.find(architectures, "nvrtcGetSupportedArchs") &&
           from.find(create, "nvrtcCreateProgram") && from.find(destroy, "nvrtcDestroyProgram") &&
           from.find(compile, "nvrtcCompileProgram") &&
           from.find(cubin_size, "nvrtcGetCUBINSize") && from.find(cubin, "nvrtcGetCUBIN") &&
           from.find(ptx_size, "nvrtcGetPTXSize") && from.find(ptx, "nvrtcGetPTX") &&
           from.find(log_size, "nvrtcGetProgramLogSize") && from.find(log, "nvrtcGetProgramLog");
  }
};

namespace {

// A program of the library, destroyed with this.
template <class Entries>
class ProgramHolder {
 public:
  ProgramHolder(const Entries& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    created_ = nvrtc_.create(&handle_, source.c_str(), "kernels.cu", 0, nullptr, nullptr);
  }
  ~ProgramHolder() {
    if (created_ == kSuccess) nvrtc_.destroy(&handle_);
  }
  ProgramHolder(const ProgramHolder&) = delete;
  ProgramHolder& operator=(const ProgramHolder&) = delete;

  int created() const { return created_; }
  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> words;
    words.reserve(options.size());
    for (const std::string& option : options) words.push_back(option.c_str());
    return nvrtc_.compile(handle_, static_cast<int>(words.size()), words.data());
  }
  // What `size` and `read` of the library give; empty when there is nothing.
  std::string text(int (*size)(ProgramHandle, size_t*), int (*read)(ProgramHandle, char*)) const {
    size_t bytes = 0;
    if (size(handle_, &bytes) != kSuccess || bytes == 0) return {};
    std::string out(bytes, '\0');
    if (read(handle_, out.data()) != kSuccess) return {};
    return out;
  }
  std::string log() const {
    std::string out = text(nvrtc_.log_size, nvrtc_.log);
    while (!out.empty() && (out.back() == '\0' || out.back() == '\n')) out.pop_back();
    return out;
  }

 private:
  const Entries& nvrtc_;
  ProgramHandle handle_ = nullptr;
  int created_ = -1;
};

// The library looks for its built-in functions by their bare name only, so that one which was found
// outside of the loader's places finds them only where they are loaded already.
void load_builtins_beside(const std::string& library, int major, int minor) {
  size_t folder = library.rfind('/');
  if (folder == std::string::npos) return;
  // Without them the first compilation says what is missing.
  (void)SharedLibrary::open(
      {cat(library.substr(0, folder), "/libnvrtc-builtins.so.", major, ".", minor)},
      SharedLibrary::Unload::kNever);
}

}  // namespace

Nvrtc::Nvrtc(std::unique_ptr<Entries> entries) : entries_(std::move(entries)) {}
Nvrtc::~Nvrtc() = default;

Result<std::shared_ptr<Nvrtc>> Nvrtc::open_library(const std::vector<std::string>& names) {
  auto entries = std::make_unique<Entries>();
  auto library = SharedLibrary::open(names, SharedLibrary::Unload::kNever);
  if (!library.ok()) {
    return unavailable(cat("no NVRTC: ", library.error().message,
                           "; install CUDA 12 or 13, or its package cuda-nvrtc"));
  }
  entries->library = *library;
  if (!entries->resolve()) {
    return unavailable(cat((*library)->name(), " has no nvrtcGetCUBIN; install CUDA 12 or 13"));
  }
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc(std::move(entries)));
  const Entries& calls = *nvrtc->entries_;
  int count = 0;
  if (calls.version(&nvrtc->major_, &nvrtc->minor_) != kSuccess ||
      calls.architecture_count(&count) != kSuccess || count < 1) {
    return unavailable(cat((*library)->name(), " does not say its version; install CUDA again"));
  }
  load_builtins_beside((*library)->name(), nvrtc->major_, nvrtc->minor_);
  nvrtc->architectures_.resize(static_cast<size_t>(count));
  if (calls.architectures(nvrtc->architectures_.data()) != kSuccess) {
    return unavailable(cat((*library)->name(), " does not say what it compiles for"));
  }
  std::sort(nvrtc->architectures_.begin(), nvrtc->architectures_.end());
  return nvrtc;
}

Result<std::shared_ptr<const Nvrtc>> Nvrtc::open(int driver_version) {
  const std::vector<std::string> names = cuda_library_names(sonames());
  LFARM_ASSIGN_OR_RETURN(std::shared_ptr<Nvrtc> first, open_library(names));
  const int driver_major = driver_version / kMajorStep;
  if (driver_version == 0 || first->major_ <= driver_major)
    return std::shared_ptr<const Nvrtc>(first);
  const std::string newest =
      cat("the driver is of CUDA ", cuda_version_text(driver_version),
          ", which loads no machine code of NVRTC ", first->major_, ".", first->minor_, ": ");
  for (const std::string& name : names) {
    auto other = open_library({name});
    if (!other.ok() || (*other)->major_ > driver_major) continue;
    (*other)->compromise_ = cat(newest, "NVRTC ", (*other)->major_, ".", (*other)->minor_,
                                " is used, ", (*other)->library());
    return std::shared_ptr<const Nvrtc>(*other);
  }
  first->ptx_version_ = ptx_version_of(driver_version);
  first->compromise_ = cat(newest, "PTX ", first->ptx_version_,
                           " is written, which drivers compile when they load it; install a newer "
                           "driver, or NVRTC of CUDA ",
                           driver_major);
  return std::shared_ptr<const Nvrtc>(first);
}

const std::string& Nvrtc::library() const { return entries_->library->name(); }

bool Nvrtc::supports(std::string_view arch) const {
  return std::binary_search(architectures_.begin(), architectures_.end(),
                            architecture_number(arch));
}

std::string Nvrtc::build() const {
  std::string build = cat(major_, ".", minor_);
  // The opening comment of its PTX names the build, which nvrtcVersion() does not.
  ProgramHolder<Entries> program(*entries_, "");
  if (program.created() != kSuccess) return build;
  std::string ptx;
  if (program.compile({cat("--gpu-architecture=compute_", architectures_.front())}) == kSuccess) {
    ptx = program.text(entries_->ptx_size, entries_->ptx);
  }
  constexpr std::string_view kBuild = "Compiler Build ID: ";
  if (size_t at = ptx.find(kBuild); at != std::string::npos) {
    build += cat(" ", line_at(ptx, at + kBuild.size()));
  }
  if (!ptx_version_.empty()) build += cat(" as PTX ", ptx_version_);
  return build;
}

Result<NvrtcOutput> Nvrtc::compile(const std::string& source, const std::string& arch,
                                   const std::vector<std::string>& options) const {
  ProgramHolder<Entries> program(*entries_, source);
  if (program.created() != kSuccess) {
    return internal_error(cat("NVRTC: ", entries_->error_string(program.created())));
  }
  const bool is_text = !ptx_version_.empty();
  std::vector<std::string> all = {
      cat("--gpu-architecture=", is_text ? virtual_architecture(arch) : arch)};
  all.insert(all.end(), options.begin(), options.end());
  int compiled = program.compile(all);
  NvrtcOutput output;
  output.log = program.log();
  if (compiled == kCompilationFailed || compiled == kInvalidOption) {
    return invalid_input(cat("NVRTC refused the text: ", first_complaint(output.log)));
  }
  if (compiled != kSuccess) {
    return internal_error(
        cat("NVRTC: ", entries_->error_string(compiled), ": ", first_complaint(output.log)));
  }
  if (is_text) {
    LFARM_ASSIGN_OR_RETURN(
        std::string text,
        with_ptx_version(program.text(entries_->ptx_size, entries_->ptx), ptx_version_));
    output.cubin = to_bytes(as_bytes(text));
  } else {
    output.cubin = to_bytes(as_bytes(program.text(entries_->cubin_size, entries_->cubin)));
  }
  if (output.cubin.empty()) {
    return internal_error(cat("NVRTC made no machine code for ", arch));
  }
  return output;
}

}  // namespace common
