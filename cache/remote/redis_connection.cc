#include "cache/remote/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "common/base/cat.h"
#include "common/base/clock.h"

namespace cache {

using common::cat;
using common::Result;
using common::Status;

namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
// Replies to the greeting.
constexpr size_t kGreetingBytesMax = 4096;
// What replies have beside their text.
constexpr size_t kFrameBytes = 64;

// ---- Replies as hiredis makes them -------------------------------------------------------------
// Functions of C: nothing may be thrown through it, so memory that is not there is "no object",
// which it reports.

RedisReply* make_reply(RedisReply::Kind kind) {
  auto* reply = new (std::nothrow) RedisReply;
  if (reply != nullptr) reply->kind = kind;
  return reply;
}

void* make_text(const redisReadTask* task, char* text, size_t size) {
  auto kind = task->type == REDIS_REPLY_ERROR    ? RedisReply::Kind::kError
              : task->type == REDIS_REPLY_STATUS ? RedisReply::Kind::kStatus
                                                 : RedisReply::Kind::kText;
  RedisReply* reply = make_reply(kind);
  try {
    if (reply != nullptr) reply->text.assign(text, size);
  } catch (const std::bad_alloc&) {
    delete reply;
    return nullptr;
  }
  return reply;
}

// Its count's type differs between the library's versions. A list is refused before memory is taken
// for as many replies as the server claims.
template <class Count>
void* refuse_list(const redisReadTask*, Count) {
  return nullptr;
}

void* make_integer(const redisReadTask*, long long value) {  // NOLINT: the library's type
  RedisReply* reply = make_reply(RedisReply::Kind::kInteger);
  if (reply != nullptr) reply->integer = value;
  return reply;
}

void* make_nil(const redisReadTask*) { return make_reply(RedisReply::Kind::kNil); }

void free_reply(void* reply) { delete static_cast<RedisReply*>(reply); }

redisReplyObjectFunctions reply_functions() {
  redisReplyObjectFunctions functions{};
  functions.createString = make_text;
  functions.createArray = refuse_list;
  functions.createInteger = make_integer;
  functions.createNil = make_nil;
  functions.freeObject = free_reply;
  return functions;
}

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

// The commands as they go over the wire.
std::string encode(std::span<const RedisCommand> commands) {
  std::string out;
  for (const RedisCommand& command : commands) {
    std::vector<const char*> words;
    std::vector<size_t> sizes;
    for (std::string_view word : command) {
      words.push_back(word.data());
      sizes.push_back(word.size());
    }
    char* text = nullptr;
    int size = static_cast<int>(
        redisFormatCommandArgv(&text, static_cast<int>(words.size()), words.data(), sizes.data()));
    LFARM_CHECK(size > 0, "a command cannot be written");
    out.append(text, static_cast<size_t>(size));
    redisFreeCommand(text);
  }
  return out;
}

common::Error timed_out() { return {common::Code::kTimedOut, "it does not answer in time"}; }

common::Error broken(int error) { return common::unavailable(std::strerror(error)); }

}  // namespace

struct RedisConnection::State {
  std::unique_ptr<redisContext, FreeContext> context;
  redisReplyObjectFunctions functions = reply_functions();
  std::unique_ptr<redisReader, FreeReader> reader;

  int fd() const { return context->fd; }
  // Waits for any of the events.
  Status wait(int16_t events, int64_t deadline_ns) const {
    int64_t left_ms = (deadline_ns - common::SteadyClock().now_ns()) / 1'000'000 + 1;
    pollfd watched{fd(), events, 0};
    int ready = left_ms > 0 ? ::poll(&watched, 1, static_cast<int>(left_ms)) : 0;
    if (ready > 0 || (ready < 0 && errno == EINTR)) return {};
    return ready < 0 ? broken(errno) : timed_out();
  }
  Status finish_connecting(int64_t deadline_ns) const;
  Status write_some(std::string_view* out) const;
  Result<size_t> read_some() const;
  Result<bool> take(std::vector<RedisReply>* replies) const;
};

RedisConnection::RedisConnection(std::unique_ptr<State> state) : state_(std::move(state)) {}
RedisConnection::~RedisConnection() = default;

Status RedisConnection::State::finish_connecting(int64_t deadline_ns) const {
  LFARM_RETURN_IF_ERROR(wait(POLLOUT, deadline_ns));
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return broken(errno);
  if (error != 0) return broken(error);
  return {};
}

Status RedisConnection::State::write_some(std::string_view* out) const {
  ssize_t sent = ::send(fd(), out->data(), out->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    out->remove_prefix(static_cast<size_t>(sent));
  } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    return broken(errno);
  }
  return {};
}

Result<size_t> RedisConnection::State::read_some() const {
  std::array<char, kReadBytes> buffer;
  ssize_t size = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size == 0) return common::unavailable("it closed the connection");
  if (size < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return size_t{0};
    return broken(errno);
  }
  if (redisReaderFeed(reader.get(), buffer.data(), static_cast<size_t>(size)) != REDIS_OK) {
    return common::corrupt(cat("it speaks no Redis protocol: ", reader->errstr));
  }
  return static_cast<size_t>(size);
}

// False when no whole reply is there.
Result<bool> RedisConnection::State::take(std::vector<RedisReply>* replies) const {
  void* made = nullptr;
  if (redisReaderGetReply(reader.get(), &made) != REDIS_OK) {
    return common::corrupt(cat("it speaks no Redis protocol: ", reader->errstr));
  }
  if (made == nullptr) return false;
  std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(made));
  replies->push_back(std::move(*reply));
  return true;
}

Result<std::vector<RedisReply>> RedisConnection::ask(std::span<const RedisCommand> commands,
                                                     size_t bytes_max, int64_t deadline_ns) {
  const size_t bytes_in_max = bytes_max + commands.size() * kFrameBytes;
  std::string text = encode(commands);
  std::string_view out = text;
  std::vector<RedisReply> replies;
  size_t bytes_in = 0;
  while (replies.size() < commands.size()) {
    LFARM_RETURN_IF_ERROR(
        state_->wait(static_cast<int16_t>(out.empty() ? POLLIN : POLLIN | POLLOUT), deadline_ns));
    if (!out.empty()) LFARM_RETURN_IF_ERROR(state_->write_some(&out));
    LFARM_ASSIGN_OR_RETURN(size_t read, state_->read_some());
    bytes_in += read;
    if (bytes_in > bytes_in_max) return common::corrupt("it sends more than was asked for");
    bool more = read > 0;
    while (more && replies.size() < commands.size()) {
      LFARM_ASSIGN_OR_RETURN(more, state_->take(&replies));
    }
  }
  // What follows would be taken for the answer to the next question.
  if (state_->reader->pos != state_->reader->len) {
    return common::corrupt("it sends more than was asked for");
  }
  return replies;
}

Status RedisConnection::greet(const RemoteAddress& address, const std::string& password,
                              int64_t deadline_ns) {
  std::string database = cat(address.database);
  std::vector<RedisCommand> commands;
  if (!password.empty() && address.user.empty()) commands.push_back({"AUTH", password});
  if (!password.empty() && !address.user.empty()) {
    commands.push_back({"AUTH", address.user, password});
  }
  if (address.database != 0) commands.push_back({"SELECT", database});
  commands.push_back({"PING"});
  LFARM_ASSIGN_OR_RETURN(auto replies, ask(commands, kGreetingBytesMax, deadline_ns));
  for (const RedisReply& reply : replies) {
    if (reply.kind == RedisReply::Kind::kError) {
      return common::unavailable(cat("it refuses this farm: ", reply.text));
    }
  }
  return {};
}

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const RemoteAddress& address,
                                                               const std::string& password,
                                                               int64_t deadline_ns) {
  auto state = std::make_unique<State>();
  state->context.reset(address.socket.empty()
                           ? redisConnectNonBlock(address.host.c_str(), address.port)
                           : redisConnectUnixNonBlock(address.socket.c_str()));
  if (!state->context) return common::unavailable("no memory for a connection");
  if (state->context->err != 0) return common::unavailable(state->context->errstr);
  state->reader.reset(redisReaderCreateWithFunctions(&state->functions));
  if (!state->reader) return common::unavailable("no memory for a connection");
  LFARM_RETURN_IF_ERROR(state->finish_connecting(deadline_ns));
  std::unique_ptr<RedisConnection> connection(new RedisConnection(std::move(state)));
  LFARM_RETURN_IF_ERROR(connection->greet(address, password, deadline_ns));
  return connection;
}

}  // namespace cache
