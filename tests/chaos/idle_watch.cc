#include "tests/chaos/idle_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/http/http_client.h"

namespace chaos {

using common::cat;

namespace {
constexpr int64_t kPauseNs = 500'000'000;
constexpr int64_t kIdleNsMax = 5'000'000'000;
constexpr int64_t kAnswerMs = 1'000;
}  // namespace

std::string IdleWatch::ask() {
  for (const std::string& file : files_) {
    auto address = common::read_file(file);
    if (!address.ok()) continue;
    size_t colon = address->rfind(':');
    if (colon == std::string::npos) continue;
    common::HttpCall call;
    call.path = "/api/v1/overview";
    call.timeout_ms = kAnswerMs;
    auto reply =
        common::http_call({address->substr(0, colon), std::stoi(address->substr(colon + 1))}, call);
    if (reply.ok() && reply->status == 200) return std::move(reply->body);
  }
  return "";
}

std::string IdleWatch::tend(int64_t now_ns) {
  if (now_ns < next_ns_) return "";
  next_ns_ = now_ns + kPauseNs;
  auto seen = nlohmann::json::parse(ask(), nullptr, false);
  if (!seen.is_object()) {  // nobody leads
    idle_since_ns_.clear();
    return "";
  }
  const auto& farm = seen["farm"];
  std::string leader = farm.value("coordinator", "");
  if (leader != leader_) {
    ++leaders_;
    leader_ = leader;
    idle_since_ns_.clear();
  }
  bool waits = farm.value("tasks_open", 0) > farm.value("tasks_leased", 0);
  std::set<std::string> idle;
  for (const auto& worker : seen["workers"]["rows"]) {
    bool has_none = waits && worker.value("tasks", 0) == 0;
    if (has_none && !worker.value("draining", false)) idle.insert(worker.value("worker", ""));
  }
  std::erase_if(idle_since_ns_, [&](const auto& entry) { return idle.count(entry.first) == 0; });
  for (const std::string& worker : idle) {
    int64_t since_ns = idle_since_ns_.emplace(worker, now_ns).first->second;
    longest_ns_ = std::max(longest_ns_, now_ns - since_ns);
    if (now_ns - since_ns > kIdleNsMax) {
      return cat(worker, " has had nothing for ", (now_ns - since_ns) / 1'000'000,
                 " ms while tasks wait: ", farm.dump());
    }
  }
  return "";
}

}  // namespace chaos
