// libnvrtc of the emulated device: turns CUDA source into a host object with the C++ compiler
// of this build, after a prelude that makes it take CUDA's dialect.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "tests/emulator/container.h"
#include "tests/emulator/device/multiprocessor.h"
#include "tests/emulator/device/shared_usage.h"
#include "tests/emulator/prelude/prelude.h"

extern char** environ;

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

// A folder for one compilation, removed with the files that it puts there.
class Folder {
 public:
  Folder() {
    const char* parent = std::getenv("TMPDIR");
    path_ =
        std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/lf_nvrtc_XXXXXX";
    is_ok_ = ::mkdtemp(path_.data()) != nullptr;
  }
  ~Folder() {
    for (const char* name : {"kernels.cc", "kernels.so", "log"}) ::unlink(file(name).c_str());
    ::rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  bool is_ok() const { return is_ok_; }
  const std::string& path() const { return path_; }
  std::string file(const char* name) const { return path_ + "/" + name; }
  std::string read(const char* name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
  bool is_ok_ = false;
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

// `extern __shared__ T name[];` declares the one dynamic array: its name becomes an expression.
std::string with_dynamic_shared(const std::string& source) {
  static const std::regex kDeclaration(
      "extern\\s+__shared__\\s+(?:__align__\\s*\\([^)]*\\)\\s*)?([A-Za-z_][\\w ]*?)\\s+(\\w+)\\s*"
      "\\[\\s*\\]\\s*;");
  return std::regex_replace(
      source, kDeclaration,
      "static_assert(true);\n#define $2 (static_cast<$1*>(lf_emu::dynamic_shared()))\n");
}

struct Head {
  std::string name, threads_max;
};

std::vector<Head> kernels_of(const std::string& source) {
  static const std::regex kHead(
      "extern\\s+\"C\"\\s+__global__\\s+void\\s+(?:__launch_bounds__\\s*\\(\\s*(\\d+)[^)]*\\)\\s*)?"
      "(\\w+)\\s*\\(");
  std::vector<Head> heads;
  for (auto it = std::sregex_iterator(source.begin(), source.end(), kHead);
       it != std::sregex_iterator(); ++it) {
    heads.push_back({(*it)[2], (*it)[1].matched ? (*it)[1].str() : "0"});
  }
  return heads;
}

// The rows of the module's table of kernels.
std::string table_of(const std::vector<Head>& kernels) {
  std::string rows;
  for (const Head& head : kernels) {
    const std::string entry = "lf_emu::Entry<&" + head.name + ">";
    for (const std::string& part :
         {std::string("  {\""), head.name, std::string("\", "), head.threads_max, std::string(", "),
          entry, std::string("::kCount, "), entry, std::string("::kParameters, &"), entry,
          std::string("::run},\n")}) {
      rows += part;
    }
  }
  return "\nextern \"C\" __attribute__((visibility(\"default"
         "\"))) const lf_emu::Kernel lf_emu_kernels[] = {\n" +
         rows +
         "  {nullptr, 0, 0, nullptr, nullptr}};\n"
         "extern \"C\" __attribute__((visibility(\"default\"))) void* lf_emu_shared_anchor() {\n"
         "  return &lf_emu::g_shared_anchor;\n}\n";
}

std::vector<std::string> command(const Options& options) {
  std::vector<std::string> words = {
      LFARM_EMULATOR_CXX, "-O1", "-fPIC", "-shared", "-nostdlib",
      // As kernels behave: fused multiply-adds, no exceptions, bits looked at as any type.
      "-ffp-contract=fast", "-fno-math-errno", "-fno-strict-aliasing", "-fno-exceptions",
      "-fno-rtti", "-fno-threadsafe-statics", "-fwrapv", "-fvisibility=hidden",
      // Faults that a device reports and a processor forgives.
      "-fsanitize=alignment,bounds", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-w",
      "-DLF_EMULATED=1"};
#if defined(__x86_64__)
  words.insert(words.end(), {"-mfma", "-mavx2"});
#endif
  words.push_back("-std=c++17");
  words.insert(words.end(), options.forwarded.begin(), options.forwarded.end());
  words.insert(words.end(), {"kernels.cc", "-o", "kernels.so", "-lm", "-lc"});
  return words;
}

// The compiler's exit code, with what it says in the folder's file `log`.
int run_compiler(const Folder& folder, const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.path().c_str());
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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
  Folder folder;
  if (!folder.is_ok()) {
    program.log = "cannot make a folder for temporary files";
    return kInternal;
  }
  const std::vector<Head> kernels = kernels_of(program.source);
  std::ofstream(folder.file("kernels.cc"), std::ios::binary)
      << kPrelude << "\n#line 1 \"" << program.name << "\"\n"
      << with_dynamic_shared(program.source) << table_of(kernels);
  const int code = run_compiler(folder, command(options));
  program.log = folder.read("log");
  if (code < 0) return kInternal;
  if (code != 0) return kCompilation;
  const std::string object = folder.read("kernels.so");
  for (const Head& kernel : kernels) {
    const size_t bytes = static_shared_bytes(object, kernel.name);
    if (bytes <= kSharedBytes) continue;
    program.log = "ptxas error : Entry function '" + kernel.name + "' uses too much shared data (" +
                  std::to_string(bytes) + " bytes, " + std::to_string(kSharedBytes) + " max)";
    return kCompilation;
  }
  ContainerHeader header{};
  std::memcpy(header.magic, kContainerMagic, sizeof header.magic);
  header.architecture = options.architecture;
  header.is_specific = options.is_specific ? 1 : 0;
  header.object_bytes = object.size();
  header.toolkit = kMajor;
  std::string container(reinterpret_cast<const char*>(&header), sizeof header);
  container += object;
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
