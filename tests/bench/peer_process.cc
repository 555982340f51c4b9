#include "tests/bench/peer_process.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"

namespace bench {
namespace {

using common::cat;
using common::Error;
using common::Result;
using common::Status;
using Json = nlohmann::json;

constexpr size_t kLineBytesMax = size_t{1} << 20;
constexpr size_t kOutputBytesMax = size_t{1} << 30;
constexpr size_t kQuoteBytesMax = 300;  // of nonsense, in messages
constexpr size_t kLastWordsMax = 4096;
constexpr int kReapMs = 2'000;

int64_t now_ns() { return common::SteadyClock().now_ns(); }

// Clean enough for one line of a message.
std::string quoted(std::string text) {
  if (text.size() > kQuoteBytesMax) text = text.substr(0, kQuoteBytesMax) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

std::string text_of(const Json& json, const char* word) {
  auto found = json.find(word);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}
double number_of(const Json& json, const char* word) {
  auto found = json.find(word);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

PeerFacts facts_of(const Json& json) {
  PeerFacts facts;
  facts.torch = text_of(json, "torch");
  facts.onnxruntime = text_of(json, "onnxruntime");
  facts.capability = text_of(json, "capability");
  if (auto blas = json.find("blas"); blas != json.end() && blas->is_object()) {
    facts.blas = text_of(*blas, "name");
    facts.blas_path = text_of(*blas, "path");
  }
  return facts;
}

// Waits for the socket at most a second; false when the time is over.
bool wait_for(int socket, short events, int64_t left_ms) {
  if (left_ms <= 0) return false;
  pollfd wanted{socket, events, 0};
  ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000)));
  return true;
}

// What went wrong there, when that is the answer.
std::optional<std::string> error_of(const Json& said) {
  std::string error = said.is_object() ? text_of(said, "error") : "";
  if (error.empty()) return std::nullopt;
  return quoted(error);
}

}  // namespace

PeerProcess::PeerProcess(PeerOptions options, common::Subprocess process, int socket, int errors)
    : options_(std::move(options)),
      process_(std::move(process)),
      socket_(socket),
      errors_(errors) {}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : options_(std::move(other.options_)),
      process_(std::move(other.process_)),
      socket_(std::exchange(other.socket_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      received_(std::move(other.received_)),
      facts_(std::move(other.facts_)) {
  other.process_.reset();
}

PeerProcess::~PeerProcess() {
  if (socket_ >= 0) ::close(socket_);
  if (errors_ >= 0) ::close(errors_);
}

Result<PeerProcess> PeerProcess::start(const PeerOptions& options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return common::internal_error("socketpair failed");
  }
  int errors = ::memfd_create("peer", MFD_CLOEXEC);
  common::SpawnOptions spawn;
  spawn.arguments = options.python;
  spawn.arguments.insert(spawn.arguments.end(),
                         {"-c", options.script, options.backend, std::to_string(options.threads)});
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
  PeerProcess peer(options, std::move(process).value(), ends[0], errors);
  peer.allow(options.deadlines.start_ms);
  LFARM_ASSIGN_OR_RETURN(std::string first, peer.line());
  Json said = Json::parse(first, nullptr, false);
  if (!said.is_object()) return peer.nonsense(first);
  if (std::string missing = text_of(said, "missing"); !missing.empty()) {
    return common::unsupported(cat(options.backend, ": ", quoted(missing)));
  }
  if (!said.contains("ready")) return peer.nonsense(first);
  peer.facts_ = facts_of(said);
  return peer;
}

// ---- Bytes -------------------------------------------------------------------------------------

Error PeerProcess::nonsense(const std::string& line) const {
  return common::unavailable(cat(options_.backend, ": its answer is none: '", quoted(line), "'"));
}

void PeerProcess::allow(int64_t ms) {
  limit_ms_ = ms;
  deadline_ns_ = now_ns() + ms * 1'000'000;
}

int64_t PeerProcess::left_ms() const {
  return std::max<int64_t>(0, deadline_ns_ - now_ns()) / 1'000'000;
}

Error PeerProcess::late() const {
  return {common::Code::kTimedOut, cat(options_.backend, ": no answer within ",
                                       static_cast<double>(limit_ms_) / 1000, " s")};
}

// With the last line that it wrote about it.
Error PeerProcess::ended() {
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
  return common::unavailable(
      cat(options_.backend, ": ", how, words.empty() ? "" : ": ", quoted(words)));
}

Status PeerProcess::send(common::ByteView bytes) {
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

Status PeerProcess::receive_more() {
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

Result<std::string> PeerProcess::line() {
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

Result<common::Bytes> PeerProcess::bytes(size_t count) {
  while (received_.size() < count) LFARM_RETURN_IF_ERROR(receive_more());
  common::Bytes result = common::to_bytes(common::as_bytes(received_.substr(0, count)));
  received_.erase(0, count);
  return result;
}

// ---- What is said ------------------------------------------------------------------------------

Result<PeerModel> PeerProcess::load(common::ByteView archive,
                                    const std::vector<PeerArray>& inputs) {
  allow(options_.deadlines.load_ms);
  for (const PeerArray& input : inputs) {
    std::string head = cat("input ", input.dtype, " ", input.npy.size(), "\n");
    LFARM_RETURN_IF_ERROR(send(common::as_bytes(head)));
    LFARM_RETURN_IF_ERROR(send(input.npy));
  }
  std::string head = cat("model ", archive.size(), "\n");
  LFARM_RETURN_IF_ERROR(send(common::as_bytes(head)));
  LFARM_RETURN_IF_ERROR(send(archive));
  LFARM_ASSIGN_OR_RETURN(std::string text, line());
  Json said = Json::parse(text, nullptr, false);
  if (auto error = error_of(said)) return common::unsupported(cat(options_.backend, ": ", *error));
  if (!said.is_object() || !said.contains("outputs") || !said["outputs"].is_array()) {
    return nonsense(text);
  }
  PeerModel model;
  model.settings = quoted(text_of(said, "settings"));
  for (const Json& one : said["outputs"]) {
    double count = one.is_object() ? number_of(one, "bytes") : 0;
    if (!(count >= 1 && count <= static_cast<double>(kOutputBytesMax))) return nonsense(text);
    LFARM_ASSIGN_OR_RETURN(common::Bytes npy, bytes(static_cast<size_t>(count)));
    model.outputs.push_back({text_of(one, "dtype"), std::move(npy)});
  }
  return model;
}

Result<std::string> PeerProcess::ask(const std::string& command) {
  allow(options_.deadlines.run_ms);
  LFARM_RETURN_IF_ERROR(send(common::as_bytes(command + "\n")));
  return line();
}

Result<PeerRates> PeerProcess::rates() {
  LFARM_ASSIGN_OR_RETURN(std::string text, ask("rates"));
  Json said = Json::parse(text, nullptr, false);
  if (!said.is_object()) return nonsense(text);
  PeerRates rates{number_of(said, "gemm_gflops"), number_of(said, "bf16_gemm_gflops")};
  if (!(rates.gemm_gflops > 0 && rates.bf16_gemm_gflops > 0)) return nonsense(text);
  return rates;
}

Result<std::vector<double>> PeerProcess::run(int calls) {
  LFARM_ASSIGN_OR_RETURN(std::string text, ask(cat("run ", calls)));
  Json said = Json::parse(text, nullptr, false);
  if (auto error = error_of(said)) return common::unsupported(cat(options_.backend, ": ", *error));
  std::vector<double> all;
  if (said.is_object() && said.contains("us") && said["us"].is_array()) {
    for (const Json& one : said["us"]) all.push_back(one.is_number() ? one.get<double>() : -1);
  }
  bool fits = all.size() == static_cast<size_t>(calls) &&
              std::all_of(all.begin(), all.end(), [](double us) { return us > 0; });
  if (!fits) return nonsense(text);
  return all;
}

}  // namespace bench
