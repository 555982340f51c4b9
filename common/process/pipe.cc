#include "common/process/pipe.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/cat.h"

namespace common {
namespace {

constexpr size_t kHead = 8;

Error gone() { return unavailable("the other end of the pipe is closed"); }

Status write_all(int fd, ByteView data) {
  while (!data.empty()) {
    ssize_t n = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return gone();
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status read_all(int fd, std::span<std::byte> data) {
  while (!data.empty()) {
    ssize_t n = ::read(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return gone();
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

uint64_t load_length(const std::byte* head) {
  uint64_t length = 0;
  std::memcpy(&length, head, kHead);
  return length;
}

}  // namespace

Result<PipePair> make_pipe() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return internal_error(cat("cannot create a socket pair: ", std::strerror(errno)));
  }
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return PipePair{fds[0], fds[1]};
}

Status write_frame(int fd, ByteView content) {
  uint64_t length = content.size();
  LFARM_RETURN_IF_ERROR(write_all(fd, std::as_bytes(std::span(&length, 1))));
  return write_all(fd, content);
}

Result<Bytes> read_frame(int fd) {
  std::byte head[kHead];
  LFARM_RETURN_IF_ERROR(read_all(fd, head));
  uint64_t length = load_length(head);
  if (length > kFrameBytesMax) return corrupt(cat("a frame of ", length, " bytes came"));
  Bytes content(length);
  LFARM_RETURN_IF_ERROR(read_all(fd, content));
  return content;
}

void FrameStream::send(ByteView content) {
  uint64_t length = content.size();
  std::memcpy(head_, &length, kHead);
  head_left_ = kHead;
  body_ = content;
}

Status FrameStream::pump() {
  LFARM_RETURN_IF_ERROR(pump_in());
  return pump_out();
}

Status FrameStream::pump_out() {
  while (!sent()) {
    ByteView next = head_left_ > 0 ? ByteView{head_ + kHead - head_left_, head_left_} : body_;
    ssize_t n = ::send(fd_, next.data(), next.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return gone();
    if (head_left_ > 0) {
      head_left_ -= static_cast<size_t>(n);
    } else {
      body_ = body_.subspan(static_cast<size_t>(n));
    }
  }
  return {};
}

Status FrameStream::pump_in() {
  std::byte buffer[65536];
  while (true) {
    ssize_t n = ::read(fd_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n <= 0) return gone();
    received_.insert(received_.end(), buffer, buffer + n);
  }
}

bool FrameStream::take(Bytes& frame) {
  if (received_.size() < kHead) return false;
  uint64_t length = load_length(received_.data());
  if (length > received_.size() - kHead) return false;
  auto begin = received_.begin() + static_cast<std::ptrdiff_t>(kHead);
  auto end = begin + static_cast<std::ptrdiff_t>(length);
  frame.assign(begin, end);
  received_.erase(received_.begin(), end);
  return true;
}

void FrameWriter::u64(uint64_t value) {
  auto view = std::as_bytes(std::span(&value, 1));
  out_.insert(out_.end(), view.begin(), view.end());
}

void FrameWriter::bytes(ByteView value) {
  u64(value.size());
  out_.insert(out_.end(), value.begin(), value.end());
}

uint64_t FrameReader::u64() {
  uint64_t value = 0;
  if (left_.size() < sizeof value) {
    ok_ = false;
    left_ = {};
    return 0;
  }
  std::memcpy(&value, left_.data(), sizeof value);
  left_ = left_.subspan(sizeof value);
  return value;
}

ByteView FrameReader::bytes() {
  uint64_t size = u64();
  if (size > left_.size()) {
    ok_ = false;
    left_ = {};
  }
  ByteView value = left_.first(std::min<uint64_t>(size, left_.size()));
  left_ = left_.subspan(value.size());
  return value;
}

size_t FrameReader::count() {
  uint64_t count = u64();
  if (count > left_.size() / 8) {
    ok_ = false;
    left_ = {};
    return 0;
  }
  return count;
}

}  // namespace common
