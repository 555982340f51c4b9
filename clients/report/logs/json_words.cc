#include "clients/report/logs/json_words.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/records/record.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Status;
using Json = nlohmann::json;

namespace {

Status type_error(const std::string& word, const char* wanted) {
  return invalid_input(cat('"', word, "\" is not ", wanted));
}

// Days from 1970 of a date in the Gregorian calendar.
int64_t days_from_1970(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  int64_t era = year / 400;
  int64_t of_era = year - era * 400;
  int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// A number of a list, where `null` is one.
bool read_entry(const Json& value, double* into) {
  if (!value.is_number() && !value.is_null()) return false;
  *into = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  return value.is_null() || std::isfinite(*into);
}

}  // namespace

common::Result<Json> parse_object(std::string_view text) {
  std::vector<std::set<std::string>> words;
  bool repeats = false;
  auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) words.emplace_back();
    if (event == Json::parse_event_t::object_end) words.pop_back();
    if (event == Json::parse_event_t::key && !words.back().insert(parsed.get<std::string>()).second)
      repeats = true;
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, false);
  if (!json.is_object()) return invalid_input("it is no JSON object");
  if (repeats) return invalid_input("a word comes twice");
  return json;
}

Status read_text(const std::string& word, const Json& value, std::string* into) {
  if (!value.is_string()) return type_error(word, "a text");
  *into = value.get<std::string>();
  return {};
}

Status read_number(const std::string& word, const Json& value, double* into) {
  if (!value.is_number()) return type_error(word, "a number");
  *into = value.get<double>();
  return {};
}

Status read_count(const std::string& word, const Json& value, int64_t* into) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) {
    return type_error(word, "a whole number from 0");
  }
  *into = value.get<int64_t>();
  return {};
}

Status read_time(const std::string& word, const Json& value, int64_t* into) {
  std::string text;
  LFARM_RETURN_IF_ERROR(read_text(word, value, &text));
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, end = 0;
  int found = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour,
                          &minute, &second, &end);
  bool fits = found == 6 && end == 20 && text.size() == 20 && year >= 1970 && month >= 1 &&
              month <= 12 && day >= 1 && day <= 31 && hour >= 0 && hour <= 23 && minute >= 0 &&
              minute <= 59 && second >= 0 && second <= 60;
  if (!fits || year > 2200) return type_error(word, "a time such as 2026-11-21T22:45:36Z");
  *into = (((days_from_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) *
          1'000'000'000;
  return {};
}

const Json* Words::find(const char* word, Need need) {
  read_.insert(word);
  if (error_) return nullptr;
  auto found = object_.find(word);
  if (found != object_.end()) return &*found;
  if (need == Need::kNeeded) keep(invalid_input(cat("it lacks \"", word, '"')));
  return nullptr;
}

Status check_not_negative(const char* word, double value) {
  if (value >= 0) return {};
  return invalid_input(cat('"', word, "\" is below 0"));
}

bool Words::has(const char* word) const { return object_.contains(word); }

void Words::keep(const Status& status) {
  if (!status.ok() && !error_) error_ = status.error();
}

void Words::text(const char* word, std::string* into, Need need) {
  const Json* value = find(word, need);
  if (value == nullptr) return;
  Status read = read_text(word, *value, into);
  if (read.ok()) read = common::check_record_text(word, *into, common::kRecordTextMax, false);
  keep(read);
}

void Words::count(const char* word, int64_t* into, Need need) {
  if (const Json* value = find(word, need)) keep(read_count(word, *value, into));
}

void Words::number(const char* word, double* into, Need need) {
  const Json* value = find(word, need);
  if (value == nullptr) return;
  Status read = read_number(word, *value, into);
  if (read.ok() && !std::isfinite(*into)) read = type_error(word, "a finite number");
  keep(read);
}

void Words::time(const char* word, int64_t* into) {
  if (const Json* value = find(word, Need::kOptional)) keep(read_time(word, *value, into));
}

void Words::flag(const char* word, bool* into, Need need) {
  const Json* value = find(word, need);
  if (value == nullptr) return;
  if (value->is_boolean()) {
    *into = value->get<bool>();
  } else {
    keep(type_error(word, "true or false"));
  }
}

void Words::numbers(const char* word, std::vector<double>* into, size_t count_max) {
  const Json* value = find(word, Need::kNeeded);
  if (value == nullptr) return;
  bool fits = value->is_array() && !value->empty() && value->size() <= count_max;
  if (!fits) return keep(type_error(word, cat("a list of 1 to ", count_max, " numbers").c_str()));
  for (const Json& entry : *value) {
    if (!read_entry(entry, &into->emplace_back())) {
      return keep(type_error(word, "a list of numbers"));
    }
  }
}

void Words::rows(const char* word, NumberRows* into, size_t cells_max) {
  const Json* value = find(word, Need::kNeeded);
  if (value == nullptr) return;
  auto refuse = [&] {
    keep(type_error(
        word, cat("a list of rows of equal length, of at most ", cells_max, " numbers").c_str()));
  };
  if (!value->is_array() || value->empty() || value->size() > cells_max) return refuse();
  for (const Json& row : *value) {
    bool fits = row.is_array() && !row.empty() && row.size() == value->front().size() &&
                row.size() <= cells_max / value->size();
    if (!fits) return refuse();
    std::vector<double>& cells = into->emplace_back();
    for (const Json& entry : row) {
      if (!read_entry(entry, &cells.emplace_back())) return refuse();
    }
  }
}

void Words::named_numbers(const char* word, NamedNumbers* into, size_t count_max) {
  const Json* value = find(word, Need::kNeeded);
  if (value == nullptr) return;
  bool fits = value->is_object() && !value->empty() && value->size() <= count_max;
  if (!fits) return keep(type_error(word, cat("1 to ", count_max, " named numbers").c_str()));
  for (const auto& [name, entry] : value->items()) {
    keep(common::check_record_text(word, name, common::kRecordTextMax, false));
    double number = 0;
    if (!read_entry(entry, &number)) return keep(type_error(word, "an object of numbers"));
    into->emplace_back(name, number);
  }
}

Status Words::finish() {
  if (error_) return *error_;
  for (const auto& [word, value] : object_.items()) {
    if (read_.count(word) != 0) continue;
    return invalid_input(cat('"', common::record_text(word), "\" is no word of such a line"));
  }
  return {};
}

}  // namespace clients
