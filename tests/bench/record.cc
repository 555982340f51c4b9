#include "tests/bench/record.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "common/base/cat.h"
#include "common/records/database.h"
#include "common/runtime/device/cpu_device.h"

namespace bench {
namespace {

using common::Record;
using Json = nlohmann::json;

// Copies what is written to standard output and keeps its lines, until it goes.
class OutputCopy {
 public:
  // Nothing is kept where the system gives no pipe.
  OutputCopy() {
    int ends[2];
    std::fflush(stdout);
    if (::pipe(ends) != 0) return;
    real_ = ::dup(STDOUT_FILENO);
    read_ = ends[0];
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[1]);
    reader_ = std::thread([this] { copy(); });
  }
  ~OutputCopy() { (void)finish(); }
  OutputCopy(const OutputCopy&) = delete;
  OutputCopy& operator=(const OutputCopy&) = delete;

  std::vector<std::string> finish() {
    if (!reader_.joinable()) return std::move(lines_);
    std::fflush(stdout);
    ::dup2(real_, STDOUT_FILENO);  // closes the pipe's end, so that the reader comes to its own
    reader_.join();
    ::close(read_);
    ::close(real_);
    return std::move(lines_);
  }

 private:
  void copy() {
    std::string pending;
    char piece[4096];
    while (true) {
      ssize_t n = ::read(read_, piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      for (ssize_t done = 0; done < n;) {
        ssize_t written = ::write(real_, piece + done, static_cast<size_t>(n - done));
        if (written < 0 && errno != EINTR) break;
        if (written > 0) done += written;
      }
      pending.append(piece, static_cast<size_t>(n));
      for (size_t end; (end = pending.find('\n')) != std::string::npos;) {
        lines_.push_back(pending.substr(0, end));
        pending.erase(0, end + 1);
      }
    }
  }

  int real_ = -1, read_ = -1;
  std::thread reader_;
  std::vector<std::string> lines_;  // the reader's until it is joined
};

int64_t now_ns() {
  auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

Record here(const std::string& command, const std::string& device, const std::string& model) {
  Record record;
  record.at_ns = now_ns();
  record.source = "lfarm-bench " + command;
  record.machine = common::machine_name();
  record.device = device;
  record.backend = "lfarm";
  record.model = common::record_text(model);
  return record;
}

// "best_100" of search and "ns_100" of its sweep; 0: it is no budget's.
int64_t budget_of(const std::string& word, std::string_view prefix) {
  if (word.rfind(prefix, 0) != 0 || word.size() == prefix.size()) return 0;
  std::string digits = word.substr(prefix.size());
  bool is_number = digits.size() < 10 && std::all_of(digits.begin(), digits.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::stoll(digits) : 0;
}

void add_search(Record record, const std::string& strategy, int64_t budget, uint64_t seed,
                double best_ns, std::vector<Record>* records) {
  record.search = common::SearchPoint{strategy, budget, budget, seed, best_ns, 0};
  records->push_back(std::move(record));
}

void add_search_line(const Json& line, const std::string& device, std::vector<Record>* records) {
  if (line.contains("sweep")) {
    Record record = here("search", "simulated", line.value("sweep", ""));
    for (const auto& [word, value] : line.items()) {
      int64_t budget = budget_of(word, "ns_");
      if (budget > 0) add_search(record, "sweep", budget, 0, value.get<double>(), records);
    }
    return;
  }
  std::string strategy = line.value("strategy", "");
  if (line.contains("best_ns") && line.contains("candidates")) {
    Record record = here("search", line.value("device", device), line.value("graph", ""));
    auto tried = line.value("candidates", int64_t{0});
    add_search(record, strategy, tried, 1, line.value("best_ns", 0.0), records);
    records->back().search->baseline_ns = line.value("baseline_ns", 0.0);
    return;
  }
  Record record = here("search", "simulated", line.value("graph", ""));
  for (const auto& [word, value] : line.items()) {
    int64_t budget = budget_of(word, "best_");
    if (budget == 0 || !value.is_array()) continue;
    for (size_t seed = 0; seed < value.size(); ++seed) {
      add_search(record, strategy, budget, seed + 1, value[seed].get<double>(), records);
    }
  }
}

}  // namespace

std::vector<Record> records_of(const std::string& command, const std::vector<std::string>& lines,
                               const std::string& device) {
  std::vector<Record> records;
  for (const std::string& text : lines) {
    Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    if (command == "search") add_search_line(line, device, &records);
    if (command == "calls" && line.contains("call_ns")) {
      Record record = here(command, device,
                           common::cat("graph of ", line.value("kernels", 0), " small kernels"));
      record.latency = common::Latency{line.value("call_ns", 0.0), 0, 0};
      records.push_back(std::move(record));
    }
  }
  // A search that failed has no time.
  std::erase_if(records, [](const Record& record) { return !common::check_record(record).ok(); });
  return records;
}

int run_recorded(const std::string& command, const std::string& file,
                 const std::function<int()>& run) {
  OutputCopy copy;
  int code = run();
  std::vector<Record> records = records_of(command, copy.finish(), common::host_cpu_target().name);
  common::Status kept = common::append_records(file, records);
  if (kept.ok()) {
    std::fprintf(stderr, "lfarm-bench: %zu records added to %s\n", records.size(), file.c_str());
    return code;
  }
  std::fprintf(stderr, "lfarm-bench: %s\n", kept.error().message.c_str());
  return code == 0 ? 1 : code;
}

std::string take_record_option(std::vector<std::string>* arguments) {
  auto found = std::find(arguments->begin(), arguments->end(), "--record");
  if (found == arguments->end() || found + 1 == arguments->end()) return "";
  std::string file = *(found + 1);
  arguments->erase(found, found + 2);
  return file;
}

}  // namespace bench
