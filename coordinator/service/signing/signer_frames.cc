#include "coordinator/service/signing/signer_frames.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/process/pipe.h"

namespace coordinator::service {

using common::Bytes;
using common::ByteView;
using common::cat;
using common::FileDescriptor;
using common::Result;
using common::Status;

namespace {

constexpr uint64_t kVersion = 1;
constexpr size_t kHeadBytes = 8;
constexpr size_t kMessageBytesMax = 1024;
constexpr int kBacklog = 16;

common::Error malformed() {
  return common::corrupt("the signer and its coordinator differ; start both from one build");
}

template <size_t kSize>
bool take(common::FrameReader& reader, std::array<std::byte, kSize>& out) {
  ByteView bytes = reader.bytes();
  if (bytes.size() != kSize) return false;
  std::memcpy(out.data(), bytes.data(), kSize);
  return true;
}

// Milliseconds until the deadline, for poll().
int left_ms(int64_t deadline_ns) {
  int64_t left = (deadline_ns - common::SteadyClock().now_ns()) / 1'000'000 + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

Status wait_for(int fd, short events, int timeout_ms) {
  pollfd one{fd, events, 0};
  int ready = ::poll(&one, 1, timeout_ms);
  if (ready > 0) return {};
  if (ready < 0 && errno == EINTR) return {};
  return common::unavailable("the other side does not go on");
}

// Moves all of it, with `move` for what can be moved now.
template <class Move>
Status move_all(int fd, short events, size_t size, int64_t deadline_ns, Move move) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = move(done);
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    bool may_go_on = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (!may_go_on) return common::unavailable("the other side is gone");
    int timeout_ms = left_ms(deadline_ns);
    if (timeout_ms == 0) return common::unavailable("the other side does not go on");
    LFARM_RETURN_IF_ERROR(wait_for(fd, events, timeout_ms));
  }
  return {};
}

Status send_all(int fd, ByteView bytes, int64_t deadline_ns) {
  return move_all(fd, POLLOUT, bytes.size(), deadline_ns, [&](size_t done) {
    return ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

Status receive_all(int fd, std::span<std::byte> bytes, int64_t deadline_ns) {
  return move_all(fd, POLLIN, bytes.size(), deadline_ns, [&](size_t done) {
    return ::recv(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
  });
}

int64_t deadline_in(int64_t ms) { return common::SteadyClock().now_ns() + ms * 1'000'000; }

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return common::invalid_input(cat("the socket's path '", path, "' has to have 1 to ",
                                     sizeof address.sun_path - 1, " characters"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

Bytes encode(const SignRequest& request) {
  common::FrameWriter writer;
  writer.u64(kVersion);
  writer.u64(request.statement);
  writer.bytes(request.bytes);
  return writer.take();
}

Result<SignRequest> decode_sign_request(ByteView frame) {
  common::FrameReader reader(frame);
  uint64_t version = reader.u64();
  SignRequest request;
  request.statement = reader.u64();
  request.bytes = common::to_bytes(reader.bytes());
  if (!reader.ok() || version != kVersion) return malformed();
  return request;
}

Bytes encode(const SignAnswer& answer) {
  common::FrameWriter writer;
  writer.u64(kVersion);
  writer.u64(answer.status.ok() ? 0 : 1 + static_cast<uint64_t>(answer.status.error().code));
  writer.bytes(answer.status.ok()
                   ? ByteView()
                   : common::as_bytes(answer.status.error().message)
                         .first(std::min(answer.status.error().message.size(), kMessageBytesMax)));
  writer.bytes(answer.authority);
  writer.bytes(answer.proof.signature);
  writer.bytes(answer.proof.delegation);
  return writer.take();
}

Result<SignAnswer> decode_sign_answer(ByteView frame) {
  common::FrameReader reader(frame);
  uint64_t version = reader.u64();
  uint64_t code = reader.u64();
  std::string message(common::as_text(reader.bytes()));
  SignAnswer answer;
  bool is_whole = take(reader, answer.authority) && take(reader, answer.proof.signature);
  answer.proof.delegation = common::to_bytes(reader.bytes());
  bool is_known = code <= 1 + static_cast<uint64_t>(common::Code::kOutOfRange);
  if (!is_whole || !reader.ok() || version != kVersion || !is_known) return malformed();
  if (code != 0) answer.status = common::Error{static_cast<common::Code>(code - 1), message};
  return answer;
}

Status send_frame(int fd, ByteView content, int64_t timeout_ms) {
  int64_t deadline_ns = deadline_in(timeout_ms);
  uint64_t length = content.size();
  LFARM_RETURN_IF_ERROR(send_all(fd, std::as_bytes(std::span(&length, 1)), deadline_ns));
  return send_all(fd, content, deadline_ns);
}

Result<Bytes> receive_frame(int fd, int64_t idle_ms, int64_t timeout_ms) {
  LFARM_RETURN_IF_ERROR(wait_for(fd, POLLIN, static_cast<int>(idle_ms)));
  int64_t deadline_ns = deadline_in(timeout_ms);
  std::byte head[kHeadBytes];
  LFARM_RETURN_IF_ERROR(receive_all(fd, head, deadline_ns));
  uint64_t length = 0;
  std::memcpy(&length, head, kHeadBytes);
  if (length > kSignerFrameBytesMax) {
    return common::corrupt(cat("a frame of ", length, " bytes came"));
  }
  Bytes content(length);
  LFARM_RETURN_IF_ERROR(receive_all(fd, content, deadline_ns));
  return content;
}

Result<FileDescriptor> connect_to_socket(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(sockaddr_un address, address_of(path));
  FileDescriptor socket = new_socket();
  // Without waiting: a signer that does not accept is as good as none.
  if (socket.is_open()) ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (socket.is_open() && ::connect(socket.get(), generic, sizeof address) == 0) return socket;
  return common::unavailable(std::strerror(errno));
}

Result<FileDescriptor> listen_on_socket(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(sockaddr_un address, address_of(path));
  if (connect_to_socket(path).ok()) {
    return common::invalid_input(cat("another process listens on ", path));
  }
  struct stat there {};
  // Only a socket is replaced: whatever else is there was put there by somebody.
  if (::lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) ::unlink(path.c_str());
  FileDescriptor socket = new_socket();
  // Before others can reach it: bind() gives the socket its mode.
  mode_t before = ::umask(0117);
  auto* generic = reinterpret_cast<const sockaddr*>(&address);
  bool is_bound = socket.is_open() && ::bind(socket.get(), generic, sizeof address) == 0;
  int error = errno;
  ::umask(before);
  if (is_bound && ::listen(socket.get(), kBacklog) == 0) return socket;
  return common::invalid_input(cat("cannot listen on ", path, ": ", std::strerror(error)));
}

}  // namespace coordinator::service
