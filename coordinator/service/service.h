// The coordinator: one socket, one event loop, and the farm behind it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cache/store/store.h"
#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/wire/messages.h"
#include "coordinator/service/loop/options.h"

namespace coordinator::service {

struct StatusSources;

class Service {
 public:
  // Opens the state directory, binds the endpoint and takes up the jobs that were open. Errors:
  // kInvalidInput (endpoint in use or malformed, allow-list malformed), kUnavailable (another
  // coordinator has the state directory), kCorrupt.
  // `store`: the state directory's, if it is open already.
  static common::Result<std::unique_ptr<Service>> create(
      ServiceOptions options, std::unique_ptr<cache::Store> store = nullptr);
  // The state directory's store, which may take minutes to open: who competes for leadership does
  // that first. kUnavailable, kCorrupt as create().
  static common::Result<std::unique_ptr<cache::Store>> open_store(const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // The endpoint that peers connect to.
  const std::string& endpoint() const;
  // That searchers connect to; empty where searches are in this process.
  std::string searchers_endpoint() const;
  // The public CURVE key; empty when transport security is off.
  const std::string& public_key() const;
  // Under which it signs plans.
  common::PublicKey signing_key() const;

  // Serves until stop(); then tells clients and brings everything to the disk. The descriptor (-1:
  // none) is watched, and `on_readable` called when it has something, from this thread.
  common::Status run(int watched_fd = -1, const std::function<void()>& on_readable = {});
  // Makes run() return. Thread-safe.
  void stop();
  // Reads the allow-list again on the next turn, as happens by itself within a second of a change.
  // A list that is malformed leaves the old one in force. Thread-safe.
  void reload_allow_list();
  // What monitoring asks, answered between two turns of run() as to an administrator; nothing when
  // the loop does not come to it within seconds. Thread-safe, but not for the loop's own thread.
  std::optional<std::string> ask(std::function<std::string(const StatusSources&)> question);
  std::optional<std::string> status(common::StatusTopic topic);
  std::optional<std::string> metrics();
  std::optional<std::string> demand(const std::string& target_prefix);
  // For who reads it without asking the loop. Thread-safe, as the store is.
  cache::Store& store();
  // Time since the loop began its last turn; 0 before run(). Thread-safe.
  int64_t silent_ms() const;
  // Whether background work is under way, for which destruction would wait. After run().
  bool is_busy() const;

 private:
  struct State;
  explicit Service(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace coordinator::service
