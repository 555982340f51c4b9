#include "clients/report/logs/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "clients/report/logs/json_words.h"
#include "clients/report/logs/run_lines.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

constexpr size_t kScheduleMax = 32;  // parameters of a kernel

// A search while its lines come.
class SearchReader {
 public:
  explicit SearchReader(SearchRun* into) : into_(into) {}
  Status take(const Json& line) {
    Words words(line);
    if (words.has("candidate")) return take_candidate(words);
    if (words.has("kernel")) return take_kernel(words);
    return take_progress(words);
  }
  void finish();

 private:
  Status take_candidate(Words& words);
  Status take_kernel(Words& words);
  Status take_progress(Words& words);
  SearchRun* into_;
};

Status SearchReader::take_candidate(Words& words) {
  TriedCandidate one;
  int64_t region = 0;
  bool has_region = words.has("region");
  words.count("candidate", &one.id, Need::kNeeded);
  words.count("region", &region);
  words.text("origin", &one.origin, Need::kNeeded);
  words.text("outcome", &one.outcome, Need::kNeeded);
  words.number("at_s", &one.at_s, Need::kNeeded);
  words.number("ms", &one.ms);
  LFARM_RETURN_IF_ERROR(words.finish());
  LFARM_RETURN_IF_ERROR(check_not_negative("at_s", one.at_s));
  LFARM_RETURN_IF_ERROR(check_not_negative("ms", one.ms));
  if (has_region) one.region = region;
  if (into_->candidates.size() == kCandidatesMax) {
    return invalid_input(cat("there are more than ", kCandidatesMax, " candidates"));
  }
  into_->candidates.push_back(std::move(one));
  return {};
}

Status SearchReader::take_kernel(Words& words) {
  ScheduledKernel kernel;
  words.text("kernel", &kernel.kernel, Need::kNeeded);
  words.named_numbers("schedule", &kernel.schedule, kScheduleMax);
  words.number("ms", &kernel.ms, Need::kNeeded);
  LFARM_RETURN_IF_ERROR(words.finish());
  if (!(kernel.ms > 0)) return invalid_input("\"ms\" is not above 0");
  if (into_->kernels.size() == kCandidatesMax) {
    return invalid_input(cat("there are more than ", kCandidatesMax, " kernels"));
  }
  into_->kernels.push_back(std::move(kernel));
  return {};
}

Status SearchReader::take_progress(Words& words) {
  ProgressPoint point;
  words.count("progress", &point.candidates, Need::kNeeded);
  words.number("at_s", &point.at_s, Need::kNeeded);
  words.number("best_ms", &point.best_ms);
  words.number("expected_ms", &point.expected_ms);
  LFARM_RETURN_IF_ERROR(words.finish());
  LFARM_RETURN_IF_ERROR(check_not_negative("at_s", point.at_s));
  LFARM_RETURN_IF_ERROR(check_not_negative("best_ms", point.best_ms));
  LFARM_RETURN_IF_ERROR(check_not_negative("expected_ms", point.expected_ms));
  if (into_->progress.size() == kProgressMax) {
    return invalid_input(cat("there are more than ", kProgressMax, " lines of progress"));
  }
  into_->progress.push_back(point);
  return {};
}

void SearchReader::finish() {
  auto by_time = [](const auto& a, const auto& b) { return a.at_s < b.at_s; };
  std::stable_sort(into_->progress.begin(), into_->progress.end(), by_time);
  std::stable_sort(into_->candidates.begin(), into_->candidates.end(), by_time);
  std::map<int64_t, double> best;  // by region
  for (TriedCandidate& one : into_->candidates) {
    if (one.ms <= 0) continue;
    auto [place, is_first] = best.try_emplace(one.region, one.ms);
    one.was_best = is_first || one.ms < place->second;
    place->second = std::min(place->second, one.ms);
  }
}

// ---- Landscapes --------------------------------------------------------------------------------

double value_named(const ScheduledKernel& kernel, const std::string& name) {
  for (const auto& [parameter, value] : kernel.schedule) {
    if (parameter == name) return value;
  }
  return 0;
}

using Kernels = std::vector<const ScheduledKernel*>;

// The two parameters with the most pairs of values, both of which vary; empty names: there are
// none.
std::pair<std::string, std::string> widest_pair(const Kernels& kernels) {
  std::set<std::string> names;
  for (const ScheduledKernel* kernel : kernels) {
    for (const auto& [name, value] : kernel->schedule) names.insert(name);
  }
  std::pair<std::string, std::string> widest;
  size_t most = 0;
  for (auto x = names.begin(); x != names.end(); ++x) {
    for (auto y = std::next(x); y != names.end(); ++y) {
      std::set<std::pair<double, double>> pairs;
      std::set<double> xs, ys;
      for (const ScheduledKernel* kernel : kernels) {
        double at_x = value_named(*kernel, *x), at_y = value_named(*kernel, *y);
        pairs.emplace(at_x, at_y);
        xs.insert(at_x);
        ys.insert(at_y);
      }
      if (xs.size() < 2 || ys.size() < 2 || pairs.size() <= most) continue;
      most = pairs.size();
      widest = {*x, *y};
    }
  }
  return widest;
}

ScheduleLandscape landscape_of(const Kernels& kernels, const std::string& x, const std::string& y) {
  ScheduleLandscape out{kernels.front()->kernel, x, y, {}, {}, {}, kernels.size()};
  std::map<std::pair<double, double>, double> least;  // by y, then x
  std::set<double> xs, ys;
  for (const ScheduledKernel* kernel : kernels) {
    double at_x = value_named(*kernel, x), at_y = value_named(*kernel, y);
    xs.insert(at_x);
    ys.insert(at_y);
    auto [place, is_new] = least.try_emplace({at_y, at_x}, kernel->ms);
    place->second = std::min(place->second, kernel->ms);
  }
  out.at_x.assign(xs.begin(), xs.end());
  out.at_y.assign(ys.begin(), ys.end());
  for (double at_y : ys) {
    std::vector<double>& row = out.least_ms.emplace_back();
    for (double at_x : xs) {
      auto found = least.find({at_y, at_x});
      row.push_back(found == least.end() ? std::numeric_limits<double>::quiet_NaN()
                                         : found->second);
    }
  }
  return out;
}

}  // namespace

Result<SearchRun> parse_search(const common::RunLog& log, int64_t first_line) {
  SearchRun search;
  SearchReader reader(&search);
  LFARM_RETURN_IF_ERROR(read_lines(
      log, first_line, &search.head,
      [&](Words& head) {
        head.text("plan", &search.plan);
        head.number("best_ms", &search.best_ms);
        head.number("baseline_ms", &search.baseline_ms);
      },
      [&](const Json& line) { return reader.take(line); }));
  reader.finish();
  return search;
}

std::vector<OriginCount> count_origins(const SearchRun& search) {
  std::vector<OriginCount> counts;
  for (const TriedCandidate& one : search.candidates) {
    auto found = std::find_if(counts.begin(), counts.end(),
                              [&](const OriginCount& count) { return count.origin == one.origin; });
    if (found == counts.end()) found = counts.insert(counts.end(), {one.origin});
    ++found->tried;
    found->right += one.ms > 0 ? 1 : 0;
    found->kept += one.was_best ? 1 : 0;
  }
  return counts;
}

std::vector<ScheduleLandscape> schedule_landscapes(const SearchRun& search, size_t count_max) {
  constexpr size_t kSchedulesMin = 4;
  std::map<std::string, Kernels> by_kernel;
  for (const ScheduledKernel& kernel : search.kernels) by_kernel[kernel.kernel].push_back(&kernel);
  std::vector<const Kernels*> order;
  for (const auto& [name, kernels] : by_kernel) {
    if (kernels.size() >= kSchedulesMin) order.push_back(&kernels);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Kernels* a, const Kernels* b) { return a->size() > b->size(); });
  std::vector<ScheduleLandscape> landscapes;
  for (const Kernels* kernels : order) {
    if (landscapes.size() == count_max) break;
    auto [x, y] = widest_pair(*kernels);
    if (!x.empty()) landscapes.push_back(landscape_of(*kernels, x, y));
  }
  return landscapes;
}

}  // namespace clients
