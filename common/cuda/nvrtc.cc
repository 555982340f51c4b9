#include "common/cuda/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/cat.h"
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

Result<std::shared_ptr<const Nvrtc>> Nvrtc::open() {
  auto entries = std::make_unique<Entries>();
  auto library = SharedLibrary::open(cuda_library_names(sonames()), SharedLibrary::Unload::kNever);
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
  return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
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
  if (program.compile({cat("--gpu-architecture=compute_", architectures_.front())}) != kSuccess) {
    return build;
  }
  std::string ptx = program.text(entries_->ptx_size, entries_->ptx);
  constexpr std::string_view kBuild = "Compiler Build ID: ";
  if (size_t at = ptx.find(kBuild); at != std::string::npos) {
    build += cat(" ", line_at(ptx, at + kBuild.size()));
  }
  return build;
}

Result<NvrtcOutput> Nvrtc::compile(const std::string& source, const std::string& arch,
                                   const std::vector<std::string>& options) const {
  ProgramHolder<Entries> program(*entries_, source);
  if (program.created() != kSuccess) {
    return internal_error(cat("NVRTC: ", entries_->error_string(program.created())));
  }
  std::vector<std::string> all = {cat("--gpu-architecture=", arch)};
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
  output.cubin = to_bytes(as_bytes(program.text(entries_->cubin_size, entries_->cubin)));
  if (output.cubin.empty()) {
    return internal_error(cat("NVRTC made no machine code for ", arch));
  }
  return output;
}

}  // namespace common
