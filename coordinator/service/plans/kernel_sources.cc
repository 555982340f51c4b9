#include "coordinator/service/plans/kernel_sources.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::cat;
using common::Result;

namespace {

constexpr int kPollMs = 20;
constexpr size_t kComplaintBytesMax = 4'096;

// A file in memory.
class MemoryFile {
 public:
  static Result<MemoryFile> create() {
    common::FileDescriptor fd(::memfd_create("lfarm-source", MFD_CLOEXEC));
    if (fd.is_open()) return MemoryFile(std::move(fd));
    return common::internal_error(cat("cannot make a file in memory: ", std::strerror(errno)));
  }

  int fd() const { return fd_.get(); }
  size_t size() const {
    off_t end = ::lseek(fd(), 0, SEEK_END);
    return end > 0 ? static_cast<size_t>(end) : 0;
  }
  bool write(common::ByteView bytes) const {
    while (!bytes.empty()) {
      ssize_t n = ::write(fd(), bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) return false;
      if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return ::lseek(fd(), 0, SEEK_SET) == 0;
  }
  // From the start, at most that much.
  std::string read(size_t bytes_max) const {
    std::string text(std::min(size(), bytes_max), '\0');
    size_t done = 0;
    while (done < text.size()) {
      ssize_t n = ::pread(fd(), text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    text.resize(done);
    return text;
  }

 private:
  explicit MemoryFile(common::FileDescriptor fd) : fd_(std::move(fd)) {}
  common::FileDescriptor fd_;
};

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

KernelSources separate(const std::string& text) {
  KernelSources sources;
  size_t end = text.find('\0');
  sources.preamble = text.substr(0, end);
  while (end != std::string::npos) {
    size_t start = end + 1;
    end = text.find('\0', start);
    sources.kernels.push_back(text.substr(start, end - start));
  }
  return sources;
}

}  // namespace

Result<KernelSources> write_sources(const common::Program& program, const common::Target& target,
                                    const common::Sandbox* sandbox,
                                    const std::function<bool()>& is_wanted) {
  std::string worker = cat(common::executable_directory(), "/lfarm-worker");
  if (!common::file_exists(worker)) {
    return common::unavailable(
        "lfarm-worker, which writes kernels' source, does not lie beside the coordinator");
  }
  LFARM_ASSIGN_OR_RETURN(MemoryFile in, MemoryFile::create());
  LFARM_ASSIGN_OR_RETURN(MemoryFile out, MemoryFile::create());
  LFARM_ASSIGN_OR_RETURN(MemoryFile complaint, MemoryFile::create());
  LFARM_ASSIGN_OR_RETURN(common::ScratchDirectory temporary,
                         common::ScratchDirectory::create("lfarm-source"));
  if (!in.write(common::encode_program(program))) {
    return common::internal_error("cannot write a program for lfarm-worker");
  }
  common::SpawnOptions spawn;
  spawn.arguments = {worker, "print-source", target.name, "--separated"};
  spawn.stdin_fd = in.fd();
  spawn.stdout_fd = out.fd();
  spawn.stderr_fd = complaint.fd();
  spawn.new_process_group = true;
  LFARM_ASSIGN_OR_RETURN(common::Subprocess child,
                         common::start_confined(std::move(spawn), sandbox, temporary.path()));
  std::optional<common::ExitStatus> status;
  for (int waited_ms = 0; !(status = child.wait(kPollMs)); waited_ms += kPollMs) {
    bool is_long = out.size() > kSourceBytesMax;
    if (waited_ms < kSourceMsMax && is_wanted() && !is_long) continue;
    child.kill();
    return common::unavailable("the kernels' source was not written in time; ask again");
  }
  if (status->code != 0 || status->signal != 0) {
    return common::invalid_input(cat("the kernels' source cannot be written: ",
                                     last_line(complaint.read(kComplaintBytesMax))));
  }
  if (out.size() > kSourceBytesMax) {
    return common::unsupported(cat("the kernels' source is longer than ", kSourceBytesMax,
                                   " bytes; 'lfarm print --stage source' prints a model's"));
  }
  return separate(out.read(kSourceBytesMax));
}

}  // namespace coordinator::service
