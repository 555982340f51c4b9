// An object store of a test's own: one bucket, in memory, over plain HTTP. It refuses requests that
// are not signed with its keys for what was sent.
#pragma once

#include <httplib.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "cache/s3/s3_address.h"
#include "cache/s3/s3_objects.h"
#include "cache/s3/s3_signature.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/secret_file.h"

namespace cache {

class S3Server {
 public:
  static constexpr const char* kBucket = "farm";
  static constexpr const char* kRegion = "here";

  // Connections that say nothing are closed after a while; stop() waits for that.
  explicit S3Server(time_t keep_alive_s = 600) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(16); };
    server_.set_keep_alive_max_count(1'000'000);
    server_.set_keep_alive_timeout(keep_alive_s);
    server_.set_tcp_nodelay(true);
    auto answer = [this](const httplib::Request& asked, httplib::Response& reply) {
      handle(asked, reply);
    };
    server_.Get(".*", answer);  // and HEAD
    server_.Put(".*", answer);
    port_ = server_.bind_to_any_port("127.0.0.1");
    if (port_ < 0) throw std::runtime_error("no port");
    keep_keys();
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~S3Server() { stop(); }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  std::string endpoint() const { return common::cat("http://127.0.0.1:", port_); }
  // For its bucket, or another address there.
  S3Options options(const std::string& address = common::cat("s3://", kBucket)) const {
    S3Options options;
    options.address = parse_s3_address({address, endpoint(), kRegion, "", ""}).value();
    options.credentials_file = credentials_file();
    options.answer_ms = options.transfer_ms = 600'000;  // a busy machine is no store that is away
    options.retry = {0, 0};
    return options;
  }

  // What is answered in place of the objects, by method; "" for every one.
  void refuse(const std::string& method, int status, const std::string& code) {
    std::lock_guard lock(mutex_);
    refusals_[method] = {status, code};
  }
  void refuse_no_more() {
    std::lock_guard lock(mutex_);
    refusals_.clear();
  }
  // From now on nothing is answered, until the next call.
  void hold() {
    std::lock_guard lock(mutex_);
    is_holding_ = true;
  }
  void release() {
    std::lock_guard lock(mutex_);
    is_holding_ = false;
    released_.notify_all();
  }
  // From now on objects come byte by byte, 50 a second.
  void trickle() {
    std::lock_guard lock(mutex_);
    is_trickling_ = true;
  }
  // Other bytes under each name.
  void spoil() {
    std::lock_guard lock(mutex_);
    for (auto& [name, bytes] : objects_) bytes += '!';
  }
  // Requests are signed with these from now on; options() have those of before until keep_keys().
  void change_keys(const S3Credentials& who) {
    std::lock_guard lock(mutex_);
    who_ = who;
  }
  // Writes the file that options() name.
  void keep_keys() {
    std::lock_guard lock(mutex_);
    (void)::unlink(credentials_file().c_str());
    common::Status kept = common::create_secret_file(
        credentials_file(), common::cat("[default]\naws_access_key_id=", who_.access_key,
                                        "\naws_secret_access_key=", who_.secret_key, '\n'));
    if (!kept.ok()) throw std::runtime_error(kept.error().message);
  }

  // Requests of the method so far, those that were refused included.
  int count(const std::string& method) {
    std::lock_guard lock(mutex_);
    return counts_[method];
  }
  size_t objects() {
    std::lock_guard lock(mutex_);
    return objects_.size();
  }
  size_t connections() {
    std::lock_guard lock(mutex_);
    return peers_.size();
  }

 private:
  struct Refusal {
    int status = 0;
    std::string code;
  };
  static void refuse(httplib::Response& reply, const Refusal& how) {
    reply.status = how.status;
    reply.set_content(common::cat("<?xml version=\"1.0\"?><Error><Code>", how.code,
                                  "</Code><Message>of a test</Message></Error>"),
                      "application/xml");
  }
  // Of the wall clock's time in "20130524T000000Z".
  static int64_t wall_ns(const std::string& time) {
    std::tm parts{};
    if (strptime(time.c_str(), "%Y%m%dT%H%M%SZ", &parts) == nullptr) return 0;
    return static_cast<int64_t>(timegm(&parts)) * 1'000'000'000;
  }
  bool is_signed(const httplib::Request& asked) const {
    S3Request request{asked.method, asked.get_header_value("Host"), asked.path, {}, asked.body};
    std::string authorization = asked.get_header_value("Authorization");
    auto headers = sign_s3(request, who_, kRegion, wall_ns(asked.get_header_value("x-amz-date")));
    return headers.at("authorization") == authorization &&
           headers.at("x-amz-content-sha256") == asked.get_header_value("x-amz-content-sha256") &&
           asked.get_header_value("x-amz-security-token") == who_.session_token;
  }
  std::string credentials_file() const { return folder_.path() + "/credentials"; }
  void handle(const httplib::Request& asked, httplib::Response& reply) {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this] { return !is_holding_; });
    ++counts_[asked.method];
    peers_.insert(common::cat(asked.remote_addr, ':', asked.remote_port));
    for (const std::string& method : {asked.method, std::string()}) {
      auto found = refusals_.find(method);
      if (found != refusals_.end()) return refuse(reply, found->second);
    }
    if (!is_signed(asked)) return refuse(reply, {403, "SignatureDoesNotMatch"});
    if (!asked.path.starts_with(common::cat('/', kBucket, '/'))) {
      return refuse(reply, {404, "NoSuchBucket"});
    }
    if (asked.method == "PUT") {
      objects_[asked.path] = asked.body;
      return;
    }
    auto found = objects_.find(asked.path);
    if (found == objects_.end()) return refuse(reply, {404, "NoSuchKey"});
    if (!is_trickling_) return reply.set_content(found->second, "application/octet-stream");
    reply.set_content_provider(
        found->second.size(), "application/octet-stream",
        [bytes = found->second](size_t offset, size_t, httplib::DataSink& sink) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return sink.write(bytes.data() + offset, 1);
        });
  }

  const common::ScratchDirectory folder_ = common::ScratchDirectory::create("s3-keys").value();
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable released_;
  bool is_holding_ = false, is_trickling_ = false;
  S3Credentials who_{"test-key", "test-secret", ""};
  std::map<std::string, std::string> objects_;
  std::map<std::string, Refusal> refusals_;
  std::map<std::string, int> counts_;
  std::set<std::string> peers_;
};

}  // namespace cache
