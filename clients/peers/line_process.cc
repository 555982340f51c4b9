#include "clients/peers/line_process.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"

namespace clients {

using common::cat;
using common::Error;
using common::Result;
using common::Status;

namespace {

constexpr size_t kLineBytesMax = size_t{1} << 20;
constexpr size_t kQuoteBytesMax = 300;  // of nonsense, in messages
constexpr size_t kLastWordsMax = 4096;
constexpr int kReapMs = 2'000;

int64_t now_ns() { return common::SteadyClock().now_ns(); }

// Waits for the socket at most a second; false when the time is over.
bool wait_for(int socket, short events, int64_t left_ms) {
  if (left_ms <= 0) return false;
  pollfd wanted{socket, events, 0};
  ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000)));
  return true;
}

}  // namespace

std::vector<std::string> command_words(const std::string& command) {
  std::istringstream text(command);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::string quoted(std::string text) {
  if (text.size() > kQuoteBytesMax) text = text.substr(0, kQuoteBytesMax) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

LineProcess::LineProcess(std::string name, common::Subprocess process, int socket, int errors)
    : name_(std::move(name)), process_(std::move(process)), socket_(socket), errors_(errors) {}

LineProcess::LineProcess(LineProcess&& other) noexcept
    : name_(std::move(other.name_)),
      process_(std::move(other.process_)),
      socket_(std::exchange(other.socket_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      limit_ms_(other.limit_ms_),
      deadline_ns_(other.deadline_ns_),
      received_(std::move(other.received_)) {
  other.process_.reset();
}

LineProcess::~LineProcess() {
  if (socket_ >= 0) ::close(socket_);
  if (errors_ >= 0) ::close(errors_);
}

Result<LineProcess> LineProcess::start(std::string name, std::vector<std::string> command) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return common::internal_error("socketpair failed");
  }
  int errors = ::memfd_create("peer", MFD_CLOEXEC);
  common::SpawnOptions spawn;
  spawn.arguments = std::move(command);
  spawn.stdin_fd = ends[1];
  spawn.stdout_fd = ends[1];
  spawn.stderr_fd = errors;
  spawn.new_process_group = true;  // compilers that it started end with it
  auto process = common::Subprocess::start(spawn);
  ::close(ends[1]);
  if (!process.ok()) {
    ::close(ends[0]);
    if (errors >= 0) ::close(errors);
    return process.error();
  }
  return LineProcess(std::move(name), std::move(process).value(), ends[0], errors);
}

Error LineProcess::nonsense(const std::string& line) const {
  return common::unavailable(cat(name_, ": its answer is none: '", quoted(line), "'"));
}

void LineProcess::allow(int64_t ms) {
  limit_ms_ = ms;
  deadline_ns_ = now_ns() + ms * 1'000'000;
}

int64_t LineProcess::left_ms() const {
  return std::max<int64_t>(0, deadline_ns_ - now_ns()) / 1'000'000;
}

Error LineProcess::late() const {
  return {common::Code::kTimedOut,
          cat(name_, ": no answer within ", static_cast<double>(limit_ms_) / 1000, " s")};
}

// With the last line that it wrote about it.
Error LineProcess::ended() {
  std::string how = "closed its output";
  if (auto status = process_->wait(kReapMs)) {
    how = status->signal != 0 ? cat("was ended by signal ", status->signal)
                              : cat("ended with code ", status->code);
  }
  std::string words(kLastWordsMax, '\0');
  off_t size = ::lseek(errors_, 0, SEEK_END);
  off_t from = std::max<off_t>(0, size - static_cast<off_t>(kLastWordsMax));
  ssize_t n = ::pread(errors_, words.data(), words.size(), from);
  words.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  words = words.substr(words.rfind('\n') + 1);
  return common::unavailable(cat(name_, ": ", how, words.empty() ? "" : ": ", quoted(words)));
}

Status LineProcess::send(common::ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (errno != EINTR && errno != EAGAIN) {
      return ended();
    } else if (!wait_for(socket_, POLLOUT, left_ms())) {
      return late();
    }
  }
  return {};
}

Status LineProcess::receive_more() {
  char piece[1 << 16];
  while (true) {
    ssize_t n = ::recv(socket_, piece, sizeof piece, MSG_DONTWAIT);
    if (n > 0) {
      received_.append(piece, static_cast<size_t>(n));
      return {};
    }
    if (n == 0 || (errno != EINTR && errno != EAGAIN)) return ended();
    if (!wait_for(socket_, POLLIN, left_ms())) return late();
  }
}

Result<std::string> LineProcess::line() {
  size_t searched = 0;
  while (true) {
    size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::string text = received_.substr(0, end);
      received_.erase(0, end + 1);
      return text;
    }
    searched = received_.size();
    if (searched > kLineBytesMax) return nonsense(received_);
    LFARM_RETURN_IF_ERROR(receive_more());
  }
}

Result<common::Bytes> LineProcess::bytes(size_t count) {
  while (received_.size() < count) LFARM_RETURN_IF_ERROR(receive_more());
  common::Bytes result = common::to_bytes(common::as_bytes(received_.substr(0, count)));
  received_.erase(0, count);
  return result;
}

Status LineProcess::save(size_t count, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  while (count > 0 && file) {
    if (received_.empty()) LFARM_RETURN_IF_ERROR(receive_more());
    size_t some = std::min(count, received_.size());
    file.write(received_.data(), static_cast<std::streamsize>(some));
    received_.erase(0, some);
    count -= some;
  }
  file.close();
  if (!file) return common::unavailable(cat("cannot write ", path));
  return {};
}

}  // namespace clients
