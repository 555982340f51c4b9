#include "cache/s3/s3_objects.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "cache/s3/s3_signature.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/divide_up.h"

namespace cache {

using common::cat;
using common::Code;
using common::Digest;
using common::HttpCall;
using common::HttpConnection;
using common::HttpReply;
using common::Result;
using common::Status;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int kOk = 200, kNotFound = 404, kServerError = 500, kTooManyRequests = 429;

// What stands between the tags of an answer that refuses.
std::string_view element(std::string_view xml, std::string_view name) {
  const std::string open = cat('<', name, '>'), close = cat("</", name, '>');
  size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return "";
  begin += open.size();
  size_t end = xml.find(close, begin);
  return end == std::string_view::npos ? "" : xml.substr(begin, end - begin);
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// "AccessDenied: Access Denied (HTTP 403)"
std::string refusal(const HttpReply& reply) {
  constexpr size_t kTextMax = 200;
  std::string text;
  for (const char* name : {"Code", "Message"}) {
    std::string_view part = element(reply.body, name).substr(0, kTextMax);
    if (!part.empty() && is_printable(part)) text += cat(text.empty() ? "" : ": ", part);
  }
  return cat(text.empty() ? "it refuses this farm" : text, " (HTTP ", reply.status, ')');
}

// A bucket that is not there is no object that is not there. HEAD has no body that would say so.
bool is_absent(const HttpReply& reply) {
  if (reply.status != kNotFound) return false;
  std::string_view code = element(reply.body, "Code");
  return code.empty() || code == "NoSuchKey";
}

}  // namespace

S3Objects::S3Objects(S3Options options)
    : options_(std::move(options)),
      breaker_(cat("the object store ", options_.address.text), "objects", options_.retry) {}

// ---- Asking ------------------------------------------------------------------------------------

// A connection that was idle may have been closed for it, which says nothing about the server.
Result<HttpReply> S3Objects::call(const HttpCall& call) {
  if (auto connection = idle_.take()) {
    auto reply = connection->call(call);
    if (reply.ok()) idle_.give_back(std::move(connection));
    if (reply.ok() || reply.error().code != Code::kUnavailable) return reply;
  }
  auto connection = std::make_unique<HttpConnection>(options_.address.server);
  LFARM_ASSIGN_OR_RETURN(HttpReply reply, connection->call(call));
  idle_.give_back(std::move(connection));
  return reply;
}

// All of them, over some connections at a time; after the first error none is begun.
Result<S3Objects::Replies> S3Objects::exchange(const char* method,
                                               std::span<const Question> questions,
                                               int64_t deadline_ns) {
  LFARM_ASSIGN_OR_RETURN(S3Credentials who, read_s3_credentials(options_.credentials_file));
  Replies replies(questions.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::optional<common::Error> error;
  auto work = [&] {
    for (size_t k = next++; k < questions.size(); k = next++) {
      const Question& question = questions[k];
      HttpCall one;
      one.method = method;
      one.path = options_.address.path + question.digest.hex();
      one.body = std::string(question.body);
      one.content_type = "application/octet-stream";
      one.headers = sign_s3({method, options_.address.host, one.path, {}, question.body}, who,
                            options_.address.region, common::wall_clock_ns());
      one.reply_bytes_max = kBundleBytesMax;
      int64_t left_ms = (deadline_ns - common::SteadyClock().now_ns()) / kNsPerMs;
      one.timeout_ms = one.body_ms_max = std::max<int64_t>(left_ms, 1);
      auto reply =
          left_ms > 0 ? call(one) : common::Error{Code::kTimedOut, "it does not answer in time"};
      if (reply.ok()) {
        replies[k] = std::move(*reply);
        continue;
      }
      std::lock_guard lock(mutex);
      if (!error) error = reply.error();
      next = questions.size();
    }
  };
  {
    std::vector<std::jthread> others;
    size_t count = std::min(kConnectionsMax, questions.size());
    for (size_t k = 1; k < count; ++k) others.emplace_back(work);
    work();
  }
  if (error) return *error;
  return replies;
}

Result<S3Objects::Replies> S3Objects::ask(const char* method, std::span<const Question> questions,
                                          int64_t limit_ms) {
  if (questions.empty()) return Replies();
  LFARM_RETURN_IF_ERROR(breaker_.admit(limit_ms));
  auto replies = exchange(method, questions, common::SteadyClock().now_ns() + limit_ms * kNsPerMs);
  if (!replies.ok()) {
    // Whatever it is, keys that cannot be read included, the next try may find it mended.
    const common::Error& error = replies.error();
    bool is_slow = error.code == Code::kTimedOut;
    return breaker_.failed(is_slow ? error : common::unavailable(error.message));
  }
  uint64_t bytes_in = 0, bytes_out = 0;
  for (const Question& question : questions) bytes_out += question.body.size();
  for (const HttpReply& reply : *replies) bytes_in += reply.body.size();
  breaker_.count_bytes(bytes_in, bytes_out);
  const bool is_write = method == std::string_view("PUT");
  for (const HttpReply& reply : *replies) {
    if (reply.status == kOk || (!is_write && is_absent(reply))) continue;
    bool is_down = reply.status >= kServerError || reply.status == kTooManyRequests;
    if (is_write && !is_down) return breaker_.note_write(refusal(reply)).error();
    return breaker_.failed(common::unavailable(refusal(reply)));
  }
  breaker_.succeeded();
  if (is_write) LFARM_RETURN_IF_ERROR(breaker_.note_write(""));
  return replies;
}

// ---- Objects -----------------------------------------------------------------------------------

Result<std::optional<std::vector<std::string>>> S3Objects::get_objects(
    std::span<const Digest> digests) {
  std::vector<Question> questions;
  for (const Digest& digest : digests) questions.push_back({digest, {}});
  LFARM_ASSIGN_OR_RETURN(Replies replies, ask("GET", questions, options_.transfer_ms));
  std::vector<std::string> objects;
  for (size_t k = 0; k < replies.size(); ++k) {
    if (is_absent(replies[k])) return std::optional<std::vector<std::string>>();
    LFARM_RETURN_IF_ERROR(check_object(digests[k], replies[k].body));
    objects.push_back(std::move(replies[k].body));
  }
  return std::optional(std::move(objects));
}

Result<std::vector<bool>> S3Objects::there(std::span<const Digest> digests) {
  std::vector<Question> questions;
  for (const Digest& digest : digests) questions.push_back({digest, {}});
  int64_t rounds = common::divide_up(static_cast<int64_t>(digests.size()), kConnectionsMax);
  LFARM_ASSIGN_OR_RETURN(Replies replies, ask("HEAD", questions, rounds * options_.answer_ms));
  std::vector<bool> there;
  for (const HttpReply& reply : replies) there.push_back(reply.status == kOk);
  return there;
}

Result<bool> S3Objects::has_objects(std::span<const Digest> digests) {
  LFARM_ASSIGN_OR_RETURN(std::vector<bool> found, there(digests));
  return std::find(found.begin(), found.end(), false) == found.end();
}

Status S3Objects::put_objects(std::span<const RemoteObject> objects) {
  LFARM_RETURN_IF_ERROR(check_size(objects));
  std::vector<Digest> digests;
  for (const RemoteObject& object : objects) digests.push_back(object.digest);
  LFARM_ASSIGN_OR_RETURN(std::vector<bool> found, there(digests));
  std::vector<Question> missing;
  for (size_t k = 0; k < objects.size(); ++k) {
    if (!found[k]) missing.push_back({objects[k].digest, objects[k].bytes});
  }
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] Replies replies,
                         ask("PUT", missing, options_.transfer_ms));
  return {};
}

}  // namespace cache
