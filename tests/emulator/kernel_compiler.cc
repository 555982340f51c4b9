#include "tests/emulator/kernel_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/emulator/prelude/prelude.h"

extern char** environ;

namespace emulator {
namespace {

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
  std::string name, threads_max, cluster;
};

std::vector<Head> kernels_of(const std::string& source) {
  static const std::regex kHead(
      "extern\\s+\"C\"\\s+__global__\\s+void\\s+(?:__launch_bounds__\\s*\\(\\s*(\\d+)[^)]*\\)\\s*)?"
      "(?:__cluster_dims__\\s*\\(\\s*(\\d+)[^)]*\\)\\s*)?(\\w+)\\s*\\(");
  std::vector<Head> heads;
  for (auto it = std::sregex_iterator(source.begin(), source.end(), kHead);
       it != std::sregex_iterator(); ++it) {
    heads.push_back({(*it)[3], (*it)[1].matched ? (*it)[1].str() : "0",
                     (*it)[2].matched ? (*it)[2].str() : "1"});
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
          head.cluster, std::string(", "), entry, std::string("::kCount, "), entry,
          std::string("::kParameters, &"), entry, std::string("::run},\n")}) {
      rows += part;
    }
  }
  return "\nextern \"C\" __attribute__((visibility(\"default"
         "\"))) const lf_emu::Kernel lf_emu_kernels[] = {\n" +
         rows +
         "  {nullptr, 0, 1, 0, nullptr, nullptr}};\n"
         "extern \"C\" __attribute__((visibility(\"default\"))) void* lf_emu_shared_anchor() {\n"
         "  return &lf_emu::g_shared_anchor;\n}\n";
}

std::vector<std::string> command(const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      LFARM_EMULATOR_CXX, "-O1", "-fPIC", "-shared", "-nostdlib",
      // As kernels behave: fused multiply-adds, no exceptions, bits looked at as any type.
      "-ffp-contract=fast", "-fno-math-errno", "-fno-strict-aliasing", "-fno-exceptions",
      "-fno-rtti", "-fno-threadsafe-statics", "-fwrapv", "-fvisibility=hidden",
      "-fno-omit-frame-pointer", "-w", "-DLF_EMULATED=1"};
#if defined(__x86_64__)
  words.insert(words.end(), {"-mfma", "-mavx2"});
#endif
  words.push_back("-std=c++17");
  words.insert(words.end(), more.begin(), more.end());
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

}  // namespace

CompiledKernels compile_kernels(const std::string& name, const std::string& source,
                                const std::vector<std::string>& options) {
  CompiledKernels compiled;
  Folder folder;
  if (!folder.is_ok()) {
    compiled.log = "cannot make a folder for temporary files";
    return compiled;
  }
  const std::vector<Head> kernels = kernels_of(source);
  for (const Head& kernel : kernels) compiled.names.push_back(kernel.name);
  std::ofstream(folder.file("kernels.cc"), std::ios::binary)
      << kPrelude << "\n#line 1 \"" << name << "\"\n"
      << with_dynamic_shared(source) << table_of(kernels);
  compiled.code = run_compiler(folder, command(options));
  compiled.log = folder.read("log");
  if (compiled.code == 0) compiled.object = folder.read("kernels.so");
  return compiled;
}

}  // namespace emulator
