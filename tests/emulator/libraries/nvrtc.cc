// libnvrtc of the emulated device: turns CUDA source into a host object with the C++ compiler
// of this build, after a prelude that makes it take CUDA's dialect.
#include <cstring>
#include <iterator>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "tests/emulator/container.h"
#include "tests/emulator/device/multiprocessor.h"
#include "tests/emulator/device/shared_usage.h"
#include "tests/emulator/kernel_compiler.h"

namespace emulator {
namespace {

enum NvrtcResult {
  kOk = 0,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6,
  kInternal = 11,
};

constexpr int kMajor = LFARM_EMULATOR_NVRTC;  // of the CUDA that this is of
constexpr int kArchitectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Program {
  std::string source, name;
  std::string log, cubin, ptx;
};

struct Options {
  uint32_t architecture = 75;
  bool is_specific = false, is_virtual = false;
  std::vector<std::string> forwarded;
  std::string unknown;  // the first option that is none
};

bool read_architecture(const std::string& text, Options* options) {
  static const std::regex kForm("(sm|compute)_([0-9]+)([af]?)");
  std::smatch match;
  if (!std::regex_match(text, match, kForm)) return false;
  options->architecture = static_cast<uint32_t>(std::stoul(match[2]));
  options->is_virtual = match[1] == "compute";
  options->is_specific = match[3].length() != 0;
  return std::find(std::begin(kArchitectures), std::end(kArchitectures),
                   static_cast<int>(options->architecture)) != std::end(kArchitectures);
}

Options read_options(int count, const char* const* texts) {
  // What changes nothing here: code quality, debugging, and how exact functions may be.
  static const std::regex kWithoutEffect(
      "--?(use_fast_math|fmad=.*|ftz=.*|prec-sqrt=.*|prec-div=.*|extra-device-vectorization|"
      "default-device|device-as-default-execution-space|lineinfo|generate-line-info|maxrregcount=.*"
      "|"
      "restrict|w|disable-warnings|no-source-include|dopt=.*|split-compile=.*|minimal|"
      "diag-suppress=.*|ptxas-options=.*|Ofast-compile=.*)");
  static const std::regex kStandard("--?std=(c\\+\\+(11|14|17|20))");
  static const std::regex kArchitecture("--?(gpu-architecture|arch)=(.*)");
  Options options;
  for (int i = 0; i < count; ++i) {
    const std::string text = texts[i];
    std::smatch match;
    bool is_known = true;
    if (std::regex_match(text, match, kArchitecture)) {
      is_known = read_architecture(match[2], &options);
    } else if (std::regex_match(text, match, kStandard)) {
      options.forwarded.push_back("-std=" + match[1].str());
    } else if (text.starts_with("-D") || text.starts_with("-U")) {
      options.forwarded.push_back(text);
    } else {
      is_known = std::regex_match(text, kWithoutEffect);
    }
    if (!is_known && options.unknown.empty()) options.unknown = text;
  }
  return options;
}

std::string ptx_of(const std::string& container) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = kMajor == 13 ? "//\n.version 9.0\n" : "//\n.version 8.7\n";
  text += kContainerInText;
  for (const char byte : container) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text + "\n";
}

int compile(Program& program, const Options& options) {
  std::vector<std::string> words = {// Faults that a device reports and a processor forgives.
                                    "-fsanitize=alignment,bounds", "-fno-sanitize-recover=all"};
  words.insert(words.end(), options.forwarded.begin(), options.forwarded.end());
  const CompiledKernels compiled = compile_kernels(program.name, program.source, words);
  program.log = compiled.log;
  if (compiled.code < 0) return kInternal;
  if (compiled.code != 0) return kCompilation;
  for (const std::string& kernel : compiled.names) {
    const size_t bytes = static_shared_bytes(compiled.object, kernel);
    if (bytes <= kSharedBytes) continue;
    program.log = "ptxas error : Entry function '" + kernel + "' uses too much shared data (" +
                  std::to_string(bytes) + " bytes, " + std::to_string(kSharedBytes) + " max)";
    return kCompilation;
  }
  std::string container =
      make_container(compiled.object, options.architecture, options.is_specific, kMajor);
  if (options.is_virtual) {
    program.ptx = ptx_of(container);
  } else {
    program.cubin = std::move(container);
  }
  return kOk;
}

}  // namespace
}  // namespace emulator

#define LF_API extern "C" __attribute__((visibility("default"))) int

namespace emulator {

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.

LF_API nvrtcVersion(int* major, int* minor) {
  *major = kMajor;
  *minor = 0;
  return kOk;
}

LF_API nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchitectures));
  return kOk;
}

LF_API nvrtcGetSupportedArchs(int* architectures) {
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return kOk;
}

// Headers are refused: kernels of the project include nothing.
LF_API nvrtcCreateProgram(void** program, const char* source, const char* name, int header_count,
                          const char* const*, const char* const*) {
  if (program == nullptr || source == nullptr || header_count != 0) return kInvalidInput;
  auto created = std::make_unique<Program>();
  created->source = source;
  created->name = name != nullptr ? name : "default_program";
  *program = created.release();
  return kOk;
}

LF_API nvrtcDestroyProgram(void** program) {
  if (program == nullptr || *program == nullptr) return kInvalidProgram;
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return kOk;
}

LF_API nvrtcCompileProgram(void* handle, int option_count, const char* const* options) {
  if (handle == nullptr) return kInvalidProgram;
  auto& program = *static_cast<Program*>(handle);
  const Options read = read_options(option_count, options);
  if (!read.unknown.empty()) {
    program.log = "nvrtc: error: invalid value for option " + read.unknown;
    return kInvalidOption;
  }
  return compile(program, read);
}

// Sizes of texts count the closing zero.
LF_API nvrtcGetProgramLogSize(void* program, size_t* size) {
  if (program == nullptr) return kInvalidProgram;
  *size = static_cast<Program*>(program)->log.size() + 1;
  return kOk;
}

LF_API nvrtcGetProgramLog(void* program, char* log) {
  if (program == nullptr) return kInvalidProgram;
  const std::string& text = static_cast<Program*>(program)->log;
  std::memcpy(log, text.c_str(), text.size() + 1);
  return kOk;
}

LF_API nvrtcGetCUBINSize(void* program, size_t* size) {
  if (program == nullptr) return kInvalidProgram;
  *size = static_cast<Program*>(program)->cubin.size();
  return kOk;
}

LF_API nvrtcGetCUBIN(void* program, char* cubin) {
  if (program == nullptr || static_cast<Program*>(program)->cubin.empty()) return kInvalidProgram;
  const std::string& bytes = static_cast<Program*>(program)->cubin;
  std::copy(bytes.begin(), bytes.end(), cubin);
  return kOk;
}

LF_API nvrtcGetPTXSize(void* program, size_t* size) {
  if (program == nullptr) return kInvalidProgram;
  *size = static_cast<Program*>(program)->ptx.size() + 1;
  return kOk;
}

LF_API nvrtcGetPTX(void* program, char* ptx) {
  if (program == nullptr || static_cast<Program*>(program)->ptx.empty()) return kInvalidProgram;
  const std::string& text = static_cast<Program*>(program)->ptx;
  std::memcpy(ptx, text.c_str(), text.size() + 1);
  return kOk;
}

extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int code) {
  switch (code) {
    case kOk:
      return "NVRTC_SUCCESS";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kInvalidOption:
      return "NVRTC_ERROR_INVALID_OPTION";
    case kCompilation:
      return "NVRTC_ERROR_COMPILATION";
    case kInternal:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
