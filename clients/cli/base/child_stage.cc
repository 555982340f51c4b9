#include "clients/cli/base/child_stage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "clients/cli/base/report.h"
#include "clients/cli/base/signals.h"
#include "common/base/cat.h"
#include "common/process/subprocess.h"

namespace clients {

using common::cat;
using common::Result;

namespace {

constexpr int kPollMs = 100;

// A descriptor that closes itself.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

common::Code code_of_exit(int exit) {
  for (auto code : {common::Code::kInvalidInput, common::Code::kUnsupported,
                    common::Code::kUnavailable, common::Code::kVerification}) {
    if (exit_code(code) == exit) return code;
  }
  return common::Code::kInternal;
}

// All of a file that memory_file() made.
Result<std::string> memory_file_content(int fd) {
  off_t size = ::lseek(fd, 0, SEEK_END);
  std::string text(size > 0 ? static_cast<size_t>(size) : 0, '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return common::internal_error("cannot read a file in memory");
    done += static_cast<size_t>(n);
  }
  return text;
}

}  // namespace

Result<int> memory_file(common::ByteView content) {
  int fd = ::memfd_create("lfarm", MFD_CLOEXEC);
  size_t done = 0;
  while (fd >= 0 && done < content.size()) {
    ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) done += static_cast<size_t>(n);
  }
  if (fd >= 0 && done == content.size() && ::lseek(fd, 0, SEEK_SET) == 0) return fd;
  auto error = common::internal_error(cat("cannot write a file in memory: ", std::strerror(errno)));
  if (fd >= 0) ::close(fd);
  return error;
}

Result<std::string> run_stage(std::vector<std::string> arguments, common::ByteView input) {
  std::string program = arguments[0];
  arguments[0] = cat(common::executable_directory(), "/", program);
  LFARM_ASSIGN_OR_RETURN(int in, memory_file(input));
  File input_file(in);
  LFARM_ASSIGN_OR_RETURN(int out, memory_file({}));
  File output_file(out);
  LFARM_ASSIGN_OR_RETURN(int words, memory_file({}));
  File words_file(words);
  common::SpawnOptions spawn;
  spawn.arguments = std::move(arguments);
  spawn.stdin_fd = in;
  spawn.stdout_fd = out;
  spawn.stderr_fd = words;
  LFARM_ASSIGN_OR_RETURN(common::Subprocess child, common::Subprocess::start(spawn));
  std::optional<common::ExitStatus> status;
  while (!(status = child.wait(kPollMs))) LFARM_RETURN_IF_ERROR(check_stop());
  if (status->code == 0 && status->signal == 0) return memory_file_content(out);
  LFARM_ASSIGN_OR_RETURN(std::string said, memory_file_content(words));
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (said.empty()) said = cat(program, " ended with ", status->signal, "/", status->code);
  if (size_t line = said.rfind('\n'); line != std::string::npos) said.erase(0, line + 1);
  if (said.compare(0, program.size() + 2, program + ": ") == 0) said.erase(0, program.size() + 2);
  return common::Error{code_of_exit(status->code), said};
}

}  // namespace clients
