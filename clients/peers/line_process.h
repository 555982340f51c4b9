// A process that is told what to do and answers, a line at a time, on a socket that is its standard
// input and output.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/process/subprocess.h"

namespace clients {

// Not thread-safe. After an error the process is of no further use; it is killed when this goes.
class LineProcess {
 public:
  // `name`: for messages. The command's standard error is kept, and the last of it quoted where the
  // process ends too soon.
  static common::Result<LineProcess> start(std::string name, std::vector<std::string> command);
  LineProcess(LineProcess&& other) noexcept;
  LineProcess& operator=(LineProcess&&) = delete;
  ~LineProcess();

  // Begins the time that all sending and receiving until the next call may take together.
  void allow(int64_t ms);
  // kUnavailable when the process ended, kTimedOut when the time is over; so do the next three.
  common::Status send(common::ByteView bytes);
  common::Result<std::string> line();
  common::Result<common::Bytes> bytes(size_t count);
  // The same into a file, which may be larger than memory.
  common::Status save(size_t count, const std::string& path);
  // Of an answer that is none.
  common::Error nonsense(const std::string& line) const;
  pid_t pid() const { return process_->pid(); }

 private:
  LineProcess(std::string name, common::Subprocess process, int socket, int errors);
  int64_t left_ms() const;
  common::Status receive_more();
  common::Error ended();
  common::Error late() const;

  std::string name_;
  std::optional<common::Subprocess> process_;
  int socket_ = -1;
  int errors_ = -1;  // a file in memory: its standard error
  int64_t limit_ms_ = 0, deadline_ns_ = 0;
  std::string received_;
};

// A command line's words, which blanks part.
std::vector<std::string> command_words(const std::string& command);

// Clean and short enough for one line of a message.
std::string quoted(std::string text);

}  // namespace clients
