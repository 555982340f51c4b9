#include "tests/chaos/idle_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/http/http_client.h"

namespace chaos {

using common::cat;
using Json = nlohmann::json;

namespace {

constexpr int64_t kPauseNs = 1'000'000'000;
constexpr int64_t kIdleNsMax = 5'000'000'000;
constexpr int64_t kAnswerMs = 1'000;

constexpr size_t kPageRows = 200;  // as many as a coordinator gives at once

// An object that the coordinator has at this path; nothing where it does not answer.
std::optional<Json> object_at(const common::HttpEndpoint& address, const std::string& path) {
  common::HttpCall call;
  call.path = path;
  call.timeout_ms = kAnswerMs;
  auto reply = common::http_call(address, call);
  if (!reply.ok() || reply->status != 200) return std::nullopt;
  Json object = Json::parse(reply->body, nullptr, false);
  return object.is_object() ? std::optional(std::move(object)) : std::nullopt;
}

// All rows of a list.
std::optional<Json> rows_at(const common::HttpEndpoint& address, const std::string& path) {
  Json rows = Json::array();
  for (size_t total = 1; rows.size() < total;) {
    auto page = object_at(address, cat(path, "?count=", kPageRows, "&skip=", rows.size()));
    if (!page) return std::nullopt;
    if (!(*page)["rows"].is_array() || (*page)["rows"].empty()) break;
    total = page->value("total", size_t{0});
    rows.insert(rows.end(), (*page)["rows"].begin(), (*page)["rows"].end());
  }
  return rows;
}

}  // namespace

bool IdleWatch::ask(const std::string& file, std::map<std::string, Worker>& workers) {
  auto text = common::read_file(file);
  if (!text.ok()) return false;
  size_t colon = text->rfind(':');
  if (colon == std::string::npos) return false;
  common::HttpEndpoint address{text->substr(0, colon), std::stoi(text->substr(colon + 1))};
  auto worker_rows = rows_at(address, "/api/v1/workers");
  auto demand = object_at(address, "/api/v1/demand");
  if (!worker_rows || !demand) return false;
  const Json& targets = (*demand)["targets"];
  for (const Json& row : *worker_rows) {
    if (row.value("draining", false)) continue;
    Worker& worker = workers[row.value("worker", "")];
    worker.tasks += row.value("tasks", 0);
    const Json& target = targets.value(row.value("target", ""), Json::object());
    int64_t tasks = target.value("tasks_waiting", 0);
    if (tasks == 0) continue;
    worker.waiting += tasks;
    worker.coordinator = file.substr(file.rfind('/') + 1);
  }
  return true;
}

std::string IdleWatch::tend(int64_t now_ns) {
  if (now_ns < next_ns_) return "";
  next_ns_ = now_ns + kPauseNs;
  std::map<std::string, Worker> workers;
  std::string answering;
  for (const std::string& file : files_) {
    if (ask(file, workers)) answering += cat(" ", file);
  }
  if (answering != answering_ && !answering.empty()) ++changes_;
  answering_ = answering;
  workers_max_ = std::max(workers_max_, workers.size());
  std::erase_if(idle_since_ns_, [&](const auto& entry) {
    auto found = workers.find(entry.first);
    return found == workers.end() || found->second.tasks > 0 || found->second.waiting == 0;
  });
  for (const auto& [name, worker] : workers) {
    waiting_max_ = std::max(waiting_max_, worker.waiting);
    if (worker.tasks > 0 || worker.waiting == 0) continue;
    int64_t since_ns = idle_since_ns_.emplace(name, now_ns).first->second;
    longest_ns_ = std::max(longest_ns_, now_ns - since_ns);
    if (now_ns - since_ns > kIdleNsMax) {
      return cat(name, " has had nothing for ", (now_ns - since_ns) / 1'000'000, " ms while ",
                 worker.waiting, " tasks wait, also at ", worker.coordinator);
    }
  }
  return "";
}

}  // namespace chaos
