// What makes a text a trace that viewers draw: used wherever a test has one.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cat.h"

namespace trace_testing {

using Json = nlohmann::json;

inline constexpr double kRoundingUs = 0.001;

// The spans of each thread, by process and thread, in the order of their beginnings, the longest
// first.
inline std::map<std::pair<int, int>, std::vector<Json>> threads(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<Json>> all;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") all[{event.at("pid"), event.at("tid")}].push_back(event);
  }
  for (auto& [place, spans] : all) {
    std::stable_sort(spans.begin(), spans.end(), [](const Json& a, const Json& b) {
      double from_a = a.at("ts"), from_b = b.at("ts"), long_a = a.at("dur"), long_b = b.at("dur");
      return from_a != from_b ? from_a < from_b : long_a > long_b;
    });
  }
  return all;
}

inline std::string nesting_problem(const std::vector<Json>& spans) {
  std::vector<double> ends;
  for (const Json& span : spans) {
    double from = span.at("ts"), to = from + span.at("dur").get<double>();
    while (!ends.empty() && ends.back() <= from + kRoundingUs) ends.pop_back();
    if (!ends.empty() && to > ends.back() + kRoundingUs) {
      return common::cat("it ends after what it is in: ", span.dump());
    }
    ends.push_back(to);
  }
  return {};
}

// What is wrong with one event; empty: nothing.
inline std::string event_problem(const Json& event) {
  std::string kind = event.value("ph", "");
  auto is_number = [&](const char* field) {
    return event.contains(field) && event.at(field).is_number() && event.at(field) >= 0;
  };
  bool is_placed = event.contains("pid") && event.at("pid").is_number_integer() &&
                   event.contains("tid") && event.at("tid").is_number_integer();
  if (!event.contains("name") || !event.at("name").is_string() || !is_placed) return event.dump();
  bool is_fine = false;
  if (kind == "M") is_fine = event.at("args").at("name").is_string();
  if (kind == "X") is_fine = is_number("ts") && is_number("dur") && event.contains("cat");
  if (kind == "C") is_fine = is_number("ts") && event.at("args").begin()->is_number();
  if (kind == "i") is_fine = is_number("ts") && event.contains("s");
  return is_fine ? "" : event.dump();
}

// Empty: every event has the fields that its kind needs, every thread that has spans has a name,
// and spans of a thread nest.
inline std::string problem(const Json& trace) {
  if (!trace.is_object() || !trace.contains("traceEvents")) return "it is no trace";
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& event : trace.at("traceEvents")) {
    std::string wrong = event_problem(event);
    if (!wrong.empty()) return common::cat("an event lacks what its kind needs: ", wrong);
    if (event.at("ph") == "M") {
      names[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    }
  }
  for (const auto& [place, spans] : threads(trace)) {
    if (names.count(place) == 0) return common::cat("a thread has no name: ", place.second);
    if (names.count({place.first, 0}) == 0) return "a process has no name";
    std::string wrong = nesting_problem(spans);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

inline std::vector<Json> of_category(const Json& trace, const std::string& category) {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == category && event.at("ph") == "X") found.push_back(event);
  }
  return found;
}

inline std::vector<std::string> marks(const Json& trace) {
  std::vector<std::string> found;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "i") found.push_back(event.at("name"));
  }
  return found;
}

}  // namespace trace_testing
